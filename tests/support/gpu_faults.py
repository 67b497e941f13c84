"""Faults as a wrong compiler would make them, in the text of kernels: barriers, waits, tokens between warps and blocks, and how
memory is exchanged; each with what finds it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from gpu_programs import PROGRAMS, Program, mma_matmul, pipelined_matmul
from planted_faults import BARRIER, dropped, everywhere, nth_replaced, replaced
from warpgroups import TARGET, wgmma_matmul

__all__ = ["FAULTS", "Fault"]

Mutation = Callable[[str], str]


@dataclass(frozen=True)
class Fault:
    """about: what it is in. make: the program whose text `mutate` changes. message: of the error that finds it; empty where
    nothing is wrong but the result. target: what it is built for."""

    about: str
    make: Callable[[], Program]
    mutate: Mutation
    message: str
    target: str = "cuda -emulate"


def moved_up(text: str) -> str:
    """transpose: the barrier before the fetch instead of after it."""
    text = dropped(0)(text)
    return replaced("  if (block_x * 16 + thread_y", f"  {BARRIER}\n  if (block_x * 16 + thread_y")(text)


def into_guard(text: str) -> str:
    """transpose: the barrier where only the threads with an element come by."""
    text = dropped(0)(text)
    return replaced("    if (block_y * 16 + thread_x", f"    {BARRIER}\n    if (block_y * 16 + thread_x")(text)


def reused_staging(text: str) -> str:
    """softmax: both reductions stage in one buffer, and nothing between them waits."""
    text = text.replace("total_partial_staging", "top_partial_staging")
    text = re.sub(r"  __shared__ __align__\(16\) float top_partial_staging\[2\];\n", "", text, count=1)
    for number in (2, 1):
        text = dropped(number)(text)
    return text


def under_condition(text: str) -> str:
    """softmax: half of a warp skips a shuffle that the other half waits in."""
    old = "const float top_partial_other = tw_shuffle_down(top_partial[0], 8, 32);"
    return replaced(
        old,
        "float top_partial_other = 0.0f;\n    if (thread_x < 16) {\n      top_partial_other = "
        "tw_shuffle_down(top_partial[0], 8, 32);\n    }",
    )(text)


def wait_moved_down(text: str) -> str:
    """The wait behind the loop that uses what it waits for."""
    wait = "    tw_copies_wait<1>();\n"
    assert wait in text
    text, _, rest = text.partition(wait)
    return text + rest.replace("  for (int i_inner_inner", wait + "  for (int i_inner_inner", 1)


def under_half_a_warp(text: str) -> str:
    return replaced("tw_mma_float16(&", "if (thread_x < 16) tw_mma_float16(&")(text)


BY_NAME: dict[str, tuple[str, Mutation, str]] = {
    "the barrier between fetching and using tiles is dropped": ("matmul", dropped(1), "TW0820: race"),
    "the barrier between using tiles and fetching the next is dropped": ("matmul", dropped(0), "TW0820: race"),
    "the barrier of a transpose is dropped": ("transpose", dropped(0), "TW0820: race"),
    "the barrier of a transpose is moved before the fetch": ("transpose", moved_up, "TW0820: race"),
    "the barrier of a transpose is moved into a guard": ("transpose", into_guard, "TW082[02]"),
    "the barrier between staging a result and reading it is dropped": ("softmax", dropped(0), "TW0820: race"),
    "a shuffle names half of the lanes that execute it": (
        "softmax",
        replaced("0xffffffffu", "0x0000ffffu"),
        "TW0823: shuffle",
    ),
    "a shuffle stands under a divergent condition": ("softmax", under_condition, "TW0823: shuffle"),
    "two reductions share a staging buffer without a barrier": ("softmax", reused_staging, "TW0820: race"),
    "threads return before a barrier": (
        "transpose",
        replaced("  __shared__", "  if (thread_x > 12) return;\n  __shared__"),
        "TW0822: barrier",
    ),
    "every thread accumulates what one thread should": (
        "row_norm",
        replaced("if (thread_x == 0)", "if (true)", 9),
        "TW0820: race",
    ),
    "the result of a tree is read while it is made": ("row_sums_odd", dropped(4), "TW0820: race"),
    "blocks store to each other's elements": (
        "vector_add",
        replaced("C[block_x * 64 + thread_x]", "C[thread_x]"),
        "TW0820: race",
    ),
    "a guard is too wide": ("vector_add", replaced("< 1003", "< 1004"), "TW0821: out of bounds"),
    "an array is too short": ("transpose", replaced("A_shared[256]", "A_shared[255]"), "TW0821: out of bounds"),
}
"""(program of gpu_programs, mutation of its text, the error)."""


COPIES: dict[str, tuple[Mutation, str]] = {
    "a wait leaves one group too many": (replaced("tw_copies_wait<1>()", "tw_copies_wait<2>()"), "TW0826: too early"),
    "a wait leaves all groups": (replaced("tw_copies_wait<1>()", "tw_copies_wait<3>()"), "TW0826: too early"),
    "there is no wait": (replaced("    tw_copies_wait<1>();\n", ""), "TW0826: too early"),
    "the wait comes after the use": (wait_moved_down, "TW0826: too early"),
    "the first groups are not committed": (nth_replaced("tw_copies_commit();", "", 0), "TW0826: too early"),
    "groups in the loop are not committed": (nth_replaced("tw_copies_commit();", "", 1), "TW0826: too early"),
    "there is no barrier behind the wait": (dropped(0), "TW082[06]"),
    "the barrier stands before the wait": (
        replaced(f"    tw_copies_wait<1>();\n    {BARRIER}\n", f"    {BARRIER}\n    tw_copies_wait<1>();\n"),
        "TW082[06]",
    ),
    "only some threads wait": (
        replaced("    tw_copies_wait<1>();", "    if (thread_x < 4) tw_copies_wait<1>();"),
        "TW0826: too early",
    ),
    "a place is filled that is in use": (replaced("(k_outer + 2) % 3", "(k_outer + 3) % 3"), "TW082[06]"),
    "a place is used that is being filled": (
        replaced("k_outer % 3 * 128 + k_inner", "(k_outer + 2) % 3 * 128 + k_inner"),
        "TW0826: too early",
    ),
    "two copies go to one place": (
        replaced(
            "&B_shared[thread_y * 32 + thread_x * 4 + first_k_outer * 128]", "&B_shared[thread_y * 32 + thread_x * 4]"
        ),
        "TW0826: too early",
    ),
    "a copy is not aligned": (
        replaced("tw_copy<16>(&A_shared[thread_y * 32", "tw_copy<16>(&A_shared[1 + thread_y * 32"),
        "TW0824",
    ),
    "a copy reaches beyond the tensor": (replaced("if (k_outer < 6)", "if (k_outer < 7)"), "TW0821"),
}


TENSOR_CORES: dict[str, tuple[Mutation, str]] = {
    "half of a warp multiplies": (under_half_a_warp, "TW0823: shuffle"),
    "tiles are used before they are fetched": (dropped(1), "TW0820: race"),
    "tiles are fetched before they were used": (dropped(0), "TW0820: race"),
    "sums are read before they are stored": (dropped(2), "TW0820: race"),
    "rows are said to be aligned and are not": (replaced(", 40, 1);", ", 36, 1);"), "TW0824"),
    "two warps store one tile": (replaced("&C_padded[thread_z * 512 + ", "&C_padded["), "TW0820: race"),
}


PRODUCTS_DONE = "    tw_wgmma_wait<0>();\n"
WARPGROUPS: dict[str, tuple[Mutation, str]] = {
    "products begin without a fence": (replaced("    tw_wgmma_fence();\n", ""), "TW0827.*before the first product"),
    "sums are touched after the fence": (
        replaced("    tw_wgmma_fence();\n", ("    tw_wgmma_fence();\n    if (k_outer) C_matrix_wgmma_c[0] += 1.0f;\n")),
        "TW0827.*touched the sums",
    ),
    "products are not committed": (
        replaced("    tw_wgmma_commit();\n", ""),
        "TW0826.*products of four warps.*have begun",
    ),
    "a wait leaves the last group": (replaced("tw_wgmma_wait<0>()", "tw_wgmma_wait<1>()"), "TW0826"),
    "sums are read in the loop, before the wait": (
        replaced(PRODUCTS_DONE, "    if (C_matrix_wgmma_c[0] > 9.0f) C[0] = 1.0f;\n" + PRODUCTS_DONE),
        "TW0826.*its registers.*sums of a product",
    ),
    "there is no wait": (replaced(PRODUCTS_DONE, ""), "TW0826"),
    "the wait stands before the commit": (
        lambda text: text.replace(PRODUCTS_DONE, "").replace(
            "    tw_wgmma_commit();\n", f"{PRODUCTS_DONE}    tw_wgmma_commit();\n"
        ),
        "TW0826",
    ),
    "a tile is filled while products read it": (
        lambda text: text.replace("(k_outer + 2) % 3", "k_outer % 3"),
        "TW0826.*products of four warps.*have begun that read it",
    ),
    "what threads stored is not fenced": (replaced("    tw_proxy_fence();\n", ""), "TW0827.*stored what it reads"),
    "the fence stands behind the barrier": (
        replaced(f"    tw_proxy_fence();\n    {BARRIER}\n", f"    {BARRIER}\n    tw_proxy_fence();\n"),
        "TW0827|TW0820",
    ),
    "there is no barrier behind the copies": (
        replaced(f"    tw_proxy_fence();\n    {BARRIER}\n", "    tw_proxy_fence();\n"),
        "TW0820|TW0826|TW0827",
    ),
    "two warps of four begin a product": (
        lambda text: re.sub(
            r"\n    (tw_wgmma_float16_64<0, 1, 0, 0>\(.*\);)", r"\n    if (thread_x < 64) \1", text, count=1
        ),
        "TW0827.*not all threads",
    ),
    "a tile begins in the middle of eight rows": (replaced("&A_matrix[k_outer", "&A_matrix[64 + k_outer"), "TW0824"),
}

HELD: dict[str, tuple[Mutation, str]] = {
    "registers that are multiplied are stored before the wait": (
        replaced(PRODUCTS_DONE, "    A_matrix[0] = tw_to_half(1.0f);\n" + PRODUCTS_DONE),
        "TW0826.*what it multiplies",
    ),
    "registers of another part are multiplied": (replaced("&A_matrix[8]", "&A_matrix[0]"), ""),
}


ARRIVED = "    tw_bulk_wait(&barriers[k_outer % 3], &phases[0], k_outer % 3);\n"
PLACED = "tw_bulk_expect(&barriers[(k_outer + 2) % 3], 16384);"
BOXES: dict[str, tuple[Mutation, str]] = {
    "there is no wait": (replaced(ARRIVED, ""), "TW0826.*began a copy|TW0827"),
    "a wait for the place before": (
        replaced(ARRIVED, ARRIVED.replace("k_outer %", "(k_outer + 2) %")),
        "TW0826|TW0828|TW0827",
    ),
    "a wait of the wrong parity": (replaced("phases[0] = 0u", "phases[0] = 1u", 9), "TW0826"),
    "some threads do not wait": (
        replaced(f"{ARRIVED}    {BARRIER}\n", "    if (thread_x > 5)\n" + ARRIVED),
        "TW082[0678]",
    ),
    "too many bytes are expected": (
        replaced(PLACED, PLACED.replace("16384", "16640")),
        "TW0828.*16640 bytes.*copies of 16384",
    ),
    "too few bytes are expected": (
        replaced(PLACED, PLACED.replace("16384", "8192")),
        "TW0828.*8192 bytes.*copies of 16384",
    ),
    "nobody arrives": (replaced(PLACED, ""), "TW0828.*1 more threads"),
    "two threads arrive": (
        lambda text: re.sub(r"thread_x == 0(\) \{\s*tw_bulk_expect)", r"thread_x < 2\1", text),
        "TW0827|TW0826|TW0820",
    ),
    "a barrier is made for two arrivals": (replaced("(&barriers[place], 1)", "(&barriers[place], 2)"), "TW0828"),
    "a barrier is missing": (replaced("place < 3", "place < 2"), "TW0827.*nobody has made"),
    "the engine is not told of barriers": (replaced("tw_bulk_begin();", ""), "TW0827.*has not told the copy engine"),
    "every thread makes them": (
        lambda text: re.sub(r"if \(thread_x == 0\) (\{\n *for \(int place)", r"\1", text),
        "TW0827|TW0820",
    ),
    "no barrier behind their making": (
        lambda text: re.sub(rf"tw_bulk_begin\(\);\n( *){re.escape(BARRIER)}", r"tw_bulk_begin();", text),
        "TW0820|TW0827",
    ),
    "a box goes where products read": (
        lambda text: text.replace(
            "tw_bulk_copy_2(&A_matrix[(k_outer + 2) % 3 * 4096]", "tw_bulk_copy_2(&A_matrix[k_outer % 3 * 4096]"
        ),
        "TW0826.*products",
    ),
    "no barrier before a place is filled again": (
        replaced(f"{ARRIVED}    {BARRIER}\n", ARRIVED),
        "TW0820|TW0826|TW0828",
    ),
    "a box goes to the other matrix": (
        lambda text: text.replace("tw_bulk_copy_2(&B_matrix[0], B_box", "tw_bulk_copy_2(&A_matrix[0], B_box"),
        "TW0826|TW0820|TW0821",
    ),
    "a box begins within a row": (replaced("tw_bulk_copy_2(&A_matrix[0]", "tw_bulk_copy_2(&A_matrix[8]"), "TW0824"),
    "a box counts for another place": (
        replaced("A_box, &barriers[(k_outer + 2) % 3]", "A_box, &barriers[k_outer % 3]"),
        "TW082[0678]",
    ),
    "boxes come in another order than they are waited for": (
        lambda text: (
            text.replace("&A_matrix[0], A_box", "&A_matrix[9], A_box")
            .replace("&A_matrix[4096], A_box", "&A_matrix[0], A_box")
            .replace("&A_matrix[9], A_box", "&A_matrix[4096], A_box")
        ),
        "TW082[67]",
    ),
    "a box is exchanged otherwise than products read": (
        replaced(
            "tw_emulated_box(to, map.words,",
            "unsigned long long words[16];\n"
            "  for (int i = 0; i < 16; ++i) words[i] = map.words[i];\n"
            "  words[1] = (words[1] & 0xffff) | 64 << 16;\n  tw_emulated_box(to, words,",
        ),
        "TW0827.*exchanged within 64 bytes, and it reads rows of 128",
    ),
    "products are not fenced": (replaced("tw_wgmma_fence();", ""), "TW0827.*since the last fence"),
    "sums are stored before products are done": (replaced("tw_wgmma_wait<0>();", ""), "TW0826"),
    "the result is stored where other warps still read": (
        lambda text: re.sub(rf"{re.escape(BARRIER)}(\s*tw_wgmma_store)", r"\1", text),
        "TW0820",
    ),
    "the result is read before it is stored": (
        lambda text: re.sub(rf"(tw_wgmma_store\([^\n]*\n)(\s*){re.escape(BARRIER)}", r"\1\2", text),
        "TW0820",
    ),
    "a box comes where the result lies now": (
        lambda text: re.sub(
            rf"(tw_wgmma_store\([^\n]*\n)(\s*){re.escape(BARRIER)}",
            rf"\1{BARRIER}\n if (thread_x == 0) {{ tw_bulk_expect(&barriers[2], 8192); "
            r"tw_bulk_copy_2(&B_matrix[0], B_box, &barriers[2], 0, 0); }",
            text,
        ),
        "TW082[06]",
    ),
}


READY, RELEASE = (
    "tw_bulk_ready(&barriers[k_outer % 3], &phases[0], k_outer % 3);\n",
    "tw_bulk_release(&empty[k_outer % 3]);\n",
)
ROLES: dict[str, tuple[Mutation, str]] = {
    "places are not given back": (everywhere(RELEASE, ""), "TW0828.*more threads"),
    "one warp does not give back": (everywhere(RELEASE, "if (thread_x > 31) " + RELEASE), "TW0828.*1 more threads"),
    "places are given back before products are done": (
        lambda text: text.replace(RELEASE, "").replace("tw_wgmma_wait<0>();", f"{RELEASE} tw_wgmma_wait<0>();"),
        "TW082[06]",
    ),
    "the producer does not wait for free places": (
        everywhere("tw_bulk_ready(&empty[k_outer % 3], &freed[0], k_outer % 3);", ""),
        "TW082[0678]",
    ),
    "the producer waits at first": (everywhere("freed[0] = 4294967295u", "freed[0] = 0u"), "TW0828.*more threads"),
    "products do not wait for boxes": (everywhere(READY, ""), "TW082[0678]"),
    "a barrier of too few threads": (everywhere("tw_barrier_of(128)", "tw_barrier_of(96)"), "TW0820|TW0828"),
    "a barrier of too many threads": (
        everywhere("tw_barrier_of(128)", "tw_barrier_of(160)"),
        "TW0828.*a barrier of 160 threads",
    ),
    "no barrier before the result is stored": (everywhere("tw_barrier_of(128);", ""), "TW0820"),
    "all threads compute": (everywhere("tw_computes(128)", "tw_computes(256)"), "TW082"),
    "nobody asks for boxes": (everywhere("tw_leads(128)", "tw_leads(999)"), "TW0828"),
}


WAIT_STORED = "tw_bulk_store_wait();"
STORES: dict[str, tuple[Mutation, str]] = {
    "stores of threads are not fenced": (everywhere("tw_proxy_fence();", ""), "TW0827.*stores it too early"),
    "the block ends while boxes are read": (
        lambda text: text[: text.rindex(WAIT_STORED)] + text[text.rindex(WAIT_STORED) + len(WAIT_STORED) :],
        "TW0827.*ends while the copy engine reads it",
    ),
    "the next part does not wait": (replaced(WAIT_STORED, ""), "TW0826.*stores of boxes"),
    "boxes are of no group": (everywhere("tw_bulk_store_commit();", ""), "TW0826.*stores of boxes"),
    "nobody waits for who waits": (
        lambda text: re.sub(
            rf"({re.escape(WAIT_STORED)}\s*\}}\s*tw_proxy_fence\(\);\s*)tw_barrier_of\(128\);", r"\1", text
        ),
        "TW082[06]",
    ),
    "a box is stored before all have come": (
        lambda text: re.sub(r"tw_barrier_of\(128\);(\s*if \([^{]*\{\s*tw_bulk_store_2)", r"\1", text),
        "TW082[07]",
    ),
    "all threads store it": (
        lambda text: re.sub(r"if \(thread_x == 0\) (\{\s*tw_bulk_store_2)", r"\1", text),
        "TW082[0267]",
    ),
    "a part goes where another one does": (everywhere("C_box, j_inner_outer * 32", "C_box, 32"), ""),
    "parts of rows are not exchanged": (everywhere(", 32, 2);", ", 32, 1);"), ""),
}


RELEASE_ALL, MEET = "tw_bulk_release_all(&empty[k_outer % 3], 2);\n", "tw_cluster_barrier();\n"
CLUSTERS: dict[str, tuple[Mutation, str]] = {
    "places are given back to the own block alone": (
        everywhere(RELEASE_ALL, RELEASE.replace("tw_bulk", "tw_emulated")),
        "TW0828.*more threads",
    ),
    "free places are those of one block": (
        everywhere("tw_bulk_init(&empty[place], 8)", "tw_bulk_init(&empty[place], 4)"),
        "TW082[0678]",
    ),
    "blocks do not meet before they copy": (replaced(f"__syncthreads();\n  {MEET}", "__syncthreads();\n"), "TW082[07]"),
    "blocks do not meet at the end": (
        lambda text: text[: text.rindex(MEET)] + text[text.rindex(MEET) + len(MEET) :],
        "TW0827.*that block may have ended",
    ),
    "one block does not meet the others": (
        lambda text: text[: text.rindex(MEET)] + "if (tw_block_rank() == 0) " + text[text.rindex(MEET) :],
        "TW0827.*may have ended",
    ),
    "both blocks ask for one part": (everywhere("tw_floormod<int>(tw_block_rank(), 2)", "0"), "TW082[068]"),
    "a part is asked for by one block for itself": (
        everywhere("k_outer % 3], 2, k_outer", "k_outer % 3], 1, k_outer"),
        "TW0828",
    ),
    "one block asks for no part": (
        everywhere("tw_bulk_copy_2_to_all(&", "if (tw_block_rank() == 0) tw_bulk_copy_2_to_all(&"),
        "TW0828",
    ),
    "a block does not wait until the other is done": (
        everywhere("tw_bulk_ready(&empty[k_outer % 3], &freed[0], k_outer % 3);", ""),
        "TW082[0678]",
    ),
}


EXCHANGE = "((thread_x % 8) ^ (thread_x / 8 % 8))"
SWIZZLES: dict[str, tuple[Mutation, str]] = {
    "nothing is exchanged": (everywhere(EXCHANGE, "(thread_x % 8)"), ""),
    "one of two matrices is not exchanged": (
        lambda text: re.sub(r"(&B_matrix\[thread_x / 8 \* 64 \+ )" + re.escape(EXCHANGE), r"\1(thread_x % 8)", text),
        "",
    ),
    "parts are exchanged within 64 bytes": (everywhere(EXCHANGE, "((thread_x % 8) ^ (thread_x / 8 % 4))"), ""),
    "parts are exchanged by the row before": (everywhere(EXCHANGE, "((thread_x % 8) ^ ((thread_x / 8 + 7) % 8))"), ""),
    "the first parts of the sum are exchanged otherwise": (
        replaced(EXCHANGE, "((thread_x % 8) ^ (thread_x / 16 % 8))"),
        "",
    ),
    "products begin at an exchanged part": (everywhere("<0, 1, 2, 128>", "<0, 1, 3, 128>"), ""),
}
TF32: dict[str, tuple[Mutation, str]] = {
    "factors are not rounded": (everywhere(" + 4096u", " + 0u"), ""),
    "factors of the first parts are not rounded": (replaced(" + 4096u", " + 0u", 8), ""),
    "halves are rounded towards zero": (everywhere(" + 4096u", " + 4095u"), ""),
    "a bit too many is dropped": (everywhere("& 4294959104u", "& 4294950912u"), ""),
    "eight terms are multiplied twice": (everywhere("<0, 0, 2, 2>", "<0, 0, 0, 0>"), ""),
    "eight terms meet others": (everywhere("<0, 0, 4, 4>", "<0, 0, 4, 2>"), ""),
    "what is rounded is not fenced": (everywhere("tw_proxy_fence();", ""), "TW0827.*stored what it reads"),
}
FAULTS: dict[str, Fault] = {
    **{
        name: Fault("barriers", PROGRAMS[program], mutate, message)
        for name, (program, mutate, message) in BY_NAME.items()
    },
    **{
        f"{about}: {name}": Fault(about, make, mutate, message, target)
        for about, make, target, table in (
            ("copies", lambda: pipelined_matmul(32, 32, 64, 3, 4), "cuda -emulate", COPIES),
            ("tensor cores", lambda: mma_matmul(37, 45, 70), "cuda -emulate", TENSOR_CORES),
            ("warpgroups", lambda: wgmma_matmul(64, 64, 200), TARGET, WARPGROUPS),
            ("TF32", lambda: wgmma_matmul(64, 64, 72, ("mk", "nk"), (64, 64, 32), dtype="float32"), TARGET, TF32),
            ("warpgroups", lambda: wgmma_matmul(64, 40, 72, square=True, held=True), TARGET, HELD),
            ("swizzles", lambda: wgmma_matmul(64, 64, 200), TARGET, SWIZZLES),
            ("boxes", lambda: wgmma_matmul(64, 64, 256, bulk=True), TARGET, BOXES),
            ("roles", lambda: wgmma_matmul(64, 64, 320, bulk=True, roles=True), TARGET, ROLES),
            ("stores", lambda: wgmma_matmul(64, 64, 128, bulk=True, roles=True, stored=32), TARGET, STORES),
            ("clusters", lambda: wgmma_matmul(64, 128, 320, bulk=True, roles=True, cluster=2), TARGET, CLUSTERS),
        )
        for name, (mutate, message) in table.items()
    },
}

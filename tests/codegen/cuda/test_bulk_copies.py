"""Boxes by the copy engine: right at any size in the emulator, the instructions in the machine code, planted faults, refusals."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from gpu_programs import Program, block, thread
from planted_faults import BARRIER, built, orders, replaced
from tilewright import te
from tilewright.errors import CudaError, ScheduleError
from warpgroups import TARGET, wgmma_matmul, whole_numbers

CASES: dict[str, dict[str, Any]] = {
    "rows of both": {"m": 131, "n": 72, "k": 200},
    "columns of A, two groups": {"m": 136, "n": 23, "k": 136, "layouts": ("km", "nk"), "tile": (128, 24, 64), "groups": 2},
    "bfloat16 by columns": {"m": 40, "n": 136, "k": 137, "layouts": ("km", "kn"), "tile": (64, 128, 64), "dtype": "bfloat16"},
    "bytes": {"m": 65, "n": 31, "k": 272, "layouts": ("mk", "nk"), "tile": (64, 32, 128), "dtype": "int8"},
    "one part of the sum": {"m": 1, "n": 8, "k": 8, "stages": 2},
    "rows of 64 bytes": {"m": 65, "n": 24, "k": 72, "layouts": ("mk", "nk"), "tile": (64, 24, 32)},
    "rows of 32 bytes": {"m": 64, "n": 31, "k": 144, "layouts": ("mk", "nk"), "tile": (64, 32, 32), "dtype": "int8", "stages": 4},
    "roles": {"m": 131, "n": 72, "k": 200, "roles": True},
    "roles, two groups": {"m": 136, "n": 23, "k": 264, "layouts": ("km", "nk"), "tile": (128, 24, 64), "groups": 2, "roles": True},
    "resident blocks": {"m": 200, "n": 136, "k": 136, "resident": 3},
    "pairs": {"m": 131, "n": 128, "k": 200, "roles": True, "cluster": 2},
    "pairs of two groups": {"m": 256, "n": 48, "k": 264, "layouts": ("km", "nk"), "tile": (128, 24, 64), "groups": 2, "roles": True,
                            "cluster": 2},
    "four blocks": {"m": 64, "n": 250, "k": 136, "layouts": ("mk", "nk"), "roles": True, "cluster": 4},
    "a tile too many for resident pairs": {"m": 192, "n": 64, "k": 136, "resident": 2, "roles": True, "cluster": 2},
    "resident pairs": {"m": 200, "n": 128, "k": 136, "resident": 2, "roles": True, "cluster": 2},
    "resident blocks with roles": {"m": 264, "n": 136, "k": 136, "resident": 4, "roles": True, "stages": 2},
}


def everywhere(old: str, new: str) -> Callable[[str], str]:
    return replaced(old, new, -1)


def window(n: int, m: int, stages: int = 3, dtype: str = "float32", tile: tuple[int, int] = (8, 32)) -> Program:
    """Sums of a row and the one above, where zeros lie outside: boxes that begin before the tensor, and end behind it."""
    A = te.placeholder((n, m), dtype, name="A")
    P = te.compute((n + 1, m), lambda i, j: te.if_then_else(i >= 1, A[i - 1, j], te.const(0, dtype)), name="P")
    C = te.compute((n, m), lambda i, j: P[i, j] + P[i + 1, j] * 2, name="C")
    s = te.create_schedule(C.op)
    rows, i = s[C].split(C.op.axis[0], factor=tile[0])
    columns, j = s[C].split(C.op.axis[1], factor=tile[1])
    s[C].reorder(rows, columns, i, j)
    s[C].bind(rows, block("x"))
    s[C].bind(j, thread(tile[1]))
    s[P].set_scope("shared")
    s[P].compute_at(s[C], columns)
    s[P].pipeline(stages, by="tma")

    def reference(a: np.ndarray) -> np.ndarray:
        above = np.vstack([np.zeros((1, m), a.dtype), a])[:n]
        return above + a * 2

    return Program(s, [A, C], reference)


@pytest.mark.parametrize("name", drawn.part(CASES, 2))
def test_products_of_boxes_are_exact_at_any_size_and_in_any_order_of_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = wgmma_matmul(**{"bulk": True, **CASES[name]})
    kernel = tw.build(program.schedule, program.args, target=TARGET)
    inputs = whole_numbers(program)
    for _ in orders(monkeypatch):
        found = program.output()
        kernel(*inputs, found)
        np.testing.assert_array_equal(found, program.reference(*inputs))
    found = program.output()
    kernel(*map(one_element_on, inputs), found)
    np.testing.assert_array_equal(found, program.reference(*inputs), err_msg="where the engine takes no address, a thread copies")


def one_element_on(values: np.ndarray) -> np.ndarray:
    """The same numbers, an element beyond a multiple of 16 bytes."""
    memory = np.empty(values.nbytes + 64, np.uint8)
    begin = -memory.ctypes.data % 16 + values.itemsize
    moved = memory[begin:begin + values.nbytes].view(values.dtype).reshape(values.shape)
    moved[...] = values
    return moved


@pytest.mark.parametrize(("n", "m", "dtype"), [(17, 100, "float32"), (1, 4, "float32"), (9, 8, "float64"), (31, 33 * 16, "int8")])
def test_zeros_lie_outside_on_every_side(n: int, m: int, dtype: str) -> None:
    program = window(n, m, dtype=dtype, tile=(7, 128) if dtype == "int8" else (7, 32))
    a = np.random.default_rng(n).integers(-9, 10, (n, m)).astype(dtype)
    for target in (TARGET, "cuda -emulate -arch=sm_80", "llvm"):
        found = np.empty((n, m), dtype)
        tw.build(program.schedule, program.args, target=target)(a, found)
        np.testing.assert_array_equal(found, program.reference(a), err_msg=target)


def test_the_machine_code_asks_the_copy_engine_and_keeps_sums_in_registers() -> None:
    program = wgmma_matmul(512, 512, 4096, tile=(128, 128, 64), groups=2, bulk=True)
    kernel = tw.build(program.schedule, program.args, target="cuda -arch=sm_90a")
    launch = kernel.kernels[0]
    assert launch.instructions["HGMMA"] == 4 and launch.instructions["UTMALDG"] == 3 and "SYNCS" in launch.instructions
    assert not {"LDGSTS.128", "LDS.128", "LDG.128"} & {*launch.instructions}, "no thread moves what is multiplied"
    assert launch.spilled_bytes == 0 and "UTMALDG.2D" in kernel.source("sass")
    a, b, *rest = launch.args
    assert (a.argument, a.box, a.strides, a.swizzle) == (0, (128, 64), (8192, 2), 128)
    assert (b.argument, b.box, b.strides, b.swizzle) == (1, (64, 64), (1024, 2), 128) and rest == [2]


def test_the_verifier_takes_barriers_in_memory_at_every_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_VERIFY", "1")
    program = wgmma_matmul(64, 64, 192, bulk=True, roles=True)
    assert "tw_bulk_init" in tw.build(program.schedule, program.args, target=TARGET).source("cuda")


def test_the_schedule_replays_and_says_who_copies() -> None:
    program = wgmma_matmul(64, 64, 192, bulk=True)
    assert "pipeline(3, by='tma')" in program.schedule.as_python()
    assert 'tw_bulk_wait", ' in str(tw.lower(program.schedule, program.args))


WAIT = "    tw_bulk_wait(&barriers[k_outer % 3], &phases[0], k_outer % 3);\n"
PLACED = "tw_bulk_expect(&barriers[(k_outer + 2) % 3], 16384);"
FAULTS: dict[str, tuple[Callable[[str], str], str]] = {
    "there is no wait": (replaced(WAIT, ""), "TW0826.*began a copy|TW0827"),
    "a wait for the place before": (replaced(WAIT, WAIT.replace("k_outer %", "(k_outer + 2) %")), "TW0826|TW0828|TW0827"),
    "a wait of the wrong parity": (replaced("phases[0] = 0u", "phases[0] = 1u", 9), "TW0826"),
    "some threads do not wait": (replaced(f"{WAIT}    {BARRIER}\n", "    if (thread_x > 5)\n" + WAIT), "TW082[0678]"),
    "too many bytes are expected": (replaced(PLACED, PLACED.replace("16384", "16640")), "TW0828.*16640 bytes.*copies of 16384"),
    "too few bytes are expected": (replaced(PLACED, PLACED.replace("16384", "8192")), "TW0828.*8192 bytes.*copies of 16384"),
    "nobody arrives": (replaced(PLACED, ""), "TW0828.*1 more threads"),
    "two threads arrive": (lambda text: re.sub(
        r"thread_x == 0(\) \{\s*tw_bulk_expect)", r"thread_x < 2\1", text), "TW0827|TW0826|TW0820"),
    "a barrier is made for two arrivals": (replaced("(&barriers[place], 1)", "(&barriers[place], 2)"), "TW0828"),
    "a barrier is missing": (replaced("place < 3", "place < 2"), "TW0827.*nobody has made"),
    "the engine is not told of barriers": (replaced("tw_bulk_begin();", ""), "TW0827.*has not told the copy engine"),
    "every thread makes them": (lambda text: re.sub(r"if \(thread_x == 0\) (\{\n *for \(int place)", r"\1", text), "TW0827|TW0820"),
    "no barrier behind their making": (lambda text: re.sub(
        rf"tw_bulk_begin\(\);\n( *){re.escape(BARRIER)}", r"tw_bulk_begin();", text), "TW0820|TW0827"),
    "a box goes where products read": (lambda text: text.replace(
        "tw_bulk_copy_2(&A_matrix[(k_outer + 2) % 3 * 4096]", "tw_bulk_copy_2(&A_matrix[k_outer % 3 * 4096]"), "TW0826.*products"),
    "no barrier before a place is filled again": (replaced(f"{WAIT}    {BARRIER}\n", WAIT), "TW0820|TW0826|TW0828"),
    "a box goes to the other matrix": (lambda text: text.replace(
        "tw_bulk_copy_2(&B_matrix[0], B_box", "tw_bulk_copy_2(&A_matrix[0], B_box"), "TW0826|TW0820|TW0821"),
    "a box begins within a row": (replaced("tw_bulk_copy_2(&A_matrix[0]", "tw_bulk_copy_2(&A_matrix[8]"), "TW0824"),
    "a box counts for another place": (
        replaced("A_box, &barriers[(k_outer + 2) % 3]", "A_box, &barriers[k_outer % 3]"), "TW082[0678]"),
    "boxes come in another order than they are waited for": (lambda text: text.replace(
        "&A_matrix[0], A_box", "&A_matrix[9], A_box").replace("&A_matrix[4096], A_box", "&A_matrix[0], A_box").replace(
        "&A_matrix[9], A_box", "&A_matrix[4096], A_box"), "TW082[67]"),
    "a box is exchanged otherwise than products read": (
        replaced("tw_emulated_box(to, map.words,", "unsigned long long words[16];\n"
                 "  for (int i = 0; i < 16; ++i) words[i] = map.words[i];\n"
                 "  words[1] = (words[1] & 0xffff) | 64 << 16;\n  tw_emulated_box(to, words,"),
        "TW0827.*exchanged within 64 bytes, and it reads rows of 128"),
    "products are not fenced": (replaced("tw_wgmma_fence();", ""), "TW0827.*since the last fence"),
    "sums are stored before products are done": (replaced("tw_wgmma_wait<0>();", ""), "TW0826"),
    "the result is stored where other warps still read": (
        lambda text: re.sub(rf"{re.escape(BARRIER)}(\s*tw_wgmma_store)", r"\1", text), "TW0820"),
    "the result is read before it is stored": (
        lambda text: re.sub(rf"(tw_wgmma_store\([^\n]*\n)(\s*){re.escape(BARRIER)}", r"\1\2", text), "TW0820"),
    "a box comes where the result lies now": (lambda text: re.sub(
        rf"(tw_wgmma_store\([^\n]*\n)(\s*){re.escape(BARRIER)}",
        rf"\1{BARRIER}\n if (thread_x == 0) {{ tw_bulk_expect(&barriers[2], 8192); "
        r"tw_bulk_copy_2(&B_matrix[0], B_box, &barriers[2], 0, 0); }", text), "TW082[06]"),
}


@pytest.mark.parametrize("name", drawn.part(FAULTS, 5))
def test_planted_faults_are_found_in_every_order_of_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate, message = FAULTS[name]
    program = wgmma_matmul(64, 64, 256, bulk=True)
    kernel = built(monkeypatch, program, mutate, TARGET)
    for _ in orders(monkeypatch):
        with pytest.raises(CudaError, match=rf"(?s){message}"):
            kernel(*whole_numbers(program), program.output())


READY, RELEASE = "tw_bulk_ready(&barriers[k_outer % 3], &phases[0], k_outer % 3);\n", "tw_bulk_release(&empty[k_outer % 3]);\n"
ROLE_FAULTS: dict[str, tuple[Callable[[str], str], str]] = {
    "places are not given back": (everywhere(RELEASE, ""), "TW0828.*more threads"),
    "one warp does not give back": (everywhere(RELEASE, "if (thread_x > 31) " + RELEASE), "TW0828.*1 more threads"),
    "places are given back before products are done": (
        lambda text: text.replace(RELEASE, "").replace("tw_wgmma_wait<0>();", f"{RELEASE} tw_wgmma_wait<0>();"), "TW082[06]"),
    "the producer does not wait for free places": (
        everywhere("tw_bulk_ready(&empty[k_outer % 3], &freed[0], k_outer % 3);", ""), "TW082[0678]"),
    "the producer waits at first": (everywhere("freed[0] = 4294967295u", "freed[0] = 0u"), "TW0828.*more threads"),
    "products do not wait for boxes": (everywhere(READY, ""), "TW082[0678]"),
    "a barrier of too few threads": (everywhere("tw_barrier_of(128)", "tw_barrier_of(96)"), "TW0820|TW0828"),
    "a barrier of too many threads": (everywhere("tw_barrier_of(128)", "tw_barrier_of(160)"), "TW0828.*a barrier of 160 threads"),
    "no barrier before the result is stored": (everywhere("tw_barrier_of(128);", ""), "TW0820"),
    "all threads compute": (everywhere("tw_computes(128)", "tw_computes(256)"), "TW082"),
    "nobody asks for boxes": (everywhere("tw_leads(128)", "tw_leads(999)"), "TW0828"),
}


def test_faults_of_barriers_waits_tokens_exchanges_boxes_and_clusters_are_many() -> None:
    assert len({*FAULTS} | {*ROLE_FAULTS} | {*CLUSTER_FAULTS}) == len(FAULTS) + len(ROLE_FAULTS) + len(CLUSTER_FAULTS) >= 40


@pytest.mark.parametrize("name", drawn.part(ROLE_FAULTS, 3))
def test_planted_faults_of_roles_are_found_in_every_order_of_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate, message = ROLE_FAULTS[name]
    program = wgmma_matmul(64, 64, 320, bulk=True, roles=True)
    kernel = built(monkeypatch, program, mutate, TARGET)
    for _ in orders(monkeypatch):
        with pytest.raises(CudaError, match=rf"(?s){message}"):
            kernel(*whole_numbers(program), program.output())


RELEASE_ALL, MEET = "tw_bulk_release_all(&empty[k_outer % 3], 2);\n", "tw_cluster_barrier();\n"
CLUSTER_FAULTS: dict[str, tuple[Callable[[str], str], str]] = {
    "places are given back to the own block alone": (
        everywhere(RELEASE_ALL, RELEASE.replace("tw_bulk", "tw_emulated")), "TW0828.*more threads"),
    "free places are those of one block": (
        everywhere("tw_bulk_init(&empty[place], 8)", "tw_bulk_init(&empty[place], 4)"), "TW082[0678]"),
    "blocks do not meet before they copy": (replaced(f"__syncthreads();\n  {MEET}", "__syncthreads();\n"), "TW082[07]"),
    "blocks do not meet at the end": (lambda text: text[:text.rindex(MEET)] + text[text.rindex(MEET) + len(MEET):],
                                      "TW0827.*that block may have ended"),
    "one block does not meet the others": (
        lambda text: text[:text.rindex(MEET)] + "if (tw_block_rank() == 0) " + text[text.rindex(MEET):], "TW0827.*may have ended"),
    "both blocks ask for one part": (everywhere("tw_floormod<int>(tw_block_rank(), 2)", "0"), "TW082[068]"),
    "a part is asked for by one block for itself": (everywhere("k_outer % 3], 2, k_outer", "k_outer % 3], 1, k_outer"), "TW0828"),
    "one block asks for no part": (
        everywhere("tw_bulk_copy_2_to_all(&", "if (tw_block_rank() == 0) tw_bulk_copy_2_to_all(&"), "TW0828"),
    "a block does not wait until the other is done": (
        everywhere("tw_bulk_ready(&empty[k_outer % 3], &freed[0], k_outer % 3);", ""), "TW082[0678]"),
}


@pytest.mark.parametrize("name", drawn.part(CLUSTER_FAULTS, 3))
def test_planted_faults_of_clusters_are_found_in_every_order_of_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate, message = CLUSTER_FAULTS[name]
    program = wgmma_matmul(64, 128, 320, bulk=True, roles=True, cluster=2)
    kernel = built(monkeypatch, program, mutate, TARGET)
    for _ in orders(monkeypatch):
        with pytest.raises(CudaError, match=rf"(?s){message}"):
            kernel(*whole_numbers(program), program.output())


def test_blocks_of_a_cluster_fetch_what_both_read_once() -> None:
    program = wgmma_matmul(512, 512, 4096, tile=(128, 128, 64), groups=2, bulk=True, roles=True, cluster=2)
    kernel = tw.build(program.schedule, program.args, target="cuda -arch=sm_90a")
    launch, code = kernel.kernels[0], kernel.source("sass")
    assert launch.cluster == (2, 1, 1) and launch.grid == (4, 4, 1) and launch.spilled_bytes == 0
    assert launch.instructions["HGMMA"] == 4 and not {"MEMBAR", "BAR"} & {*launch.instructions}
    asked = {name: count for name, count in launch.copy_instructions.items() if name.startswith("UTMALDG")}
    assert asked == {"UTMALDG.MULTICAST": 1, "UTMALDG": 2}, "half of A's tile for both, two panels of columns of its own"
    assert "UTMALDG.2D.MULTICAST" in code
    assert [each.box for each in launch.args[:2]] == [(64, 64), (64, 64)]
    assert "warp_specialize=True, cluster=2)" in program.schedule.as_python()


def test_blocks_that_make_no_whole_clusters_are_refused() -> None:
    program = wgmma_matmul(64, 192, 136, bulk=True, roles=True, cluster=2)
    with pytest.raises(CudaError, match=r"(?s)TW0841.*there are 3 blocks along blockIdx.x, no whole clusters of 2"):
        tw.build(program.schedule, program.args, target=TARGET)


@pytest.mark.parametrize(("stages", "said", "reason"), [
    (2, {"cluster": 3, "warp_specialize": True}, "clusters of 3 blocks"), (2, {"cluster": 2}, "no warps of their own"),
    (2, {"cluster": True, "warp_specialize": True}, "clusters of True blocks")])
def test_clusters_of_other_sizes_are_refused(stages: int, said: dict[str, Any], reason: str) -> None:
    with pytest.raises(ScheduleError, match=rf"(?s)TW0252.*{reason}"):
        copied((64, 64), lambda A, i, j: A[i, j], lambda s, t: s[t].pipeline(stages, by="tma", **said))


def test_warps_with_roles_pass_registers_on_and_meet_at_no_barrier_of_the_block() -> None:
    program = wgmma_matmul(512, 512, 4096, tile=(128, 128, 64), groups=2, bulk=True, roles=True)
    kernel = tw.build(program.schedule, program.args, target="cuda -arch=sm_90a")
    launch, code = kernel.kernels[0], kernel.source("sass")
    assert launch.block == (128, 3, 1) and launch.spilled_bytes == 0
    assert launch.instructions["HGMMA"] == 4 and launch.instructions["SYNCS"] == 2
    assert not {"UTMALDG", "BAR", "LDGSTS.128"} & {*launch.instructions}
    assert launch.copy_instructions["UTMALDG"] == 3 and "HGMMA" not in launch.copy_instructions, "other warps ask"
    assert re.search(r"USETMAXREG\.DEALLOC\S* 0x28", code) and re.search(r"USETMAXREG\.TRY_ALLOC\S* \S+ 0xe8", code)
    assert "pipeline(3, by='tma', warp_specialize=True)" in program.schedule.as_python()


def test_roles_that_cannot_be_are_refused() -> None:
    few = copied((64, 64), lambda A, i, j: A[i, j], lambda s, t: s[t].pipeline(2, by="tma", warp_specialize=True))
    with pytest.raises(CudaError, match=r"(?s)TW0841.*a block of 8 threads is not of whole groups of four warps"):
        tw.build(few.schedule, few.args, target=TARGET)
    with pytest.raises(ScheduleError, match=r"(?s)TW0252.*only the copy engine"):
        copied((64, 64), lambda A, i, j: A[i, j], lambda s, t: s[t].pipeline(2, warp_specialize=True))


def copied(shape: tuple[int, ...], element: Callable[..., Any], change: Callable[[Any, Any], None] = lambda s, t: None) -> Program:
    """A tile of a tensor in shared memory, filled by the copy engine."""
    A = te.placeholder(shape, name="A")
    T = te.compute((64, 64), lambda i, j: element(A, i, j), name="T")
    C = te.compute((64, 64), lambda i, j: T[i, j] + 1, name="C")
    s = te.create_schedule(C.op)
    b, rows = s[C].split(C.op.axis[0], factor=16)
    rows, i = s[C].split(rows, factor=8)
    s[C].bind(b, block("x"))
    s[C].bind(i, thread(8))
    s[T].set_scope("shared")
    s[T].compute_at(s[C], rows)
    s[T].pipeline(2, by="tma")
    change(s, T)
    return Program(s, [A, C], lambda a: a)


def bound(s: Any, tile: Any) -> None:
    s[tile].bind(s[tile].op.axis[0], thread(8))


def padded(s: Any, tile: Any) -> None:
    s[tile].storage_align(tile.op.axis[0], 32, 8)


REFUSED: dict[str, tuple[Callable[[], Program], str]] = {
    "turned": (lambda: copied((64, 64), lambda A, i, j: A[j, i]), "no dimensions|are not those of A"),
    "computed": (lambda: copied((64, 64), lambda A, i, j: A[i, j] * 2), "no copy, element by element"),
    "ones outside": (lambda: copied((60, 64), lambda A, i, j: te.if_then_else(i < 60, A[te.min(i, 59), j], 1.0)), "no 0"),
    "odd rows": (lambda: copied((64, 66), lambda A, i, j: A[i, j]), "no multiple of 16 bytes"),
    "strided": (lambda: copied((64, 128), lambda A, i, j: A[i, j * 2]), "no place and one of its loops"),
    "left out": (lambda: copied((64, 64), lambda A, i, j: te.if_then_else(j > 3, A[i, j], 0.0)), "leaves out elements"),
    "six dimensions": (lambda: copied((1, 1, 1, 1, 64, 64), lambda A, i, j: A[0, 0, 0, 0, i, j]), "6 dimensions"),
    "bound": (lambda: copied((64, 64), lambda A, i, j: A[i, j], bound), "bound, vectorized"),
    "padded": (lambda: copied((64, 64), lambda A, i, j: A[i, j], padded), "one behind"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_box_is_refused(name: str) -> None:
    make, message = REFUSED[name]
    program = make()
    with pytest.raises(CudaError, match=rf"(?s)TW0841.*({message})"):
        tw.build(program.schedule, program.args, target=TARGET)


def test_unknown_copiers_are_refused() -> None:
    with pytest.raises(ScheduleError, match=r'(?s)TW0252.*nothing copies by .dma.*by="tma"'):
        copied((64, 64), lambda A, i, j: A[i, j], lambda s, t: s[t].pipeline(2, by="dma"))

"""Vectorized loops: every extent, masks, strides, gathers, what runs lane by lane, what stays serial."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import drawn
import pytest
from same_result import after, assert_same
from tilewright.ir.passes.common.flatten import flatten
from tilewright.ir.passes.common.remove_likely import remove_likely
from tilewright.ir.passes.common.unroll import unroll
from tilewright.ir.passes.cpu.lane_races import serialize_racing_lanes
from tilewright.ir.passes.cpu.vectorize import choose_lanes, vectorize
from tilewright.ir.stmt import For, LoopKind
from tilewright.ir.text.parser import parse
from tilewright.ir.visit import walk

PASSES = (serialize_racing_lanes, flatten, vectorize)
FINAL = (*PASSES, unroll, remove_likely)


def text_of(text: str, **scalars: Any) -> str:
    return str(after(text, *PASSES, **scalars))


def in_lanes(text: str) -> bool:
    return "ramp(" in text


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("extent", [0, 1, 2, 3, 5, 7, 8, 12, 13, 15, 16, 17, 31, 32, 33, 47, 48, 64, 65, 100, 127, 130])
def test_every_constant_extent(extent: int, bits: int) -> None:
    before = parse(f"""
def scale(A: float32[4, {extent}], C: out float32[4, {extent}]):
    for i in 4:
        for j in vectorized({extent}):
            C[i, j] = A[i, j] * 2.0 + 1.0
""")
    result = unroll(vectorize(flatten(before), bits))
    assert_same(before, result)
    assert not any(isinstance(node, For) and node.kind is LoopKind.VECTORIZED for node in walk(result.body))
    assert in_lanes(str(result)) == (extent > 1)


def test_a_power_of_two_is_one_vector() -> None:
    assert (
        text_of("""
def copy(A: float32[64], C: out float32[64]):
    for j in vectorized(64):
        C[j] = A[j]
""").count("ramp(int64(0), int64(1), 64)")
        == 2
    )


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 40])
def test_symbolic_extent_is_chunks_and_a_masked_rest(n: int) -> None:
    text = text_of(
        """
def copy(n: int32, A: float32[n], C: out float32[n]):
    for j in vectorized(n):
        C[j] = A[j]
""",
        n=n,
    )
    assert "where=" in text


def test_lanes_by_dtypes() -> None:
    def lanes(dtype: str, other: str, bits: int = 512) -> tuple[int, int]:
        body = parse(f"""
def copy(A: {dtype}[64], C: out {other}[64]):
    for j in vectorized(64):
        C[j] = {other}(A[j])
""").body
        found = choose_lanes(body, bits)
        return found.chunk, found.whole

    assert lanes("float32", "float64") == (16, 32)
    assert lanes("uint8", "int32") == (64, 64)
    assert lanes("uint8", "int64") == (32, 32)
    assert lanes("float64", "int64", 256) == (4, 16)


def test_strides_become_ramps() -> None:
    text = text_of("""
def column(A: float32[16, 5], C: out float32[5, 16]):
    for k in 5:
        for j in vectorized(16):
            C[k, 15 - j] = A[j, k]
""")
    assert "ramp(int64(k), 5, 16)" in text
    assert ", -1, 16)" in text


def test_gathers() -> None:
    text = text_of("""
def gather(I: int32[16], A: float32[9], C: out float32[16]):
    for j in vectorized(16):
        C[j] = A[I[j] % 9] + A[j // 2] + A[j % 3]
""")
    assert in_lanes(text)
    assert re.search(r"for \w+ in 16", text) is None


def test_a_fused_index_within_a_row_is_one_ramp() -> None:
    text = text_of("""
def rows(A: float32[8, 64], C: out float32[8, 64]):
    for f in 32:
        for j in vectorized(16):
            C[(f * 16 + j) // 64, (f * 16 + j) % 64] = A[(f * 16 + j) // 64, (f * 16 + j) % 64]
""")
    assert text.count("ramp(") == 2
    assert "//" not in text  # the two dimensions meet in one offset


def test_bound_becomes_a_mask_under_a_skip() -> None:
    before = """
def tail(n: int32, A: float32[40], C: out float32[40]):
    for i in 3:
        for j in vectorized(16):
            if likely(i * 16 + j < n):
                C[i * 16 + j] = A[i * 16 + j] + A[0]
"""
    for n in (0, 1, 16, 17, 40):
        text = text_of(before, n=n)
    assert "if i * 16 < n:" in text
    assert text.count("where=") == 2  # the scalar A[0] is loaded once where some lane is active


def test_else_and_other_masks() -> None:
    text = text_of("""
def pick(A: float32[32], B: float32[4], C: out float32[32]):
    for j in vectorized(16):
        if j % 3 == 0:
            C[j] = A[j * 2] + B[3]
        else:
            C[j] = B[j // 8 + 1]
            C[j + 16] = A[j]
""")
    assert re.search(r"for \w+ in 16", text) is None


def test_condition_is_evaluated_before_what_it_guards() -> None:
    text_of("""
def once(A: out int32[16], C: out int32[16]):
    for j in vectorized(16):
        if A[j] > 0:
            A[j] = -1
            C[j] = A[j]
""")


def test_padding_never_loads_out_of_bounds() -> None:
    text = text_of("""
def pad(A: float32[14], C: out float32[16]):
    for j in vectorized(16):
        C[j] = if_then_else(j >= 1 and j < 15, A[j - 1], 0.0)
""")
    assert "where=" in text
    assert "if_then_else" not in text
    assert "select" not in text  # lanes that are not read are zero


def test_a_row_that_memory_names_is_read_side_by_side_under_a_mask() -> None:
    before = """
def rows(n: int32, A: float32[6, 20], rows: int32[3], C: out float32[3, 16]):
    for i in 3:
        for j in vectorized(16):
            C[i, j] = if_then_else(j < n, A[abs(rows[i]) % 6, j], 0.0)
"""
    for n in (0, 1, 9, 16):
        text = text_of(before, n=n)
    assert "if_then_else(0 < n, rows[" in text  # one scalar for all lanes, read where one of them wants it
    assert "broadcast(rows" not in text


def test_lazy_choices_nest() -> None:
    text_of("""
def pad(A: float32[4], B: float32[2], C: out float32[16]):
    for j in vectorized(16):
        C[j] = if_then_else(j < 4, if_then_else(A[j] > 0.0, A[j], B[0]), if_then_else(j > 14, B[j - 14], 3.0)) + 1.0
""")


def test_inner_loops_stay_scalar_around_vectors() -> None:
    text = text_of("""
def dot(A: float32[7, 16], B: float32[7], C: out float32[16]):
    for j in vectorized(16):
        C[j] = 0.0
        for k in 7:
            C[j] = C[j] + A[k, j] * B[k]
""")
    assert "broadcast(B[int64(k)], 16)" in text
    assert "for k in 7" in text


def test_memory_of_a_lane() -> None:
    text = text_of("""
def local(A: float32[16, 3], C: out float32[16]):
    for j in vectorized(16):
        t: local float32[3]
        for k in 3:
            t[k] = A[j, k]
        C[j] = t[0] * t[1] + t[2]
""")
    assert "t: local float32[int64(48)]" in text
    assert re.search(r"for \w+ in 16", text) is None


def test_lets_become_vectors() -> None:
    text = text_of("""
def bound(A: float32[16], C: out float32[33]):
    for j in vectorized(16):
        x: float32 = A[j] * 2.0
        y: int32 = j * 2
        C[y + 1] = let(z: float32 = x + 1.0, z * z)
""")
    assert "x: float32x16 =" in text


def test_lane_dependent_extent_runs_lane_by_lane() -> None:
    text = text_of("""
def triangle(A: float32[16, 16], C: out float32[16]):
    for j in vectorized(16):
        C[j] = 0.0
        for k in j:
            C[j] = C[j] + A[j, k]
""")
    assert in_lanes(text)  # the initialisation
    assert "for j in 16:" in text


@pytest.mark.parametrize(
    "body",
    [
        "C[0] = C[0] + A[j]",
        "C[j // 2] = A[j]",
        "C[j + 1] = C[j]",
        "C[j] = C[15 - j]",
        "if j < 9:\n            C[j * 6 % 16] = A[j]",
    ],
)
def test_lanes_that_meet_run_serially(body: str) -> None:
    text = text_of(f"""
def race(A: int32[32], C: out int32[32]):
    for j in vectorized(16):
        {body}
""")
    assert not in_lanes(text)


@pytest.mark.parametrize(
    "body",
    [
        "C[j * 2] = C[j * 2 + 1]",
        "C[31 - j] = A[j]",
        "C[j] = C[j + 16]",
        "for k in 2:\n            C[k * 16 + j] = C[k * 16 + j] + 1",
        "for k in 2:\n            C[j * 2 + k] = C[j * 2 + k] + 1",
        "if j < 8:\n            C[j * 6 % 16] = A[j]",
    ],
)
def test_lanes_that_do_not_meet_run_together(body: str) -> None:
    text = text_of(f"""
def apart(A: int32[32], C: out int32[32]):
    for j in vectorized(16):
        {body}
""")
    assert in_lanes(text)


def test_tiles_of_different_widths_meet() -> None:
    text = text_of("""
def tiles(C: out int32[4, 16]):
    for f in vectorized(32):
        C[f // 8, f % 8] = C[f // 16, f % 16] + 1
""")
    assert not in_lanes(text)  # 16 reads what 8 has written


def test_places_that_lanes_have_computed_may_meet() -> None:
    text = text_of("""
def scattered(A: int32[16], C: out int32[32]):
    for j in vectorized(16):
        t: local int32[1]
        t[0] = 15 - j
        C[t[0] + j] = A[j]
""")
    assert "for j in 16:" in text  # all of them at 15


def test_fused_tile_is_told_apart() -> None:
    text = text_of("""
def tile(A: int32[64, 64], C: out int32[64, 64]):
    for y in 16:
        for x in 8:
            for f in vectorized(32):
                C[y * 4 + f // 8, x * 8 + f % 8] = A[y * 4 + f // 8, x * 8 + f % 8]
""")
    assert in_lanes(text)


def test_shared_scalar_between_statements_keeps_its_order() -> None:
    text = text_of("""
def carried(A: int32[16], C: out int32[16], t: out int32[1]):
    for j in vectorized(16):
        t[0] = A[j]
        C[j] = t[0]
""")
    assert not in_lanes(text)


def test_nested_vectorized_loops() -> None:
    text = text_of("""
def both(A: float32[4, 16], C: out float32[4, 16]):
    for i in vectorized(4):
        for j in vectorized(16):
            C[i, j] = A[i, j]
""")
    assert "for i in 4" in text
    assert in_lanes(text)


def test_calls_and_casts() -> None:
    text = text_of("""
def maths(A: float32[16], C: out uint8[16], D: out bool[16]):
    for j in vectorized(16):
        C[j] = uint8(abs(A[j]) + float32(j))
        D[j] = isnan(A[j]) or not A[j] > 1.0
""")
    assert re.search(r"for \w+ in 16", text) is None


CONDITIONS = [
    "j < {a}",
    "{a} <= j",
    "j % 3 == {b}",
    "A[j, 0] > 0",
    "j < {a} and j >= {b}",
    "j * 2 + {b} < {a}",
    "i < {b}",
]
INDICES = ["j", "{n} - 1 - j", "j // 2", "(j + {a}) % {n}", "min(j + {b}, {n} - 1)"]
VALUES = [
    "A[{x}, {b} % 3]",
    "B[{x}]",
    "if_then_else({c}, A[{x}, 1], B[i])",
    "select({c}, B[{x}], 7)",
    "if_then_else({c}, B[{b} % 4], 5)",
    "if_then_else({c}, A[abs(B[i]) % {n}, {b} % 3], 4)",
    "(B[{x}] * 3 + i) // {b1}",
]


@pytest.mark.parametrize("case", range(drawn.count(30, 5000)))
def test_drawn_bodies(case: int) -> None:
    rng = drawn.rng("vectorize", case)
    n = int(rng.integers(1, 40))

    def fill(pattern: str) -> str:
        return (
            pattern.replace("{x}", "(" + str(rng.choice(INDICES)) + ")")
            .replace("{c}", str(rng.choice(CONDITIONS)))
            .replace("{a}", str(rng.integers(0, n + 2)))
            .replace("{b}", str(rng.integers(0, 5)))
            .replace("{b1}", str(rng.integers(1, 6)))
            .replace("{n}", str(n))
        )

    lines: list[str] = []
    for k in range(int(rng.integers(1, 4))):
        store = f"C[i, j, {k}] = " + " + ".join(fill(str(rng.choice(VALUES))) for _ in range(int(rng.integers(1, 3))))
        pad = "            "
        kind = int(rng.integers(0, 4))
        if kind == 0:
            lines += [
                f"{pad}if {fill(str(rng.choice(CONDITIONS)))}:",
                f"{pad}    {store}",
                f"{pad}else:",
                f"{pad}    C[i, j, {k}] = {fill(str(rng.choice(VALUES)))}",
            ]
        elif kind == 1:
            lines += [f"{pad}for k in {rng.integers(0, 4)}:", f"{pad}    C[i, j, {k}] = C[i, j, {k}] + B[k] * 2"]
        elif kind == 2:
            lines += [f"{pad}if {fill(str(rng.choice(CONDITIONS)))}:", f"{pad}    {store}"]
        else:
            lines.append(pad + store)
    text = f"""
def drawn{case}(A: int32[{n}, 3], B: int32[{max(n, 4)}], C: out int32[3, {n}, 4]):
    for i in 3:
        for j in vectorized({n}):
""" + "\n".join(lines)
    bits = int(rng.choice([128, 256, 512]))
    after(text, serialize_racing_lanes, flatten, partial(vectorize, vector_bits=bits), unroll, remove_likely)


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("row", [3, 9, 12, 13, 17, 100])
def test_lanes_over_rows_are_read_side_by_side_where_they_lie_in_one(row: int, step: int) -> None:
    before = parse(f"""
def rows(A: float32[6, {row * step + 1}], C: out float32[5, {row}]):
    for p in {5 * row // 8}:
        for k in 2:
            for j in vectorized(8):
                C[(p * 8 + j) // {row}, (p * 8 + j) % {row}] = A[(p * 8 + j) // {row} + k, (p * 8 + j) % {row} * {step} + k]
""")
    vectors = vectorize(flatten(before), 256)
    assert_same(before, unroll(vectors))
    told_apart = f"% {row} < {row - 7}" in str(vectors)
    assert told_apart == (row >= 12), "rows of which few vectors lie within one are not worth it"
    assert not told_apart or f"{step}, 8)]" in str(vectors).partition("else")[0]


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize(
    ("index", "picked"),
    [
        ("j % 2 * 150 + j // 2", True),
        ("(j + 2 * n) // 2", True),
        ("j // 4 + j % 4 * 75", True),
        ("n * 2 + j % 2 + j // 2", True),
        ("(j + n) // 2 + j % 2", True),
        ("j // 2 * 3 + j % 2", False),
        ("j // 3", False),
    ],
)
def test_lanes_that_are_read_in_turn_are_picked_from_vectors(index: str, picked: bool, bits: int) -> None:
    before = parse(f"""
def turns(A: float32[300], C: out float32[3, 131]):
    for n in 3:
        for j in vectorized(131):
            C[n, j] = A[{index}] + 1.0
""")
    vectors = unroll(vectorize(flatten(before), bits))
    assert_same(before, vectors)
    assert ("shuffle([A[" in str(vectors)) == (picked and not ("% 4" in index and bits == 128))


@pytest.mark.parametrize("bits", [128, 512])
@pytest.mark.parametrize("condition", ["n * 64 + j // 4 < 75", "j % 4 < 3", "j // 4 + n * 8 < 70 and j % 4 + n < 4"])
def test_lanes_that_are_read_in_turn_under_a_mask_are_picked_from_masked_vectors(condition: str, bits: int) -> None:
    before = parse(f"""
def turns(A: int8[300], C: out int8[3, 192]):
    for n in 3:
        for j in vectorized(192):
            C[n, j] = if_then_else({condition}, A[j // 4 + j % 4 * 75], 0)
""")
    vectors = unroll(vectorize(flatten(before), bits))
    assert_same(before, vectors)
    text = str(vectors)
    assert re.search(r"shuffle\(\[A\[.*where=", text), "each row has a mask of its own"
    assert "select(" not in text, "what a mask leaves out is zero"


def test_a_mask_that_memory_decides_is_not_asked_again_for_lanes_in_turn() -> None:
    text_of("""
def beyond(A: int32[23], B: int32[23], C: out int32[23]):
    for j in vectorized(23):
        if A[j] > 0:
            C[j] = B[j // 2]
""")
    text_of("""
def changed(A: out int32[16], B: int32[16], C: out int32[16]):
    for j in vectorized(16):
        if A[j] > 0:
            A[j] = -1
            C[j] = B[j // 2]
""")


def test_ends_of_rows_that_depend_on_what_the_lanes_read_are_not_looked_for() -> None:
    before = parse("""
def rows(at: int32[4], A: float32[8, 32], C: out float32[4, 8]):
    for p in 4:
        for j in vectorized(8):
            C[p, j] = A[(at[p] + j) // 32 % 8, (at[p] + j) % 32]
""")
    vectors = vectorize(flatten(before), 256)
    assert_same(before, vectors)
    assert "if " not in str(vectors)


@pytest.mark.parametrize("lanes", [16, 32, 64])
def test_lanes_of_several_registers_over_rows_are_of_one_where_those_mostly_lie_within(lanes: int) -> None:
    before = parse(f"""
def rows(A: float32[20, 30], C: out float32[{580 // lanes * lanes}]):
    for p in {580 // lanes}:
        for j in vectorized({lanes}):
            C[p * {lanes} + j] = A[(p * {lanes} + j) // 29, (p * {lanes} + j) % 29]
""")
    vectors = vectorize(flatten(before), 256)
    assert_same(before, unroll(vectors))
    assert "% 29 < 22" in str(vectors), "eight lanes, whether there are more or not"

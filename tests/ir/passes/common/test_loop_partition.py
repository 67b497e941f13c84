"""Loop partition: where loops are cut, that full tiles carry no guard, and that copies stay within the budget."""

from __future__ import annotations

import drawn
import pytest
from same_result import after, assert_same
from tilewright.ir.expr import Call
from tilewright.ir.passes.common.flatten import flatten
from tilewright.ir.passes.common.loop_partition import MAX_COPIES, find_cut, loop_partition
from tilewright.ir.passes.common.remove_likely import remove_likely
from tilewright.ir.passes.common.simplify import simplify
from tilewright.ir.passes.cpu.lane_races import serialize_racing_lanes
from tilewright.ir.passes.cpu.vectorize import vectorize
from tilewright.ir.stmt import For
from tilewright.ir.text.parser import parse
from tilewright.ir.visit import stores, walk

PIECES = (loop_partition, simplify)


def cut_of(text: str) -> tuple[str, str, int] | None:
    loop = next(node for node in walk(parse(text).body) if isinstance(node, For))
    cut = find_cut(loop)
    return None if cut is None else (str(cut.low), str(cut.high), len(cut.guards))


def guards_left(text: str, **scalars: int) -> int:
    return sum(isinstance(node, Call) for node in walk(after(text, *PIECES, **scalars).body))


def test_constant_tiles() -> None:
    text = """
def tiles(A: float32[100], C: out float32[100]):
    for i in 7:
        for j in vectorized(16):
            if likely(i * 16 + j < 100):
                C[i * 16 + j] = A[i * 16 + j]
"""
    assert cut_of(text) == ("0", "6", 1)
    result = after(text, *PIECES)
    assert "if" not in str(result)
    assert [str(node.extent) for node in walk(result.body) if isinstance(node, For)] == ["6", "16", "4"]


def test_tiles_of_columns_and_channels_as_one() -> None:
    text = """
def tiles(A: uint8[20, 3], C: out uint8[20, 3]):
    for i in 4:
        for j in vectorized(18):
            if likely(i * 6 + j // 3 < 20):
                C[i * 6 + j // 3, j % 3] = A[if_then_else(likely(i * 6 + j // 3 >= 2), i * 6 + j // 3 - 2, 0), j % 3]
"""
    assert cut_of(text) == ("1", "3", 2)
    assert guards_left(text) == 2  # in the first and in the last tile


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 31, 32, 40])
def test_symbolic_tiles(n: int) -> None:
    text = """
def tiles(n: int32, A: float32[n], C: out float32[n]):
    for i in (n + 15) // 16:
        for j in vectorized(16):
            if likely(i * 16 + j < n):
                C[i * 16 + j] = A[i * 16 + j]
"""
    assert cut_of(text) == ("None", "n // 16", 1)
    assert guards_left(text, n=n) == 1  # in the last tile alone
    after(text, *PIECES, serialize_racing_lanes, flatten, vectorize, remove_likely, n=n)


def test_two_dimensions_have_four_parts() -> None:
    text = """
def tiles(A: int32[50, 70], C: out int32[50, 70]):
    for y in 4:
        for x in 5:
            for yi in 16:
                for xi in vectorized(16):
                    if likely(y * 16 + yi < 50) and likely(x * 16 + xi < 70):
                        C[y * 16 + yi, x * 16 + xi] = A[y * 16 + yi, x * 16 + xi]
"""
    result = after(text, *PIECES)
    assert "likely" not in str(result)
    assert len(list(stores(result.body))) == 4


def test_nested_inexact_splits() -> None:
    assert (
        guards_left("""
def nested(A: int32[77], C: out int32[77]):
    for o in 3:
        for m in 4:
            for i in 9:
                if likely(o * 30 + m * 9 + i < 77):
                    if likely(m * 9 + i < 30):
                        C[o * 30 + m * 9 + i] = A[o * 30 + m * 9 + i]
""")
        == 0
    )


def test_lower_bounds_and_both() -> None:
    text = """
def window(A: int32[40], C: out int32[40]):
    for i in 40:
        if i >= 3 and 2 * i + 1 <= 70:
            C[i] = A[i - 3]
        else:
            C[i] = 0
"""
    assert cut_of(text) == ("3", "35", 2)
    assert "if" not in str(after(text, *PIECES))


def test_parallel_loops_stay_one() -> None:
    result = after(
        """
def tiles(A: int32[100], C: out int32[100]):
    for i in parallel(7):
        for j in vectorized(16):
            if likely(i * 16 + j < 100):
                C[i * 16 + j] = A[i * 16 + j]
""",
        *PIECES,
    )
    assert str(result).count("parallel(7)") == 1
    assert "if i < 6:" in str(result)


def test_a_triangle_is_cut_where_it_ends() -> None:
    result = after(
        """
def triangle(A: int32[9, 9], C: out int32[9, 9]):
    for i in 9:
        for j in 9:
            if j <= i:
                C[i, j] = A[i, j]
""",
        *PIECES,
    )
    assert "if" not in str(result)
    assert "for j in i + 1" in str(result)


def test_padding_is_cut_under_likely_only() -> None:
    text = """
def pad(A: int32[30], C: out int32[32]):
    for i in 32:
        C[i] = if_then_else({}, A[i - 1], 0)
"""
    assert cut_of(text.format("i >= 1 and i < 31")) is None
    assert cut_of(text.format("likely(i >= 1 and i < 31)")) == ("1", "31", 2)
    assert "if_then_else" not in str(after(text.format("likely(i >= 1 and i < 31)"), *PIECES))


@pytest.mark.parametrize("condition", ["C[i] > 0", "i % 2 == 0", "i // 3 < 2", "n < 3", "i == 0"])
def test_what_is_no_bound_is_left(condition: str) -> None:
    text = f"""
def other(n: int32, C: out int32[8]):
    for i in 8:
        if {condition}:
            C[i] = 1
"""
    assert cut_of(text) is None
    after(text, *PIECES, n=2)


def test_copies_are_bounded() -> None:
    loops = "".join("    " * (d + 1) + f"for i{d} in 3:\n" for d in range(8))
    guards = " and ".join(f"likely(i{d} * 2 + i{(d + 1) % 8} < 5)" for d in range(8))
    text = f"def deep(C: out int32[8]):\n{loops}{'    ' * 9}if {guards}:\n{'    ' * 10}C[0] = C[0] + i0 * i7\n"
    result = after(text, *PIECES)
    assert 1 < len(list(stores(result.body))) <= 3 * MAX_COPIES


@pytest.mark.parametrize("case", range(drawn.count(60, 5000)))
def test_drawn_guards(case: int) -> None:
    rng = drawn.rng("partition", case)

    def pick(*choices: str) -> str:
        return str(rng.choice(list(choices)))

    size, inner = int(rng.integers(1, 7)), int(rng.integers(1, 6))
    kinds = [pick("{}", "parallel({})", "unrolled({})", "vectorized({})"), pick("{}", "vectorized({})", "unrolled({})")]
    if kinds[0].startswith("vec"):
        kinds[1] = "{}"

    def guard() -> str:
        sums = f"i * {inner} + j", "i", "j", f"i * {rng.integers(1, 4)} - j", f"m - i * {inner}", "2 * j + i"
        left = pick(
            *sums, "i * 2 + j // 3", "i - (2 * j + 1) // 2", "3 * i - j % 2", "j % 3 + i + j // 3", "i - j // -2"
        )
        made = f"{left} {pick('<', '<=', '>', '>=')} {pick(str(rng.integers(-3, 20)), 'n', 'n - i')}"
        return f"likely({made})" if rng.random() < 0.6 else made

    value = f"if_then_else({guard()}, A[i, j], 5)" if rng.random() < 0.4 else "A[i, j] + i"
    text = f"""
def drawn{case}(n: int32, m: int32, A: int32[{size}, {inner}], C: out int32[{size}, {inner}]):
    for i in {kinds[0].format(size)}:
        for j in {kinds[1].format(inner)}:
            if {guard()}{" and " + guard() if rng.random() < 0.5 else ""}:
                C[i, j] = {value}
            {"else:" if rng.random() < 0.3 else f"if {guard()}:"}
                C[i, j] = C[i, j] * 3
"""
    before = parse(text)
    pieces = loop_partition(before)
    for n, m in ((0, 0), (5, 2), (9, -3), (17, 30)):
        assert_same(before, pieces, n=n, m=m)
        assert_same(before, simplify(pieces), n=n, m=m)


def test_clamped_lanes_are_cut_out() -> None:
    result = after(
        """
def blur(A: uint8[5, 70], C: out uint8[5, 70]):
    for y in 5:
        for xo in 5:
            for xi in vectorized(16):
                if likely(xo * 16 + xi < 70):
                    C[y, xo * 16 + xi] = A[min(y + 1, 4), max(min(xo * 16 + xi - 1, 69), 0)] + A[y, min(xo * 16 + xi + 2, 69)]
""",
        *PIECES,
    )
    main = next(node for node in walk(result.body) if isinstance(node, For) and node.var.name == "xo")
    assert str(main.extent) == "3"
    assert "A[min(y + 1, 4), xo * 16 + xi - 1] + A[y, xo * 16 + xi + 2]" in str(main)


@pytest.mark.parametrize("n", [0, 1, 3, 4, 17, 40])
def test_symbolic_clamps(n: int) -> None:
    result = after(
        """
def blur(n: int32, A: int32[n], C: out int32[n]):
    for xo in (n + 3) // 4:
        for xi in vectorized(4):
            if likely(xo * 4 + xi < n):
                C[xo * 4 + xi] = A[max(min(xo * 4 + xi - 1, n - 1), 0)] + if_then_else(xo * 4 + xi > 1, A[xo * 4 + xi - 2], 7)
""",
        *PIECES,
        n=n,
    )
    assert "C[xo * 4 + xi] = A[xo * 4 + xi - 1] + A[xo * 4 + xi - 2]" in str(result)


def test_scalar_clamps_are_left() -> None:
    assert (
        cut_of("""
def blur(A: int32[9], C: out int32[9]):
    for y in 9:
        C[y] = A[min(y + 1, 8)]
""")
        is None
    )


FUSED = """
def fused(A: float32[5, 37], C: out float32[5, 37]):
    for f in parallel(15):
        for j in vectorized(16):
            if likely(f % 3 * 16 + j < 37):
                C[f // 3, f % 3 * 16 + j] = A[f // 3, f % 3 * 16 + j]
"""


def test_a_fused_loop_is_cut_by_where_it_is_in_one_of_its_loops() -> None:
    result = after(FUSED, *PIECES)
    assert guards_left(FUSED) == 0, "the last panel of columns is known to be the last, so its vector has five lanes"
    assert sorted(str(node.extent) for node in walk(result.body) if isinstance(node, For)) == ["15", "16", "5"]


def test_panels_beyond_the_last_keep_their_guards() -> None:
    text = FUSED.replace("37", "20")
    assert guards_left(text) == 1, "two of three panels are cut or empty, and which is not known"
    after(text, *PIECES, serialize_racing_lanes, flatten, vectorize, remove_likely)


def test_a_remainder_that_other_variables_share_is_left_alone() -> None:
    text = FUSED.replace("f % 3", "(f + n) % 3").replace("def fused(", "def fused(n: int32, ")
    assert guards_left(text, n=1) == 1
    after(text, *PIECES, serialize_racing_lanes, flatten, vectorize, remove_likely, n=1)


def test_the_one_iteration_of_a_parallel_loop_that_is_cut_is_known() -> None:
    text = """
def tiles(A: float32[100], C: out float32[100]):
    for i in parallel(7):
        for j in vectorized(16):
            if likely(i * 16 + j < 100):
                C[i * 16 + j] = A[i * 16 + j]
"""
    result = after(text, *PIECES)
    assert guards_left(text) == 0, "the last tile is the seventh, whose vector has four lanes"
    assert sorted(str(node.extent) for node in walk(result.body) if isinstance(node, For)) == ["16", "4", "7"]

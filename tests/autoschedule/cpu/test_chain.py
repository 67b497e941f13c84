"""Chains of stencils: which stages are computed tile by tile, and that no choice changes a bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te
from tilewright.autoschedule import scheduler
from tilewright.autoschedule.cpu.rules import RULES, fusion_rules
from tilewright.autoschedule.forms.window import is_window
from tilewright.autoschedule.group_partition import cut
from tilewright.autoschedule.partition import CHAIN, Piece
from tilewright.codegen.machine import MACHINES, find_machine

BOUNDARIES = {
    "clamped": te.clamped,
    "mirrored": te.mirrored,
    "wrapped": te.wrapped,
    "padded": lambda t: te.padded(t, 0),
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches in which a few rows of small images fit, so that those are cut into tiles."""
    monkeypatch.setattr(scheduler, "find_machine", lambda target: replace(find_machine(target), l1=1 << 10, l2=1 << 12))


def of_chains(*outputs: Any) -> list[Piece]:
    """The pieces that are chains."""
    pieces = cut(te.create_schedule(list(outputs)), RULES, fusion_rules(MACHINES[1]))
    return [piece for piece in pieces if piece.tag == CHAIN]


def names(operations: Sequence[Any]) -> list[str]:
    return [op.name for op in operations]


def same_bits(args: Sequence[Any], outputs: Sequence[Any], seed: int = 0) -> None:
    """The chosen schedule keeps the order of sums, and gives each bit of the program without one."""
    chosen = tw.autoschedule.schedule(list(outputs))
    assert chosen.is_exact
    drawn = np.random.default_rng(seed)
    inputs = [_array(drawn, tensor) for tensor in args]
    found, expected = ([_empty(tensor) for tensor in outputs] for _ in range(2))
    tw.build(chosen, [*args, *outputs])(*inputs, *found)
    tw.build(te.create_schedule([tensor.op for tensor in outputs]), [*args, *outputs])(*inputs, *expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def _array(drawn: np.random.Generator, tensor: Any) -> np.ndarray[Any, Any]:
    shape, dtype = tuple(extent.value for extent in tensor.shape), str(tensor.dtype)
    return (
        drawn.random(shape, dtype="float32").astype(dtype)
        if "float" in dtype
        else drawn.integers(0, 100, shape).astype(dtype)
    )


def _empty(tensor: Any) -> np.ndarray[Any, Any]:
    return np.empty(tuple(extent.value for extent in tensor.shape), str(tensor.dtype))


def heat(A: Any, steps: int, boundary: Callable[[Any], Any]) -> Any:
    for step in range(steps):
        E = boundary(A)
        A = te.compute(
            A.shape,
            lambda i, j, A=A, E=E: (
                A[i, j] + 0.1 * (E[i - 1, j] + E[i + 1, j] + E[i, j - 1] + E[i, j + 1] - 4.0 * A[i, j])
            ),
            name=f"step{step}",
        )
    return A


def blurred(A: Any, taps: int, boundary: Callable[[Any], Any], name: str = "") -> Any:
    """Rows, then columns, by sums over windows."""
    r, q = te.reduce_axis((0, taps), "r"), te.reduce_axis((0, taps), "q")
    E = boundary(A)
    rows = te.compute(A.shape, lambda i, j: te.sum(E[i, j + r - taps // 2], axis=r), name=f"rows{name}")
    F = boundary(rows)
    return te.compute(A.shape, lambda i, j: te.sum(F[i + q - taps // 2, j], axis=q), name=f"columns{name}")


def corners(A: Any) -> Any:
    """Harris corners, without their boundary."""
    n, m = (extent.value for extent in A.shape)
    high, wide = max(n - 2, 0), max(m - 2, 0)
    dx = te.compute(
        (high, wide),
        lambda i, j: (A[i, j + 2] - A[i, j]) + 2.0 * (A[i + 1, j + 2] - A[i + 1, j]) + (A[i + 2, j + 2] - A[i + 2, j]),
        name="dx",
    )
    dy = te.compute(
        (high, wide),
        lambda i, j: (A[i + 2, j] - A[i, j]) + 2.0 * (A[i + 2, j + 1] - A[i, j + 1]) + (A[i + 2, j + 2] - A[i, j + 2]),
        name="dy",
    )

    def boxed(a: Any, b: Any, name: str) -> Any:
        both = te.compute((high, wide), lambda i, j: a[i, j] * b[i, j], name=f"{name}2")
        r, q = te.reduce_axis((0, 3), "r"), te.reduce_axis((0, 3), "q")
        return te.compute((high - 2, wide - 2), lambda i, j: te.sum(both[i + r, j + q], axis=[r, q]), name=name)

    xx, yy, xy = boxed(dx, dx, "xx"), boxed(dy, dy, "yy"), boxed(dx, dy, "xy")
    return te.compute(
        xx.shape, lambda i, j: xx[i, j] * yy[i, j] - xy[i, j] * xy[i, j] - 0.04 * (xx[i, j] + yy[i, j]), name="R"
    )


@pytest.mark.parametrize(
    ("boundary", "shape"),
    drawn.part(
        [
            ("clamped", (31, 65)),
            ("mirrored", (17, 33)),
            ("wrapped", (9, 31)),
            ("padded", (19, 63)),
            ("clamped", (1, 1)),
            ("padded", (2, 3)),
        ],
        3,
    ),
)
def test_chained_stencils_keep_their_bits(small: None, boundary: str, shape: tuple[int, int]) -> None:
    A = te.placeholder(shape, name="A")
    same_bits([A], [heat(A, 2, BOUNDARIES[boundary])])


@pytest.mark.parametrize(("dtype", "shape"), [("float32", (31, 65)), ("uint8", (13, 67)), ("uint16", (1, 9))])
def test_windows_in_passes_keep_their_bits(small: None, dtype: str, shape: tuple[int, int]) -> None:
    A = te.placeholder(shape, dtype, name="A")
    B = blurred(A, 3, te.clamped)
    C = te.compute(shape, lambda i, j: B[i, j] // te.const(9, dtype) if "int" in dtype else A[i, j] - B[i, j], name="C")
    same_bits([A], [C])


def test_corners_keep_their_bits(small: None) -> None:
    A = te.placeholder((19, 37), name="A")
    same_bits([A], [corners(A)])


@pytest.mark.parametrize("shape", [(9, 31, 3), (5, 7, 33)])
def test_channels_side_by_side_keep_their_bits(small: None, shape: tuple[int, int, int]) -> None:
    A = te.placeholder(shape, name="A")
    E = te.clamped(A)
    across = te.compute(shape, lambda y, x, c: E[y, x - 1, c] + E[y, x, c] * 2.0 + E[y, x + 1, c], name="across")
    F = te.clamped(across)
    down = te.compute(shape, lambda y, x, c: F[y - 1, x, c] + F[y, x, c] * 2.0 + F[y + 1, x, c], name="down")
    same_bits([A], [te.compute(shape, lambda y, x, c: A[y, x, c] * 1.5 - down[y, x, c], name="sharp")])


def test_stencils_of_three_dimensions_keep_their_bits(small: None) -> None:
    A = te.placeholder((7, 9, 17), name="A")
    for _ in range(2):
        E = te.clamped(A)
        A = te.compute(
            A.shape,
            lambda z, y, x, E=E: (
                E[z - 1, y, x]
                + E[z + 1, y, x]
                + E[z, y - 1, x]
                + E[z, y + 1, x]
                + E[z, y, x - 1]
                + E[z, y, x + 1]
                - 5.0 * E[z, y, x]
            ),
        )
    same_bits(list(A.op.input_tensors[0].op.input_tensors), [A])


@pytest.mark.parametrize("n", [1, 129])
def test_stencils_of_one_dimension_keep_their_bits(small: None, n: int) -> None:
    A = te.placeholder((n,), name="A")
    B = A
    for _ in range(3):
        E = te.padded(B, 1)
        B = te.compute((n,), lambda i, E=E: E[i - 1] * 0.25 + E[i] * 0.5 + E[i + 1] * 0.25)
    same_bits([A], [B])


@pytest.mark.parametrize("shape", [(2, 2), (18, 34)])
def test_a_pyramid_keeps_its_bits(small: None, shape: tuple[int, int]) -> None:
    A = te.placeholder(shape, name="A")
    half = te.compute(
        (shape[0] // 2, shape[1] // 2),
        lambda i, j: 0.25 * (A[2 * i, 2 * j] + A[2 * i, 2 * j + 1] + A[2 * i + 1, 2 * j] + A[2 * i + 1, 2 * j + 1]),
        name="half",
    )
    blur = blurred(half, 3, te.clamped)
    same_bits([A], [te.compute(shape, lambda i, j: A[i, j] - blur[i // 2, j // 2], name="detail")])


def test_images_of_unknown_size_are_cut_too(small: None) -> None:
    n, m = te.size_var("n"), te.size_var("m")
    A = te.placeholder((n, m), name="A")
    B = blurred(A, 3, te.clamped)
    chosen = tw.autoschedule.schedule([B])
    assert chosen[B.op.input_tensors[0]].attach_type == "at"
    kernel = tw.build(chosen, [A, B])
    for shape in ((1, 1), (2, 70), (37, 41)):
        image = np.random.default_rng(0).random(shape, dtype="float32")
        found = np.empty_like(image)
        kernel(image, found)
        around = np.pad(image, 1, mode="edge").astype("float64")
        rows = around[:, :-2] + around[:, 1:-1] + around[:, 2:]
        np.testing.assert_allclose(found, rows[:-2] + rows[1:-1] + rows[2:], rtol=1e-5)


def test_what_several_outputs_read_is_stored(small: None) -> None:
    A = te.placeholder((17, 35), name="A")
    B = heat(A, 2, te.clamped)
    C = te.compute(B.shape, lambda i, j: B[i, j] * 2.0, name="C")
    D = te.compute(B.shape, lambda i, j: te.clamped(B)[i + 1, j] - C[i, j], name="D")
    same_bits([A], [C, D])


def test_steps_are_computed_in_tiles() -> None:
    A = te.placeholder((2047, 2049), name="A")
    (piece,) = of_chains(heat(A, 3, te.clamped))
    assert (names(piece.parts), piece.output.name) == (["step0", "step1"], "step2")
    tile = piece.tiles[0]
    assert tile.sizes[0] < 2047, "rows are cut"


@pytest.mark.parametrize(
    ("shape", "boundary"), [((67, 33), "clamped"), ((131, 65), "padded"), ((67, 5, 33), "clamped")]
)
def test_each_way_to_cut_a_chain_keeps_its_bits(small: None, shape: tuple[int, ...], boundary: str) -> None:
    A = te.placeholder(shape, name="A")
    B = A
    for _ in range(2):
        E = BOUNDARIES[boundary](B)
        B = te.compute(shape, lambda i, *j, E=E: E[(i - 1, *j)] + E[(i, *j)] * 0.5 + E[(i + 1, *j)] * E[(i, *j)])
    plan = tw.autoschedule.schedule([B]).plan[0]
    image = np.random.default_rng(0).random(shape, dtype="float32")
    expected = np.empty_like(image)
    tw.build(te.create_schedule(B.op), [A, B])(image, expected)
    ways = {description.split()[0]: at for at, (description, _) in enumerate(plan.candidates)}
    assert ways.keys() == {"windows", "tiles", "each", "as"}, "rolling, overlapped, by themselves, and as declared"
    for at in ways.values():
        s = scheduler.schedule([B], chooser=lambda name, ways, at=at: at if name.startswith("chain") else 0)
        found = np.empty_like(image)
        tw.build(s, [A, B])(image, found)
        np.testing.assert_array_equal(found, expected)


def test_windows_roll_through_a_long_chain() -> None:
    A = te.placeholder((2047, 2049), name="A")
    plan = tw.autoschedule.schedule([heat(A, 6, te.clamped)], "llvm -mcpu=haswell").plan
    assert len(plan) == 1 and plan[0].binds, "the estimate says what binds it"
    times = {description: estimate.seconds for description, estimate in plan[0].candidates if estimate is not None}
    rolling = [
        time for text, time in times.items() if text.startswith("windows of step0, step1, step2, step3, step4 rolling")
    ]
    # overlapped tiles take as long on this chain, 9.7 ms on one thread, and windows that roll 9.5
    assert min(rolling) < 1.3 * times[plan[0].description]
    assert times["each stage by itself"] > 1.5 * min(rolling)


def test_a_chain_that_is_inlined_whole_is_not_stored() -> None:
    A = te.placeholder((1535, 2559), name="A")
    rows = te.compute((1535, 2557), lambda i, j: (A[i, j] + A[i, j + 1] + A[i, j + 2]) * 0.25, name="rows")
    columns = te.compute(
        (1533, 2557), lambda i, j: (rows[i, j] + rows[i + 1, j] + rows[i + 2, j]) * 0.25, name="columns"
    )
    s = tw.autoschedule.schedule([columns])
    assert s[rows].attach_type in ("inline", "at"), "computed where it is read, or for a tile in registers"


def test_a_second_pass_down_columns_takes_the_first_from_registers() -> None:
    A = te.placeholder((511, 513), name="A")
    columns = blurred(A, 3, te.clamped)
    out = te.compute(A.shape, lambda i, j: columns[i, j] * 0.5, name="out")
    (piece,) = of_chains(out)
    tile = piece.tiles[0]
    assert sorted(names(tile.near)) == ["columns", "rows"]
    assert tile.rows > 1


def test_small_values_are_inlined_into_a_chain_and_large_ones_stored() -> None:
    A = te.placeholder((511, 513), name="A")
    (piece,) = of_chains(corners(A))
    assert {"dx", "dy"} <= set(names(piece.parts))
    assert {"xx2", "yy2", "xy2"} <= set(names(piece.inlined))


def test_what_costs_a_function_is_computed_once() -> None:
    A = te.placeholder((511, 513), name="A")
    B = te.compute(A.shape, lambda i, j: te.exp(A[i, j]), name="B")
    (piece,) = of_chains(heat(B, 1, te.clamped))
    assert names(piece.parts) == ["B"]


def test_reductions_with_reuse_and_their_tails_are_no_chains() -> None:
    A, W = te.placeholder((64, 65, 67), name="A"), te.placeholder((32, 64), name="W")
    k = te.reduce_axis((0, 64), "k")
    product = te.compute((32, 65, 67), lambda c, i, j: te.sum(A[k, i, j] * W[c, k], axis=k), name="product")
    relu = te.compute(product.shape, lambda c, i, j: te.max(product[c, i, j], 0.0), name="relu")
    E = te.clamped(relu)
    edges = te.compute(product.shape, lambda c, i, j: E[c, i - 1, j] - E[c, i + 1, j], name="edges")
    assert of_chains(edges) == []


def test_windows_slide_over_what_they_read() -> None:
    A, W, n = te.placeholder((64, 66), name="A"), te.placeholder((3, 64), name="W"), (64, 64)
    k, rows, three = te.reduce_axis((0, 3), "k"), te.reduce_axis((0, 64), "rows"), te.reduce_axis((0, 3), "three")
    sliding = te.compute(n, lambda i, j: te.sum(A[i, j + k], axis=k), name="sliding")
    whole = te.compute((64,), lambda j: te.sum(A[rows, j], axis=rows), name="whole")
    product = te.compute((64, 66), lambda i, j: te.sum(W[three, i] * A[three, j], axis=three), name="product")
    assert [is_window(tensor.op) for tensor in (sliding, whole, product)] == [True, False, False]


def two_results(rows: int, columns: int) -> tuple[Any, Any, list[Any]]:
    """A stage, and two that read it around each place."""
    A = te.placeholder((rows, columns), name="A")
    cross = te.compute(
        (rows - 2, columns - 2),
        lambda i, j: (A[i, j] + A[i + 1, j + 1] * 2 + A[i + 2, j + 2]) * (A[i, j + 2] - A[i + 2, j]),
        name="cross",
    )
    shape = rows - 4, columns - 4
    less = te.compute(shape, lambda i, j: cross[i, j] + cross[i + 2, j + 2] - cross[i + 1, j + 1], name="less")
    times = te.compute(shape, lambda i, j: cross[i, j + 2] * cross[i + 2, j], name="times")
    return A, cross, [less, times]


def test_two_results_of_one_stage_are_a_chain_that_computes_it_for_both(small: None) -> None:
    A, cross, results = two_results(200, 300)
    s = tw.autoschedule.schedule(results, "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver3")
    assert (
        sorted(stage.attach_type for stage in map(s.__getitem__, results)) == ["root", "with"]
        and s[cross].attach_type == "at"
    )
    assert [row.rule for row in s.plan] == ["chain"]
    same_bits([A], results)
    third = te.compute((196, 296), lambda i, j: results[0][i, j] + results[1][i, j], name="third")
    same_bits([A], [*results, third])


@pytest.mark.parametrize("shape", [(37, 67), (6, 6), (5, 40)])
def test_every_way_to_cut_a_chain_of_two_results_keeps_their_bits(small: None, shape: tuple[int, int]) -> None:
    A, _, results = two_results(*shape)
    image = np.random.default_rng(2).random(shape, dtype="float32")

    def run(s: Any) -> list[np.ndarray[Any, Any]]:
        found = [_empty(tensor) for tensor in results]
        tw.build(s, [A, *results])(image, *found)
        return found

    def taking(way: int) -> Callable[[str, Sequence[Any]], int]:
        return lambda _, candidates: min(way, len(candidates) - 1)

    expected = run(te.create_schedule([tensor.op for tensor in results]))
    for way in (0, 3, 7):
        s = scheduler.schedule(results, exact=True, chooser=taking(way))
        assert s.is_exact
        for one, other in zip(run(s), expected, strict=True):
            assert one.tobytes() == other.tobytes()


def test_results_of_which_one_reads_the_other_are_no_pair(small: None) -> None:
    A = te.placeholder((40, 70), name="A")
    B = te.compute((38, 70), lambda i, j: A[i, j] * A[i + 1, j] + A[i + 2, j], name="B")
    C = te.compute((36, 68), lambda i, j: B[i, j] + B[i + 2, j + 2], name="C")
    D = te.compute((36, 68), lambda i, j: B[i + 1, j + 1] - C[i, j], name="D")
    assert all(not tile.beside for piece in of_chains(C, D) for tile in piece.tiles)
    same_bits([A], [C, D])


@pytest.mark.parametrize("width", [13, 14])
def test_vectors_do_not_cross_narrow_rows_that_windows_read_parts_of(width: int) -> None:
    """They were gathered from two rows of the padded image: twenty times the time."""
    a, w = te.placeholder((3, 14, width), name="a"), te.placeholder((3, 5, 5), name="w")
    padded = te.compute(
        (3, 18, width + 4),
        lambda c, y, x: te.if_then_else(te.all(y >= 2, y < 16, x >= 2, x < width + 2), a[c, y - 2, x - 2], 0.0),
        name="padded",
    )
    p, q = te.reduce_axis((0, 5), name="p"), te.reduce_axis((0, 5), name="q")
    b = te.compute((3, 14, width), lambda c, y, x: te.sum(padded[c, y + p, x + q] * w[c, p, q], axis=[p, q]), name="b")
    s = tw.autoschedule.schedule([b], "llvm")
    assert f"// {width}" not in str(tw.lower(s, [a, w, b])), "rows and columns are loops of their own"
    rng = np.random.default_rng(width)
    image, taps = (rng.standard_normal(shape).astype("float32") for shape in ((3, 14, width), (3, 5, 5)))
    found = np.empty((3, 14, width), "float32")
    tw.build(s, [a, w, b])(image, taps, found)
    wide = np.pad(image, ((0, 0), (2, 2), (2, 2)))
    wanted = sum(wide[:, y : y + 14, x : x + width] * taps[:, y, x, None, None] for y in range(5) for x in range(5))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", runnable("llvm", "llvm -mcpu=haswell"))
def test_rows_of_pixels_of_open_length_are_no_vectors_of_known_parts(target: str) -> None:
    """How many pixels a vector of short ones takes is known where their number is: such a schedule was refused when lowered."""
    n, m = te.size_var("n"), te.size_var("m")
    x = te.placeholder((n, m, 2), name="x")
    raised = te.compute((n, m, 2), lambda i, j, c: te.max(x[i, j, c], 0.5), name="raised")
    k = te.reduce_axis((-1, 2), "k")
    squares = te.compute(
        (n, m, 2),
        lambda i, j, c: te.sum(
            te.if_then_else(te.all(i + k >= 0, i + k < n), raised[i + k, j, c] * raised[i + k, j, c], 0.0), axis=k
        ),
        name="squares",
    )
    scaled = te.compute((n, m, 2), lambda i, j, c: raised[i, j, c] / te.sqrt(1 + squares[i, j, c]), name="scaled")
    total = te.compute((n, m, 2), lambda i, j, c: scaled[i, j, c] + raised[i, j, c], name="total")
    kernel = tw.build([x, total], target=target)
    for shape in ((9, 5, 2), (1, 1, 2), (3, 0, 2)):
        values, got = (
            np.random.default_rng(1).standard_normal(shape).astype("float32"),
            np.full(shape, np.nan, "float32"),
        )
        kernel(values, got)
        most = np.maximum(values, 0.5)
        around = np.pad(most * most, ((1, 1), (0, 0), (0, 0)))
        np.testing.assert_allclose(got, most / np.sqrt(1 + around[:-2] + around[1:-1] + around[2:]) + most, rtol=1e-5)

"""Reductions of any form in tiles of registers: what is chosen from accesses alone, and that it computes what was declared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te, topi
from tilewright.autoschedule import scheduler
from tilewright.autoschedule.accesses import op_loads
from tilewright.autoschedule.cost.estimate import Estimate
from tilewright.autoschedule.cpu.fusion import axes_shared, computed_again
from tilewright.autoschedule.cpu.sum_plan import SumPlan, best_plan, find_terms, gathers
from tilewright.autoschedule.plan import Candidate
from tilewright.codegen.machine import MACHINES

AVX512, AVX2 = (next(row for row in MACHINES if row.name == name and not row.cpus) for name in ("avx512", "avx2"))
HASWELL = "llvm -mcpu=haswell"


def placeholder(*shape: Any, name: str = "A") -> Any:
    return te.placeholder(shape, name=name)


def plan(tensor: Any, machine: Any = AVX2) -> SumPlan:
    terms = find_terms(tensor.op.values[0], tensor.op.axis)
    assert terms is not None
    chosen = best_plan(terms, machine)
    assert chosen is not None
    return chosen


def named(chosen: SumPlan) -> tuple[str, dict[str, int]]:
    return " ".join(axis.name for axis in chosen.lane), {axis.name: size for axis, size in chosen.rows}


# What is chosen


def convolution(channels: int, length: int) -> Any:
    x, w = placeholder(16, length + 2, name="X"), placeholder(channels, 16, 3, name="W")
    c, k = te.reduce_axis((0, 16), "c"), te.reduce_axis((0, 3), "k")
    return te.compute((channels, length), lambda o, i: te.sum(x[c, i + k] * w[o, c, k], axis=[c, k]), "Y")


@pytest.mark.parametrize("machine", [AVX512, AVX2])
def test_a_tile_is_over_axes_that_an_operand_lacks_and_fits_the_registers(machine: Any) -> None:
    chosen = plan(convolution(48, 3001), machine)
    lane, rows = named(chosen)
    assert (lane, set(rows)) == ("i", {"o"}) and rows["o"] > 1
    assert rows["o"] * chosen.vectors <= machine.registers


def test_lanes_run_along_a_reduce_axis_where_all_that_is_large_is_contiguous_there() -> None:
    head, image = placeholder(3, 100, 640, name="head"), placeholder(4, 100, 640, name="image")
    x = te.reduce_axis((0, 64), "x")
    total = te.compute(
        (100, 10, 3, 4), lambda y, j, o, c: te.sum(head[o, y, j * 64 + x] * image[c, y, j * 64 + x], axis=x), "T"
    )
    assert named(plan(total)) == ("x", {"o": 3, "c": 4})


def test_short_axes_that_are_read_in_one_piece_are_lanes_together() -> None:
    a = placeholder(64, 9, 8, 3, 4)
    y = te.reduce_axis((0, 16), "y")
    total = te.compute((4, 9, 8, 3, 4), lambda i, j, z, o, c: te.sum(a[i * 16 + y, j, z, o, c], axis=y), "T")
    assert named(plan(total))[0] == "z o c"
    part = te.compute((4, 9, 8, 3, 2), lambda i, j, z, o, c: te.sum(a[i * 16 + y, j, z, o, c], axis=y), "P")
    assert named(plan(part))[0] != "z o c"


def test_what_is_read_apart_is_told_from_what_is_read_side_by_side_or_at_one_place() -> None:
    a, place = placeholder(99, 99), te.placeholder((99,), "int32", "place")
    reads = te.compute(
        (90,),
        lambda i: (
            a[0, i + 2]
            + a[i, 0]
            + a[i // 8, 3]
            + a[i // 4, 3]
            + a[0, place[i]]
            + a[0, 2 * i % 9]
            + a[i, i // 2]
            + a[3, i // 2]
        ),
        "R",
    )
    (axis,) = reads.op.axis
    found = [gathers(load, (axis,), 8) for load in op_loads(reads.op) if load.producer is a]
    assert found == [False, True, False, True, True, True, True, False]


@pytest.mark.parametrize("target", runnable("llvm", HASWELL))
def test_halves_of_bytes_are_read_along_a_sum(target: str) -> None:
    """Weights of 4 bits, two a byte: neighbours along the sum share a byte, and lanes are picked from one vector."""
    n, depth = 37, 160
    w, x, scale = (
        te.placeholder((n, depth // 2), "uint8", "W"),
        placeholder(depth, name="X"),
        placeholder(n, 5, name="S"),
    )
    k = te.reduce_axis((0, depth), "k")
    half = lambda i: ((w[i, k // 2] >> (k % 2 * 4).astype("uint8")) & te.const(15, "uint8")).astype("float32")
    y = te.compute((n,), lambda i: te.sum(half(i) * x[k] * scale[i, k // 32], axis=k), "Y")
    assert re.search(r"vectors of k\b|plain lanes", str(tw.autoschedule.schedule([y], target).plan))
    rng = drawn.rng("halves of bytes")
    packed, numbers = rng.integers(0, 256, (n, depth // 2)).astype("uint8"), rng.random(depth).astype("float32")
    scales, result = rng.random((n, 5)).astype("float32"), np.zeros(n, "float32")
    tw.build([w, x, scale, y], target=target)(packed, numbers, scales, result)
    halves = np.stack([packed & 15, packed >> 4], -1).reshape(n, depth).astype("float32")
    np.testing.assert_allclose(result, (halves * numbers * scales.repeat(32, 1)).sum(1), rtol=1e-4)


def test_nothing_is_planned_for_tuples() -> None:
    a = placeholder(7, 33)
    pair = te.comm_reducer(
        lambda x, y: (x[0] + y[0], te.max(x[1], y[1])), lambda s, t: (te.const(0, s), te.min_value(t)), "pair"
    )
    k = te.reduce_axis((0, 33), "k")
    both = te.compute((7,), lambda i: pair((a[i, k], a[i, k]), axis=k), "both")
    assert find_terms(both[0].op.values[0], both[0].op.axis) is None


# What belongs together


def mixture(height: Any, width: Any, step: int = 0) -> tuple[Any, ...]:
    """A sum over channels, which a second one weights and adds up; step: how far apart that reads from its own place."""
    x, w, u = placeholder(5, height, width, name="X"), placeholder(7, 5, name="W"), placeholder(7, 3, name="U")
    c, d = te.reduce_axis((0, 5), "c"), te.reduce_axis((0, 7), "d")
    mixed = te.compute((7, height, width), lambda o, y, i: te.sum(te.abs(w[o, c] - x[c, y, i]), axis=c), "mixed")
    result = te.compute(
        (3, height, width - step),
        lambda o, y, i: te.sum(u[d, o] * te.max(1 - mixed[d, y, i + step] * 0.25, 0), axis=d),
        "result",
    )
    return x, w, u, mixed, result


def test_a_reduction_is_part_of_the_one_that_reads_it_at_its_own_place() -> None:
    *_, mixed, result = mixture(9, 33)
    assert axes_shared(result.op, mixed.op, AVX2) == {result.op.axis[1], result.op.axis[2]}
    *_, mixed, result = mixture(9, 33, step=1)
    assert axes_shared(result.op, mixed.op, AVX2) is None


@pytest.mark.parametrize("machine", [AVX512, AVX2])
def test_a_sum_whose_rows_read_the_same_is_no_part(machine: Any) -> None:
    """Experts that are weighted by row: all rows read the same matrices, which tiles of several rows load once."""
    x, w, gate = placeholder(96, 65, name="X"), placeholder(6, 65, 90, name="W"), placeholder(96, 6, name="G")
    k, e = te.reduce_axis((0, 65), "k"), te.reduce_axis((0, 6), "e")
    hidden = te.compute((96, 6, 90), lambda i, e, j: te.sum(x[i, k] * w[e, k, j], axis=k), "hidden")
    result = te.compute((96, 90), lambda i, j: te.sum(te.max(hidden[i, e, j], 0) * gate[i, e], axis=e), "result")
    assert axes_shared(result.op, hidden.op, machine) is None


def test_a_part_is_computed_for_a_vector_of_results_at_a_time() -> None:
    *inputs, mixed, result = mixture(40, 203)
    s = topi.schedule(result, HASWELL)
    assert s[mixed].attach_type == "at"
    assert re.search(r"mixed: float32\[7, \d, 8\]", str(s))
    *_, mixed, result = mixture(40, 203)
    assert topi.schedule([mixed, result], HASWELL)[mixed].attach_type == "root"  # somebody else wants all of it


def test_what_is_larger_than_its_inputs_is_computed_again_and_what_tiles_cannot_share_is_stored() -> None:
    weights = placeholder(12, 1 << 18, name="weights")
    x = placeholder(1 << 18, name="x")
    i = te.reduce_axis((0, 1 << 18), "i")
    tent = te.compute((64, 1 << 18), lambda z, p: te.max(1 - te.abs(x[p] * 63 - z), 0), "tent")
    total = te.compute((64, 12), lambda z, c: te.sum(tent[z, i] * weights[c, i] * 2, axis=i), "total")
    assert computed_again([(total.op.values[0], total.op.axis)], tent.op, AVX2)
    rows = te.compute((64, 1 << 18), lambda z, p: te.exp(x[p] * z), "rows")
    assert not computed_again([(total.op.values[0], total.op.axis)], rows.op, AVX2)
    pixels, d = placeholder(8, 1 << 16, name="pixels"), te.reduce_axis((0, 8), "d")
    cells = placeholder(512, 8, 12, name="cells")
    table = te.compute((512, 8, 12), lambda j, d, c: cells[j, d, c] * 3 + cells[j, d, c] * cells[j, d, c] - 1, "table")
    spread = te.compute((12, 1 << 16), lambda c, p: te.sum(table[p // 128, d, c] * pixels[d, p] * 2, axis=d), "spread")
    assert not computed_again([(spread.op.values[0], spread.op.axis)], table.op, AVX2)


@pytest.mark.parametrize("last", [False, True])
def test_sums_whose_length_depends_on_the_result(last: bool) -> None:
    """The axis that the length depends on is never one of a tile, or the lanes'."""
    a, b = placeholder(40, 40), placeholder(40, 9, name="B")

    def prefix(i: Any, o: Any) -> Any:
        k = te.reduce_axis((0, i + 1), "k")
        return te.sum(a[k, i] * b[k, o] * 2, axis=k)

    total = te.compute((9, 40), lambda o, i: prefix(i, o), "T") if last else te.compute((40, 9), prefix, "T")
    assert find_terms(total.op.values[0], total.op.axis) is None
    rng = np.random.default_rng(0)
    x, y = rng.random((40, 40), np.float32), rng.random((40, 9), np.float32)
    got = np.zeros((9, 40) if last else (40, 9), np.float32)
    tw.build(topi.schedule(total), [a, b, total])(x, y, got)
    wanted = np.stack([2 * x[: i + 1, i] @ y[: i + 1] for i in range(40)])
    np.testing.assert_allclose(got, wanted.T if last else wanted, rtol=1e-5)


# That it computes what was declared


def lookup(points: Any, cells: int, channels: int) -> tuple[list[Any], list[Any]]:
    """The gradient of reading a table between its places, which tents weight."""
    table, x = placeholder(cells, channels, name="table"), placeholder(points, name="x")
    head = placeholder(channels, points, name="head")
    z = te.reduce_axis((0, cells), "z")
    tent = te.compute((cells, points), lambda z, i: te.max(1 - te.abs(x[i] * (cells - 1) - z), 0), "tent")
    read = te.compute((channels, points), lambda c, i: te.sum(table[z, c] * tent[z, i], axis=z), "read")
    return [table, x, head], te.gradient(read, [table, x], head)


def histogram(points: Any, cells: int) -> tuple[list[Any], list[Any]]:
    x, w = placeholder(points, name="x"), placeholder(points, name="w")
    i = te.reduce_axis((0, points), "i")
    return [x, w], [
        te.compute(
            (cells,),
            lambda b: te.sum(te.if_then_else(te.floor(x[i] * cells).astype("int32") == b, w[i], 0.0), axis=i),
            "H",
        )
    ]


def sampled(height: int, width: int, cells: int) -> tuple[list[Any], list[Any]]:
    """The gradient of sampling an image of three colours at places that data gives."""
    image, head = placeholder(cells, cells, 3, name="image"), placeholder(3, height, width, name="head")
    fy, fx = placeholder(height, width, name="fy"), placeholder(height, width, name="fx")
    a, b = te.reduce_axis((0, cells), "a"), te.reduce_axis((0, cells), "b")

    def tent(place: Any, cell: Any) -> Any:
        return te.max(1 - te.abs(place * (cells - 1) - cell), 0)

    result = te.compute(
        (3, height, width),
        lambda c, y, x: te.sum(image[a, b, c] * (tent(fy[y, x], a) * tent(fx[y, x], b)), axis=[a, b]),
        "sampled",
    )
    return [image, fy, fx, head], te.gradient(result, [image], head)


def of_mixture(height: Any, width: Any) -> tuple[list[Any], list[Any]]:
    *inputs, _, result = mixture(height, width)
    return inputs, [result]


def of_convolution(channels: int, length: int) -> tuple[list[Any], list[Any]]:
    y = convolution(channels, length)
    return list(y.op.input_tensors), [y]


def narrowed(rows: int, width: int) -> tuple[list[Any], list[Any]]:
    """A tail that wants less of a sum than there is."""
    a, b = placeholder(rows, 9, name="A"), placeholder(9, width, name="B")
    k = te.reduce_axis((0, 9), "k")
    total = te.compute((rows, width), lambda i, j: te.sum(te.abs(a[i, k] - b[k, j]), axis=k), "total")
    return [a, b], [te.compute((max(rows - 2, 1), width), lambda i, j: total[i, j] * 2 + 1, "part")]


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    drawn.part(
        [
            lookup(1001, 33, 3),
            lookup(7, 5, 1),
            lookup(64, 2, 13),
            histogram(1001, 40),
            histogram(5, 3),
            histogram(0, 3),
            histogram(64, 1),
            sampled(9, 31, 6),
            sampled(1, 64, 3),
            of_mixture(9, 33),
            of_mixture(1, 8),
            of_mixture(3, 5),
            of_convolution(35, 57),
            of_convolution(1, 8),
            of_convolution(13, 1),
            narrowed(13, 17),
            narrowed(3, 64),
            narrowed(1, 1),
        ],
        9,
    ),
)
def test_sums_are_those_of_the_declaration(inputs: list[Any], outputs: list[Any]) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.random([int(extent) for extent in tensor.shape], np.float32) for tensor in inputs]
    results = []
    for s in (topi.schedule(outputs), te.create_schedule([tensor.op for tensor in outputs])):
        results.append([np.full([int(extent) for extent in tensor.shape], 7, np.float32) for tensor in outputs])
        tw.build(s, [*inputs, *outputs])(*arrays, *results[-1])
    for got, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5 * max(abs(wanted).max(initial=0), 1))


def test_sizes_that_the_call_decides() -> None:
    h, w = te.size_var("h"), te.size_var("w")
    inputs, (result,) = of_mixture(h, w)
    f = tw.build(topi.schedule(result), [*inputs, result])
    rng = np.random.default_rng(1)
    for height, width in ((3, 41), (1, 1), (2, 64)):
        x, u, v = (
            rng.random((5, height, width), np.float32),
            rng.random((7, 5), np.float32),
            rng.random((7, 3), np.float32),
        )
        got = np.zeros((3, height, width), np.float32)
        f(x, u, v, got)
        mixed = abs(u[:, :, None, None] - x[None]).sum(1)
        np.testing.assert_allclose(
            got, np.einsum("do,dyx->oyx", v, np.maximum(1 - mixed * 0.25, 0)), rtol=1e-4, atol=1e-4
        )


def test_names_make_no_difference() -> None:
    def loops(names: str) -> str:
        x, w = (
            te.placeholder(shape, name=name) for shape, name in zip(((16, 60), (24, 16, 3)), names[:2], strict=True)
        )
        c, k = te.reduce_axis((0, 16), "c"), te.reduce_axis((0, 3), "k")
        y = te.compute((24, 58), lambda o, i: te.sum(x[c, i + k] * w[o, c, k], axis=[c, k]), names[2])
        shown = str(topi.schedule(y, HASWELL)).split("\n", 1)[1]
        return "".join(dict(zip(names, "XWY", strict=True)).get(letter, letter) for letter in shown)

    assert loops("XWY") == loops("PQR")


# What plans are estimated at


def estimates(out: te.Tensor) -> dict[str, Estimate | None]:
    """By description, of the sums of a program."""
    (row,) = tw.autoschedule.schedule(out, HASWELL).plan
    found = dict(row.candidates)
    assert len(found) == len(row.candidates), "descriptions tell plans apart"
    return found


def maxima(m: int, n: int, depth: int, crossed: bool) -> te.Tensor:
    a, b = te.placeholder((m, depth), name="a"), te.placeholder((depth, n) if crossed else (n, depth), name="b")
    k = te.reduce_axis((0, depth), "k")
    return te.compute((m, n), lambda i, j: te.max(a[i, k] + (b[k, j] if crossed else b[j, k]), axis=k), name="out")


def test_every_plan_has_an_estimate_also_those_that_read_copies() -> None:
    found = estimates(maxima(128, 160, 96, crossed=False))
    assert all(found.values())
    copied, in_place = found["3 vectors of j x i 4, b copied"], found["3 vectors of j x i 4"]
    assert copied is not None and in_place is not None and copied.seconds < in_place.seconds, (
        "rows that lanes read across"
    )


def test_tiles_that_spill_are_estimated_slower_than_those_that_fit() -> None:
    found = estimates(maxima(128, 160, 96, crossed=True))
    fits, spills = found["2 vectors of j x i 4"], found["4 vectors of j x i 3"]
    assert fits is not None and spills is not None and fits.seconds < spills.seconds


def test_a_sum_may_read_one_number_that_is_a_reduction_itself() -> None:
    a, k, j = te.placeholder((7,), name="A"), te.reduce_axis((0, 7), "k"), te.reduce_axis((0, 3), "j")
    most = te.compute((), lambda: te.max(a[k], k), name="most")
    total = te.compute((5, 9), lambda i, l: te.sum(most() + j.astype("float32"), j), name="total")
    x, y = np.arange(7, dtype="float32"), np.empty((5, 9), "float32")
    tw.build([a, total])(x, y)
    np.testing.assert_array_equal(y, np.full((5, 9), 3 * 6 + 3, "float32"))


def test_panels_of_lanes_that_are_one_vector_stay_outside_of_all_loops() -> None:
    """There is no loop then that a panel could be copied in: some ways ended in an IndexError."""
    A, B = te.placeholder((13, 2, 130), name="A"), te.placeholder((3, 1, 2, 2), name="B")
    f = te.reduce_axis((0, 2), "f")
    C = te.compute((130, 13, 3, 1, 2), lambda i, j, k, m, n: te.sum(A[j, f, i] * B[k, m, n, f], axis=f), name="C")
    counts: list[int] = []

    def take(at: int) -> Any:
        def chooser(name: str, ways: Sequence[Candidate]) -> int:
            if name.startswith("contraction"):
                return [way.description for way in ways].index("as any sum")
            counts.append(len(ways))
            return min(at, len(ways) - 1)

        return scheduler.schedule([C], "llvm", chooser=chooser)

    assert take(1000).decisions[-1].description == "as declared", "the last, and alone without panels"
    for at in drawn.part(range(counts[0] - 1), 6):
        text = str(tw.lower(take(at), [A, B, C]))
        assert "130" in text and "vectorized" in text


def test_a_tile_over_the_axis_along_which_its_copy_lies_is_computed_within_the_loops_around_it() -> None:
    a, b = placeholder(3, 8, 1100), placeholder(6, 3, name="B")
    d = te.reduce_axis((0, 3), "d")
    out = te.compute((1100, 6, 8), lambda i, j, c: te.sum(a[d, c, i] * b[j, d], axis=d), "out")

    def ways(chosen: int) -> te.Schedule:
        """As sums of any form, by the tile at this place."""
        return scheduler.schedule(
            out,
            "llvm -mcpu=znver4",
            chooser=lambda name, candidates: next(
                at for at in range(len(candidates))[::-1] if not name.startswith("sums") or at <= chosen
            ),
        )

    number = len(ways(1 << 30).decisions[-1].candidates)
    for at in drawn.part(range(number), 6):
        text = str(tw.lower(ways(at), [a, b, out]))
        assert "out.local: local float32[1100" not in text, ways(at).plan

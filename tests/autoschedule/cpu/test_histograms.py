"""Sums into cells that data chooses: one step for each element, in as many chunks as there are threads."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.autoschedule.cpu.histograms import find_cells

Program = tuple[list[Any], Any]


def placeholders(**shapes: Any) -> list[Any]:
    return [te.placeholder(shape, name=name) for name, shape in shapes.items()]


def histogram(elements: int, cells: int, combine: Any = te.sum) -> Program:
    x, w = placeholders(x=(elements,), w=(elements,))
    i = te.reduce_axis((0, elements), "i")
    return [x, w], te.compute(
        (cells,), lambda b: combine(w[i], axis=i, where=te.floor(x[i] * cells).astype("int32") == b), "H"
    )


def by_channels(elements: int, cells: int, channels: int) -> Program:
    x, w = placeholders(x=(elements,), w=(channels, elements))
    i = te.reduce_axis((0, elements), "i")
    return [x, w], te.compute(
        (channels, cells), lambda c, b: te.sum(w[c, i], axis=i, where=b == te.floor(x[i] * cells).astype("int32")), "H"
    )


def of_pixels(height: int, width: int, rows: int, columns: int) -> Program:
    fy, fx, v = placeholders(fy=(height, width), fx=(height, width), v=(height, width))
    i, j = te.reduce_axis((0, height), "i"), te.reduce_axis((0, width), "j")
    return [fy, fx, v], te.compute(
        (rows, columns),
        lambda y, x: te.sum(
            v[i, j],
            axis=[i, j],
            where=te.all(
                te.floor(fy[i, j] * rows).astype("int32") == y,
                te.floor(fx[i, j] * (columns + 1)).astype("int32") - 1 == x,
            ),
        ),
        "G",
    )


def counts(elements: int, cells: int) -> Program:
    (x,) = placeholders(x=(elements,))
    i = te.reduce_axis((0, elements), "i")
    return [x], te.compute(
        (cells,),
        lambda b: te.sum(
            te.if_then_else(te.floor(x[i] * cells).astype("int32") == b, te.const(1, "int32"), te.const(0, "int32")),
            axis=i,
        ),
        "N",
    )


FORMS = {
    "where": lambda met, value: te.sum(value, axis=ROWS, where=met),
    "choice": lambda met, value: te.sum(te.if_then_else(met, value, 0.0), axis=ROWS),
    "minus zero": lambda met, value: te.sum(te.select(met, value, -0.0), axis=ROWS),
    "counts": lambda met, value: te.sum(met.astype("float32"), axis=ROWS),
}
ROWS = te.reduce_axis((0, 501), "i")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("columns", [0, 7, 33])
def test_a_condition_of_floats_has_every_bit(form: str, columns: int) -> None:
    place, x = te.placeholder((501,), "int32", "place"), te.placeholder((501, columns) if columns else (501,), name="x")
    shape = (40, columns) if columns else (40,)
    sums = te.compute(shape, lambda b, *j: FORMS[form](place[ROWS] == b, x[(ROWS, *j)]), "S")
    s = tw.autoschedule.schedule(sums, exact=True)
    assert s.plan[0].rule == "cells" and s.is_exact and find_cells(sums.op)
    rng = np.random.default_rng(columns)
    cells, values = rng.integers(-3, 43, 501).astype(np.int32), rng.standard_normal(x.shape).astype(np.float32)
    cells[cells == 17] = 18  # empty: +0
    values[cells == 5], values[cells == 6] = -0.0, np.inf
    values[np.flatnonzero(cells == 7)[:1]] = np.nan
    outs = [np.full(shape, 7, np.float32) for _ in range(2)]
    for schedule, out in zip((s, te.create_schedule(sums.op)), outs, strict=True):
        tw.build(schedule, [place, x, sums])(cells, values, out)
    assert np.array_equal(*outs, equal_nan=True)
    assert np.array_equal(*(np.signbit(out[~np.isnan(out)]) for out in outs))
    text = tw.build(s, [place, x, sums]).source("ir")
    assert text.count("for b in 40") <= 1 and "b: int32 = place[" in text


def with_tail(program: Program) -> Program:
    inputs, total = program
    return inputs, te.compute(total.shape, lambda *at: total(*at) * 2 + 1, "tail")


@pytest.mark.parametrize(
    ("inputs", "result"),
    drawn.part(
        [
            histogram(1001, 40),
            histogram(60_001, 17),
            histogram(5, 300),
            histogram(0, 40),
            histogram(1001, 40, te.max),
            by_channels(777, 33, 3),
            by_channels(40_003, 64, 2),
            of_pixels(19, 31, 5, 7),
            of_pixels(211, 301, 5, 7),
            with_tail(histogram(60_001, 40)),
            with_tail(by_channels(99, 20, 3)),
            histogram(1001, 3),
        ],
        6,
    ),
)
def test_cells_hold_what_was_declared(inputs: list[Any], result: Any) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-0.1, 1.1, [int(extent) for extent in tensor.shape]).astype(np.float32) for tensor in inputs]
    outs = []
    for s in (topi.schedule(result), te.create_schedule(result.op)):
        outs.append(np.full([int(extent) for extent in result.shape], 7, np.float32))
        tw.build(s, [*inputs, result])(*arrays, outs[-1])
    np.testing.assert_allclose(
        *outs, rtol=1e-4, atol=1e-4 * max(np.abs(outs[1][np.isfinite(outs[1])]).max(initial=0), 1)
    )


def test_no_loop_over_the_cells_is_left() -> None:
    inputs, result = by_channels(1001, 40, 3)
    ir = tw.build(topi.schedule(result), [*inputs, result]).source("ir")
    assert "b: int32 = int32(floor(x[" in ir
    assert [axis.name for axis in find_cells(result.op)] == ["b"]
    inputs, result = of_pixels(9, 9, 5, 7)
    assert [axis.name for axis in find_cells(result.op)] == ["y", "x"]


@pytest.mark.parametrize("elements", [0, 1, 1001, 60_001])
def test_counting_goes_over_the_elements_once(elements: int) -> None:
    (x,), result = counts(elements, 257)
    assert [axis.name for axis in find_cells(result.op)] == ["b"]
    array = np.random.default_rng(0).uniform(-0.1, 1.1, elements).astype(np.float32)
    out = np.full(257, -1, np.int32)
    f = tw.build(topi.schedule(result), [x, result])
    f(array, out)
    places = np.floor(array * np.float32(257)).astype(np.int32)
    np.testing.assert_array_equal(out, np.bincount(places[(places >= 0) & (places < 257)], minlength=257))
    assert elements < 1001 or "b: int32 = int32(floor(x[" in f.source("ir")


def test_conditions_on_places_that_are_known_choose_no_cells() -> None:
    (x,) = placeholders(x=(40,))
    i = te.reduce_axis((0, 40), "i")
    known = te.compute((20,), lambda b: te.sum(x[i], axis=i, where=i // 2 == b), "known")
    several = te.compute((20,), lambda b: te.sum(x[i], axis=i, where=x[i] * 20 > b.astype("float32")), "several")
    assert not find_cells(known.op) and not find_cells(several.op)

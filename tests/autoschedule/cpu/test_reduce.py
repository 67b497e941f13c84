"""Reductions by their rule: right over any axes of any shape, in vector registers, and cut for threads to share."""

from __future__ import annotations

import itertools
import re
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.autoschedule.cpu import streams

ZNVER4 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4"
SHAPES = [(1,), (300_001,), (7, 13), (129, 65), (3, 70_001), (70_001, 3), (17, 33, 9), (5, 6, 300), (701, 803)]


def reduced(name: str, values: np.ndarray, axis: Any, keepdims: bool = False) -> np.ndarray:
    x = te.placeholder(values.shape, str(values.dtype), "x")
    output = getattr(topi, name)(x, axis, keepdims)
    kernel = tw.build(topi.schedule(output), [x, output])
    got = np.full([int(str(extent)) for extent in output.shape], 77, str(output.dtype))
    kernel(values, got)
    return got


def exact(name: str, values: np.ndarray, axis: Any) -> tuple[np.ndarray, np.ndarray]:
    """What comes out, and the error that is allowed: (number of elements) * eps * (sum of absolute values), of a mean divided by
    the number."""
    wide, along = values.astype("float64"), tuple(axis) if isinstance(axis, list) else axis
    result = np.asarray(getattr(wide, name)(along))
    if name in ("max", "min"):
        return result, np.zeros(result.shape)
    count = wide.size // max(result.size, 1)
    allowed = count * np.finfo("float32").eps * np.abs(wide).sum(along)
    return result, np.asarray(allowed / count if name == "mean" else allowed)


@pytest.mark.parametrize("shape", drawn.part(SHAPES, 3))
def test_sums_and_extrema_over_every_choice_of_axes(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(len(shape)).standard_normal(shape).astype("float32")
    choices: list[Any] = [None, *range(len(shape))]
    choices += [list(two) for two in itertools.combinations(range(len(shape)), 2) if len(shape) > 2]
    for at, axis in enumerate(choices[1:] if len(shape) == 3 else choices):
        name = ("sum", "max", "mean", "min")[(at + len(shape)) % 4]
        got = reduced(name, values, axis)
        wanted, allowed = exact(name, values, axis)
        assert got.shape == wanted.shape and np.all(np.abs(got - wanted) <= allowed), (name, axis)


@pytest.mark.parametrize(
    ("shape", "axis"),
    drawn.part(
        [
            ((37, 1031), 1),
            ((1031, 37), 0),
            ((300, 500), None),
            ((5, 3), 1),
            ((40, 2100), 1),
            ((5, 4096), 1),
            ((70_001,), 0),
        ],
        2,
    ),
)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_are_the_first_ones_and_those_of_nan(name: str, shape: tuple[int, ...], axis: int | None) -> None:
    values = np.random.default_rng(3).integers(-40, 40, shape).astype("float32")
    if values.size > 100:
        values[tuple(extent // 2 for extent in shape)] = np.nan
        values[tuple(extent - 1 for extent in shape)] = np.nan
    assert np.array_equal(reduced(name, values, axis), getattr(np, name)(values, axis))


@pytest.mark.parametrize("shape", [(3, 2500), (2, 2, 2049)])
def test_long_rows_keep_their_dimension_and_choose_the_last_place_when_asked(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(3).integers(-4, 4, shape).astype("float32")
    x = te.placeholder(shape, name="x")
    output = topi.argmin(x, -1, True, select_last_index=True)
    got = np.full((*shape[:-1], 1), 77, "int32")
    tw.build(topi.schedule(output), [x, output])(values, got)
    assert np.array_equal(got, shape[-1] - 1 - values[..., ::-1].argmin(-1, keepdims=True))


def test_infinities_and_nothing_but_them() -> None:
    values = np.full((3, 70), -np.inf, "float32")
    values[1, 33] = np.inf
    assert np.array_equal(reduced("argmax", values, 1), [0, 33, 0])
    assert np.array_equal(reduced("max", values, 1), [-np.inf, np.inf, -np.inf])
    values[2, 5] = np.nan
    assert np.isnan(reduced("max", values, 1)[2]) and np.isnan(reduced("sum", values, 1)[1:]).all()


@pytest.mark.parametrize("dtype", drawn.part(["float16", "float64", "int8", "int64"], 2))
def test_other_types(dtype: str) -> None:
    values = np.random.default_rng(5).integers(-3, 4, (67, 130)).astype(dtype)
    for axis in (0, 1):
        assert np.array_equal(reduced("sum", values, axis), values.astype("int64").sum(axis).astype(dtype))
        assert np.array_equal(reduced("max", values, axis), values.max(axis))


def test_extents_that_only_the_call_knows() -> None:
    n, m = te.size_var("n"), te.size_var("m")
    x = te.placeholder((n, m), name="x")
    for axis in (None, 0, 1):
        output = topi.sum(x, axis)
        kernel = tw.build(topi.schedule(output), [x, output])
        for shape in ((0, 3), (3, 0), (1, 1), (70, 301), (9, 64)):
            values = np.random.default_rng(1).standard_normal(shape).astype("float32")
            got = np.full(values.sum(axis).shape, 77, "float32")
            kernel(values, got)
            assert np.allclose(got, values.sum(axis), rtol=1e-4, atol=1e-4)


def test_what_surrounds_a_reduction_is_computed_on_the_way() -> None:
    x = te.placeholder((65, 300), name="x")
    squares = te.compute((65, 300), lambda i, j: x[i, j] * x[i, j], "squares")
    for axis in (0, 1, None):
        total = topi.sum(squares, axis)
        output = te.compute(total.shape, lambda *i, total=total: te.sqrt(total[i]) + 1.0, "output")
        s = topi.schedule(output)
        assert s[squares].attach_type == "inline"
        values = np.random.default_rng(2).standard_normal((65, 300)).astype("float32")
        got = np.full([int(str(extent)) for extent in output.shape], 77, "float32")
        tw.build(s, [x, output])(values, got)
        assert np.allclose(got, np.sqrt((values**2).sum(axis)) + 1, rtol=1e-4)


def loops_of(text: str) -> list[str]:
    """The instructions of the innermost loops of an assembly text."""
    return [
        found.group(2)
        for found in re.finditer(r"^(\.LBB\w+):\n((?:(?!\.LBB\w+:)[\s\S])*?)\tj\w+\t\1\n", text, re.MULTILINE)
    ]


@pytest.mark.parametrize("axis", [1, None])
def test_inner_sums_are_additions_from_memory_to_registers(axis: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step in one block of instructions, and one that asks for the lines a page further on where no cache holds them."""
    x = te.placeholder((4096, 4096), name="x")
    output = topi.sum(x, axis)
    for cache, asked in ((256 << 20, 0), (16 << 20, 1)):
        monkeypatch.setattr(streams, "LAST_CACHE", cache)
        text = tw.build(topi.schedule(output, ZNVER4), [x, output], target=ZNVER4).source("asm")
        block = next(
            block for block in re.split(r"^\.LBB\w+:\n", text, flags=re.MULTILINE) if re.search(r"vaddps\t.*\(%", block)
        )
        loop = block.partition("\tj")[0]
        sums = re.findall(r"vaddps\t\S*\(%\S+\), (%zmm\d+), (%zmm\d+)\n", loop)
        assert len(sums) >= 4 and all(a == b for a, b in sums) and len({a for a, _ in sums}) == len(sums)
        assert not re.search(r"mov[au]ps|xmm|ymm", loop)
        assert text.count("prefetcht1") == asked * len(sums)


def test_column_sums_load_and_store_a_sum_once_for_eight_rows() -> None:
    x = te.placeholder((4096, 4096), name="x")
    output = topi.sum(x, 0)
    s = topi.schedule(output, ZNVER4)
    assert "parallel(" in s.as_python() and "rfactor" in s.as_python(), (
        "one row of results is cut for threads along the sum"
    )
    loops = loops_of(tw.build(s, [x, output], target=ZNVER4).source("asm"))
    assert any(loop.count("vaddps") == 8 and len(re.findall(r"mov[au]ps\t%zmm", loop)) == 1 for loop in loops)


def test_places_are_found_in_vectors() -> None:
    x = te.placeholder((64, 4096), name="x")
    output = topi.argmax(x, 1)
    loops = loops_of(tw.build(topi.schedule(output, ZNVER4), [x, output], target=ZNVER4).source("asm"))
    assert not any("ucomiss" in loop or "kunpck" in loop for loop in loops), (
        "neither scalar, nor masks packed and taken apart"
    )


@pytest.mark.parametrize(("cpu", "width"), [("haswell", 32), ("znver4", 64)])
def test_a_reducer_of_two_values_has_as_many_vectors_as_registers_hold_both(cpu: str, width: int) -> None:
    place = te.comm_reducer(
        lambda a, b: (a[0] + b[0], te.max(a[1], b[1])),
        lambda kind, other: (te.const(0, kind), te.min_value(other)),
        name="place",
    )
    x, k = te.placeholder((300, 5000), name="x"), te.reduce_axis((0, 5000), "k")
    best = te.compute((300,), lambda i: place((k, x[i, k]), axis=k), name="best")
    s = tw.autoschedule.schedule(best, f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu}")
    partial = next(stage for stage in s.stages if stage.name == "best.rf")
    assert str(partial.op.axis[-1].dom.extent) == str(width)


def test_the_chunks_of_a_reduction_cover_it_whatever_its_length() -> None:
    for count in (4 * 8 * 32 - 1, 65_537, 99_991, 131_072):
        values = np.random.default_rng(4).integers(-5, 6, (count, 20)).astype("float32")
        assert np.array_equal(reduced("sum", values, 0), values.sum(0))
        assert reduced("sum", values, None) == values.astype("float64").sum()

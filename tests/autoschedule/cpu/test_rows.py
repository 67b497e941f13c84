"""Softmax, norms and variances that are declared by hand: right along any axes of any shape, as declared bit for bit if asked."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from numpy.typing import NDArray
from tilewright import te, topi
from tilewright.autoschedule import scheduler
from tilewright.autoschedule.plan import Candidate

SHAPES = [
    (5,),
    (7, 13),
    (129, 65),
    (1, 33),
    (33, 1),
    (2, 70_001),
    (4099, 3),
    (17, 31, 9),
    (3, 65, 257),
    (2, 3, 15, 17),
    (3, 40, 50, 1),
]


class Declared:
    """A program over rows of x along some axes. at: the indices of an element by those of its row and those within it."""

    def __init__(self, shape: Sequence[int], axes: Sequence[int], dtype: str = "float32") -> None:
        self.shape, self.axes = tuple(shape), tuple(axes)
        self.kept = tuple(n for at, n in enumerate(shape) if at not in axes)
        self.x = te.placeholder(self.shape, dtype, "x")

    def reduced(self, name: str, reduce: Any, element: Any) -> te.Tensor:
        inside = [te.reduce_axis((0, self.shape[at]), f"k{at}") for at in self.axes]

        def at(row: Sequence[Any]) -> tuple[Any, ...]:
            kept, within = iter(row), iter(inside)
            return tuple(next(within) if at in self.axes else next(kept) for at in range(len(self.shape)))

        result: te.Tensor = te.compute(self.kept, lambda *row: reduce(element(at(row)), axis=inside), name)
        return result

    def row(self, indices: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(index for at, index in enumerate(indices) if at not in self.axes)

    def elements(self, name: str, element: Any) -> te.Tensor:
        result: te.Tensor = te.compute(self.shape, lambda *i: element(i), name)
        return result

    def softmax(self) -> te.Tensor:
        largest = self.reduced("largest", te.max, lambda i: self.x[i])
        power = self.elements("power", lambda i: te.exp(self.x[i] - largest[self.row(i)]))
        total = self.reduced("total", te.sum, lambda i: power[i])
        return self.elements("softmax", lambda i: power[i] / total[self.row(i)])

    def variance(self) -> te.Tensor:
        count = float(np.prod([self.shape[at] for at in self.axes]))
        total = self.reduced("total", te.sum, lambda i: self.x[i])
        mean = te.compute(self.kept, lambda *row: total[row] / count, "mean")
        centred = self.elements("centred", lambda i: self.x[i] - mean[self.row(i)])
        squares = self.reduced("squares", te.sum, lambda i: centred[i] * centred[i])
        result: te.Tensor = te.compute(self.kept, lambda *row: squares[row] / count, "variance")
        return result

    def scaled(self) -> te.Tensor:
        """Between the least and the greatest of each row, less a tenth of their distance."""
        least = self.reduced("least", te.min, lambda i: self.x[i])
        greatest = self.reduced("greatest", te.max, lambda i: self.x[i])
        width = te.compute(self.kept, lambda *row: greatest[row] - least[row], "width")
        return self.elements("scaled", lambda i: (self.x[i] - least[self.row(i)]) - 0.1 * width[self.row(i)])


def of_numpy(name: str, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    if name == "softmax":
        power = np.exp(x - x.max(axes, keepdims=True))
        return np.asarray(power / power.sum(axes, keepdims=True))
    if name == "variance":
        return np.asarray(x.var(axes))
    least, greatest = x.min(axes, keepdims=True), x.max(axes, keepdims=True)
    return np.asarray((x - least) - 0.1 * (greatest - least))


def computed(output: te.Tensor, x: te.Tensor, values: np.ndarray, exact: bool = False) -> np.ndarray:
    got = np.full([int(str(extent)) for extent in output.shape], 77, str(output.dtype))
    tw.build([x, output], exact=exact)(values, got)
    return got


@pytest.mark.parametrize("shape", drawn.part(SHAPES, 2))
def test_programs_over_every_choice_of_axes(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(len(shape)).standard_normal(shape).astype("float32")
    choices = [axes for count in range(1, len(shape) + 1) for axes in itertools.combinations(range(len(shape)), count)]
    for at, axes in enumerate(choices if len(choices) < 4 else choices[len(shape) % 2 :: 3]):
        name = ("softmax", "variance", "scaled")[(at + len(shape) + shape[0]) % 3]
        declared = Declared(shape, axes)
        got = computed(getattr(declared, name)(), declared.x, values)
        assert np.allclose(got, of_numpy(name, values.astype("float64"), axes), rtol=2e-4, atol=1e-5), (name, axes)


@pytest.mark.parametrize(
    ("shape", "axes"),
    drawn.part(
        [
            ((33, 65), (0,)),
            ((33, 65), (1,)),
            ((9, 17, 31), (1,)),
            ((9, 17, 31), (0, 2)),
            ((257,), (0,)),
            ((3, 5, 129), (2,)),
        ],
        2,
    ),
)
@pytest.mark.parametrize("name", ["softmax", "variance"])
def test_exactly_they_have_the_bits_of_the_unscheduled_program(
    name: str, shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    values = np.random.default_rng(7).standard_normal(shape).astype("float32")
    declared = Declared(shape, axes)
    output = getattr(declared, name)()
    plain = np.full([int(str(extent)) for extent in output.shape], 77, "float32")
    tw.build(te.create_schedule(output.op), [declared.x, output])(values, plain)
    assert computed(output, declared.x, values, exact=True).tobytes() == plain.tobytes()


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_other_types(dtype: str) -> None:
    values = np.random.default_rng(5).standard_normal((13, 67, 30)).astype(dtype)
    for axes in ((1,), (2,), (0, 1)):
        declared = Declared(values.shape, axes, dtype)
        got = computed(declared.scaled(), declared.x, values)
        assert np.allclose(
            got,
            of_numpy("scaled", values.astype("float64"), axes),
            rtol=1e-2 if dtype == "float16" else 1e-9,
            atol=1e-2 if dtype == "float16" else 1e-9,
        )


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_extents_that_only_the_call_knows(axis: int) -> None:
    n = [te.size_var(f"n{at}") for at in range(3)]
    x = te.placeholder(n, name="x")
    power = topi.exp(topi.subtract(x, topi.max(x, axis, keepdims=True)))
    output = topi.divide(power, topi.sum(power, axis, keepdims=True))
    kernel = tw.build([x, output])
    for shape in ((5, 70, 33), (1, 1, 1), (3, 9, 2)):
        values = np.random.default_rng(1).standard_normal(shape).astype("float32")
        got = np.full(shape, 77, "float32")
        kernel(values, got)
        assert np.allclose(got, of_numpy("softmax", values, (axis,)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (2, 0, 3)])
def test_nothing_is_computed_of_nothing(shape: tuple[int, ...]) -> None:
    declared = Declared(shape, (1,))
    assert computed(declared.softmax(), declared.x, np.zeros(shape, "float32")).shape == shape


def test_columns_are_taken_as_wide_as_the_cache_holds() -> None:
    machine = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell"
    declared = Declared((4, 197, 2048), (1,))
    output = declared.softmax()
    s = tw.autoschedule.schedule(output, machine)
    columns = next(record.arguments["factor"] for record in s.records if record.primitive == "split")
    assert 32 <= columns < 2048 and columns * 197 * 4 <= 256 << 10
    power = output.op.input_tensors[0]
    assert s[power].attach_type == "at", "exponentials are computed once for both of their readers"


@pytest.mark.parametrize(
    ("shape", "axes", "ways"),
    [
        ((5, 17, 67), (1,), {"all columns", "32 columns", "each reduction by itself"}),
        ((33, 65), (1,), {"a row at a time", "each reduction by itself"}),
    ],
)
@pytest.mark.parametrize("name", ["softmax", "variance"])
def test_every_way_computes_the_same(name: str, shape: tuple[int, ...], axes: tuple[int, ...], ways: set[str]) -> None:
    values = np.random.default_rng(2).standard_normal(shape).astype("float32")
    declared = Declared(shape, axes)
    output = getattr(declared, name)()
    met: set[str] = set()

    def number(at: int) -> Any:
        def choose(decision: str, candidates: Sequence[Candidate]) -> int:
            chosen = at % len(candidates) if decision.startswith("rows") else 0
            if decision.startswith("rows"):
                met.add(candidates[chosen].description)
            return chosen

        return choose

    for at in range(len(ways)):
        s = scheduler.schedule(output, "llvm", chooser=number(at))
        got = np.full([int(str(extent)) for extent in output.shape], 77, "float32")
        tw.build(s, [declared.x, output])(values, got)
        assert np.allclose(got, of_numpy(name, values.astype("float64"), axes), rtol=2e-4, atol=1e-5), met
    assert met == ways


def test_cheap_elements_are_computed_again() -> None:
    declared = Declared((64, 1024), (1,))
    output = declared.variance()
    s = tw.autoschedule.schedule(output)
    centred = next(stage for stage in s.stages if stage.op.name == "centred")
    assert centred.attach_type == "inline"


def test_rows_too_long_for_the_cache_are_read_by_each_reduction_for_itself() -> None:
    declared = Declared((1 << 20, 3), (0,))
    output = declared.variance()
    values = np.random.default_rng(3).standard_normal(declared.shape).astype("float32")
    s = tw.autoschedule.schedule(output)
    found = {stage.op.name: stage.attach_type for stage in s.stages}
    assert found["total"] == found["squares"] == "root", "no reduction waits within another's rows"
    assert np.allclose(computed(output, declared.x, values), values.astype("float64").var(0), rtol=1e-3)


@pytest.mark.parametrize("n", [1, 2, 7, 13])
def test_a_row_alone(n: int) -> None:
    """There are no rows to take side by side."""
    x = np.random.default_rng(drawn.SEED).standard_normal(n).astype("float32")
    A = te.placeholder((n,), name="A")
    k = te.reduce_axis((0, n), "k")
    total = te.compute((1,), lambda _: te.sum(A[k], axis=k), "total")
    shifted = topi.nn.softmax(topi.add(topi.sum(A, 0), topi.nn.softmax(A, 0)), 0)  # whose first sum has no axis
    for B, expected in (
        (topi.min(shifted, 0, keepdims=True), np.asarray([_softmax(x.sum() + _softmax(x)).min()])),
        (te.compute((n,), lambda i: A[i] - total[0]), x - x.sum()),
        (topi.nn.softmax(A, 0), _softmax(x)),
        (topi.nn.rms_norm(A, A, 0), x * x / np.sqrt((x * x).mean() + 1e-5)),
    ):
        result = np.empty_like(expected)
        tw.build([A, B])(x, result)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def _softmax(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()

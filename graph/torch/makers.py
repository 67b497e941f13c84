"""torch's operators that make tensors of numbers alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..conversion import Refused, few
from ..subgraphs import InnerScope
from ..types import Extent, array_dtype
from .call import Call, aten
from .numbers import Formula, Ratio, combine, round_ratio

__all__: list[str] = []


def _broadcast(c: Call, value: str, shape: Sequence[Extent]) -> str:
    return c.emit("broadcast_to", value, shape=tuple(shape)) if shape else value


@aten("full.default", "new_full.default")
def _convert_full(c: Call) -> str:
    c.argument("self", None)
    return _broadcast(c, c.operand("fill_value", c.dtype), c.extents("size"))


@aten(
    "zeros.default", "ones.default", "empty.memory_format", "new_zeros.default", "new_ones.default", "new_empty.default"
)
def _convert_constant(c: Call) -> str:
    c.argument("self", None)
    return _broadcast(c, c.scalar(1 if "ones" in c.target else 0, c.dtype), c.extents("size"))


@aten(
    "zeros_like.default",
    "ones_like.default",
    "empty_like.default",
    "full_like.default",
    "fill.Scalar",
    "fill.Tensor",
    "zero.default",
)
def _convert_full_like(c: Call) -> str:
    shape = c.type(c.tensor()).shape
    name = next((one for one in ("fill_value", "value") if c.gives(one)), "")
    return _broadcast(c, c.operand(name, c.dtype) if name else c.scalar(1 if "ones" in c.target else 0, c.dtype), shape)


@aten("scalar_tensor.default")
def _convert_scalar(c: Call) -> str:
    return c.operand("s", c.dtype)


@aten("copy.default")
def _copy(c: Call) -> str:
    c.argument("self")
    source = c.cast(c.tensor("src"), c.dtype)
    return c.broadcast(source, c.type(c.tensor()).shape)


@aten("arange.default", "arange.start", "arange.start_step")
def _convert_arange(c: Call) -> str:
    begin, end, step = c.argument("start", 0), c.argument("end"), c.argument("step", 1)
    if all(isinstance(one, (int, float)) for one in (begin, end, step)):
        far = (end - begin) / step if step else math.nan
        if not math.isfinite(far):
            raise Refused(f"there are no numbers from {begin} to {end} by {step}")
        count = few(max(math.ceil(far), 0))
        kind = np.int64 if all(isinstance(one, int) for one in (begin, end, step)) else np.float64
        return c.constant((begin + np.arange(count, dtype=kind) * step).astype(array_dtype(c.dtype)))
    if (
        isinstance(begin, (Formula, Ratio))
        or isinstance(end, Formula)
        or not isinstance(step, (int, float))
        or step == 0
    ):
        raise Refused(f"it goes from {begin} by {step}, which has to be known")
    whole_step = int(step) if float(step).is_integer() else step
    count = round_ratio("ceil", combine("truediv", [combine("sub", [end, begin]), whole_step]))
    first = int(begin) if isinstance(begin, float) and begin.is_integer() else begin
    if isinstance(first, float):
        raise Refused(f"it begins at {first}, where its end is not known")
    return c.steps_value(first, whole_step, count, c.dtype)


@aten("linspace.default")
def _convert_linspace(c: Call) -> str:
    begin, end, steps = float(c.known("start")), float(c.known("end")), c.integer("steps")
    return c.constant(np.linspace(begin, end, few(steps)).astype(array_dtype(c.dtype)))


@aten(
    *(
        f"{name}_window.{kind}"
        for name in ("hann", "hamming", "blackman", "bartlett")
        for kind in ("default", "periodic", "periodic_alpha", "periodic_alpha_beta")
    )
)
def _convert_window(c: Call) -> str:
    """A window of so many numbers, which without periodic ends where it began."""
    name, count = c.target.partition("_")[0], c.integer("window_length")
    turns = np.arange(few(count)) / max(count if c.known("periodic", True) else count - 1, 1)
    if name == "bartlett":
        values = 1 - np.abs(2 * turns - 1)
    else:
        first = float(c.known("alpha", 0.54)) if name == "hamming" else 0.5
        second = float(c.known("beta", 0.46)) if name == "hamming" else 0.5
        weights = (0.42, 0.5, 0.08) if name == "blackman" else (first, second, 0.0)
        values = weights[0] - weights[1] * np.cos(2 * np.pi * turns) + weights[2] * np.cos(4 * np.pi * turns)
    return c.constant((np.ones(1) if count == 1 else values).astype(array_dtype(c.dtype)))


@aten("eye.default", "eye.m")
def _convert_eye(c: Call) -> str:
    rows = c.argument("n")
    columns = c.argument("m", rows)
    if isinstance(rows, str) or isinstance(columns, str):
        numbers = [c.cast(c.emit("arange", shape=(count,)), "int64") for count in (rows, columns)]
        return c.cast(c.emit("equal", c.reshape(numbers[0], (rows, 1)), numbers[1]), c.dtype)
    rows, columns = c.integer("n"), c.integer("m", rows)
    few(rows, columns)
    return c.constant(np.eye(rows, columns).astype(array_dtype(c.dtype)))


@aten("rand.default", "randn.default", "rand_like.default", "randn_like.default")
def _convert_random(c: Call) -> str:
    """An input of the model, of numbers that the caller draws: in [0, 1) for rand, of the standard normal distribution for randn."""
    c.argument("self", None)
    shape = c.extents("size") if c.gives("size") else c.type(c.tensor()).shape
    return _random_input(c, c.target.partition(".")[0], shape, c.dtype)


@aten("bernoulli.p", "bernoulli.default", "bernoulli.Tensor", "bernoulli.float")
def _convert_bernoulli(c: Call) -> str:
    """1 with the probability that is given, by itself the tensor: where a number in [0, 1) that the caller draws is below it."""
    chance = c.operand("p" if c.gives("p") else "self", "float32")
    drawn = _random_input(c, "rand", c.type(c.tensor()).shape, "float32")
    return c.cast(c.emit("less", drawn, chance), c.dtype)


def _random_input(c: Call, kind: str, shape: Sequence[Extent], dtype: str) -> str:
    graph = c.scope.graph
    if isinstance(c.scope, InnerScope):
        raise Refused("it draws numbers inside of a loop or a branch")
    names = (kind, *(f"{kind}_{at}" for at in range(1, len(graph.types) + 2)))
    return graph.input(next(name for name in names if name not in graph.types), tuple(shape), dtype)

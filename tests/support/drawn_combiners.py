"""Combiners for te.comm_reducer: known forms, mutations of them, and drawn expressions, each with the same function in Python.

A form is a function of (o, x, y), `o` being the operations of tensor expressions or those of numpy's scalars.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tilewright import te
from tilewright.te.reduce import Reducer

__all__ = ["DTYPES", "FORMS", "Combiner", "PythonOperations", "drawn_combiner", "left_fold", "terms"]

DTYPES = ("int8", "uint8", "int16", "int32", "int64", "uint32", "float16", "float32", "float64")


class TensorOperations:
    """Of expressions."""

    max, min, select, both, either = te.max, te.min, te.select, te.all, te.any

    @staticmethod
    def const(value: float, like: Any) -> Any:
        return te.const(value, like.dtype)


class PythonOperations:
    """Of numpy's scalars, as ir/expr.py says."""

    @staticmethod
    def max(a: Any, b: Any) -> Any:
        return a if a > b or a != a or (a == b and np.signbit(b)) else b

    @staticmethod
    def min(a: Any, b: Any) -> Any:
        return a if a < b or a != a or (a == b and not np.signbit(b)) else b

    @staticmethod
    def select(c: Any, a: Any, b: Any) -> Any:
        return a if c else b

    @staticmethod
    def both(a: Any, b: Any) -> Any:
        return a and b

    @staticmethod
    def either(a: Any, b: Any) -> Any:
        return a or b

    @staticmethod
    def const(value: float, like: Any) -> Any:
        return like.dtype.type(value)


@dataclass(frozen=True)
class Combiner:
    """combine(o, x, y) over tuples; begin: the identity for each dtype."""

    name: str
    combine: Callable[[Any, Sequence[Any], Sequence[Any]], Sequence[Any]]
    begin: tuple[Callable[[str], float], ...]

    def reducer(self) -> Reducer:
        """As te.comm_reducer, over one value or a tuple."""
        alone = len(self.begin) == 1

        def combine(x: Any, y: Any) -> Any:
            made = self.combine(TensorOperations, (x,) if alone else x, (y,) if alone else y)
            return made[0] if alone else tuple(made)

        def identity(*dtypes: str) -> Any:
            values = tuple(te.const(value(dtype), dtype) for value, dtype in zip(self.begin, dtypes, strict=True))
            return values[0] if alone else values

        return te.comm_reducer(combine, identity, self.name)


def _constant(value: float) -> Callable[[str], float]:
    return lambda dtype: value


def _least(dtype: str) -> float:
    return -math.inf if dtype.startswith("float") else int(np.iinfo(dtype).min)


def _greatest(dtype: str) -> float:
    return math.inf if dtype.startswith("float") else int(np.iinfo(dtype).max)


def _one(combine: Callable[[Any, Any, Any], Any]) -> Callable[..., Any]:
    return lambda o, x, y: (combine(o, x[0], y[0]),)


def _first(o: Any, x: Any, y: Any) -> Any:
    left = x[1] >= y[1]
    return o.select(left, x[0], y[0]), o.select(left, x[1], y[1])


def _last(o: Any, x: Any, y: Any) -> Any:
    left = x[1] > y[1]
    return o.select(left, x[0], y[0]), o.select(left, x[1], y[1])


def _sooner(o: Any, x: Any, y: Any) -> Any:
    left = o.either(x[1] > y[1], o.both(x[1] == y[1], x[0] < y[0]))
    return o.select(left, x[0], y[0]), o.select(left, x[1], y[1])


def _counted(o: Any, x: Any, y: Any) -> Any:
    both = o.select(x[1] > y[1], x[0], y[0])
    return o.select(x[1] == y[1], x[0] + y[0], both), o.max(x[1], y[1])


zero, one = _constant(0), _constant(1)
FORMS = (
    Combiner("sum", _one(lambda o, x, y: x + y), (zero,)),
    Combiner("product", _one(lambda o, x, y: x * y), (one,)),
    Combiner("greatest", _one(lambda o, x, y: o.max(x, y)), (_least,)),
    Combiner("least", _one(lambda o, x, y: o.min(x, y)), (_greatest,)),
    Combiner("greatest by choice", _one(lambda o, x, y: o.select(y > x, y, x)), (_least,)),
    Combiner("sum from one", _one(lambda o, x, y: x + y), (one,)),
    Combiner("product from two", _one(lambda o, x, y: x * y), (_constant(2),)),
    Combiner("greatest from five", _one(lambda o, x, y: o.max(x, y)), (_constant(5),)),
    Combiner("difference", _one(lambda o, x, y: x - y), (zero,)),
    Combiner("twice", _one(lambda o, x, y: x + x + y), (zero,)),
    Combiner("joined", _one(lambda o, x, y: x + y + x * y), (zero,)),
    Combiner("saturated", _one(lambda o, x, y: o.min(x + y, o.const(90, x))), (zero,)),
    Combiner("first not 0", _one(lambda o, x, y: o.select(x != o.const(0, x), x, y)), (zero,)),
    Combiner("last not 0", _one(lambda o, x, y: o.select(y != o.const(0, x), y, x)), (zero,)),
    Combiner("last", _one(lambda o, x, y: y), (zero,)),
    Combiner("first of equals", _first, (_constant(-1), _least)),
    Combiner("last of equals", _last, (_constant(-1), _least)),
    Combiner("place", _sooner, (_constant(99), _least)),
    Combiner("count of greatest", _counted, (zero, _least)),
    Combiner("extremes", lambda o, x, y: (o.min(x[0], y[0]), o.max(x[1], y[1])), (_greatest, _least)),
    Combiner("sum and product", lambda o, x, y: (x[0] + y[0], x[1] * y[1]), (zero, one)),
    Combiner("recurrence", lambda o, x, y: (x[0] * y[0], x[1]), (one, zero)),
)
"""Known forms, and those that look like them."""


def drawn_combiner(rng: np.random.Generator) -> Combiner:
    """A form, one with another identity, or an expression of two operands and constants."""
    kind = rng.integers(0, 3)
    form = FORMS[rng.integers(0, len(FORMS))]
    if kind == 0:
        return form
    if kind == 1:
        begin = tuple(_constant(int(rng.integers(0, 4))) for _ in form.begin)
        return Combiner(f"{form.name} from elsewhere", form.combine, begin)
    tree = _drawn_tree(rng, 3)
    return Combiner(f"{tree}", _one(lambda o, x, y: _value(tree, o, x, y)), (_constant(int(rng.integers(0, 3))),))


def _drawn_tree(rng: np.random.Generator, depth: int) -> Any:
    if depth == 0 or rng.random() < 0.15:
        return ("x", "y", int(rng.integers(0, 4)))[rng.choice(3, p=(0.42, 0.42, 0.16))]
    name = ("add", "sub", "mul", "max", "min", "select")[rng.integers(0, 6)]
    if name == "select":
        return (name, ("<", "<=", "==", "!=")[rng.integers(0, 4)], *(_drawn_tree(rng, depth - 1) for _ in range(4)))
    return (name, _drawn_tree(rng, depth - 1), _drawn_tree(rng, depth - 1))


def _value(tree: Any, o: Any, x: Any, y: Any) -> Any:
    if isinstance(tree, str):
        return x if tree == "x" else y
    if isinstance(tree, int):
        return o.const(tree, x)
    name, *rest = tree
    if name == "select":
        a, b, c, d = (_value(each, o, x, y) for each in rest[1:])
        return o.select({"<": a < b, "<=": a <= b, "==": a == b, "!=": a != b}[rest[0]], c, d)
    a, b = (_value(each, o, x, y) for each in rest)
    return {"add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "max": lambda: o.max(a, b)}.get(
        name, lambda: o.min(a, b)
    )()


def terms(rng: np.random.Generator, dtype: str, count: int) -> np.ndarray[Any, Any]:
    """Terms with ties, zeros of both signs, NaN and the ends of the dtype among them."""
    small = rng.integers(0 if dtype.startswith("u") else -3, 4, count).astype(dtype)
    if dtype.startswith("float"):
        special = rng.choice([0.0, -0.0, math.nan, math.inf, -math.inf, 0.1], count).astype(dtype)
        return np.where(rng.random(count) < rng.choice([0, 0, 0.1]), special, small + rng.choice([0, 0.1])).astype(
            dtype
        )
    limits = np.iinfo(dtype)
    ends = rng.choice(np.array([limits.min, limits.max, limits.max - 1], dtype), count)
    return np.where(rng.random(count) < rng.choice([0, 0.3]), ends, small).astype(dtype)


def left_fold(combiner: Combiner, dtypes: Sequence[str], sources: Sequence[np.ndarray[Any, Any]]) -> list[Any]:
    """What the reduction means: from the identity, term by term."""
    value: list[Any] = [np.dtype(d).type(begin(d)) for d, begin in zip(dtypes, combiner.begin, strict=True)]
    with np.errstate(all="ignore"):
        for at in range(len(sources[0])):
            value = list(combiner.combine(PythonOperations, value, [source[at] for source in sources]))
    return value

"""Draws expressions, their operands' contents and the places that they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .choices import Choices
from .terms import EXACT, FLOATS, INTEGERS, Size, Source, Term, common, numpy_type, where

__all__ = ["Context", "cast", "const", "draw_data", "draw_read", "draw_term"]


def const(value: Any, dtype: str) -> Term:
    return Term("const", dtype, data=value, bound=abs(value), steps=0 if value == int(value) else 1)


def cast(term: Term, dtype: str) -> Term:
    """A conversion; integers that a float type cannot hold exactly are masked first."""
    if term.dtype == dtype:
        return term
    if dtype in FLOATS and term.dtype in INTEGERS:
        term = Term("and", term.dtype, (term, const(7, term.dtype)))
        return Term("cast", dtype, (term,), bound=7)
    if dtype in FLOATS and term.dtype in FLOATS and term.bound * 2**term.steps > EXACT[dtype]:
        whole = Term("floor", term.dtype, (term,))
        below = Term("min", term.dtype, (whole, const(4.0, term.dtype)))
        return Term("cast", dtype, (Term("max", term.dtype, (below, const(-4.0, term.dtype))),), bound=4)
    return Term("cast", dtype, (term,), bound=max(term.bound, 1), steps=term.steps)


def draw_data(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str, special: float = 0.0
) -> tuple[np.ndarray, float, int]:
    """Contents for a tensor, with the bound and steps of its values. special: the share of NaN and infinities."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool), 1, 0
    if dtype in FLOATS:
        plain = rng.integers(-4, 5, shape).astype("float64")
        odd = rng.choice([np.nan, np.inf, -np.inf], shape)
        return np.where(rng.random(shape) < special, odd, plain).astype(numpy_type(dtype)), 4, 0
    info = np.iinfo(dtype)
    wide = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    small = rng.integers(-4 if info.min else 0, 5, shape).astype(dtype)
    edge = where(rng.integers(0, 2, shape) == 0, np.dtype(dtype).type(info.min), np.dtype(dtype).type(info.max))
    chosen = rng.integers(0, 8, shape)
    return np.where(chosen < 3, wide, np.where(chosen < 7, small, edge)).astype(dtype), float(info.max), 0


@dataclass
class Context:
    """Axes in scope and tensors from which terms are drawn."""

    choices: Choices
    axes: list[Size]
    sources: list[Source]
    smooth: bool = False
    depth: int = 0

    def chance(self, share: float) -> bool:
        return self.choices.chance(share)

    def pick(self, items: Sequence[Any]) -> Any:
        return self.choices.pick(items)

    def below(self, bound: int) -> int:
        return self.choices.below(bound)


def number(value: int) -> Term:
    return const(value, "int32")


def draw_index(context: Context, extent: Size) -> tuple[Term, Term | None]:
    """An index into a dimension, and the condition under which it lies inside (None: always)."""
    same = [
        at
        for at, size in enumerate(context.axes)
        if size is extent or (size.known and extent.known and size.te == extent.te)
    ]
    axes = range(len(context.axes))
    how = context.choices.share()
    if same and how < 0.6:
        return Term("axis", "int32", data=context.pick(same)), None
    if same and how < 0.7:
        axis = Term("axis", "int32", data=context.pick(same))
        last = Term("sub", "int32", (Term("size", "int32", data=extent), number(1)))
        return Term("sub", "int32", (last, axis)), None
    if not len(axes):
        index = number(context.below(3))
        if extent.known and extent.value:
            return _clamp_index(context, index, extent.value), None
        return index, Term("lt", "bool", (index, Term("size", "int32", data=extent)))
    axis = Term("axis", "int32", data=context.pick(axes))
    scale, shift = context.pick([1, 1, 1, 2, 3, -1]), context.pick([0, 1, -1, 2, -2])
    index = axis if scale == 1 else Term("mul", "int32", (axis, number(scale)))
    index = Term("add", "int32", (index, number(shift))) if shift else index
    if context.chance(0.15) and len(axes) > 1:
        index = Term("add", "int32", (index, Term("axis", "int32", data=context.pick(axes))))
    if extent.known and extent.value and how < 0.95:
        return _clamp_index(context, index, extent.value), None
    inside = Term(
        "all",
        "bool",
        (Term("ge", "bool", (index, number(0))), Term("lt", "bool", (index, Term("size", "int32", data=extent)))),
    )
    return index, inside


def _clamp_index(context: Context, index: Term, extent: int) -> Term:
    """An index made to lie in [0, extent)."""
    last = number(extent - 1)
    how = context.choices.share()
    integers = [source for source in context.sources if source.dtype in INTEGERS]
    if integers and how < 0.15 and context.depth < 2:
        context.depth += 1
        inner = draw_read(context, context.pick(integers))
        context.depth -= 1
        index = cast(inner, "int32")
    elif how < 0.3:
        return number(context.below(extent))
    if how < 0.5:
        return Term("floormod", "int32", (index, number(extent)))
    if how < 0.6:
        index = Term("floordiv", "int32", (index, number(context.pick([2, 3, 4]))))
    return Term("max", "int32", (Term("min", "int32", (index, last)), number(0)))


def read(source: Source, indices: Sequence[Term]) -> Term:
    return Term("read", source.dtype, tuple(indices), source, source.bound, source.steps)


def draw_read(context: Context, source: Source) -> Term:
    """An element of a source, padded where the index may lie outside."""
    if not context.axes and any(extent.known and not extent.value for extent in source.shape):
        return const(0 if source.dtype != "bool" else False, source.dtype)  # a plain number as index is checked at once
    indices = [draw_index(context, extent) for extent in source.shape]
    value = read(source, [index for index, _ in indices])
    inside: Term | None = None
    for _, condition in indices:
        if condition is not None:
            inside = condition if inside is None else Term("all", "bool", (inside, condition))
    if inside is None:
        return value
    other = const(context.pick([0, 1]) if source.dtype != "bool" else False, source.dtype)
    return Term(
        context.pick(["ite", "select"]),
        source.dtype,
        (inside, value, other),
        bound=max(source.bound, 1),
        steps=source.steps,
    )


def draw_leaf(context: Context, dtype: str) -> Term:
    how = context.choices.share()
    if how < 0.75 and context.sources:
        fitting = [candidate for candidate in context.sources if candidate.dtype == dtype]
        source = context.pick(fitting if fitting and context.chance(0.8) else context.sources)
        return cast(draw_read(context, source), dtype)
    if how < 0.87 and context.axes:
        axis = Term("axis", "int32", data=context.below(len(context.axes)))
        return cast(Term("cast", "int32", (axis,)), dtype)  # an axis of a 64-bit extent is int64
    if dtype == "bool":
        return const(bool(context.below(2)), "bool")
    if dtype in FLOATS:
        return const(float(context.pick([-2, -1, 0, 1, 2, 3, 0.5])), dtype)
    info = np.iinfo(dtype)
    return const(
        int(context.pick([0, 1, 2, 3, 5, 7, 16, 100, -1, -3, info.max, info.min]))
        if info.min
        else int(context.pick([0, 1, 2, 3, 5, 7, 16, 100, info.max])),
        dtype,
    )


def draw_term(context: Context, dtype: str, depth: int) -> Term:
    """An expression of `dtype`, at most `depth` operators deep."""
    if depth <= 0:
        return draw_leaf(context, dtype)
    if context.chance(0.12):
        condition = draw_term(context, "bool", depth - 1)
        a, b = draw_term(context, dtype, depth - 1), draw_term(context, dtype, depth - 1)
        return Term(
            context.pick(["ite", "select"]),
            dtype,
            (condition, a, b),
            bound=max(a.bound, b.bound),
            steps=max(a.steps, b.steps),
        )
    if not context.smooth and context.chance(0.3):
        return _draw_nested(context, dtype, depth)
    if dtype == "bool":
        return _draw_bool(context, depth)
    if dtype in INTEGERS:
        return _draw_integer(context, dtype, depth)
    return _draw_smooth(context, dtype, depth) if context.smooth else _draw_float(context, dtype, depth)


def _draw_nested(context: Context, dtype: str, depth: int) -> Term:
    """Draw an expression for simplifiers: an operand met twice, and constants behind constants."""
    if dtype == "bool":
        return _nested_bool(context, depth)
    x, y = draw_term(context, dtype, depth - 1), draw_term(context, dtype, depth - 1)
    if x.of_indices and dtype in ("int32", "int64"):
        return x
    bound, steps = max(x.bound, y.bound, 8), max(x.steps, y.steps)
    small: Sequence[int | float] = [2, 3, 4, 5, 6, 8, 1] if dtype in INTEGERS else [0.0, 1.0, 2.0, 4.0]
    c, d = const(context.pick(small), dtype), const(context.pick(small), dtype)

    def term(op: str, *args: Term) -> Term:
        return Term(op, dtype, args, bound=bound, steps=steps)

    how = context.below(4) if dtype in FLOATS else context.pick([*range(9), 8])
    if how == 0:
        low, high = context.pick(["min", "max"]), context.pick(["min", "max"])
        return term(low, term(high, x, context.pick([c, y])), context.pick([d, x, y]))
    if how == 1:
        compared = Term(context.pick(["lt", "le", "gt", "ge"]), "bool", (x, y))
        return term(context.pick(["select", "ite"]), compared, *context.pick([(x, y), (y, x)]))
    if how == 2:
        condition = draw_term(context, "bool", 1)
        outer = context.pick([condition, Term("not", "bool", (condition,))])
        return term("select", outer, term("select", condition, x, y), context.pick([x, y, c]))
    if how == 3:
        op = context.pick(["min", "max"])
        return term(
            op, term(context.pick(["min", "max"]), x, y), term(context.pick(["min", "max"]), x, context.pick([y, c]))
        )
    outer = inner = context.pick(_BY_CONSTANTS)
    if context.chance(0.6):
        inner = context.pick(_BY_CONSTANTS)
    if how == 4:
        return term(outer, term(inner, x, c), context.pick([c, d]))
    if how == 5:
        return term(
            context.pick(["add", "sub"]), term("mul", term(inner, x, c), c), context.pick([term("floormod", x, c), x])
        )
    if how == 6:
        return term(outer, term("add", term("mul", x, c), context.pick([y, term("mul", y, c), d])), c)
    if how == 7:
        return term(outer, x, context.pick([x, term(inner, x, y)]))
    return term(
        context.pick(["sub", "xor", "max"]), term(outer, term(inner, x, c), y), term(outer, y, term(inner, x, c))
    )


_BY_CONSTANTS = ("floordiv", "floormod", "mul", "add", "sub", "min", "max", "truncdiv", "truncmod")


def _nested_bool(context: Context, depth: int) -> Term:
    kind = context.pick([*INTEGERS, "float32"])
    x, y = draw_term(context, kind, depth - 1), draw_term(context, kind, depth - 1)
    compares = ("lt", "le", "gt", "ge", "eq", "ne")
    a, b = (
        Term(context.pick(compares), "bool", (x, y)),
        Term(context.pick(compares), "bool", context.pick([(x, y), (y, x)])),
    )
    how = context.below(3)
    if how == 0:
        return Term(context.pick(["all", "any"]), "bool", (a, b))
    if how == 1:
        return Term("not", "bool", (Term(context.pick(["all", "any"]), "bool", (a, Term("not", "bool", (b,)))),))
    return Term("select", "bool", (a, b, context.pick([a, const(False, "bool"), const(True, "bool")])))


def _draw_bool(context: Context, depth: int) -> Term:
    how = context.choices.share()
    if how < 0.15:
        a, b = _draw_pair(context, depth)
        return Term(context.pick(["lt", "le", "gt", "ge", "eq", "ne"]), "bool", (a, b))
    if how < 0.6:
        read = [source.dtype for source in context.sources if source.dtype != "bool"]
        dtype = context.pick([*INTEGERS, "float32", "float64", *read])
        args = (draw_term(context, dtype, depth - 1), draw_term(context, dtype, depth - 1))
        return Term(context.pick(["lt", "le", "gt", "ge", "eq", "ne"]), "bool", args)
    if how < 0.75:
        return Term("not", "bool", (draw_term(context, "bool", depth - 1),))
    args = (draw_term(context, "bool", depth - 1), draw_term(context, "bool", depth - 1))
    return Term(context.pick(["all", "any", "and", "or", "min", "max"]), "bool", args)


def _draw_pair(context: Context, depth: int) -> tuple[Term, Term]:
    """Two operands of different types whose meeting is exact."""
    if context.chance(0.5):
        a, b = context.pick(["int8", "uint8"]), context.pick(["float16", "bfloat16", "float32", "float64"])
    else:
        group = context.pick([INTEGERS, FLOATS])
        a, b = context.pick(group), context.pick(group)
    a, b = (b, a) if context.chance(0.5) else (a, b)
    return draw_term(context, a, depth - 1), draw_term(context, b, depth - 1)


def _draw_integer(context: Context, dtype: str, depth: int) -> Term:
    how = context.choices.share()
    a = draw_term(context, dtype, depth - 1)
    if a.of_indices and dtype in ("int32", "int64"):
        return a
    if how < 0.12:
        return Term(context.pick(["neg", "abs", "popcount", "square", "not"]), dtype, (a,))
    if how < 0.2:
        by = const(context.below(np.iinfo(dtype).bits), dtype)
        return Term(context.pick(["shl", "shr"]), dtype, (a, by))
    if how < 0.24:
        return cast(Term("clz", "int32", (a,)), dtype)
    if how < 0.28:
        x, y = _draw_pair(context, min(depth, 1))
        meet = common(x.dtype, y.dtype)
        if meet in INTEGERS and not (meet in ("int32", "int64") and (x.of_indices or y.of_indices)):
            return cast(Term(context.pick(["add", "sub", "mul", "min", "max"]), meet, (x, y)), dtype)
    if how < 0.34:
        return cast(draw_term(context, context.pick([*INTEGERS, *FLOATS, "bool"]), depth - 1), dtype)
    op = context.pick(
        [
            "add",
            "sub",
            "mul",
            "add",
            "sub",
            "mul",
            "min",
            "max",
            "floordiv",
            "floormod",
            "truncdiv",
            "truncmod",
            "and",
            "or",
            "xor",
        ]
    )
    return Term(op, dtype, (a, draw_term(context, dtype, depth - 1)))


def _draw_float(context: Context, dtype: str, depth: int) -> Term:
    how = context.choices.share()
    a = draw_term(context, dtype, depth - 1)
    if how < 0.15:
        return Term(context.pick(["neg", "abs"]), dtype, (a,), bound=a.bound, steps=a.steps)
    if how < 0.25:
        return Term(context.pick(["floor", "ceil", "trunc", "rint"]), dtype, (a,), bound=a.bound + 1)
    if how < 0.35:
        return cast(draw_term(context, context.pick([*INTEGERS, *FLOATS, "bool"]), depth - 1), dtype)
    b = draw_term(context, dtype, depth - 1)
    op = context.pick(["add", "sub", "mul", "min", "max"])
    bound = {"add": a.bound + b.bound, "sub": a.bound + b.bound, "mul": a.bound * b.bound}.get(
        op, max(a.bound, b.bound)
    )
    steps = a.steps + b.steps if op == "mul" else max(a.steps, b.steps)
    return Term(op, dtype, (a, b), bound=bound, steps=steps) if bound * 2**steps <= EXACT[dtype] else a


def _draw_smooth(context: Context, dtype: str, depth: int) -> Term:
    """Functions without steps or poles, whose values stay small."""
    how = context.choices.share()
    a = draw_term(context, dtype, depth - 1)
    if how < 0.25:
        return Term(context.pick(["tanh", "sigmoid", "sin", "erf", "atan"]), dtype, (a,), bound=2)
    if how < 0.35 and a.bound <= 4:
        return Term("exp", dtype, (Term("neg", dtype, (Term("abs", dtype, (a,)),)),), bound=1)
    if how < 0.5:
        positive = Term("add", dtype, (Term("abs", dtype, (a,)), const(1.0, dtype)))
        return Term(context.pick(["sqrt", "log1p"]), dtype, (positive,), bound=a.bound + 1)
    b = draw_term(context, dtype, depth - 1)
    if how < 0.65:
        positive = Term("add", dtype, (Term("abs", dtype, (b,)), const(1.0, dtype)))
        return Term("div", dtype, (a, positive), bound=a.bound)
    op = context.pick(["add", "sub", "mul", "min", "max"])
    bound = a.bound * b.bound if op == "mul" else a.bound + b.bound
    return Term(op, dtype, (a, b), bound=bound) if bound <= 64 else a

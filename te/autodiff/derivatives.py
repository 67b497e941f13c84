"""The derivative of every operator: one row an operator.

A row takes the node and `g`, the adjoint of its value (the derivative of the final output by it), and gives the
adjoint that each operand receives, in the order of `children`: an expression, `Where(condition, expression)` for one
that is zero elsewhere, or None for zero. Where a function has a kink the row chooses one side: of equal operands
min and max follow the first, as TVM did; max(x, 0) and |x| are flat at 0, as torch's are. What is constant in pieces
(floor, casts to integers, comparisons) has derivative zero. hypot and atan2 have zero at the origin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...ir import ops
from ...ir.expr import (
    GE,
    GT,
    LE,
    NE,
    Add,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    Max,
    Min,
    Mul,
    Select,
    Sub,
    TruncMod,
)

__all__ = ["CALLS", "OPERATORS", "Part", "Row", "Where", "plus", "times"]


class Where(NamedTuple):
    """`value` where `condition` holds, otherwise zero. lazy: the value may be evaluated only there."""

    condition: Expr
    value: Expr
    lazy: bool = False


Part = Expr | Where | None
Row = Callable[[Any, Expr], Sequence[Part]]


def times(a: Expr, b: Expr) -> Expr:
    """a * b, without a factor of 1."""
    if ops.is_const(a, 1):
        return b
    if ops.is_const(b, 1):
        return a
    # constants multiply at once: fewer nodes, the same rounding
    if isinstance(a, FloatImm) and isinstance(b, FloatImm):
        return ops.const(a.value * b.value, a.dtype)
    return ops.multiply(a, b)


def plus(a: Expr, b: Expr) -> Expr:
    """a + b, without a term of 0."""
    if ops.is_const(a, 0):
        return b
    return a if ops.is_const(b, 0) else ops.add(a, b)


def _unary(derivative: Callable[[Expr, Expr], Any]) -> Row:
    """The row of a function of one operand, by its derivative at x, where the function has the value y."""

    def row(node: Call, g: Expr) -> tuple[Part]:
        return (times(g, derivative(node.args[0], node)),)

    return row


def _divide(divisor: Callable[[Expr, Expr], Any], numerator: float = 1.0) -> Row:
    """The row of a function whose derivative at x, where it has the value y, is numerator / divisor(x, y)."""

    def row(node: Call, g: Expr) -> tuple[Part]:
        return (ops.divide(times(g, ops.const(numerator, g.dtype)), divisor(node.args[0], node)),)

    return row


def _call(name: str, *operands: Any) -> Expr:
    return ops.call(name, *operands)


def _division(node: Div, g: Expr) -> Sequence[Part]:
    return ops.divide(g, node.b), ops.negative(ops.divide(times(g, node), node.b))  # -(g y / b) reuses the quotient


def _floor_remainder(node: FloorMod, g: Expr) -> Sequence[Part]:
    """a - b * (a // b)."""
    return g, ops.negative(times(g, ops.floordiv(node.a, node.b)))


def _truncated_remainder(node: TruncMod, g: Expr) -> Sequence[Part]:
    """a - b * trunc(a / b)."""
    # the quotient of a floor remainder is constant in pieces
    return g, ops.negative(times(g, _call("trunc", ops.divide(node.a, node.b))))


def _extremum(kind: type[GE] | type[LE]) -> Row:
    def row(node: Min | Max, g: Expr) -> Sequence[Part]:
        first = ops.compare(GT if _is_relu(node) else kind, node.a, node.b)  # GT makes max(x, 0) flat at 0
        return Where(first, g), Where(ops.invert(first), g)

    return row


def _is_relu(node: Min | Max) -> bool:
    """Return whether this is max(x, 0), which is flat at 0. A clip, max(min(x, high), 0), passes at its bounds."""
    # clip's gradient at its bounds passes, as torch's does
    return isinstance(node, Max) and ops.is_const(node.b, 0) and not isinstance(node.a, Min)


def _choice(node: Select | IfThenElse, g: Expr) -> Sequence[Part]:
    lazy = isinstance(node, IfThenElse)
    return None, Where(node.condition, g, lazy), Where(ops.logical_not(node.condition), g, lazy)


def _cast(node: Cast, g: Expr) -> Sequence[Part]:
    # a cast from an integer ends the gradient
    return (ops.cast(g, node.value.dtype) if node.value.dtype.is_float else None,)


def _power(node: Call, g: Expr) -> Sequence[Part]:
    """x ** y: by x, y * x ** (y - 1), which is 0 for y = 0 at any x; by y, x ** y * log(x), which is 0 at x = 0 for
    y >= 0."""
    x, y = node.args
    by_x: Part = times(g, times(y, _call("pow", x, ops.subtract(y, 1.0))))
    if isinstance(y, FloatImm):  # a constant exponent has no derivative, and needs no logarithm
        return (None if y.value == 0 else by_x), None
    by_y = Where(
        # 0 ** y is 0 around y > 0, though log(0) is infinite
        ops.disjunction(ops.compare(NE, x, 0.0), ops.logical_not(ops.compare(GE, y, 0.0))),
        times(g, times(node, _call("log", x))),
    )
    return Where(ops.compare(NE, y, 0.0), by_x), by_y


def _atan2(node: Call, g: Expr) -> Sequence[Part]:
    y, x = node.args
    square = ops.add(times(x, x), times(y, y))
    away = ops.compare(NE, square, 0.0)  # at the origin neither has a derivative
    return Where(away, ops.divide(times(g, x), square)), Where(away, ops.negative(ops.divide(times(g, y), square)))


def _absolute(node: Call, g: Expr) -> Sequence[Part]:
    (x,) = node.args
    # 0 at 0, as torch has it
    return (Where(ops.compare(NE, x, 0.0), ops.select(ops.compare(GT, x, 0.0), g, ops.negative(g))),)


def _copysign(node: Call, g: Expr) -> Sequence[Part]:
    unit = ops.const(1.0, node.dtype)
    # the sign's derivative is zero but at 0
    return times(g, times(_call("copysign", unit, node.args[0]), _call("copysign", unit, node.args[1]))), None


def _hypot(node: Call, g: Expr) -> Sequence[Part]:
    a, b = node.args
    away = ops.compare(GT, node, 0.0)  # 0 / 0 at the origin
    return Where(away, times(g, ops.divide(a, node))), Where(away, times(g, ops.divide(b, node)))


OPERATORS: dict[type[Expr], Row] = {
    Add: lambda node, g: (g, g),
    Sub: lambda node, g: (g, ops.negative(g)),
    Mul: lambda node, g: (times(g, node.b), times(g, node.a)),
    Div: _division,
    FloorDiv: lambda node, g: (None, None),
    FloorMod: _floor_remainder,
    TruncMod: _truncated_remainder,
    Min: _extremum(LE),
    Max: _extremum(GE),
    Select: _choice,
    IfThenElse: _choice,
    Cast: _cast,
}

_ZERO: Row = lambda node, g: (None,) * len(node.args)

CALLS: dict[str, Row] = {
    "exp": _unary(lambda x, y: y),
    "exp2": _unary(lambda x, y: times(y, ops.const(math.log(2), y.dtype))),
    "exp10": _unary(lambda x, y: times(y, ops.const(math.log(10), y.dtype))),
    "expm1": _unary(lambda x, y: _call("exp", x)),
    "log": _divide(lambda x, y: x),
    "log2": _divide(lambda x, y: x, 1 / math.log(2)),
    "log10": _divide(lambda x, y: x, 1 / math.log(10)),
    "log1p": _divide(lambda x, y: x + 1.0),
    "sqrt": _divide(lambda x, y: y, 0.5),
    "rsqrt": _unary(lambda x, y: y * y * y * -0.5),  # x ** -1.5 by the value itself
    "sin": _unary(lambda x, y: _call("cos", x)),
    "cos": _unary(lambda x, y: ops.negative(_call("sin", x))),
    "tan": _unary(lambda x, y: y * y + 1.0),  # 1 + tan^2
    "sinh": _unary(lambda x, y: _call("cosh", x)),
    "cosh": _unary(lambda x, y: _call("sinh", x)),
    "tanh": _unary(lambda x, y: 1.0 - y * y),
    "asin": _divide(lambda x, y: _call("sqrt", 1.0 - x * x)),
    "acos": _divide(lambda x, y: _call("sqrt", 1.0 - x * x), -1.0),
    "atan": _divide(lambda x, y: x * x + 1.0),
    "asinh": _divide(lambda x, y: _call("sqrt", x * x + 1.0)),
    "acosh": _divide(lambda x, y: _call("sqrt", x * x - 1.0)),
    "atanh": _divide(lambda x, y: 1.0 - x * x),
    "erf": _unary(lambda x, y: times(_call("exp", ops.negative(x * x)), ops.const(2 / math.sqrt(math.pi), x.dtype))),
    "sigmoid": _unary(lambda x, y: y * (1.0 - y)),  # by the value, which is at hand
    "pow": _power,
    "atan2": _atan2,
    "hypot": _hypot,
    "copysign": _copysign,
    **dict.fromkeys(("fma", "mul_add"), lambda node, g: (times(g, node.args[1]), times(g, node.args[0]), g)),
    "abs": _absolute,
    **dict.fromkeys(("floor", "ceil", "round", "trunc", "nearbyint"), _ZERO),  # constant in pieces
}
"""By the name of the intrinsic. One that has no row has no derivative that we know."""

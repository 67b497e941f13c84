"""torch's special functions, running extremes and shifts, made of the operators that there are.

Functions of one number are computed in float64 and rounded once, so that float32 loses nothing: the logarithm of the gamma function by
C. Lanczos' sum (SIAM J. Numer. Anal. B 1, 1964; g = 7), its derivative by the asymptotic series of Abramowitz and Stegun
6.3.18 after ten steps of the recurrence, the inverse of erf by M. Giles' polynomials (GPU Computing Gems, 2011) and two steps of Newton's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ..conversion import Conversion, Refused, product
from ..subgraphs import InnerScope, emit_loop
from .call import Call, aten
from .movement import cut

__all__: list[str] = []

_LANCZOS = (
    0.99999999999980993,
    676.5203681218851,
    -1259.1392167224028,
    771.32342877765313,
    -176.61502916214059,
    12.507343278686905,
    -0.13857109526572012,
    9.9843695780195716e-6,
    1.5056327351493116e-7,
)
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)
_STEPS = 10
_ERFINV_NEAR = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
_ERFINV_FAR = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip
_MOST_DOUBLINGS = 1 << 24


class _Wide:
    """Arithmetic on values of float64."""

    def __init__(self, c: Call) -> None:
        self.c = c

    def number(self, value: float | str) -> str:
        return value if isinstance(value, str) else self.c.scalar(value, "float64")

    def __call__(self, operator: str, *values: float | str) -> str:
        return self.c.emit(operator, *map(self.number, values))

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """Evaluate a polynomial by Horner's rule, the highest power first."""
        total = self.number(coefficients[0])
        for coefficient in coefficients[1:]:
            total = self("add", self("multiply", total, x), coefficient)
        return total


def _widened_formula(c: Call, formula: Callable[[_Wide, str], str]) -> str:
    return c.cast(formula(_Wide(c), c.cast(c.tensor(), "float64")), c.dtype)


@aten("lgamma.default")
def _convert_lgamma(c: Call) -> str:
    return _widened_formula(c, _log_gamma)


def _log_gamma(w: _Wide, x: str) -> str:
    """log|gamma(x)|, below 1/2 by the reflection of 1 - x."""
    small = w("less", x, 0.5)
    z = w("subtract", w("where", small, w("subtract", 1.0, x), x), 1.0)
    total = w.number(_LANCZOS[0])
    for at, coefficient in enumerate(_LANCZOS[1:], 1):
        total = w("add", total, w("divide", coefficient, w("add", z, float(at))))
    t = w("add", z, 7.5)
    log = w("add", w("multiply", w("add", z, 0.5), w("log", t)), math.log(2 * math.pi) / 2)
    log = w("add", w("subtract", log, t), w("log", total))
    far = w("abs", w("subtract", x, w("nearbyint", x)))  # sin(pi x) has the size of that of the rest
    reflected = w("subtract", w("subtract", math.log(math.pi), w("log", w("sin", w("multiply", far, math.pi)))), log)
    is_pole = w.c.emit("logical_and", w("less_equal", x, 0.0), w("equal", far, 0.0))
    result = w("where", is_pole, math.inf, w("where", small, reflected, log))
    return w("where", w.c.emit("isinf", x), math.inf, result)


@aten("digamma.default", "special_digamma.default")
def _convert_digamma(c: Call) -> str:
    return _widened_formula(c, _psi)


def _psi(w: _Wide, x: str) -> str:
    """Compute psi, below 0 by the reflection of 1 - x."""
    below = w("less", x, 0.0)
    z = w("where", below, w("subtract", 1.0, x), x)
    steps = [w("divide", 1.0, w("add", z, float(at))) for at in range(_STEPS)]
    y = w("add", z, float(_STEPS))
    inverse = w("divide", 1.0, w("multiply", y, y))
    series = w("multiply", w.polynomial(inverse, _DIGAMMA[::-1]), inverse)
    value = w("subtract", w("subtract", w("log", y), w("divide", 0.5, y)), series)
    for step in reversed(steps):
        value = w("subtract", value, step)
    far = w("subtract", x, w("nearbyint", x))
    turned = w("subtract", value, w("divide", math.pi, w("tan", w("multiply", far, math.pi))))
    pole = w.c.emit("logical_and", below, w("equal", far, 0.0))
    return w("where", pole, math.nan, w("where", below, turned, value))


@aten("erfinv.default", "special_erfinv.default")
def _convert_erfinv(c: Call) -> str:
    return _widened_formula(c, _inverse_erf)


def _inverse_erf(w: _Wide, x: str) -> str:
    inside = w("less", w("abs", x), 1.0)
    safe = w("where", inside, x, 0.0)
    log = w("negative", w("log", w("multiply", w("subtract", 1.0, safe), w("add", 1.0, safe))))
    near = w.polynomial(w("subtract", log, 2.5), _ERFINV_NEAR)
    far = w.polynomial(w("subtract", w("sqrt", log), 3.0), _ERFINV_FAR)
    y = w("multiply", w("where", w("less", log, 5.0), near, far), safe)
    for _ in range(2):
        slope = w("multiply", w("exp", w("negative", w("multiply", y, y))), 2 / math.sqrt(math.pi))
        y = w("subtract", y, w("divide", w("subtract", w("erf", y), safe), slope))
    at_end = w("equal", w("abs", x), 1.0)
    return w("where", inside, y, w("where", at_end, w("multiply", x, math.inf), math.nan))


@aten("__lshift__.Tensor", "__lshift__.Scalar", "bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar")
@aten("__rshift__.Tensor", "__rshift__.Scalar", "bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar")
def _shift(c: Call) -> str:
    """Shift by a count from 0 to the bits less 1; what others do is up to the machine in torch too."""
    if "float" in c.dtype or c.dtype == "bool":
        raise Refused(f"it shifts numbers of {c.dtype}")
    operator = "left_shift" if "left" in c.target or "lshift" in c.target else "right_shift"
    return c.emit(operator, c.cast(c.tensor(), c.dtype), c.operand("other", c.dtype))


def _join_doubling(c: Call, value: str, axis: int, neutral: float, join: str) -> str:
    """The running results of an associative operator along an axis: each step joins what lies twice as far before."""
    size = c.type(value).shape[axis]
    if not isinstance(size, int) or size > _MOST_DOUBLINGS:
        return _join_in_turn(c, value, axis, neutral, join)
    shape, reach = list(c.type(value).shape), 1
    while reach < size:
        shape[axis] = reach
        before = c.emit("broadcast_to", c.scalar(neutral, c.type(value).dtype), shape=tuple(shape))
        value = c.emit(join, c.emit("concat", before, cut(c, value, axis, 0, size - reach), axis=axis), value)
        reach *= 2
    return value


def _join_in_turn(c: Call, value: str, axis: int, neutral: float, join: str) -> str:
    """Join as by doubling, by a loop along an axis whose extent may be a symbol."""
    kind = c.type(value)
    order = (axis, *(at for at in range(len(kind.shape)) if at != axis))
    rows = c.emit("transpose", value, axes=order)
    first = c.emit("broadcast_to", c.scalar(neutral, kind.dtype), shape=c.type(rows).shape[1:])
    inner = InnerScope(c.scope, join)
    inside = Conversion(inner, [], c.source)
    step = inner.graph.input("step", (), "int64")
    before = inner.graph.input("before", c.type(first).shape, kind.dtype)
    after = inside.emit(join, before, inside.emit("take", inner.taken(rows), step, axis=0))
    _, whole = emit_loop(c.scope, inner, "", "", [first], [after, after], kind.shape[axis], c.source)
    return c.emit("transpose", whole, axes=tuple(map(order.index, range(len(order)))))


def _axis_positions(c: Call, value: str, axis: int) -> str:
    """The places along an axis of a value, as they meet its elements."""
    size = c.type(value).shape[axis]
    numbers = c.cast(c.emit("arange", shape=(size,)), "int64")
    return c.reshape(numbers, [size if at == axis else 1 for at in range(c.rank(value))])


def _least(dtype: str, sign: int) -> float:
    """The least of the numbers of a dtype, or with a sign of -1 the greatest."""
    if "float" in dtype:
        return -math.inf * sign
    if dtype == "bool":
        return sign < 0
    limits = np.iinfo(dtype)
    return int(limits.min if sign > 0 else limits.max)


@aten("cummax.default", "cummin.default")
def _convert_running_extreme(c: Call) -> Sequence[str]:
    """The greatest so far, and the last place at which it stood; from a NaN on it is NaN, at the place of the last one."""
    axis, value = c.axis(), c.tensor()
    dtype = c.type(value).dtype
    if not c.rank(value):
        return [value, c.scalar(0, "int64")]
    sign = 1 if c.target.startswith("cummax") else -1
    best = _join_doubling(c, value, axis, _least(dtype, sign), "maximum" if sign > 0 else "minimum")
    reached = c.emit("equal", value, best)
    if "float" in dtype:
        reached = c.emit("logical_or", reached, c.emit("isnan", value))
    places = c.emit("where", reached, _axis_positions(c, value, axis), c.scalar(0, "int64"))
    return [best, _join_doubling(c, places, axis, 0, "maximum")]


@aten("logcumsumexp.default")
def _convert_running_log_sum(c: Call) -> str:
    value = c.tensor()
    return _join_doubling(c, value, c.axis(), -math.inf, "log_add_exp") if c.rank(value) else value


@aten("mode.default")
def _convert_mode(c: Call) -> Sequence[str]:
    """The least of the elements of a row that occur most often, and its last place."""
    axis, value = c.axis("dim", -1), c.tensor()
    shape = c.type(value).shape
    size = shape[axis]
    if size == 0:
        raise Refused("it takes the most frequent of no elements")
    rows = c.emit_all("topk", value, k=-1, axis=axis, largest=False)[0]
    left, right = ([*shape[: axis + 1], 1, *shape[axis + 1 :]], [*shape[:axis], 1, *shape[axis:]])
    alike = c.emit("equal", c.reshape(rows, left), c.reshape(rows, right))
    counts = c.emit("sum", c.cast(alike, "int64"), axes=(axis + 1,))
    first = c.emit("argmax", counts, axis=axis, keepdims=True)
    found = c.emit("gather", rows, first, axis=axis)
    places = c.emit("where", c.emit("equal", value, found), _axis_positions(c, value, axis), c.scalar(-1, "int64"))
    last = c.emit("max", places, axes=(axis,), keepdims=True)
    if c.known("keepdim", False):
        return [found, last]
    return [c.reshape(one, (*shape[:axis], *shape[axis + 1 :])) for one in (found, last)]


@aten("masked_scatter.default")
def _convert_masked_scatter(c: Call) -> str:
    """The elements that a mask chooses, in order, from the beginning of another tensor."""
    value, mask, source = c.tensor(), c.tensor("mask"), c.tensor("source")
    shape = c.type(value).shape
    count = product(shape)
    flat = c.reshape(c.broadcast(mask, shape), (count,))
    places = c.emit("subtract", c.emit("cumsum", c.cast(flat, "int64"), axis=0), c.scalar(1, "int64"))
    places = c.emit("maximum", places, c.scalar(0, "int64"))
    given = c.reshape(source, (product(c.type(source).shape),))
    if given and c.type(given).shape == (0,):
        return value
    most = c.emit("subtract", c.size_value(c.type(given).shape[0]), c.scalar(1, "int64"))
    taken = c.reshape(c.emit("take", given, c.emit("minimum", places, most), axis=0), shape)
    return c.emit("where", mask, taken, value)

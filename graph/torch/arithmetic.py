"""torch's operators element by element."""

from __future__ import annotations

import math

import ml_dtypes

from ..conversion import Refused, open_extent
from ..types import array_dtype
from .call import ROWS, Call, Row, aten

__all__: list[str] = []

_SAME = {
    "abs": "abs",
    "acos": "acos",
    "acosh": "acosh",
    "asin": "asin",
    "asinh": "asinh",
    "atan": "atan",
    "atanh": "atanh",
    "bitwise_not": "bitwise_not",
    "ceil": "ceil",
    "cos": "cos",
    "cosh": "cosh",
    "erf": "erf",
    "exp": "exp",
    "floor": "floor",
    "hardswish": "hard_swish",
    "log": "log",
    "log1p": "log1p",
    "expm1": "expm1",
    "mish": "mish",
    "neg": "negative",
    "relu": "relu",
    "round": "nearbyint",
    "rsqrt": "rsqrt",
    "sigmoid": "sigmoid",
    "silu": "silu",
    "sin": "sin",
    "sinh": "sinh",
    "softsign": "softsign",
    "sqrt": "sqrt",
    "square": "square",
    "tan": "tan",
    "tanh": "tanh",
    "trunc": "trunc",
}
_WHOLE = {"abs", "bitwise_not", "ceil", "floor", "neg", "relu", "round", "square", "trunc"}
"""What keeps integers; the rest makes floats of them."""


def _same(ours: str, whole: bool) -> Row:
    def row(c: Call) -> str:
        value = c.tensor() if whole and ours != "square" else c.cast(c.tensor(), c.dtype)
        if whole and ours in ("ceil", "floor", "nearbyint", "trunc") and "float" not in c.dtype:
            return value
        return c.emit(ours, value)

    return row


for _name, _ours in _SAME.items():
    aten(f"{_name}.default")(_same(_ours, _name in _WHOLE))


def _unary_row(ours: str, value: str = "self") -> Row:
    def row(c: Call) -> str:
        return c.emit(ours, c.tensor(value))

    return row


for _name in ("isnan", "isinf", "isfinite"):
    aten(f"{_name}.default")(_unary_row(_name))


_EXPRESSIONS: dict[str, Row] = {
    "logical_not.default": lambda c: c.emit("logical_not", c.cast(c.tensor(), "bool")),
    "exp2.default": lambda c: c.emit(
        "exp", c.emit("multiply", c.cast(c.tensor(), c.dtype), c.scalar(math.log(2), c.dtype))
    ),
    "reciprocal.default": lambda c: c.emit("divide", c.scalar(1, c.dtype), c.cast(c.tensor(), c.dtype)),
    "gelu.default": lambda c: c.emit("gelu", c.tensor(), approximate=c.known("approximate", "none")),
    "leaky_relu.default": lambda c: c.emit("leaky_relu", c.tensor(), alpha=float(c.known("negative_slope", 0.01))),
    "selu.default": lambda c: c.emit("selu", c.tensor(), alpha=1.6732632423543772, gamma=1.0507009873554805),
    "celu.default": lambda c: c.emit("celu", c.tensor(), alpha=float(c.known("alpha", 1.0))),
    "hardsigmoid.default": lambda c: c.emit("hard_sigmoid", c.tensor(), alpha=1 / 6, beta=0.5),
    "tanhshrink.default": lambda c: c.emit("subtract", c.tensor(), c.emit("tanh", c.tensor())),
    "log_sigmoid.default": lambda c: c.emit("negative", c.emit("softplus", c.emit("negative", c.tensor()))),
    "atan2.default": lambda c: c.emit("atan2", c.operand("self", c.dtype), c.operand("other", c.dtype)),
    "masked_fill.Scalar masked_fill.Tensor": lambda c: c.emit(
        "where", c.tensor("mask"), c.operand("value", c.dtype), c.tensor()
    ),
}
"""Operators that are one expression of ours, by their names."""

for _names, _row in _EXPRESSIONS.items():
    aten(*_names.split())(_row)


@aten("log2.default", "log10.default")
def _convert_log_base(c: Call) -> str:
    base = 2.0 if c.target.startswith("log2") else 10.0
    return c.emit("multiply", c.emit("log", c.cast(c.tensor(), c.dtype)), c.scalar(1 / math.log(base), c.dtype))


@aten("rrelu.default")
def _convert_rrelu(c: Call) -> str:
    if c.known("training", False):
        raise Refused("its slopes are random numbers")
    # outside of training torch takes the mean of the range of slopes
    return c.emit("leaky_relu", c.tensor(), alpha=(float(c.known("lower", 0.125)) + float(c.known("upper", 1 / 3))) / 2)


@aten("elu.default")
def _convert_elu(c: Call) -> str:
    alpha, scale, inner = (float(c.known(name, 1.0)) for name in ("alpha", "scale", "input_scale"))
    if inner != 1:
        raise Refused("its input is scaled")
    return (
        c.emit("elu", c.tensor(), alpha=alpha) if scale == 1 else c.emit("selu", c.tensor(), alpha=alpha, gamma=scale)
    )


@aten("sign.default", "sgn.default")
def _sign(c: Call) -> str:
    """0 for NaN."""
    value = c.emit("sign", c.tensor())
    if "float" not in c.dtype:
        return value
    return c.emit("where", c.emit("isnan", value), c.scalar(0, c.dtype), value)


@aten("hardshrink.default", "softshrink.default")
def _shrink(c: Call) -> str:
    """NaN stays, where ONNX's operator makes it 0."""
    width = float(c.known("lambd", 0.5))
    value = c.emit("shrink", c.tensor(), lambd=width, bias=0.0 if c.target.startswith("hard") else width)
    return c.emit("where", c.emit("isnan", c.tensor()), c.tensor(), value)


@aten("threshold.default")
def _convert_threshold(c: Call) -> str:
    below = c.emit("less_equal", c.tensor(), c.operand("threshold", c.dtype))
    return c.emit("where", below, c.operand("value", c.dtype), c.tensor())


@aten("softplus.default")
def _convert_softplus(c: Call) -> str:
    """Convert softplus: above its threshold it is x, of which it differs by less than exp(-threshold)."""
    beta, threshold = float(c.known("beta", 1.0)), float(c.known("threshold", 20.0))
    if beta == 1:
        value = c.emit("softplus", c.tensor())
    else:
        inner = c.emit("softplus", c.emit("multiply", c.tensor(), c.scalar(beta, c.dtype)))
        value = c.emit("divide", inner, c.scalar(beta, c.dtype))
    # exp(-15) is below half a last bit of float32 at 15
    if threshold >= 15:
        return value
    above = c.emit("greater", c.emit("multiply", c.tensor(), c.scalar(beta, c.dtype)), c.scalar(threshold, c.dtype))
    return c.emit("where", above, c.tensor(), value)


@aten("prelu.default")
def _convert_prelu(c: Call) -> str:
    slope = c.tensor("weight")
    if not c.rank(c.tensor()):
        slope = c.reshape(slope, ())
    if c.rank(slope) == 1 and c.rank(c.tensor()) > 1:
        # slopes belong to axis 1, and broadcasting would put them at the last
        slope = c.reshape(slope, (c.type(slope).shape[0], *[1] * (c.rank(c.tensor()) - 2)))
    return c.emit("prelu", c.tensor(), slope)


@aten("glu.default")
def _convert_glu(c: Call) -> str:
    axis = c.axis("dim", -1)
    half = open_extent([c.type(c.tensor()).shape[axis]], (2,))
    whole = [half if at == axis else extent for at, extent in enumerate(c.type(c.tensor()).shape)]
    # halves as an axis of two: a slice of an open extent would need a proof of its bounds
    paired = c.reshape(c.tensor(), (*whole[:axis], 2, *whole[axis:]))
    first, second = (c.emit("take", paired, c.constant(at), axis=axis) for at in range(2))
    return c.emit("multiply", first, c.emit("sigmoid", second))


_ALIKE = {
    "mul": "multiply",
    "maximum": "maximum",
    "minimum": "minimum",
    "remainder": "floor_mod",
    "fmod": "trunc_mod",
    "bitwise_and": "bitwise_and",
    "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor",
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "__xor__": "bitwise_xor",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}


def _binary(ours: str) -> Row:
    def row(c: Call) -> str:
        kind = c.promote_dtypes("self", "other")
        if kind == "bool":
            logical = {"multiply": "logical_and", "maximum": "logical_or", "minimum": "logical_and"}
            name = logical.get(ours, ours.replace("bitwise", "logical"))
            # False < True, as numbers: bools have no order among our operators
            if ours in ("less", "less_equal", "greater", "greater_equal"):
                kind = "uint8"
        else:
            name = ours
        return c.emit(name, c.operand("self", kind), c.operand("other", kind))

    return row


for _name, _ours in _ALIKE.items():
    aten(*(f"{_name}.{overload}" for overload in ("default", "Tensor", "Scalar")))(_binary(_ours))
for _name in ("remainder", "bitwise_and", "bitwise_or", "bitwise_xor"):
    aten(f"{_name}.Scalar_Tensor")(ROWS[f"{_name}.Tensor"])
aten("max.other")(_binary("maximum"))
aten("gcd.default")(_binary("gcd"))
aten("min.other")(_binary("minimum"))


@aten("fmin.default", "fmax.default")
def _convert_fmin(c: Call) -> str:
    """The lesser or the greater of two, where one is NaN the other."""
    x, y = c.operand("self", c.dtype), c.operand("other", c.dtype)
    chosen = c.emit("minimum" if c.target.startswith("fmin") else "maximum", x, y)
    if "float" not in c.dtype:
        return chosen
    return c.emit("where", c.emit("isnan", x), y, c.emit("where", c.emit("isnan", y), x, chosen))


@aten("lcm.default")
def _convert_lcm(c: Call) -> str:
    x, y = c.operand("self", c.dtype), c.operand("other", c.dtype)
    divisor = c.emit("maximum", c.emit("gcd", x, y), c.scalar(1, c.dtype))  # of two zeros 0
    return c.emit("abs", c.emit("multiply", c.emit("floor_divide", x, divisor), y))


@aten(
    "hypot.default",
    "logaddexp.default",
    "copysign.Tensor",
    "copysign.Scalar",
    "xlogy.Tensor",
    "xlogy.Scalar_Other",
    "xlogy.Scalar_Self",
    "special_xlog1py.default",
    "special_xlog1py.other_scalar",
    "special_xlog1py.self_scalar",
)
def _convert_binary_float(c: Call) -> str:
    """Functions of two floats: the long side, log(exp(x) + exp(y)), x with the sign of y, x * log(y)."""
    kind = c.target.partition(".")[0]
    x, y = c.operand("self", c.dtype), c.operand("other", c.dtype)
    zero = c.scalar(0, c.dtype)
    if kind == "hypot":
        return c.emit("hypot", x, y)
    if kind == "copysign":
        size = c.emit("abs", x)
        below = c.emit("less", c.emit("atan2", y, c.scalar(-1, c.dtype)), zero)  # of -0 too
        return c.emit("where", below, c.emit("negative", size), size)
    if kind == "logaddexp":
        return c.emit("log_add_exp", x, y)
    return _product_with_log(c, x, y, 0 if kind == "xlogy" else 1)


def _product_with_log(c: Call, x: str, y: str, more: float) -> str:
    """x * log(more + y); 0 where x is 0 and the logarithm is no finite number, and the derivative by x is 0 there too."""
    zero = c.scalar(0, c.dtype)
    has_log = c.emit(
        "logical_and", c.emit("greater", y, c.scalar(-more, c.dtype)), c.emit("logical_not", c.emit("isinf", y))
    )
    without = c.emit("logical_not", c.emit("logical_or", has_log, c.emit("isnan", y)))
    nothing = c.emit("logical_and", c.emit("equal", x, zero), without)
    safe = c.emit("where", nothing, c.scalar(1 - more, c.dtype), y)
    return c.emit("multiply", x, c.emit("log1p" if more else "log", safe))


@aten(
    "frac.default",
    "deg2rad.default",
    "rad2deg.default",
    "erfc.default",
    "logit.default",
    "sinc.default",
    "special_entr.default",
    "positive.default",
    "absolute.default",
    "signbit.default",
)
def _convert_unary(c: Call) -> str:
    kind, x = c.target.partition(".")[0], c.tensor()
    if kind in ("positive", "absolute"):
        return x if kind == "positive" else c.emit("abs", x)
    if kind == "signbit":
        return (
            c.emit("less", x, c.scalar(0, c.type(x).dtype))
            if "float" not in c.type(x).dtype
            else c.emit("less", c.emit("atan2", x, c.scalar(-1, c.type(x).dtype)), c.scalar(0, c.type(x).dtype))
        )
    x = c.cast(x, c.dtype)
    if kind == "frac":
        return c.emit("subtract", x, c.emit("trunc", x))
    if kind in ("deg2rad", "rad2deg"):
        return c.emit("multiply", x, c.scalar(math.pi / 180 if kind == "deg2rad" else 180 / math.pi, c.dtype))
    one = c.scalar(1, c.dtype)
    if kind == "erfc":
        return c.emit("subtract", one, c.emit("erf", x))
    if kind == "special_entr":
        below = c.emit("less", x, c.scalar(0, c.dtype))
        return c.emit("where", below, c.scalar(-math.inf, c.dtype), c.emit("negative", _product_with_log(c, x, x, 0)))
    if kind == "sinc":
        at_zero = c.emit("equal", x, c.scalar(0, c.dtype))
        # the branch that is not taken has a finite derivative, so that its gradient is 0 and no NaN
        angle = c.emit("multiply", c.emit("where", at_zero, one, x), c.scalar(math.pi, c.dtype))
        return c.emit("where", at_zero, one, c.emit("divide", c.emit("sin", angle), angle))
    edge = c.known("eps", None)
    if edge is not None:
        x = c.emit("clip", x, low=float(edge), high=1 - float(edge))
    return c.emit("subtract", c.emit("log", x), c.emit("log1p", c.emit("negative", x)))


@aten("logical_and.default", "logical_or.default", "logical_xor.default")
def _convert_logical(c: Call) -> str:
    return c.emit(c.target.partition(".")[0], c.operand("self", "bool"), c.operand("other", "bool"))


@aten("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar", "rsub.Tensor", "rsub.Scalar")
def _add(c: Call) -> str:
    kind = c.promote_dtypes("self", "other")
    first, second = c.operand("self", kind), c.operand("other", kind)
    factor = c.known("alpha", 1)
    if c.target.startswith("rsub"):
        first, second = second, first
    if factor != 1:
        second = c.emit("multiply", second, c.scalar(factor, kind))
    if kind == "bool":
        return c.emit("logical_or", first, second)
    return c.emit("add" if c.target.startswith("add") else "subtract", first, second)


@aten(
    "div.Tensor",
    "div.Scalar",
    "div.Tensor_mode",
    "div.Scalar_mode",
    "true_divide.Tensor",
    "floor_divide.default",
    "floor_divide.Scalar",
)
def _convert_div(c: Call) -> str:
    mode = "floor" if c.target.startswith("floor") else c.known("rounding_mode", None)
    kind = c.promote_dtypes("self", "other")
    if mode is None and "float" not in kind:
        kind = c.dtype
    first, second = c.operand("self", kind), c.operand("other", kind)
    if mode == "floor" or "float" not in kind:
        return c.emit("floor_divide" if mode == "floor" else "trunc_divide", first, second)
    quotient = c.emit("divide", first, second)
    return quotient if mode is None else c.emit("trunc", quotient)


@aten("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def _convert_pow(c: Call) -> str:
    kind = c.promote_dtypes("self", "exponent")
    power = c.argument("exponent")
    base = c.operand("self", kind)
    # torch writes out these powers too, so that last bits agree
    if isinstance(power, (int, float)) and ("float" in kind or power in (1, 2, 3)):
        if power == 1:
            return base
        if power in (2, 3):
            square = c.emit("square", base)
            return square if power == 2 else c.emit("multiply", square, base)
        if power in (0.5, -0.5):
            return c.emit("sqrt" if power > 0 else "rsqrt", base)
        if power == -1:
            return c.emit("divide", c.scalar(1, kind), base)
    # integer powers below 2**53 are exact so
    wide = kind if "float" in kind else "float64"
    return c.cast(c.emit("power", c.cast(base, wide), c.operand("exponent", wide)), kind)


@aten("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _convert_where(c: Call) -> str:
    kind = c.promote_dtypes("self", "other")
    return c.emit("where", c.cast(c.tensor("condition"), "bool"), c.operand("self", kind), c.operand("other", kind))


@aten(
    "clamp.default",
    "clamp.Tensor",
    "clip.default",
    "clamp_min.default",
    "clamp_max.default",
    "hardtanh.default",
    "relu6.default",
    "clamp_min.Tensor",
    "clamp_max.Tensor",
)
def _clamp(c: Call) -> str:
    ends = {"hardtanh": ("min_val", "max_val")}.get(c.target.partition(".")[0], ("min", "max"))
    defaults = {"hardtanh": (-1.0, 1.0), "relu6": (0.0, 6.0)}.get(c.target.partition(".")[0], (None, None))
    low, high = (c.argument(name, default) for name, default in zip(ends, defaults, strict=True))
    value = c.cast(c.tensor(), c.dtype)
    if "float" in c.dtype and isinstance(low, (int, float)) and isinstance(high, (int, float)) and low <= high:
        return c.emit("clip", value, low=float(low), high=float(high))
    for operator, name, bound in zip(("maximum", "minimum"), ends, (low, high), strict=True):
        value = value if bound is None else c.emit(operator, value, c.operand(name, c.dtype))
    return value


@aten("round.decimals")
def _convert_round(c: Call) -> str:
    """Round to so many digits: the scaled number is rounded to the nearest whole one, as torch does."""
    decimals = c.integer("decimals")
    scale = c.scalar(10.0 ** abs(decimals), c.dtype)
    there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    return c.emit(back, c.emit("nearbyint", c.emit(there, c.tensor(), scale)), scale)


@aten("lerp.Scalar", "lerp.Tensor")
def _convert_lerp(c: Call) -> str:
    """Interpolate from the nearer end on, as torch has it: at infinities it matters."""
    far, weight = c.emit("subtract", c.tensor("end"), c.tensor()), c.operand("weight", c.dtype)
    rest = c.emit("subtract", c.scalar(1, c.dtype), weight)
    ends = [
        c.emit("add", c.tensor(), c.emit("multiply", far, weight)),
        c.emit("subtract", c.tensor("end"), c.emit("multiply", far, rest)),
    ]
    return c.emit("where", c.emit("less", c.emit("abs", weight), c.scalar(0.5, c.dtype)), *ends)


@aten("addcmul.default", "addcdiv.default")
def _add_product(c: Call) -> str:
    operator = "multiply" if c.target.startswith("addcmul") else "divide"
    part = c.emit(operator, c.operand("tensor1", c.dtype), c.operand("tensor2", c.dtype))
    factor = c.known("value", 1)
    part = part if factor == 1 else c.emit("multiply", part, c.scalar(factor, c.dtype))
    return c.emit("add", c.operand("self", c.dtype), part)


@aten("nan_to_num.default")
def _convert_nan_to_num(c: Call) -> str:
    value = c.tensor()
    if "float" not in c.dtype:
        return value
    most = float(ml_dtypes.finfo(array_dtype(c.dtype)).max)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] - not said there
    zero, above, below = (
        c.scalar(c.known(name, None) if c.gives(name) else default, c.dtype)
        for name, default in (("nan", 0.0), ("posinf", most), ("neginf", -most))
    )
    result = c.emit("where", c.emit("isnan", value), zero, value)
    infinite = c.emit("isinf", value)
    end = c.emit("where", c.emit("greater", value, c.scalar(0, c.dtype)), above, below)
    return c.emit("where", infinite, end, result)

"""ONNX's operators element by element, their reductions and products."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.expr import FloatImm
from ...ir.rounding import FLOAT8
from ...te.math import max_value
from ..conversion import Refused, product
from .context import Context, converts
from .package import dtype_named

__all__ = ["limit_range"]

_SAME = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "IsNaN": "isnan",
    "Log": "log",
    "Neg": "negative",
    "Not": "logical_not",
    "Round": "nearbyint",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
    "BitwiseNot": "bitwise_not",
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Mish": "mish",
    "HardSwish": "hard_swish",
    "PRelu": "prelu",
    "Det": "det",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "Equal": "equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Where": "where",
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
}


@converts(*_SAME)
def _convert_elementwise(c: Context) -> str:
    operands = list(c.inputs)
    if c.opset < 7 and c.attribute("broadcast") and c.attribute("axis") is not None:
        raise Refused("operators with an axis of broadcasting are of versions before 7")
    return c.emit(_SAME[c.proto.op_type], *operands)


@converts("Swish")
def _convert_swish(c: Context) -> str:
    alpha = float(c.attribute("alpha", 1.0))
    if alpha == 1:
        return c.emit("silu", c[0])
    return c.emit("multiply", c[0], c.emit("sigmoid", c.emit("multiply", c[0], c.constant(alpha, 0))))


def _is_float(c: Context, value: str) -> bool:
    return "float" in c.type(value).dtype


@converts("Div")
def _convert_div(c: Context) -> str:
    return c.emit("divide" if _is_float(c, c[0]) else "trunc_divide", c[0], c[1])


@converts("Mod")
def _mod(c: Context) -> str:
    kind = int(c.attribute("fmod", 0))
    if kind not in (0, 1):
        raise Refused(f"there is no fmod of {kind}")
    return c.emit("trunc_mod" if kind else "floor_mod", c[0], c[1])


@converts("Reciprocal")
def _convert_reciprocal(c: Context) -> str:
    return c.emit("divide", c.constant(1, 0), c[0])


@converts("Pow")
def _convert_pow(c: Context) -> str:
    dtype = c.type(0).dtype
    wide = dtype if _is_float(c, c[0]) else "float64" if dtype in ("int64", "uint64") else "float32"
    # our power is of floats; 64 bits go through float64, so that small powers of them are exact
    power = c.emit("power", c.cast(c[0], wide), c.cast(c[1], wide))
    return c.cast(power, dtype)


@converts("IsInf")
def _convert_isinf(c: Context) -> str:
    infinite = c.emit("isinf", c[0])
    zero = c.constant(0, 0)
    if not c.attribute("detect_negative", 1):
        infinite = c.emit("logical_and", infinite, c.emit("greater", c[0], zero))
    if not c.attribute("detect_positive", 1):
        infinite = c.emit("logical_and", infinite, c.emit("less", c[0], zero))
    return infinite


@converts("BitShift")
def _shift(c: Context) -> str:
    """Shifts by as many bits as there are, or more, leave nothing but the sign; so do negative ones."""
    left = c.attribute("direction") == "LEFT"
    dtype = c.type(0).dtype
    zero, bits = c.constant(0, 0), c.constant(np.iinfo(dtype).bits, 0)
    inside = c.emit("less", c[1], bits)
    if not dtype.startswith("u"):
        inside = c.emit("logical_and", inside, c.emit("greater_equal", c[1], zero))
    shifted = c.emit("left_shift" if left else "right_shift", c[0], c.emit("where", inside, c[1], zero))
    rest = (
        zero if left or dtype.startswith("u") else c.emit("where", c.emit("less", c[0], zero), c.constant(-1, 0), zero)
    )
    return c.emit("where", inside, shifted, rest)


@converts("Sum", "Max", "Min", "Mean")
def _convert_variadic(c: Context) -> str:
    kind = {"Sum": "add", "Mean": "add", "Max": "maximum", "Min": "minimum"}[c.proto.op_type]
    total = c[0]
    for other in c.inputs[1:]:
        total = c.emit(kind, total, other)
    return (
        c.emit("divide", total, c.constant(len(c.inputs), 0))
        if c.proto.op_type == "Mean" and len(c.inputs) > 1
        else total
    )


@converts("Clip")
def _clip(c: Context) -> str:
    """Convert Clip. Before version 11 the bounds are attributes, and those of float32 where they are not given: infinities are cut."""
    value = c[0]
    if c.opset < 11:
        # defaults of version 6, whatever the input's dtype is
        most = float(np.finfo(np.float32).max)
        low, high = float(c.attribute("min", -most)), float(c.attribute("max", most))
        bounds = [c.constant(low, 0), c.constant(high, 0)]
    else:
        bounds = [c[at] if c.has(at) else "" for at in (1, 2)]
    known = [c.scope.graph.data(bound) if bound else None for bound in bounds]
    low, high = (None if one is None or one.size != 1 else one.reshape(-1)[0].item() for one in known)
    # crossed bounds: the upper one wins, which maximum before minimum gives
    if low is not None and high is not None and low <= high:
        return c.emit("clip", value, low=low, high=high)
    for operator, bound in zip(("maximum", "minimum"), bounds, strict=True):
        value = c.emit(operator, value, bound) if bound else value
    return value


@converts("Cast", "CastLike")
def _cast(c: Context) -> str:
    dtype = c.type(1).dtype if c.proto.op_type == "CastLike" else dtype_named(c.attribute("to"))
    return c.cast(limit_range(c, c[0], dtype), dtype)


def limit_range(c: Context, value: str, dtype: str) -> str:
    """A value within the finite numbers of the float of 8 bits that it becomes, unless an attribute says that there is no end."""
    if dtype not in FLOAT8 or not c.attribute("saturate", 1):
        return value
    greatest = max_value(dtype)
    assert isinstance(greatest, FloatImm)
    wide = value if "float" in c.type(value).dtype else c.cast(value, "float32")
    return c.emit("clip", wide, low=-greatest.value, high=greatest.value)


@converts("BitCast")
def _convert_bitcast(c: Context) -> str:
    dtype = dtype_named(c.attribute("to"))
    if c.type(0).dtype == "bool" and dtype in ("int8", "uint8"):
        return c.cast(c[0], dtype)
    if "bool" in (dtype, c.type(0).dtype) and dtype != c.type(0).dtype:
        raise Refused("bools have no bits of their own")
    return c.emit("bitcast", c[0], dtype=dtype)


_REDUCED = {
    "ReduceSum": "sum",
    "ReduceMean": "mean",
    "ReduceProd": "prod",
    "ReduceMax": "max",
    "ReduceMin": "min",
    "ReduceL1": "sum",
    "ReduceL2": "sum",
    "ReduceSumSquare": "sum",
    "ReduceLogSum": "sum",
    "ReduceLogSumExp": "sum",
}


@converts(*_REDUCED)
def _reduce(c: Context) -> str:
    kind, axes = c.proto.op_type, c.axes(1)
    keep, nothing = bool(c.attribute("keepdims", 1)), bool(c.attribute("noop_with_empty_axes", 0))
    if not axes:
        if nothing:
            return c.cast(_finish_reduction(c, _prepare_reduction(c, c[0])), c.type(0).dtype)
        axes = list(range(c.rank(0)))
    axes = sorted({c.within(axis, c.rank(0)) for axis in axes})
    value = c[0]
    if kind == "ReduceLogSumExp" and axes:
        value = value if _is_float(c, value) else c.cast(value, "float64")
        top = c.emit("max", value, axes=axes, keepdims=True)
        # infinity minus itself would be NaN; 0 leaves exp its infinity
        top = c.emit("where", c.emit("isfinite", top), top, c.constant(0, top))
        total = c.emit("sum", c.emit("exp", c.emit("subtract", value, top)), axes=axes, keepdims=True)
        result = c.emit("add", c.emit("log", total), top)
        return c.cast(c.reshape(result, _reduced_shape(c, result, axes, keep)), c.type(0).dtype)
    dtype = c.type(0).dtype
    if dtype == "bool" and kind in ("ReduceMax", "ReduceMin"):
        return c.emit("any" if kind == "ReduceMax" else "all", value, axes=axes, keepdims=keep)
    return c.cast(
        _finish_reduction(c, c.emit(_REDUCED[kind], _prepare_reduction(c, value), axes=axes, keepdims=keep)), dtype
    )


def _prepare_reduction(c: Context, value: str) -> str:
    if c.proto.op_type == "ReduceL1":
        return c.emit("abs", value)
    return c.emit("square", value) if c.proto.op_type in ("ReduceL2", "ReduceSumSquare") else value


def _finish_reduction(c: Context, total: str) -> str:
    if c.proto.op_type == "ReduceL2":
        return c.root(total)
    return c.emit("log", total) if c.proto.op_type == "ReduceLogSum" else total


def _reduced_shape(c: Context, value: str, axes: list[int], keep: bool) -> list[Any]:
    return [extent for at, extent in enumerate(c.type(value).shape) if keep or at not in axes]


@converts("CumSum", "CumProd")
def _convert_running(c: Context) -> str:
    axis = c.within(c.numbers(1)[0], c.rank(0))
    return c.emit(
        c.proto.op_type.lower(),
        c[0],
        axis=axis,
        exclusive=bool(c.attribute("exclusive", 0)),
        reverse=bool(c.attribute("reverse", 0)),
    )


@converts("Gemm")
def _convert_gemm(c: Context) -> str:
    product = c.emit(
        "matmul", c[0], c[1], transpose_a=bool(c.attribute("transA", 0)), transpose_b=bool(c.attribute("transB", 0))
    )
    alpha, beta = float(c.attribute("alpha", 1.0)), float(c.attribute("beta", 1.0))
    product = product if alpha == 1 else c.emit("multiply", product, c.constant(alpha, product))
    if not c.has(2) or beta == 0:
        return product
    return c.emit("add", product, c[2] if beta == 1 else c.emit("multiply", c[2], c.constant(beta, 2)))


@converts("Hardmax")
def _convert_hardmax(c: Context) -> str:
    """Convert Hardmax, before version 13 over rows that hold all axes from the one named on."""
    shape = c.type(0).shape
    axis = c.axis(-1 if c.opset >= 13 else 1)
    whole, at = c[0], axis
    if c.opset < 13 and axis < len(shape) - 1:
        whole, at = c.reshape(c[0], (product(shape[:axis]), product(shape[axis:]))), 1
    extent = c.type(whole).shape[at]
    place = c.emit("argmax", whole, axis=at, keepdims=True)
    places = c.reshape(c.emit("arange", shape=(extent,)), [extent if one == at else 1 for one in range(c.rank(whole))])
    return c.reshape(c.cast(c.emit("equal", place, places), c.type(0).dtype), shape)


@converts("Softmax", "LogSoftmax")
def _convert_softmax(c: Context) -> str:
    name = "softmax" if c.proto.op_type == "Softmax" else "log_softmax"
    if c.opset >= 13:
        return c.emit(name, c[0], axis=c.axis(-1))
    shape, axis = c.type(0).shape, c.axis(1)
    flat = c.reshape(c[0], (product(shape[:axis]), product(shape[axis:]))) if axis < len(shape) - 1 else c[0]
    return c.reshape(c.emit(name, flat, axis=-1), shape)

"""Drawn models of ONNX that compute element by element, reduce or choose."""

from __future__ import annotations

from typing import Any

import numpy as np
from drawn_onnx import FLOATS, INTEGERS, Drawn, Draws, extreme, family, kind_of, ordinary

__all__: list[str] = []

_FLOAT_UNARY = (
    "Acos Acosh Asin Asinh Atan Atanh Cos Cosh Erf Exp Log Sigmoid Sin Sinh Softplus Softsign Sqrt Tan Tanh Mish HardSwish "
    "Ceil Floor Round Reciprocal IsNaN IsInf Gelu Swish"
).split()
_SINCE = {
    "Acosh": 9,
    "Asinh": 9,
    "Atanh": 9,
    "Sinh": 9,
    "Cosh": 9,
    "Erf": 9,
    "Mish": 18,
    "HardSwish": 14,
    "Round": 11,
    "IsNaN": 9,
    "IsInf": 10,
    "Gelu": 20,
    "Swish": 24,
    "Sign": 9,
    "BitwiseNot": 18,
    "Shrink": 9,
    "Celu": 12,
    "ThresholdedRelu": 10,
    "BitwiseAnd": 18,
    "BitwiseOr": 18,
    "BitwiseXor": 18,
    "LessOrEqual": 12,
    "GreaterOrEqual": 12,
    "Mod": 10,
    "BitShift": 11,
}


@family
def _unary(d: Draws) -> Drawn:
    operator = d.pick(*_FLOAT_UNARY, "Abs", "Neg", "Sign", "Relu", "Identity", "Not", "BitwiseNot")
    dtype = d.pick("float32", "float32", "float32", "float64", "float16")
    if operator in ("Abs", "Sign", "Identity"):
        dtype = d.pick(*FLOATS, *INTEGERS)
    if operator in ("Neg", "Relu"):
        dtype = d.pick("float32", "float64", "int8", "int32", "int64")
    dtype = {"Not": "bool", "BitwiseNot": d.pick(*INTEGERS)}.get(operator, dtype)
    least = 14 if operator == "Relu" and "int" in dtype else 13 if "int" in dtype else 7
    more: dict[str, Any] = {}
    if operator == "IsInf":
        more = {"detect_negative": d.pick(None, 0, 1), "detect_positive": d.pick(None, 0, 1)}
        dtype = d.pick("float32", "float64")
    if operator == "Gelu":
        more = {"approximate": d.pick(None, "none", "tanh")}
    if operator == "Swish":
        more = {"alpha": d.pick(None, 0.5, 2.0)}
    shape = d.shape(d.number(0, 3))
    return d.model(
        operator,
        {"x": d.input(shape, dtype, extreme(dtype))},
        d.opset(max(least, _SINCE.get(operator, 7))),
        tolerance={"float16": 4e-3}.get(dtype, 3e-5),
        **more,
    )


@family
def _activation(d: Draws) -> Drawn:
    operator = d.pick("LeakyRelu", "Elu", "Celu", "ThresholdedRelu", "Selu", "HardSigmoid", "Shrink", "PRelu")
    value = d.pick(None, 0.3, 1.7, -0.4)
    shape = d.shape(d.number(1, 3))
    if operator == "PRelu":
        slope = tuple(1 if d.chance() else extent for extent in shape)
        slope = slope[d.number(0, len(shape)) :]
        return d.model(operator, {"x": d.input(shape, is_open=False), "s": d.weight(slope)}, d.opset())
    more = {
        "LeakyRelu": {"alpha": value},
        "Elu": {"alpha": value},
        "Celu": {"alpha": None if value is None else abs(value)},
        "ThresholdedRelu": {"alpha": value},
        "Selu": {"alpha": value, "gamma": d.pick(None, 1.2)},
        "HardSigmoid": {"alpha": value, "beta": d.pick(None, 0.1)},
        "Shrink": {"lambd": None if value is None else abs(value), "bias": d.pick(None, 0.25)},
    }[operator]
    return d.model(operator, {"x": d.input(shape, values=extreme("float32"))}, d.opset(_SINCE.get(operator, 7)), **more)


def _pair(d: Draws) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that meet."""
    shape = d.shape(d.number(0, 3))
    both = [tuple(1 if d.chance(0.25) else extent for extent in shape) for _ in range(2)]
    one = d.number(0, 1)
    both[one] = both[one][d.number(0, len(shape)) :]
    return both[0], both[1]


@family
def _binary(d: Draws) -> Drawn:
    operator = d.pick(
        *"Add Sub Mul Div Mod Pow Equal Less LessOrEqual Greater GreaterOrEqual And Or Xor BitwiseAnd BitwiseOr BitwiseXor".split(),
        *"BitShift Max Min Sum Mean".split(),
    )
    dtype = d.pick(
        "float32", "float32", "float64", "float16", "int8", "uint8", "int16", "int32", "int64", "uint32", "uint64"
    )
    values: Any = extreme(dtype)
    more: dict[str, Any] = {}
    if operator in ("And", "Or", "Xor"):
        dtype = "bool"
    elif operator.startswith("Bitwise"):
        dtype = d.pick(*INTEGERS)
    elif operator == "BitShift":
        dtype, more = d.pick("uint8", "uint16", "uint32", "uint64"), {"direction": d.pick("LEFT", "RIGHT")}
    elif operator == "Mod":
        more = {"fmod": 1 if "float" in dtype else d.pick(None, 0, 1)}
    elif operator in ("Sum", "Mean"):
        dtype = d.pick("float32", "float64")
    elif operator == "Pow":
        dtype = d.pick("float32", "float64", "int32", "int64")
    values = extreme(dtype)
    second: Any = values
    if operator in ("Div", "Mod") and "int" in dtype:
        second = lambda r, s: np.where(v == 0, 1, v) if (v := ordinary(dtype)(r, s)).dtype == dtype else v
        values = ordinary(dtype)
    if operator == "Pow":
        values, second = ordinary(dtype, 0.1, 3), ordinary(dtype, 0, 2)
        if "int" in dtype:
            values = second = lambda r, s, dtype=dtype: r.integers(0, 5, s).astype(dtype)
    if operator == "BitShift":
        second = lambda r, s, dtype=dtype: r.integers(0, np.iinfo(dtype).bits, s).astype(dtype)
    first, other = _pair(d)
    least = 14 if dtype in ("int8", "uint8", "int16") else 13 if operator in ("Max", "Min", "Pow") else 9
    least = max(least, _SINCE.get(operator, 7), 12 if operator in ("Max", "Min") else 7)
    second_input = d.input(other, dtype, second) if d.chance(0.6) else d.weight(other, dtype, second)
    return d.model(
        operator,
        {"a": d.input(first, dtype, values), "b": second_input},
        d.opset(least),
        tolerance=4e-3 if dtype == "float16" else 3e-5,
        **more,
    )


@family
def _where(d: Draws) -> Drawn:
    dtype = d.pick("float32", "int64", "int32", "uint8", "bool", "float64")
    first, other = _pair(d)
    return d.model(
        "Where",
        {"c": d.input(first, "bool"), "a": d.input(other, dtype), "b": d.input(d.pick((), other), dtype)},
        d.opset(16),
    )


@family
def _clip(d: Draws) -> Drawn:
    opset = d.opset()
    dtype = "float32" if opset < 12 else d.pick("float32", "float64", "int32", "int64", "int8", "uint8")
    low, high = d.pick((-1, 2), (0, 0), (2, -1), (1, 5))
    low = max(low, 0) if dtype[0] == "u" else low
    x = d.input(d.shape(d.number(0, 3)), dtype, extreme(dtype))
    if opset < 11:
        return d.model("Clip", {"x": x}, opset, min=d.pick(None, float(low)), max=d.pick(None, float(high)))
    inputs = {"x": x, "l": d.held(low, dtype), "h": d.held(high if dtype[0] != "u" else max(high, 0), dtype)}
    dropped = d.pick((), ("l",), ("h",), ("l", "h"))
    positions = [name if name not in dropped else "" for name in inputs]
    kept = {name: one for name, one in inputs.items() if name not in dropped}
    return d.model("Clip", kept, opset, positions=positions)


@family
def _cast(d: Draws) -> Drawn:
    kinds = ("float32", "float64", "float16", "int8", "uint8", "int16", "int32", "int64", "uint32", "bool")
    source, to = d.pick(*kinds), d.pick(*kinds)
    values = ordinary(source, 0, 3)
    if source in INTEGERS and to in (*INTEGERS, "bool"):
        values = extreme(source)
    return d.model("Cast", {"x": d.input(d.shape(d.number(0, 3)), source, values)}, d.opset(13), to=kind_of(to))


_REDUCED = (
    "ReduceSum ReduceMean ReduceProd ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp"
)


@family
def _reduce(d: Draws) -> Drawn:
    operator, opset, rank = d.pick(*_REDUCED.split()), d.opset(), d.number(0, 4)
    dtype = d.pick("float32", "float32", "float64", "int32", "int64")
    if operator in ("ReduceMax", "ReduceMin") and opset >= 20:
        dtype = d.pick("float32", "uint8", "int8", "bool", "int64")
    if operator in ("ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "ReduceL2"):
        dtype = d.pick("float32", "float64")
    by_input = opset >= (13 if operator == "ReduceSum" else 18)
    values = ordinary(dtype, 0.2, 2) if operator in ("ReduceLogSum", "ReduceProd") else ordinary(dtype)
    if dtype == "float32" and operator in ("ReduceMax", "ReduceMin", "ReduceLogSumExp") and d.chance(0.3):
        values = lambda r, s: r.choice(np.asarray([np.inf, -np.inf, 1, 2, 3], "float32"), s)
    inputs = {"x": d.input(d.shape(rank), dtype, values)}
    axes = None if d.chance(0.25) else d.axes(rank, 0 if by_input else 1)
    more: dict[str, Any] = {"keepdims": d.pick(None, 0, 1)}
    if by_input:
        more["noop_with_empty_axes"] = d.pick(None, 0, 1)
        if axes is not None:
            inputs["axes"] = d.held(axes)
    elif axes:
        more["axes"] = axes
    return d.model(operator, inputs, opset, tolerance=1e-4, **more)


@family
def _arg(d: Draws) -> Drawn:
    operator, rank, opset = d.pick("ArgMax", "ArgMin"), d.number(1, 4), d.opset()
    dtype = d.pick("float32", "int32") if opset < 13 else d.pick("float32", "float64", "int8", "uint8", "int32")
    values = lambda r, s, dtype=dtype: r.integers(0, 3, s).astype(dtype)
    more = {"select_last_index": d.pick(None, 0, 1)} if opset >= 12 else {}
    axis = d.pick(None, d.number(0, rank - 1) if opset < 11 else d.axis(rank))
    return d.model(
        operator, {"x": d.input(d.shape(rank, 1), dtype, values)}, opset, axis=axis, keepdims=d.pick(None, 0, 1), **more
    )


@family
def _softmax(d: Draws) -> Drawn:
    operator, rank, opset = d.pick("Softmax", "LogSoftmax", "Hardmax"), d.number(1, 4), d.opset()
    axis = d.number(0, rank - 1) if opset < 11 else d.axis(rank)
    return d.model(operator, {"x": d.input(d.shape(rank, 1))}, opset, axis=d.pick(None if rank > 1 else axis, axis))


@family
def _running(d: Draws) -> Drawn:
    rank = d.number(1, 3)
    dtype = d.pick("float32", "float64", "int32", "int64")
    return d.model(
        "CumSum",
        {"x": d.input(d.shape(rank), dtype), "axis": d.held(d.axis(rank), d.pick("int32", "int64"))},
        d.opset(11),
        exclusive=d.pick(None, 0, 1),
        reverse=d.pick(None, 0, 1),
    )


@family
def _topk(d: Draws) -> Drawn:
    rank, opset = d.number(1, 3), d.opset(7)
    shape = d.shape(rank, 1)
    axis = d.number(0, rank - 1) if opset < 11 else d.axis(rank)
    k = d.number(1, shape[axis])
    distinct = lambda r, s: r.permutation(int(np.prod(s))).reshape(s).astype("float32")
    values = distinct if d.chance() else lambda r, s: r.integers(0, 3, s).astype("float32")
    x = d.input(shape, "float32", values)
    if opset < 10:
        return d.model("TopK", {"x": x}, opset, ("y", "i"), k=k, axis=axis)
    more = {} if opset < 11 else {"largest": d.pick(None, 0, 1)}
    return d.model("TopK", {"x": x, "k": d.held([k])}, opset, ("y", "i"), axis=axis, **more)

"""The slow, obvious meaning of tensor expressions: every element by itself. The oracle of te's tests."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from tilewright.ir import expr as e
from tilewright.ir.visit import substitute
from tilewright.te import ComputeOp, Tensor

_BINARY = {
    e.Add: np.add,
    e.Sub: np.subtract,
    e.Mul: np.multiply,
    e.Div: np.divide,
    e.FloorDiv: np.floor_divide,
    e.FloorMod: np.mod,
    e.TruncMod: np.fmod,
    e.Min: np.minimum,
    e.Max: np.maximum,
    e.LT: np.less,
    e.LE: np.less_equal,
    e.GT: np.greater,
    e.GE: np.greater_equal,
    e.EQ: np.equal,
    e.NE: np.not_equal,
    e.And: np.logical_and,
    e.Or: np.logical_or,
}
_CALLS = {
    "likely": bool,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "pow": np.power,
    "shift_left": np.left_shift,
    "bitwise_and": np.bitwise_and,
    "bitwise_not": np.bitwise_not,
    "isnan": np.isnan,
    "floor": np.floor,
}


def evaluate(tensor: Tensor, inputs: dict[Tensor, np.ndarray], symbols: dict[e.Var, int] | None = None) -> np.ndarray:
    """The value of a tensor, given those of the placeholders and symbols below it. Reads out of range raise."""
    return _tensor(tensor, dict(inputs), dict(symbols or {}))


def _tensor(tensor: Tensor, known: dict[Tensor, np.ndarray], symbols: dict[Any, Any]) -> np.ndarray:
    if tensor in known:
        return known[tensor]
    op = tensor.op
    assert isinstance(op, ComputeOp), f"no value given for {tensor}"
    for source in op.input_tensors:
        known[source] = _tensor(source, known, symbols)
    shape = tuple(int(_value(extent, known, symbols)) for extent in op.output_shape)
    outputs = [np.empty(shape, str(value.dtype)) for value in op.body]
    for point in itertools.product(*map(range, shape)):
        scope = {
            **symbols,
            **{axis: np.dtype(str(axis.dtype)).type(at) for axis, at in zip(op.axis, point, strict=True)},
        }
        reduction = op.reduction
        values = (
            _reduce(reduction, known, scope) if reduction is not None else [_value(v, known, scope) for v in op.body]
        )
        for output, value in zip(outputs, values, strict=True):
            output[point] = value
    for at, output in enumerate(outputs):
        known[op.output(at)] = output
    return known[tensor]


def _reduce(node: e.Reduce, known: Any, scope: dict[Any, Any]) -> list[Any]:
    combiner = node.combiner
    running = [_value(v, known, scope) for v in (node.init or combiner.identity)]
    for inner in _points(node.axes, known, scope):
        if not _value(node.condition, known, inner):
            continue
        new = [_value(source, known, inner) for source in node.sources]
        both = {**dict(zip(combiner.lhs, running, strict=True)), **dict(zip(combiner.rhs, new, strict=True))}
        running = [_value(result, known, both) for result in combiner.result]
    return running


def _points(axes: tuple[e.IterVar, ...], known: Any, scope: dict[Any, Any]) -> list[dict[Any, Any]]:
    scopes = [scope]
    for axis in axes:
        assert axis.dom is not None
        scopes = [
            {**one, axis: np.dtype(str(axis.dtype)).type(_value(axis.dom.begin, known, one) + at)}
            for one in scopes
            for at in range(int(_value(axis.dom.extent, known, one)))
        ]
    return scopes


def _value(node: Any, known: Any, scope: dict[Any, Any]) -> Any:
    """An expression's value; every branch of a Select is computed, one of an IfThenElse."""
    kind = np.dtype(str(node.dtype)).type
    with np.errstate(all="ignore"):
        if isinstance(node, e.Var):
            return scope[node]
        if isinstance(node, (e.IntImm, e.FloatImm)):
            return kind(node.value)
        if isinstance(node, e.Cast):
            return kind(_value(node.value, known, scope))
        if isinstance(node, e.BinaryOp):
            return kind(_BINARY[type(node)](_value(node.a, known, scope), _value(node.b, known, scope)))
        if isinstance(node, e.Not):
            return not _value(node.value, known, scope)
        if isinstance(node, (e.Select, e.IfThenElse)):
            chosen = _value(node.condition, known, scope)
            if isinstance(node, e.Select):
                branches = [_value(node.true_value, known, scope), _value(node.false_value, known, scope)]
                return branches[0] if chosen else branches[1]
            return _value(node.true_value if chosen else node.false_value, known, scope)
        if isinstance(node, e.ProducerLoad):
            at = tuple(int(_value(index, known, scope)) for index in node.indices)
            assert all(index >= 0 for index in at), f"{node} reads at {at}"
            return known[node.producer][at]
        assert isinstance(node, e.Call), node
        return kind(_CALLS[node.name](*(_value(arg, known, scope) for arg in node.args)))


def fold(expr: Any, values: dict[Any, int] | None = None) -> Any:
    """The value of an expression over symbols alone."""
    return _value(substitute(expr, {}), {}, dict(values or {}))

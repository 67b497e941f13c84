"""Random integer expressions and their values by brute force, for the tests of ir.arith."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy
from tilewright.ir import expr as E
from tilewright.ir.dtype import DType
from tilewright.ir.ops import const
from tilewright.ir.visit import post_order

Values = numpy.ndarray


def grid(ranges: Mapping[E.Expr, Sequence[int]]) -> dict[E.Expr, Values]:
    """Every combination of the leaves' values, as one array a leaf."""
    points = numpy.array(list(itertools.product(*ranges.values())), dtype=numpy.int64).reshape(-1, len(ranges))
    return {leaf: points[:, i] for i, leaf in enumerate(ranges)}


def wrap(values: Values, dtype: DType) -> Values:
    """Values reduced into an integer dtype of at most 32 bits (64 bits: as they are)."""
    if dtype.is_bool:
        return (values != 0).astype(numpy.int64)
    if dtype.bits == 64:
        return values
    return ((values - dtype.least) & ((1 << dtype.bits) - 1)) + dtype.least


def _floor(a: Values, b: Values) -> Values:
    return numpy.where(b == 0, 0, a // numpy.where(b == 0, 1, b))


def _trunc(a: Values, b: Values) -> Values:
    return numpy.where((a < 0) == (b < 0), 1, -1) * _floor(abs(a), abs(b))


_BINARY = {
    E.Add: lambda a, b: a + b,
    E.Sub: lambda a, b: a - b,
    E.Mul: lambda a, b: a * b,
    E.FloorDiv: _floor,
    E.FloorMod: lambda a, b: numpy.where(b == 0, 0, a - b * _floor(a, b)),
    E.TruncDiv: _trunc,
    E.TruncMod: lambda a, b: numpy.where(b == 0, 0, a - b * _trunc(a, b)),
    E.Min: numpy.minimum,
    E.Max: numpy.maximum,
    E.LT: lambda a, b: a < b,
    E.LE: lambda a, b: a <= b,
    E.GT: lambda a, b: a > b,
    E.GE: lambda a, b: a >= b,
    E.EQ: lambda a, b: a == b,
    E.NE: lambda a, b: a != b,
    E.And: lambda a, b: a & b,
    E.Or: lambda a, b: a | b,
}


def evaluate(expr: E.Expr, env: Mapping[E.Expr, Values], wraps: bool = True) -> Values:
    """The values of `expr` at every point of `env`; lanes, if any, become a last axis. `wraps`: each operator's result
    is reduced into its dtype, otherwise arithmetic is that of the integers."""
    done: dict[E.Node, Values] = {}
    for node in post_order(expr):
        value = _value(node, done, env)
        if node.dtype.element.is_bool:
            done[node] = value.astype(numpy.int64)
        else:
            done[node] = wrap(value, node.dtype.element) if wraps else value
    return done[expr]


def _value(node: E.Node, done: Mapping[E.Node, Values], env: Mapping[E.Expr, Values]) -> Values:
    if node in env:
        return env[node]
    if isinstance(node, E.BufferLoad):
        return next(
            values for leaf, values in env.items() if isinstance(leaf, E.BufferLoad) and leaf.buffer is node.buffer
        )
    if isinstance(node, E.IntImm):
        return numpy.full(len(next(iter(env.values()))), node.value, dtype=numpy.int64)
    if isinstance(node, E.BinaryOp):
        return _BINARY[type(node)](done[node.a], done[node.b])
    if isinstance(node, E.Select | E.IfThenElse):
        chosen = done[node.condition] != 0
        if chosen.ndim < done[node.true_value].ndim:
            chosen = chosen[:, None]
        return numpy.where(chosen, done[node.true_value], done[node.false_value])
    if isinstance(node, E.Not):
        return 1 - done[node.value]
    if isinstance(node, E.Cast):
        return done[node.value]
    if isinstance(node, E.Ramp):
        return done[node.base][:, None] + done[node.stride][:, None] * numpy.arange(node.lanes)
    if isinstance(node, E.Broadcast):
        return numpy.repeat(done[node.value][:, None], node.lanes, axis=1)
    if isinstance(node, E.Call):
        return _call(node, [done[arg] for arg in node.args])
    raise TypeError(type(node).__name__)


def _call(node: E.Call, args: list[Values]) -> Values:
    if node.name == "likely":
        return args[0]
    mask = (1 << node.dtype.element.bits) - 1
    return {
        "abs": lambda a: abs(a),
        "bitwise_and": lambda a, b: a & b,
        "bitwise_or": lambda a, b: a | b,
        "bitwise_xor": lambda a, b: a ^ b,
        "bitwise_not": lambda a: ~a,
        "shift_right": lambda a, b: a >> b,
        "shift_left": lambda a, b: a << b,
        "popcount": lambda a: numpy.bitwise_count((a & mask).astype(numpy.uint64)).astype(numpy.int64),
    }[node.name](*args)


_ARITHMETIC = (
    E.Add,
    E.Add,
    E.Sub,
    E.Mul,
    E.FloorDiv,
    E.FloorDiv,
    E.FloorMod,
    E.FloorMod,
    E.Min,
    E.Max,
    E.TruncDiv,
    E.TruncMod,
)
_COMPARISONS = (E.LT, E.LE, E.GT, E.GE, E.EQ, E.NE)


class Drawer:
    """Draws expressions over given leaves."""

    def __init__(
        self, rng: numpy.random.Generator, leaves: Sequence[E.Expr], constants: Sequence[int], casts: Sequence[str] = ()
    ) -> None:
        self.rng, self.leaves, self.constants, self.casts = rng, leaves, constants, casts

    def pick(self, choices: Sequence[object]) -> object:
        return choices[int(self.rng.integers(len(choices)))]

    def leaf(self, dtype: DType) -> E.Expr:
        fitting = [leaf for leaf in self.leaves if leaf.dtype == dtype]
        if fitting and self.rng.random() < 0.7:
            return self.pick(fitting)
        numbers = [c for c in self.constants if dtype.least <= c <= dtype.greatest]
        return const(int(self.pick(numbers)), dtype)

    def number(self, dtype: DType, depth: int) -> E.Expr:
        """An integer expression; raw nodes, so that nothing is folded on the way."""
        draw = self.rng.random()
        if depth == 0 or draw < 0.1:
            return self.leaf(dtype)
        if draw < 0.17:
            kind = E.Select if self.rng.random() < 0.7 else E.IfThenElse
            return kind(self.condition(dtype, depth - 1), self.number(dtype, depth - 1), self.number(dtype, depth - 1))
        if self.casts and draw < 0.27:
            source = DType(self.pick(self.casts))
            return E.Cast(self.number(source, depth - 1), dtype) if source != dtype else self.number(dtype, depth - 1)
        kind = self.pick(_ARITHMETIC)
        right = (
            const(int(self.pick([c for c in self.constants if dtype.least <= c <= dtype.greatest])), dtype)
            if (kind in (E.FloorDiv, E.FloorMod, E.Mul) and self.rng.random() < 0.75)
            else self.number(dtype, depth - 1)
        )
        return kind(self.number(dtype, depth - 1), right)

    def condition(self, dtype: DType, depth: int) -> E.Expr:
        draw = self.rng.random()
        if depth <= 1 or draw < 0.6:
            return self.pick(_COMPARISONS)(self.number(dtype, max(depth - 1, 0)), self.number(dtype, max(depth - 1, 0)))
        if draw < 0.7:
            return E.Not(self.condition(dtype, depth - 1))
        return (E.And if draw < 0.85 else E.Or)(self.condition(dtype, depth - 1), self.condition(dtype, depth - 1))

    def vector(self, dtype: DType, lanes: int, depth: int) -> E.Expr:
        """A vector expression over ramps and broadcasts of scalar ones."""
        draw = self.rng.random()
        if depth == 0 or draw < 0.15:
            if self.rng.random() < 0.6:
                stride = (
                    const(int(self.pick((0, 1, 1, 2, 4, -1))), dtype) if self.rng.random() < 0.8 else self.leaf(dtype)
                )
                return E.Ramp(self.number(dtype, 1), stride, lanes)
            return E.Broadcast(self.number(dtype, 1), lanes)
        if draw < 0.25:
            return E.Select(
                self.lanes_condition(dtype, lanes, depth - 1),
                self.vector(dtype, lanes, depth - 1),
                self.vector(dtype, lanes, depth - 1),
            )
        kind = self.pick(_ARITHMETIC)
        right = (
            E.Broadcast(self.leaf(dtype), lanes) if self.rng.random() < 0.6 else self.vector(dtype, lanes, depth - 1)
        )
        return kind(self.vector(dtype, lanes, depth - 1), right)

    def lanes_condition(self, dtype: DType, lanes: int, depth: int) -> E.Expr:
        draw = self.rng.random()
        if depth <= 1 or draw < 0.6:
            below = max(depth - 1, 0)
            return self.pick(_COMPARISONS)(self.vector(dtype, lanes, below), self.vector(dtype, lanes, below))
        if draw < 0.7:
            return E.Not(self.lanes_condition(dtype, lanes, depth - 1))
        kind = E.And if draw < 0.85 else E.Or
        return kind(self.lanes_condition(dtype, lanes, depth - 1), self.lanes_condition(dtype, lanes, depth - 1))

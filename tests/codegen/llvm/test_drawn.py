"""Drawn expressions over all dtypes: machine code of scalars and of vectors against the interpreter, to the last bit.

Float products are left out: they may be contracted into sums, which the interpreter does not do.
"""

from __future__ import annotations

import math

import drawn
import numpy as np
from llvm_run import buffer, numpy_dtype, run, serial
from tilewright.ir import ops
from tilewright.ir.dtype import DType
from tilewright.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    BufferLoad,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    Let,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from tilewright.ir.interpret.interpreter import run as interpret
from tilewright.ir.rounding import wrap_int
from tilewright.ir.stmt import BufferStore, Function

COUNT = 64
INTEGERS = ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor")


class Draw:
    """Draws expressions. `loads` are the elements that they may read, by dtype."""

    def __init__(self, rng: np.random.Generator, loads: dict[str, list[Expr]], lanes: int) -> None:
        self.rng, self.loads, self.lanes = rng, loads, lanes

    def pick(self, choices: tuple[object, ...]) -> object:
        return choices[int(self.rng.integers(len(choices)))]

    def constant(self, dtype: str) -> Expr:
        if dtype in FLOATS:
            value: float = self.pick((0.0, 1.0, -2.5, 100.0, math.inf, 0.1))  # pyright: ignore[reportAssignmentType]
        else:
            value = wrap_int(int(self.rng.integers(-200, 200)), DType(dtype))
        return ops.const(value, DType(dtype).with_lanes(self.lanes))

    def expr(self, dtype: str, depth: int) -> Expr:
        """An expression of the dtype, of at most `depth` levels."""
        if depth == 0 or self.rng.random() < 0.1:
            return self.constant(dtype) if self.rng.random() < 0.3 else self.pick(tuple(self.loads[dtype]))  # pyright: ignore[reportReturnType]
        form = self.rng.random()
        if form < 0.2:
            source = str(self.pick((*INTEGERS, *FLOATS, "bool")))
            inner = self.expr(source, depth - 1)
            return inner if source == dtype else Cast(inner, DType(dtype).with_lanes(self.lanes))
        if form < 0.35:
            kind = self.pick((Select, IfThenElse))
            return kind(self.expr("bool", depth - 1), self.expr(dtype, depth - 1), self.expr(dtype, depth - 1))  # pyright: ignore
        if form < 0.42:
            var = Var("t", DType(dtype).with_lanes(self.lanes))
            value = self.expr(dtype, depth - 1)
            self.loads[dtype].append(var)
            body = self.expr(dtype, depth - 1)
            self.loads[dtype].remove(var)
            return Let(var, value, body)
        return self.operator(dtype, depth)

    def operator(self, dtype: str, depth: int) -> Expr:
        if dtype == "bool":
            return self.condition(depth)
        a, b = self.expr(dtype, depth - 1), self.expr(dtype, depth - 1)
        if dtype in FLOATS:
            return self.pick((Add, Sub, Min, Max))(a, b)  # pyright: ignore[reportCallIssue]
        if self.rng.random() < 0.25:
            return ops.call(str(self.pick(BITWISE)), a, b)
        return self.pick((Add, Sub, Mul, Min, Max, FloorDiv, FloorMod, TruncDiv, TruncMod))(a, b)  # pyright: ignore

    def condition(self, depth: int) -> Expr:
        form = self.rng.random()
        if form < 0.6:
            dtype = str(self.pick((*INTEGERS, *FLOATS)))
            return self.pick((LT, LE, GT, GE, EQ, NE))(self.expr(dtype, depth - 1), self.expr(dtype, depth - 1))  # pyright: ignore
        if form < 0.7:
            return Not(self.expr("bool", depth - 1))
        return self.pick((And, Or))(self.expr("bool", depth - 1), self.expr("bool", depth - 1))  # pyright: ignore


def inputs(rng: np.random.Generator) -> dict[str, list[np.ndarray]]:
    """Two arrays of each dtype, half of them of small values."""
    found: dict[str, list[np.ndarray]] = {"bool": [rng.integers(0, 2, COUNT).astype(bool) for _ in range(2)]}
    for dtype in INTEGERS:
        info = np.iinfo(dtype)
        wide = rng.integers(info.min, info.max, COUNT, dtype=dtype, endpoint=True)
        small = rng.integers(max(info.min, -5), 6, COUNT).astype(dtype)
        found[dtype] = [wide, small]
    for dtype in FLOATS:
        special = rng.choice([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, 65519.0, 3e38], COUNT)
        with np.errstate(all="ignore"):
            found[dtype] = [rng.normal(0, 100, COUNT).astype(numpy_dtype(dtype)), special.astype(numpy_dtype(dtype))]
    return found


def program(seed: tuple[int, ...], dtype: str, lanes: int) -> Function:
    """The expression that `seed` draws, elementwise over all inputs."""
    names = ("bool", *INTEGERS, *FLOATS)
    buffers = {name: [buffer(f"{name}_{k}", COUNT, name) for k in range(2)] for name in names}
    out, i = buffer("out", COUNT, dtype), Var("i")
    index = i if lanes == 1 else Ramp(i * lanes, ops.const(1, "int32"), lanes)
    loads: dict[str, list[Expr]] = {name: [BufferLoad(b, (index,)) for b in pair] for name, pair in buffers.items()}
    value = Draw(np.random.default_rng(seed), loads, lanes).expr(dtype, 4)
    if value.dtype.lanes != lanes:
        value = Broadcast(value, lanes)
    body = serial(i, COUNT // lanes, BufferStore(out, value, (index,)))
    return Function("f", (*(b for pair in buffers.values() for b in pair), out), body, (out,), {"stage": "final"})


def test_drawn_expressions_agree_with_the_interpreter() -> None:
    for case in range(drawn.count(30, 3000)):
        rng = drawn.rng("llvm expressions", case)
        seed, dtype = tuple(int(x) for x in rng.integers(0, 1 << 30, 3)), str(rng.choice(["bool", *INTEGERS, *FLOATS]))
        arrays = [array for pair in inputs(rng).values() for array in pair]
        expected = np.zeros(COUNT, numpy_dtype(dtype))
        scalar = program(seed, dtype, 1)
        interpret(scalar, [*arrays, expected], check=False)
        for lanes in (1, 16):
            got = np.zeros(COUNT, numpy_dtype(dtype))
            assert run(program(seed, dtype, lanes), *arrays, got) == 0
            same = (got == expected) | ((got != got) & (expected != expected))
            assert same.all(), f"case {case}, {lanes} lanes, {got[~same][:3]} for {expected[~same][:3]}:\n{scalar}"

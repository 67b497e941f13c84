"""Every operator of integers, primitive or derived, against Python's integers: all pairs of 8 bits, the edges of wider types."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te
from tilewright.ir.dtype import DType
from tilewright.ir.expr import Expr, IntImm
from tilewright.ir.rounding import wrap_int
from tilewright.te.hybrid.runtime import EMULATED

Binary = Callable[[Any, Any], Any]
TARGETS = runnable("interpret", "llvm", "llvm -mcpu=x86-64", "c", "cuda -emulate")
DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


PLACES = [
    (target, lanes, dtype)
    for dtype in DTYPES
    for target in TARGETS
    for lanes in ((32,) if target.startswith("cuda") else (1, 8))
]
NARROW = [place for place in PLACES if place[-1] in ("int8", "uint8")]


def rounded_to_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def or_zero(function: Callable[[int, int], int]) -> Callable[[int, int], int]:
    return lambda a, b: function(a, b) if b else 0


BINARY: dict[str, tuple[Binary, Callable[[int, int], int]]] = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "subtract": (lambda a, b: a - b, lambda a, b: a - b),
    "multiply": (lambda a, b: a * b, lambda a, b: a * b),
    "floordiv": (lambda a, b: a // b, or_zero(lambda a, b: a // b)),
    "floormod": (lambda a, b: a % b, or_zero(lambda a, b: a % b)),
    "truncdiv": (te.truncdiv, or_zero(rounded_to_zero)),
    "truncmod": (te.truncmod, or_zero(lambda a, b: a - b * rounded_to_zero(a, b))),
    "ceildiv": (te.ceildiv, or_zero(lambda a, b: -(-a // b))),
    "indexdiv": (te.indexdiv, or_zero(lambda a, b: a // b)),
    "indexmod": (te.indexmod, or_zero(lambda a, b: a % b)),
    "fmod": (te.fmod, or_zero(lambda a, b: a - b * rounded_to_zero(a, b))),
    "min": (te.min, min),
    "max": (te.max, max),
    "and": (lambda a, b: a & b, lambda a, b: a & b),
    "or": (lambda a, b: a | b, lambda a, b: a | b),
    "xor": (lambda a, b: a ^ b, lambda a, b: a ^ b),
}
SCRIPTED = ["floordiv", "floormod", "truncdiv", "truncmod", "ceildiv", "ceil_div", "min", "max"]
SHIFTS: dict[str, tuple[Binary, Callable[[int, int], int]]] = {
    "left": (lambda a, b: a << b, lambda a, b: a << b),
    "right": (lambda a, b: a >> b, lambda a, b: a >> b),
}
UNARY: dict[str, tuple[Callable[[Any], Any], Callable[[int], int]]] = {
    "abs": (te.abs, abs),
    "negative": (lambda a: -a, lambda a: -a),
    "invert": (lambda a: ~a, lambda a: ~a),
    "cube": (lambda a: te.power(a, 3), lambda a: a**3),
    "seventh": (lambda a: a**7, lambda a: a**7),
    "zeroth": (lambda a: a**0, lambda a: 1),
}


def edges(dtype: str) -> list[int]:
    """Values around everything that may go wrong."""
    least, greatest, half = np.iinfo(dtype).min, np.iinfo(dtype).max, 1 << (np.iinfo(dtype).bits // 2)
    near = (least, least + 1, least // 2, -half, -10, -3, -2, -1, 0, 1, 2, 3, 7, 10, 250, half - 1, half, half + 1)
    return sorted({value for value in (*near, greatest // 2, greatest - 1, greatest) if least <= value <= greatest})


def wrapped(values: Sequence[int], dtype: str) -> np.ndarray:
    return np.array([wrap_int(int(value), DType(dtype)) for value in values], dtype)


def run(
    target: str, lanes: int, inputs: Sequence[np.ndarray], body: Callable[..., Any], count: int
) -> list[np.ndarray]:
    """What a program of one operation gives, `lanes` elements at a time."""
    size, dtype = len(inputs[0]), str(inputs[0].dtype)
    tensors = [te.placeholder((size,), dtype, name=name) for name, _ in zip("AB", inputs, strict=False)]
    outputs = te.compute((size,), lambda i: tuple(body(*(tensor[i] for tensor in tensors))), name="C")
    s = te.create_schedule(outputs[0].op)
    outer, inner = s[outputs[0]].split(outputs[0].op.axis[0], lanes)
    if target.startswith("cuda"):
        s[outputs[0]].bind(outer, te.thread_axis("blockIdx.x"))
        s[outputs[0]].bind(inner, te.thread_axis("threadIdx.x"))
    elif lanes > 1:
        s[outputs[0]].vectorize(inner)
    found = [np.empty(size, dtype) for _ in range(count)]
    tw.build(s, [*tensors, *outputs], target=target)(*inputs, *found)
    return found


def compare(
    table: dict[str, tuple[Any, Any]], target: str, lanes: int, inputs: Sequence[np.ndarray], fixed: Any = None
) -> None:
    """Every row of a table on the inputs, the second operand being `fixed` where that is given."""
    dtype = str(inputs[0].dtype)
    more = () if fixed is None else (fixed,)
    found = run(target, lanes, inputs, lambda *xs: [row(*xs, *more) for row, _ in table.values()], len(table))
    for (name, (_, python)), result in zip(table.items(), found, strict=True):
        given = [x.tolist() for x in inputs] + ([[fixed] * len(result)] if more else [])
        wanted = wrapped([python(*values) for values in zip(*given, strict=True)], dtype)
        wrong = np.flatnonzero(result != wanted)
        assert not len(wrong), f"{name} of {[x[wrong[0]] for x in given]}: {result[wrong[0]]}, not {wanted[wrong[0]]}"


def pairs(first: Sequence[int], second: Sequence[int], dtype: str) -> list[np.ndarray]:
    both = list(itertools.product(first, second))
    return [np.array(column, dtype) for column in zip(*both, strict=True)]


def every(dtype: str) -> range:
    return range(np.iinfo(dtype).min, np.iinfo(dtype).max + 1)


@pytest.mark.parametrize(("target", "lanes", "dtype"), [("llvm", 32, "int8"), *drawn.part(NARROW, 1)])
def test_all_pairs_of_8_bits(target: str, lanes: int, dtype: str) -> None:
    compare(BINARY, target, lanes, pairs(every(dtype), every(dtype), dtype))
    compare(SHIFTS, target, lanes, pairs(every(dtype), range(8), dtype))
    compare(UNARY, target, lanes, [np.array(every(dtype), dtype)])


@pytest.mark.parametrize(("target", "lanes", "dtype"), drawn.part(PLACES, 14))
def test_edges_of_every_width(target: str, lanes: int, dtype: str) -> None:
    values = edges(dtype)
    compare(BINARY, target, lanes, pairs(values, values, dtype))
    compare(SHIFTS, target, lanes, pairs(values, range(np.iinfo(dtype).bits), dtype))
    compare(UNARY, target, lanes, [np.array(values, dtype)])


@pytest.mark.parametrize(("lanes", "dtype"), drawn.part(itertools.product([1, 16], DTYPES), 4))
def test_constant_divisors(lanes: int, dtype: str) -> None:
    given = np.array(every(dtype) if dtype in ("int8", "uint8") else edges(dtype), dtype)
    for divisor in drawn.part(edges(dtype), 2):
        compare(BINARY, "llvm", lanes, [given], divisor)


@pytest.mark.parametrize("dtype", DTYPES)
def test_constants_are_folded_to_the_same(dtype: str) -> None:
    values = edges(dtype)
    for name, (build, python) in BINARY.items():
        for a, b in itertools.product(values, values):
            folded: Expr = build(te.const(a, dtype), te.const(b, dtype))
            assert isinstance(folded, IntImm), name
            assert folded.value == wrap_int(python(a, b), DType(dtype)), (name, a, b)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_scripts_run_as_python_compute_the_same(dtype: str) -> None:
    values, kind = edges(dtype), np.dtype(dtype).type
    for name, (a, b) in itertools.product(SCRIPTED, itertools.product(values, values)):
        wanted = wrap_int(BINARY[name.replace("_", "")][1](a, b), DType(dtype))
        assert int(EMULATED[name](kind(a), kind(b))) == wanted, (name, a, b)


@pytest.mark.parametrize("target", ["interpret", "llvm", "c"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_scalar_arguments(target: str, dtype: str) -> None:
    """Symbols that are values, not extents: they may be anything."""
    x, y = te.var("x", dtype), te.var("y", dtype)
    rows = {name: row for name, row in BINARY.items() if "div" in name or "mod" in name}
    C = te.compute((len(rows),), lambda i: te.const(0, dtype), name="C")
    for at, (build, _) in enumerate(rows.values()):
        C = te.compute((len(rows),), lambda i, C=C, at=at, f=build: te.if_then_else(i == at, f(x, y), C[i]), name="C")
    f = tw.build(te.create_schedule(C.op), [x, y, C], target=target)
    found = np.empty(len(rows), dtype)
    for a, b in drawn.part(itertools.product(edges(dtype), edges(dtype)), 60):
        f(a, b, found)
        assert found.tolist() == [wrap_int(python(a, b), DType(dtype)) for _, python in rows.values()], (a, b)


def test_quotients_rounded_up_are_extents_and_indices() -> None:
    """What is proved of indices is proved of these."""
    n = te.var("n")
    A = te.placeholder((n,), "int32", name="A")
    B = te.compute((te.ceildiv(n, 2),), lambda i: A[2 * i], name="B")
    C = te.compute((n,), lambda i: B[te.ceildiv(i - 1, 2)], name="C")
    s = te.create_schedule(C.op)
    f = tw.build(s, [A, C])
    assert "assert" not in f.source("ir")
    for size in (0, 1, 2, 7, 8):
        a, c = np.arange(size, dtype="int32"), np.empty(size, "int32")
        f(a, c)
        assert c.tolist() == [i // 2 * 2 for i in range(size)]

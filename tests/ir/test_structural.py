"""Alpha equality and the structural hash."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tilewright.ir import expr as E
from tilewright.ir import ops
from tilewright.ir.buffer import Buffer
from tilewright.ir.dtype import FLOAT32, INT64
from tilewright.ir.stmt import BufferStore, For, LoopKind, Seq
from tilewright.ir.structural import equal, structural_hash, structural_key
from tilewright.ir.text.parser import parse

x, y = E.Var("x", FLOAT32), E.Var("y", FLOAT32)
A = Buffer("A", (ops.const(8),), FLOAT32)
BASE = """
    @attrs(stage="loops")
    def f[n](A: float32[n, 8], s: float32, B: out float32[n, 8]):
        T: local float32[8, align=32]
        for i in parallel(n):
            for j in 8:
                z: float32 = A[i, j] * s + 1.0
                if i < j:
                    B[i, j] = select(i < 3, z, let(w: float32 = z, w + T[j]))
                else:
                    assert j < 8, "reason"
                    T[j] = exp(z)
"""

CHANGES = {
    "constant": ("+ 1.0", "+ 2.0"),
    "index order": ("A[i, j]", "A[j, i]"),
    "loop kind": ("parallel(n)", "unrolled(n)"),
    "begin": ("in 8:", "in range(0 + 0, extent=8):"),
    "operator": ("* s", "/ s"),
    "scope": ("local", "shared"),
    "alignment": ("align=32", "align=64"),
    "buffer": ("T[j] = exp", "B[i, j] = exp"),
    "message": ('"reason"', '"other"'),
    "call": ("exp(z)", "log(z)"),
    "select": ("select(i < 3", "if_then_else(i < 3"),
    "variable": ("i < j:", "j < i:"),
    "attrs": ('"loops"', '"flat"'),
    "name": ("def f", "def g"),
    "shape": ("B: out float32[n, 8]", "B: out float32[n, 9]"),
    "output": ("B: out", "B:"),
    "type": ("s: float32", "s: float64"),
    "symbol": ("[n]", "[n: size]"),
    "pragma": ("parallel(n):", "parallel(n) with unroll=1:"),
    "missing statement": ('assert j < 8, "reason"', "pass"),
    "local shape": ("float32[8, align", "float32[9, align"),
}


def test_a_program_equals_itself_under_other_names() -> None:
    renamed = parse("""
        @attrs(stage="loops")
        def f[m](P: float32[m, 8], factor: float32, Q: out float32[m, 8]):
            Local: local float32[8, align=32]
            for a in parallel(m):
                for b in 8:
                    c: float32 = P[a, b] * factor + 1.0
                    if a < b:
                        Q[a, b] = select(a < 3, c, let(d: float32 = c, d + Local[b]))
                    else:
                        assert b < 8, "reason"
                        Local[b] = exp(c)
    """)
    assert equal(parse(BASE), renamed)
    assert structural_hash(parse(BASE)) == structural_hash(renamed)


@pytest.mark.parametrize("change", CHANGES)
def test_programs_differ(change: str) -> None:
    before, after = CHANGES[change]
    assert before in BASE
    changed = BASE.replace(before, after, 1)
    assert not equal(parse(BASE), parse(changed))
    assert structural_hash(parse(BASE)) != structural_hash(parse(changed))


def test_free_variables_are_themselves() -> None:
    assert equal(x + y, x + y)
    assert not equal(x + y, y + x)
    assert not equal(x, E.Var("x", FLOAT32))
    assert structural_hash(x + y) != structural_hash(y + x)


def test_free_variables_correspond_one_to_one_when_mapped() -> None:
    assert equal(x + y, y + x, map_free=True)
    assert not equal(x + x, x + y, map_free=True)
    assert not equal(x + y, x + x, map_free=True)
    assert not equal(x, E.Var("x", INT64), map_free=True)
    assert not equal(E.Var("n"), E.SizeVar("n"), map_free=True)
    assert structural_hash(x + y, map_free=True) == structural_hash(y + x, map_free=True)
    assert structural_hash(x + x, map_free=True) != structural_hash(x + y, map_free=True)
    other = Buffer("B", A.shape, FLOAT32)
    index = (ops.const(0),)
    assert equal(E.BufferLoad(A, index), E.BufferLoad(other, index), map_free=True)
    assert not equal(E.BufferLoad(A, index), E.BufferLoad(other, index))


def test_constants_compare_by_bits() -> None:
    nan = float("nan")
    assert equal(ops.const(nan), E.FloatImm(nan)) and structural_hash(ops.const(nan)) == structural_hash(
        E.FloatImm(nan)
    )
    assert not equal(ops.const(nan), E.FloatImm(-nan))
    assert structural_hash(ops.const(nan)) != structural_hash(E.FloatImm(-nan))
    assert structural_key(ops.const(nan)) == structural_key(E.FloatImm(nan)) != structural_key(E.FloatImm(-nan))
    assert not equal(ops.const(0.0), ops.const(-0.0))
    assert structural_hash(ops.const(0.0)) != structural_hash(ops.const(-0.0))
    assert not equal(ops.const(1), ops.const(1, "int64"))
    assert not equal(ops.const(True), ops.const(1))


def test_a_loop_variable_is_not_its_name() -> None:
    def loop(var: E.Var, index: E.Expr) -> For:
        return For(var, ops.const(0), ops.const(8), LoopKind.SERIAL, BufferStore(A, x, (index,)))

    i, j = E.Var("i"), E.Var("j")
    assert equal(loop(i, i), loop(j, j))
    assert equal(loop(E.IterVar("i"), j), loop(i, j))
    assert not equal(loop(i, i), loop(j, i))
    after = Seq((loop(i, i), BufferStore(A, x, (i,))))
    assert not equal(after, Seq((loop(j, j), BufferStore(A, x, (j,)))))  # what is used after the loop is free


def test_nested_sequences_count_as_opened() -> None:
    one, two = BufferStore(A, x, (ops.const(0),)), BufferStore(A, y, (ops.const(0),))
    nested, flat = Seq((Seq((one,)), Seq((two, Seq(()))))), Seq((one, two))
    assert equal(nested, flat)
    assert structural_hash(nested) == structural_hash(flat)
    assert not equal(flat, Seq((two, one)))


def test_reductions_compare_by_their_axes() -> None:
    def total(axis: E.IterVar, scale: float = 1.0) -> E.Reduce:
        lhs, rhs = E.Var("a", FLOAT32), E.Var("b", FLOAT32)
        combiner = E.CommReducer((lhs,), (rhs,), (lhs + rhs,), (ops.const(0.0),))
        return E.Reduce(combiner, (axis.astype("float32") * scale,), (axis,), ops.TRUE)

    k, m = (E.IterVar(name, dom=E.Range(ops.const(0), ops.const(4)), kind="reduce") for name in "km")
    assert equal(total(k, 2.0), total(m, 2.0))
    assert not equal(total(k, 2.0), total(m, 3.0))
    assert not equal(total(k), total(E.IterVar("k", dom=E.Range(ops.const(0), ops.const(5)), kind="reduce")))


def test_deep_and_shared_expressions() -> None:
    left: E.Expr = x
    right: E.Expr = x
    for _ in range(10_000):
        left, right = left + y, right + y
    assert equal(left, right)
    assert structural_hash(left) == structural_hash(right)
    a: E.Expr = x
    b: E.Expr = x
    for _ in range(60):  # 2^60 nodes as a tree
        a, b = a * a, b * b
    assert equal(a, b)
    assert not equal(a, b * x)


def test_the_hash_of_a_function_is_the_same_in_every_process() -> None:
    program = f"from tilewright.ir import parse, structural_hash; print(structural_hash(parse({BASE!r})))"
    elsewhere = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(elsewhere.stdout) == structural_hash(parse(BASE))

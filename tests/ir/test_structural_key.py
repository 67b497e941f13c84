"""Keys of expressions by their structure."""

from __future__ import annotations

import pytest
from drawn_index import CASES, Drawn
from tilewright.ir import expr as E
from tilewright.ir.buffer import Buffer
from tilewright.ir.dtype import FLOAT32, INT32, INT64
from tilewright.ir.ops import const
from tilewright.ir.structural import StructuralKey, constructor_key, equal, structural_key
from tilewright.ir.visit import rewrite


@pytest.mark.parametrize("case", CASES)
def test_keys_are_equal_where_expressions_are(case: int) -> None:
    sample = Drawn("keys", case, depth=3)
    copy = rewrite(sample.expr, lambda node: type(node)(node.a, node.b) if isinstance(node, E.BinaryOp) else None)
    assert structural_key(copy) == structural_key(sample.expr) and StructuralKey(copy) == StructuralKey(sample.expr)
    assert hash(StructuralKey(copy)) == hash(StructuralKey(sample.expr))
    other = sample.draw(3)
    assert bool(structural_key(sample.expr) == structural_key(other)) == equal(sample.expr, other)
    renamed = rewrite(sample.expr, lambda node: E.Var("i") if node is sample.variables[0] else None)
    assert bool(structural_key(renamed) == structural_key(sample.expr)) == (renamed is sample.expr)


def test_keys_tell_what_nodes_say_besides_their_operands() -> None:
    x, buffer, other = E.Var("x", FLOAT32), Buffer("A", (const(8),), FLOAT32), Buffer("A", (const(8),), FLOAT32)
    i, holds = const(0), E.LT(const(0), const(1))
    apart: list[E.Expr] = [
        x,
        E.Cast(x, INT32),
        E.Cast(x, INT64),
        E.Call("exp", (x,), FLOAT32),
        E.Call("log", (x,), FLOAT32),
        E.Broadcast(x, 4),
        E.Broadcast(x, 8),
        E.Ramp(i, const(1), 4),
        E.Ramp(i, const(1), 8),
        E.BufferLoad(buffer, (i,)),
        E.BufferLoad(other, (i,)),
        E.BufferLoad(buffer, (i,), holds),
        E.FloatImm(0.0),
        E.FloatImm(-0.0),
        E.FloatImm(float("nan")),
        E.FloatImm(-float("nan")),
        const(1),
        const(1, INT64),
        const(True),
        E.Shuffle((E.Broadcast(x, 4),), (0, 1)),
        E.Shuffle((E.Broadcast(x, 4),), (1, 0)),
        E.StringImm("x"),
        E.Select(holds, x, x),
        E.IfThenElse(holds, x, x),
        E.Not(holds),
    ]
    assert len({structural_key(expr) for expr in apart}) == len(apart)
    assert structural_key(E.FloatImm(float("nan"))) == structural_key(E.FloatImm(float("nan")))
    assert constructor_key(E.Add(x, x)) == constructor_key(E.Add(x, x)) != constructor_key(E.Sub(x, x))
    assert constructor_key(E.Add(E.Add(x, x), x)) != constructor_key(
        E.Add(E.Add(x, x), x)
    )  # the operands are two objects

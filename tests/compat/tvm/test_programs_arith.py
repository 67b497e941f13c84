"""Programs on tvm.arith's maps of iterators, on programs as text, and on lists of passes."""

from __future__ import annotations

import base64
import json
import os
import pickle
from typing import Any

import numpy as np
import pytest
from tilewright.compat import tvm
from tilewright.compat.tvm import te

fld, flm = tvm.tir.floordiv, tvm.tir.floormod


def _split(axis: Any, factor: int) -> list[Any]:
    return [(fld(axis[0], factor), fld(axis[1] + factor - 1, factor)), (flm(axis[0], factor), factor)]


def _fused(axes: Any) -> Any:
    value, extent = 0, 1
    for var, size in axes:
        value, extent = value * size + var, extent * size
    return value, extent


def _domain(axes: Any) -> Any:
    return {var: tvm.ir.Range(0, extent) for var, extent in axes}


def test_splits_and_fused_axes_are_one_iterator_each() -> None:
    x, y = (te.var("x"), 10), (te.var("y"), 9)
    xo, xi = _split(x, 5)
    yo, yi = _split(y, 3)
    z = _fused([yo, xo, yi])
    first, second = tvm.arith.detect_iter_map([z[0], xi[0]], _domain([x, y]))
    assert [first.args[0].extent, first.args[0].scale, second.args[0].extent] == [18, 1, 5]
    expected = fld(y[0], 3) * 6 + fld(x[0], 5) * 3 + flm(y[0], 3)
    tvm.ir.assert_structural_equal(tvm.arith.normalize_iter_map_to_expr(first), expected)


def test_a_condition_gives_the_extent_and_where_it_begins() -> None:
    x, y = te.var("x"), te.var("y")
    value = x * 10 + y
    (found,) = tvm.arith.detect_iter_map([value], _domain([(x, 13), (y, 10)]), tvm.tir.all(value > 5, value < 128))
    assert found.args[0].extent == 122 and found.base == 6
    assert not tvm.arith.detect_iter_map([x, y], _domain([(x, 13), (y, 10)]), value < 128).indices


def test_bindings_are_divided_into_outer_and_inner() -> None:
    x, y, z, c = te.var("x"), te.var("y"), te.var("z"), te.var("c")
    (outer, inner), ends = tvm.arith.subspace_divide([z * 12 + y * 3 + x + c], _domain([(x, 3), (y, 4), (z, 5)]), [x])
    tvm.ir.assert_structural_equal(tvm.arith.normalize_iter_map_to_expr(outer.source), z * 4 + y)
    tvm.ir.assert_structural_equal(tvm.arith.normalize_iter_map_to_expr(inner.source), x + c)
    assert inner.extent == 3 and all(tvm.arith.Analyzer().can_prove(end.extent) for end in ends)


def test_loops_are_told_by_the_values_of_a_bijective_map() -> None:
    a, b = (te.var("a"), 64), (te.var("b"), 64)
    (a0, a1), (b0, b1) = _split(a, 16), _split(b, 4)
    sums = tvm.arith.detect_iter_map(
        [_fused([a1, b1])[0], _fused([b0, a0])[0]], _domain([a, b]), require_bijective=True
    )
    outputs = [te.var("p"), te.var("q")]
    found = tvm.arith.inverse_affine_iter_map(sums, outputs)
    expected = flm(outputs[1], 4) * 16 + fld(outputs[0], 4)
    assert tvm.arith.Analyzer().simplify(found[a[0]] - expected) == 0


def test_schedules_and_tensors_come_back_from_text() -> None:
    n = te.size_var("n")
    A = te.placeholder((n, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B", attrs={"seen": 1})
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], 4)
    loaded = tvm.ir.load_json(tvm.ir.save_json({"s": s, "args": [A, B]}))
    assert loaded["args"][1].op.attrs["seen"].value == 1
    f = tvm.build(loaded["s"], loaded["args"], "llvm")
    a, b = np.random.rand(7, 8).astype("float32"), np.zeros(7, "float32")
    f(a, b)
    np.testing.assert_allclose(b, a.sum(1), rtol=1e-5)


class _Calls:
    def __reduce__(self) -> Any:
        return os.getcwd, ()


@pytest.mark.parametrize("graph", [pickle.dumps(_Calls()), pickle.dumps(len), b"", b"cbuiltins\neval\n."])
def test_a_text_that_calls_what_is_no_part_of_a_program_is_refused(graph: bytes) -> None:
    text = json.dumps({"format": "tilewright-graph-1", "graph": base64.b64encode(graph).decode()})
    with pytest.raises(ValueError, match=r"not a text of tvm\.ir\.save_json"):
        tvm.ir.load_json(text)


def test_lists_of_passes_run_and_those_that_are_none_of_ours_say_so() -> None:
    A = te.placeholder((13,), name="A")
    B = te.compute((13,), lambda i: tvm.tir.if_then_else(i < 5, A[i], 0.0), name="B")
    s = te.create_schedule(B.op)
    s[B].unroll(s[B].split(B.op.axis[0], 4)[1])
    passes = tvm.transform.Sequential(
        [
            tvm.tir.transform.StorageFlatten(64),
            tvm.tir.transform.NarrowDataType(32),
            tvm.tir.transform.UnrollLoop(),
            tvm.tir.transform.ThreadSync("shared"),
            tvm.tir.transform.MakePackedAPI(),
            tvm.tir.transform.Simplify(),
        ]
    )
    module = passes(tvm.lower(s, [A, B]))
    assert "unroll" not in str(module), "the pass of that name did its work"
    names: list[str] = []
    tvm.tir.transform.Filter(lambda function: bool(names.append(function.name)))(module)
    assert names, "Filter asks each function"
    with pytest.raises(AttributeError, match="there are no textures"):
        tvm.tir.transform.TextureFlatten()

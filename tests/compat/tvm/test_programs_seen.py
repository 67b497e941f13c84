"""What programs look at: graphs of schedules, bounds, attributes, tags, gradients by differences."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tilewright.compat import tvm
from tilewright.compat.tvm import te
from tilewright.compat.tvm.contrib import tedd
from tilewright.compat.tvm.driver.build_module import schedule_to_module


def test_a_schedule_as_graphs(tmp_path: Path) -> None:
    A = te.placeholder((24,), name="A")
    B = te.compute((24,), lambda i: A[i] + 1, name="B")
    C = te.compute((24,), lambda i: B[i] * 2, name='C "x|y"')
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], 8)
    s[C].parallel(outer)
    s[B].compute_at(s[C], outer)
    s = s.normalize()
    flow = tedd.viz_dataflow_graph(s, output_dot_string=True)
    assert "s0 -> s1" in flow and "s1 -> s2" in flow and r"C \"x\|y\"" in flow
    tree = tedd.viz_schedule_tree(s, output_dot_string=True)
    assert (
        "s1 -> s2:l0" in tree and "s2 -> root" in tree and "i.outer in 3, parallel" in tree and "i.inner in 8" in tree
    )
    place = tmp_path / "axes.dot"
    assert tedd.viz_itervar_relationship_graph(s, dot_file_path=str(place)) is None
    text = place.read_text()
    assert "Split" in text and text.count("{") == text.count("}") and "s2a0 -> s2r0" in text and "s2r0 -> s2a2" in text
    assert tedd.viz_dataflow_graph(s, show_svg=True) is s


def test_bounds_are_told_by_the_leaves_around() -> None:
    A = te.placeholder((60,), name="A")
    B = te.compute((60,), lambda i: A[i], name="B")
    C = te.compute((60,), lambda i: B[i] + 1, name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], 12)
    s[B].compute_at(s[C], outer)
    within = tvm.te.schedule.InferBound(s)[B.op.axis[0]]
    at = tvm.tir.stmt_functor.substitute(within.min, {outer.var: tvm.tir.const(3, "int32")})
    tvm.testing.assert_prim_expr_equal(at, 36)
    assert within.extent.value == 12


def test_attributes_are_nodes_and_print_as_json() -> None:
    C = te.compute((4,), lambda i: i, name="C", attrs={"width": 3, "sizes": [5, 7], "layout": "NHWC"})
    assert C.op.attrs["width"].value == 3 and C.op.attrs["sizes"][1].value == 7 and "depth" not in C.op.attrs
    assert json.loads(str(C.op.attrs)) == {"width": 3, "sizes": [5, 7], "layout": "NHWC"}


def test_one_scope_of_tags_does_not_lie_in_another() -> None:
    inside = pytest.raises(ValueError, match=r"tag_scope\('inner'\) lies in tag_scope\('outer'\)")
    with te.tag_scope(tag="outer"), inside, te.tag_scope(tag="inner"):
        pass
    with te.tag_scope(tag="again"):
        assert te.compute((2,), lambda i: i).op.tag == "again"


def test_loops_without_the_passes_of_the_context() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i], name="B")

    @tvm.tir.transform.prim_func_pass(opt_level=0)
    def nothing_left(f, mod, ctx):
        return f.with_body(tvm.tir.Evaluate(0))

    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, nothing_left)]}):
        s = te.create_schedule(B.op)
        assert isinstance(schedule_to_module(s, [A, B], "copy")["copy"].body, tvm.tir.For)
        assert isinstance(tvm.lower(s, [A, B])["main"].body, tvm.tir.Evaluate)


def test_gradients_are_compared_with_differences() -> None:
    x, y = np.array([0.5, -1.0, 2.0], "float32"), np.array([[3.0]], "float32")

    def f(x, y):
        return float((x.astype("float64") ** 2).sum() * y[0, 0] + np.abs(x[1] + 1))  # a kink at x[1] = -1

    tvm.testing.check_numerical_grads(f, [x, y], [6 * x + [0, 100, 0], np.array([[5.25]])])
    with pytest.raises(AssertionError, match="the gradient of input 0 is off by"):
        tvm.testing.check_numerical_grads(f, [x, y], [5 * x, np.array([[5.25]])])
    assert x.tolist() == [0.5, -1.0, 2.0]


@pytest.mark.parametrize("cached", [False, True])
def test_an_identity_that_reads_an_axis(cached: bool) -> None:
    X = te.placeholder((9,), name="X")

    def row(n):
        k = te.reduce_axis((0, n), "k")
        from_one = te.comm_reducer(
            lambda x, y: te.max(x + y, n.astype("float32")),
            lambda dtype: tvm.tir.Select(n > 1, tvm.tir.const(0, dtype), n.astype(dtype) + 10),
            name="sum",
        )
        return from_one(X[k], axis=k)

    Y = te.compute((9,), row, name="Y")
    s = te.create_schedule(Y.op)
    if cached:
        s.cache_write(Y, "local")
    x = np.random.default_rng(1).random(9).astype("float32")
    y = np.empty(9, "float32")
    tvm.build(s, [X, Y])(x, y)
    wanted = []
    for n in range(9):
        total = np.float32(0 if n > 1 else n + 10)
        for k in range(n):
            total = max(total + x[k], np.float32(n))
        wanted.append(total)
    np.testing.assert_allclose(y, wanted, rtol=1e-6)

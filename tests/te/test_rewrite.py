"""Rewriting what operations compute: inputs replaced, definitions inlined."""

import numpy as np
from te_evaluate import evaluate
from tilewright import te
from tilewright.te import rewrite


def test_replaced_inputs_leave_the_axes_alone():
    A, B = te.placeholder((3, 4), name="A"), te.placeholder((3, 4), name="B")
    k = te.reduce_axis((0, 4), "k")
    C = te.compute((3,), lambda i: te.sum(A[i, k] * A[i, 0], axis=k), name="C")
    D = C.op.replace_inputs({A: B})
    assert D is not C.op and D.input_tensors == (B,) and C.op.input_tensors == (A,)
    assert D.axis is C.op.axis and D.reduce_axis == (k,) and D.source == C.source
    assert C.op.replace_inputs({B: A}) is C.op and A.op.replace_inputs({A: B}) is A.op
    b = np.arange(12, dtype="float32").reshape(3, 4)
    assert (evaluate(D.output(0), {B: b}) == (b * b[:, :1]).sum(1)).all()


def test_the_elements_of_a_tuple_go_on_sharing_their_sources():
    A, B = te.placeholder((3, 4), name="A"), te.placeholder((3, 4), name="B")
    k = te.reduce_axis((0, 4), "k")
    low, _ = te.compute((3,), lambda i: (te.min(A[i, k], axis=k), te.max(A[i, k], axis=k)))
    body = low.op.replace_inputs({A: B}).body
    assert body[0].sources is body[1].sources and [value.value_index for value in body] == [0, 1]


def test_a_domain_that_reads_a_replaced_tensor_is_made_anew():
    V, P, Q = (
        te.placeholder((6,), name="V"),
        te.placeholder((4,), "int32", name="P"),
        te.placeholder((4,), "int32", name="Q"),
    )

    def row(i):
        k = te.reduce_axis((P[i], P[i + 1]), "k")
        j = te.reduce_axis((0, k), "j")
        return te.sum(V[k] + j, axis=[k, j])

    B = te.compute((3,), row)
    C = B.op.replace_inputs({P: Q})
    assert C.input_tensors == (V, Q) and all(
        new is not old for new, old in zip(C.reduce_axis, B.op.reduce_axis, strict=True)
    )
    values = {V: np.arange(6, dtype="float32"), Q: np.array([0, 2, 2, 6], "int32")}
    expected = [sum(k + j for k in range(*ends) for j in range(k)) for ends in ((0, 2), (2, 2), (2, 6))]
    assert (evaluate(C.output(0), values) == expected).all()


def test_inlining_takes_the_definition_at_the_indices_of_the_read():
    A = te.placeholder((9,), name="A")
    B = te.compute((8,), lambda i: A[i] * A[i + 1], name="B")
    C = te.compute((4,), lambda i: B[i * 2] - B[i + 3], name="C")
    D = C.op.rewritten(lambda value: rewrite.inline(value, B, B.op.axis, B.op.body[0]))
    assert D.input_tensors == (A,)
    a = np.arange(9, dtype="float32") ** 2
    assert (evaluate(D.output(0), {A: a}) == evaluate(C, {A: a})).all()


def test_inlining_within_the_indices_of_a_read():
    A, I = te.placeholder((4,), name="A"), te.placeholder((4,), "int64", name="I")
    J = te.compute((4,), lambda i: I[3 - i], name="J")
    C = te.compute((4,), lambda i: A[J[J[i]]], name="C")
    D = C.op.rewritten(lambda value: rewrite.inline(value, J, J.op.axis, J.op.body[0]))
    values = {A: np.arange(4, dtype="float32"), I: np.array([2, 0, 3, 1])}
    assert D.input_tensors == (I, A) and (evaluate(D.output(0), values) == evaluate(C, values)).all()


def test_loads_are_collected_in_order_of_evaluation():
    A, B = te.placeholder((4,), name="A"), te.placeholder((4,), "int32", name="B")
    C = te.compute((4,), lambda i: A[B[i]] + A[i])
    assert [str(load) for load in C.op.loads] == ["B[i]", "A[B[i]]", "A[i]"]
    assert [load.producer for load in rewrite.collect_loads(C.op.body[0])] == [B, A, A]

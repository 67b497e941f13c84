"""What te allows, lowered unscheduled and run by the interpreter, agrees with the scalar evaluator."""

import numpy as np
import pytest
from te_evaluate import evaluate
from tilewright import te
from tilewright.ir.interpret.interpreter import run
from tilewright.schedule.lowering.lower import lower

A, S = te.placeholder((5, 7), name="A"), te.placeholder((), name="S")
B, I = te.placeholder((5, 7), "bool", name="B"), te.placeholder((5, 7), "int8", name="I")
P = te.placeholder((6,), "int32", name="P")
rng = np.random.default_rng(0)
VALUES = {
    A: rng.standard_normal((5, 7)).astype("float32"),
    S: np.array(2, "float32"),
    B: rng.integers(0, 2, (5, 7)).astype(bool),
    I: rng.integers(-128, 128, (5, 7)).astype("int8"),
    P: np.array([0, 2, 2, 5, 6, 7], "int32"),
}
k = te.reduce_axis((0, 7), "k")


def argmax(i):
    reducer = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])),
        lambda index, value: (te.const(-1, index), te.min_value(value)),
        name="argmax",
    )
    return reducer((k, A[i, k]), axis=k)


def triangle(i):
    j = te.reduce_axis((0, i + 1), "j")
    return te.sum(A[i, j], axis=j)


def rows(i):
    j = te.reduce_axis((P[i], P[i + 1]), "j")
    return te.sum(A[i, j], axis=j, init=S[()])


CASES = {
    "joined reductions": te.compute(
        (5,),
        lambda i: (te.sum(A[i, k], axis=k, where=k < 3), te.max(A[i, k], axis=k, init=1.0), te.min(A[i, k], axis=k)),
    ),
    "argmax": te.compute((5,), argmax),
    "one element of argmax": te.compute((5,), lambda i: argmax(i)[0]),
    "dependent extent": te.compute((5,), triangle),
    "extent from a tensor": te.compute((5,), rows),
    "rank 0": te.compute((), lambda: S() * 3 + 1),
    "whole tensors": te.exp(A) * S - A[0, 0] / (A + 4),
    "broadcast": A.astype("float64") * te.compute((1, 7), lambda i, j: j),
    "sum of bool": te.compute((5,), lambda i: te.sum(B[i, k], axis=k)),
    "min of bool": te.compute((5,), lambda i: te.min(B[i, k], axis=k)),
    "wrapping": I * I + 100,
    "wrapping sum": te.compute((5,), lambda i: te.sum(I[i, k], axis=k)),
    "padding": te.compute(
        (7, 9), lambda i, j: te.if_then_else(te.all(i >= 1, i < 6, j >= 1, j < 8), A[i - 1, j - 1], 0)
    ),
    "no iteration": te.compute((3,), lambda i: te.prod(te.const(2.0), axis=te.reduce_axis((0, 0)))),
    "no element": te.compute((0, 3), lambda i, j: A[i, j]),
    "several values": te.compute((5,), lambda i: (A[i, 0], te.max(i, 2), ~B[i, 1])),
}


@pytest.mark.parametrize("case", CASES)
def test_lowered_and_interpreted(case):
    made = CASES[case]
    outputs = made if isinstance(made, tuple) else (made,)
    inputs = [tensor for tensor in VALUES if tensor in _below(outputs[0])]
    function = lower(te.create_schedule(outputs[0].op), [*inputs, *outputs], "main")
    found = [np.zeros(tuple(map(int, output.shape)), str(output.dtype)) for output in outputs]
    run(function, [*(VALUES[tensor] for tensor in inputs), *found])
    for output, values in zip(outputs, found, strict=True):
        np.testing.assert_allclose(values, evaluate(output, VALUES), rtol=1e-6)


def _below(tensor):
    found, stack = [], [tensor]
    while stack:
        top = stack.pop()
        found.append(top)
        stack.extend(top.op.input_tensors)
    return found

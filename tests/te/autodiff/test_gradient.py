"""What te.gradient promises: heads, shapes, reductions of every kind, refusals; and its result schedules like any other."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from gradient_check import check_gradient, draw, evaluate, head_of, placeholder
from layers import conv2d
from tilewright import te


def shapes(tensors: list[te.Tensor]) -> list[tuple[int, ...]]:
    return [tuple(map(int, tensor.shape)) for tensor in tensors]


# Heads and inputs


def test_the_result_is_a_list_of_tensors_of_the_inputs_shapes_behind_the_heads() -> None:
    x, w = placeholder("x", 4, 5), placeholder("w", 5)
    y = te.compute((4, 3), lambda i, j: te.sin(x[i, j] * w[j]), "y")
    assert shapes(te.gradient(y, x)) == [(4, 3, 4, 5)]
    assert shapes(te.gradient(y, [x, w], head_of(y))) == [(4, 5), (5,)]
    assert shapes(te.gradient(y, (w, x), head_of(y, 2, 7))) == [(2, 7, 5), (2, 7, 4, 5)]
    assert te.gradient(y, []) == []


def test_several_heads_at_once_give_the_product_of_each() -> None:
    x, w = placeholder("x", 4, 5), placeholder("w", 5)
    k = te.reduce_axis((0, 5), "k")
    hidden = te.compute((4,), lambda i: te.sum(x[i, k] * w[k], axis=k), "hidden")
    y = te.compute((4,), lambda i: te.tanh(hidden[i]) * hidden[3 - i], "y")
    heads = head_of(y, 3)
    values = {x: draw(x), w: draw(w)}
    weights = draw(heads)
    together = evaluate(te.gradient(y, [x, w], heads), {**values, heads: weights})
    one = head_of(y)
    for at in range(3):
        alone = evaluate(te.gradient(y, [x, w], one), {**values, one: weights[at].copy()})
        for several, single in zip(together, alone, strict=True):
            np.testing.assert_allclose(several[at], single, rtol=1e-12)


def test_a_scalar_needs_no_head() -> None:
    x = placeholder("x", 6)
    k = te.reduce_axis((0, 6), "k")
    loss = te.compute((), lambda: te.sum(x[k] * x[k], axis=k), "loss")
    made = te.gradient(loss, x)
    assert shapes(made) == [(6,)]
    np.testing.assert_allclose(evaluate(made, {x: np.arange(6.0)})[0], 2 * np.arange(6.0))


def test_by_itself_a_tensor_has_the_head_or_the_identity() -> None:
    x = placeholder("x", 2, 3)
    y = te.compute((2, 3), lambda i, j: te.exp(x[i, j]), "y")
    head = head_of(y)
    weights = draw(head)
    np.testing.assert_array_equal(evaluate(te.gradient(y, y, head), {head: weights})[0], weights)
    np.testing.assert_array_equal(evaluate(te.gradient(y, y), {})[0].reshape(6, 6), np.eye(6))


def test_tensors_on_the_way_are_inputs_too() -> None:
    x = placeholder("x", 5)
    hidden = te.compute((5,), lambda i: te.exp(x[i]), "hidden")
    y = te.compute((5,), lambda i: hidden[i] * hidden[i] * x[i], "y")
    head = head_of(y)
    values = {x: draw(x), head: draw(head)}
    for made in (te.gradient(y, [hidden, x], head), te.gradient(y, [x, hidden], head)[::-1]):
        by_hidden, by_x = evaluate(made, values)
        at, h = values[x], values[head]
        np.testing.assert_allclose(by_hidden, h * 2 * np.exp(at) * at)
        np.testing.assert_allclose(by_x, h * (2 * np.exp(2 * at) * at + np.exp(2 * at)))
    twice = te.gradient(y, [x, x], head)
    assert twice[0] is twice[1]


def test_what_does_not_matter_has_a_gradient_of_zeros() -> None:
    x, other = placeholder("x", 5), placeholder("other", 3, 2)
    y = te.compute((5,), lambda i: te.exp(x[i]) + te.floor(x[i]), "y")
    whole = te.compute((5,), lambda i: x[i].astype("int32"), "whole")
    steps = te.compute((5,), lambda i: whole[i].astype("float64") + te.if_then_else(x[i] > 0, 1.0, 2.0), "steps")
    assert shapes(te.gradient(y, other)) == [(5, 3, 2)]
    assert not evaluate(te.gradient(y, other, head_of(y)), {})[0].any()
    assert not evaluate(te.gradient(steps, x, head_of(y)), {})[0].any()


def test_a_gradient_has_a_gradient() -> None:
    x = placeholder("x", 4)
    k = te.reduce_axis((0, 4), "k")
    loss = te.compute((), lambda: te.sum(te.exp(x[k]) * x[3 - k], axis=k), "loss")
    (first,) = te.gradient(loss, x)
    check_gradient(first, {x: draw(x)})


# Reductions


def column(kind: Any, **more: Any) -> tuple[te.Tensor, dict[te.Tensor, np.ndarray]]:
    """A reduction over the rows of A but the first and the third."""
    a, p = placeholder("a", 5, 6), placeholder("p", 6)
    k = te.reduce_axis((1, 5), "k")
    init = {"init": p[0] * p[0]} if more.pop("init", False) else {}
    y = te.compute((6,), lambda j: kind(a[k, j] * a[k, 0], axis=k, where=te.all(k != 2, a[0, j] > -1), **init), "y")
    return y, {a: draw(a), **({p: draw(p)} if init else {})}


@pytest.mark.parametrize("init", [False, True])
@pytest.mark.parametrize("kind", drawn.part([te.sum, te.prod, te.min, te.max], 2), ids=lambda kind: kind.name)
def test_reductions_with_where_and_init(kind: Any, init: bool) -> None:
    y, values = column(kind, init=init)
    check_gradient(y, values, interpret=init, jacobian=not init)


def test_products_with_zeros_among_the_factors() -> None:
    x = placeholder("x", 4, 5)
    k = te.reduce_axis((0, 5), "k")
    y = te.compute((4,), lambda i: te.prod(x[i, k], axis=k), "y")
    values = draw(x)
    values[1, 2] = values[2, 0] = values[2, 3] = 0
    check_gradient(y, {x: values})


def test_several_reductions_in_one_stage_and_several_outputs() -> None:
    x = placeholder("x", 4, 5)
    k = te.reduce_axis((0, 5), "k")
    total, top = te.compute((4,), lambda i: (te.sum(x[i, k], axis=k), te.max(x[i, k], axis=k)), "both")
    a, b = te.compute((4,), lambda i: (te.exp(total[i]), top[i] * total[3 - i]), "pair")
    check_gradient(te.compute((4,), lambda i: a[i] * b[i] + top[i], "y"), {x: draw(x)})


@pytest.mark.parametrize("init", [False, True])
def test_smooth_combiners_of_ones_own(init: bool) -> None:
    """Lengths, and products of complex numbers: the combiner's derivative at the rest of the reduction."""
    a, p = placeholder("a", 5, 3), placeholder("p", 3)
    k = te.reduce_axis((1, 5), "k")
    length = te.comm_reducer(lambda x, y: te.sqrt(x * x + y * y + 1e-30), lambda t: te.const(0, t), "length")
    product = te.comm_reducer(
        lambda x, y: (x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]),
        lambda t0, t1: (te.const(1, t0), te.const(0, t1)),
        "complex",
    )
    more = {"where": k != 2, "init": p[0] * p[0]} if init else {}
    norm = te.compute((3,), lambda j: length(a[k, j] * a[0, j], axis=k, **more), "norm")
    check_gradient(norm, {a: draw(a), p: draw(p)} if init else {a: draw(a)}, jacobian=not init)
    if init:
        more = {"where": a[0, 1] > -3, "init": (p[0], p[1])}
    real, imaginary = te.compute((3,), lambda j: product((a[k, j], a[k, 0] * a[0, j]), axis=k, **more), "product")
    y = te.compute((3,), lambda j: real[j] * imaginary[2 - j], "y")
    check_gradient(y, {a: draw(a), p: draw(p)} if init else {a: draw(a)}, jacobian=not init)


def test_the_gradient_of_a_maximum_goes_to_one_element_and_to_a_nan_where_there_is_one() -> None:
    x = placeholder("x", 3, 4)
    k = te.reduce_axis((0, 4), "k")
    y = te.compute((3,), lambda i: te.max(x[i, k], axis=k), "y")
    head = head_of(y)
    values = np.array([[1, 3, 3, 2], [-np.inf] * 4, [1, np.nan, 5, np.nan]])
    for target in ("llvm", "interpret"):
        (got,) = evaluate(te.gradient(y, x, head), {x: values, head: np.ones(3)}, target)
        np.testing.assert_array_equal(got, [[0, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]])


# Refusals


def test_what_has_no_derivative_is_refused() -> None:
    x = placeholder("x", 4)
    k = te.reduce_axis((0, 4), "k")
    largest = te.comm_reducer(
        lambda a, b: (te.select(a[1] >= b[1], a[0], b[0]), te.select(a[1] >= b[1], a[1], b[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        "argmax",
    )
    at, value = te.compute((), lambda: largest((k, x[k]), axis=k), "largest")
    with pytest.raises(tw.TensorExpressionError, match=r"TW0170: the reduction argmax of largest has no derivative"):
        te.gradient(value, x)
    with pytest.raises(tw.TensorExpressionError, match=r"TW0171: the output largest.v0 of te.gradient is of int32"):
        te.gradient(at, x)
    farthest = te.comm_reducer(lambda a, b: te.max(te.abs(a), te.abs(b)), lambda t: te.const(0, t), "farthest")
    with pytest.raises(tw.TensorExpressionError, match=r"its combiner gives max\(abs"):
        te.gradient(te.compute((), lambda: farthest(x[k], axis=k), "norm"), x)
    bits = te.compute((4,), lambda i: te.reinterpret("float64", te.reinterpret("int64", x[i]) + 1), "bits")
    with pytest.raises(tw.TensorExpressionError, match=r"TW0170: no derivative of reinterpret is known"):
        te.gradient(bits, x)
    outside = te.compute((4,), lambda i: te.call_pure_extern("float64", "cbrt", x[i]) + x[i], "outside")
    with pytest.raises(tw.TensorExpressionError, match=r"TW0170: no derivative of call_pure_extern is known"):
        te.gradient(outside, x)
    assert te.gradient(outside, placeholder("other", 2))[0].op.input_tensors == ()  # nothing goes through it


def test_operations_whose_elements_are_no_expressions_are_refused() -> None:
    x = placeholder("x", 3, 4)
    y = te.extern(
        (3, 4), [x], lambda ins, outs: te.call_packed("outside", ins[0], outs[0]), dtype="float64", name="outside"
    )
    with pytest.raises(
        tw.TensorExpressionError, match=r"TW0170: the gradient would go through outside, whose elements are not"
    ):
        te.gradient(y, x)
    later = te.compute((3, 4), lambda i, j: y[i, j] * y[i, j], "later")
    assert te.gradient(later, y, head_of(later))[0].shape == y.shape  # up to it is as far as it goes


def test_wrong_arguments_are_refused() -> None:
    x, n = placeholder("x", 4, 5), te.placeholder((4,), "int32", "n")
    y = te.compute((5, 4), lambda i, j: x[j, i] * n[j], "y")
    with pytest.raises(tw.TensorExpressionError, match=r"TW0171: the input n of te.gradient is of int32"):
        te.gradient(y, [x, n])
    for head in (placeholder("head", 4, 5), placeholder("head", 4), te.placeholder((5, 4), "int32", "head")):
        with pytest.raises(tw.TensorExpressionError, match=r"TW0172: head head does not fit the output y"):
            te.gradient(y, x, head)
    for wrong in ((y, "x", None), ("y", x, None), (y, [x[0, 0]], None), (y, x, 1.0)):
        with pytest.raises(
            tw.TensorExpressionError, match=r"TW0173: the (input|output|head) of te.gradient is not a tensor"
        ):
            te.gradient(*wrong)


# Schedules


def convolution() -> tuple[list[te.Tensor], list[te.Tensor], list[np.ndarray]]:
    x, w = te.placeholder((2, 3, 9, 11), name="x"), te.placeholder((4, 3, 3, 3), name="w")
    y = conv2d(x, w, 2, 1, 1)
    head = head_of(y)
    return [x, w, head], te.gradient(y, [x, w], head), [draw(tensor) for tensor in (x, w, head)]


def results(
    s: Any, inputs: list[te.Tensor], outputs: list[te.Tensor], values: list[np.ndarray], target: str
) -> list[np.ndarray]:
    found = [np.full(shape, np.nan, "float32") for shape in shapes(outputs)]
    tw.build(s, [*inputs, *outputs], target=target)(*values, *found)
    return found


def test_gradients_schedule_like_any_other_stage() -> None:
    inputs, outputs, values = convolution()
    by_x, by_w = outputs
    want = results(te.create_schedule([t.op for t in outputs]), inputs, outputs, values, "llvm")
    s = te.create_schedule([t.op for t in outputs])
    by_padded = by_x.op.input_tensors[0]
    b, c, i, j = by_x.op.axis
    jo, ji = s[by_x].split(j, 8)
    s[by_x].parallel(s[by_x].fuse(b, c))
    s[by_padded].compute_at(s[by_x], i)
    s[by_padded].reorder(*by_padded.op.reduce_axis, by_padded.op.axis[3])
    s[by_padded].vectorize(by_padded.op.axis[3])
    s[by_x].vectorize(ji)
    padded = next(t for t in by_w.op.input_tensors if t.name == "padded")
    s[padded].compute_inline()
    partial = s.rfactor(by_w, by_w.op.reduce_axis[1])
    s[partial].parallel(partial.op.axis[0])
    for again in (s, s.replay(s.trace, [t.op for t in outputs])):
        for target in ("llvm", "interpret"):
            for got, expected in zip(results(again, inputs, outputs, values, target), want, strict=True):
                np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_gradients_run_on_the_gpu_emulator() -> None:
    inputs, outputs, values = convolution()
    want = results(te.create_schedule([t.op for t in outputs]), inputs, outputs, values, "llvm")
    s = te.create_schedule([t.op for t in outputs])
    for stage in s.stages:
        if isinstance(stage.op, te.ComputeOp):
            block, thread = s[stage.op].split(s[stage.op].fuse(*stage.op.axis), 64)
            s[stage.op].bind(block, te.thread_axis("blockIdx.x"))
            s[stage.op].bind(thread, te.thread_axis("threadIdx.x"))
    for got, expected in zip(results(s, inputs, outputs, values, "cuda -emulate"), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)

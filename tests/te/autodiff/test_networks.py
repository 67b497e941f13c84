"""Gradients of the layers that networks are made of: against finite differences, torch, and the count of their steps."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from gradient_check import check_gradient, draw, evaluate, head_of, multiply_adds, placeholder
from layers import conv2d
from tilewright import te, topi

CONVOLUTIONS = [(1, 1, 1), (2, 1, 1), (3, 2, 2), (2, 2, 2), (1, 0, 3), (2, 0, 1), (1, 2, 2), (4, 0, 1)]
"""stride, padding, dilation."""


def pool(x: te.Tensor, size: int, stride: int, kind: str) -> te.Tensor:
    n, c, h, w = x.shape
    p, q = te.reduce_axis((0, size), "p"), te.reduce_axis((0, size), "q")
    shape = (n, c, (h - size) // stride + 1, (w - size) // stride + 1)
    if kind == "max":
        return te.compute(
            shape, lambda b, f, i, j: te.max(x[b, f, i * stride + p, j * stride + q], axis=[p, q]), "pool"
        )
    return te.compute(
        shape,
        lambda b, f, i, j: te.sum(x[b, f, i * stride + p, j * stride + q] / float(size * size), axis=[p, q]),
        "pool",
    )


def softmax(x: te.Tensor) -> te.Tensor:
    j, k = te.reduce_axis((0, x.shape[1]), "j"), te.reduce_axis((0, x.shape[1]), "k")
    top = te.compute((x.shape[0],), lambda i: te.max(x[i, j], axis=j), "top")
    e = te.compute(x.shape, lambda i, j: te.exp(x[i, j] - top[i]), "e")
    total = te.compute((x.shape[0],), lambda i: te.sum(e[i, k], axis=k), "total")
    return te.compute(x.shape, lambda i, j: e[i, j] / total[i], "softmax")


def layer_norm(x: te.Tensor, scale: te.Tensor, shift: te.Tensor) -> te.Tensor:
    rows, size = x.shape
    j, k = te.reduce_axis((0, size), "j"), te.reduce_axis((0, size), "k")
    mean = te.compute((rows,), lambda i: te.sum(x[i, j] / size.astype(x.dtype), axis=j), "mean")
    square = te.compute(
        (rows,), lambda i: te.sum(te.power(x[i, k] - mean[i], 2) / size.astype(x.dtype), axis=k), "square"
    )
    return te.compute(
        x.shape, lambda i, j: (x[i, j] - mean[i]) * te.rsqrt(square[i] + 1e-5) * scale[j] + shift[j], "norm"
    )


def matmul(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, a.shape[1]), "k")
    return te.compute((a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")


def bilateral_slice(grid: te.Tensor, guide: te.Tensor, cell: int) -> te.Tensor:
    """Coefficients for each pixel, interpolated between the eight nearest cells of a grid over place and brightness."""
    high, wide, deep, channels = (int(extent) for extent in grid.shape)

    def element(y: Any, x: Any, c: Any) -> Any:
        dy, dx, dz = (te.reduce_axis((0, 2), name) for name in ("dy", "dx", "dz"))
        wy, wx = ((at % cell).astype("float64") / float(cell) for at in (y, x))
        z = guide[y, x] * float(deep - 1)
        low = te.min(te.max(te.floor(z).astype("int32"), 0), deep - 2)
        wz = z - low.astype("float64")
        weight = te.select(dy == 0, 1.0 - wy, wy) * te.select(dx == 0, 1.0 - wx, wx) * te.select(dz == 0, 1.0 - wz, wz)
        near = grid[te.min(y // cell + dy, high - 1), te.min(x // cell + dx, wide - 1), low + dz, c]
        return te.sum(near * weight, axis=[dy, dx, dz])

    return te.compute((*guide.shape, channels), element, "sliced")


# Against finite differences


@pytest.mark.parametrize("stride, padding, dilation", CONVOLUTIONS[1:3])
def test_conv2d(stride: int, padding: int, dilation: int) -> None:
    x, w = placeholder("x", 1, 2, 5, 7), placeholder("w", 2, 2, 3, 2)
    check_gradient(
        conv2d(x, w, stride, padding, dilation), {x: draw(x), w: draw(w)}, jacobian=stride == 2, interpret=stride != 1
    )


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("size, stride", [(3, 2), (2, 3)])
def test_pooling(kind: str, size: int, stride: int) -> None:
    x = placeholder("x", 2, 1, 5, 7)
    check_gradient(pool(x, size, stride, kind), {x: draw(x)}, jacobian=size == 3, interpret=size == 3)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("operator", [topi.nn.softmax, topi.nn.log_softmax])
def test_softmax_of_topi(operator: Any, axis: int) -> None:
    x = placeholder("x", 3, 7)
    check_gradient(operator(x, axis), {x: draw(x)})


@pytest.mark.parametrize("operator", [topi.nn.softmax, topi.nn.log_softmax])
def test_softmax_by_blocks(operator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    home = import_module("tilewright.topi.nn.softmax")
    monkeypatch.setattr(home, "LONG", 10)
    monkeypatch.setattr(home, "BLOCK", 4)
    x = placeholder("x", 2, 11)
    check_gradient(operator(x), {x: draw(x)}, jacobian=False)


def test_matmul_softmax_layer_norm() -> None:
    a, b = placeholder("a", 3, 5), placeholder("b", 5, 7)
    check_gradient(matmul(a, b), {a: draw(a), b: draw(b)})
    check_gradient(softmax(a), {a: draw(a)})
    scale, shift = placeholder("scale", 5), placeholder("shift", 5)
    check_gradient(layer_norm(a, scale, shift), {a: draw(a), scale: draw(scale), shift: draw(shift)})


def test_bilateral_slice() -> None:
    grid, guide = placeholder("grid", 2, 3, 4, 2), placeholder("guide", 7, 11)
    check_gradient(
        bilateral_slice(grid, guide, 4), {grid: draw(grid), guide: draw(guide, 0, -0.1, 1.1)}, jacobian=False
    )


def test_a_deep_chain_of_stages() -> None:
    x = placeholder("x", 3)
    y = x
    for at in range(150):
        y = te.compute((3,), lambda i, y=y: te.sin(y[i]) + y[2 - i] * 0.1, f"y{at}")
    s = te.create_schedule(te.gradient(y, x, head_of(y))[0].op)
    assert len(s.stages) > 300


# Against torch


@pytest.mark.parametrize("stride, padding, dilation", CONVOLUTIONS[:5])
def test_conv2d_is_torchs(stride: int, padding: int, dilation: int) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: finite differences have checked the same")
    x, w = placeholder("x", 2, 3, 13, 11), placeholder("w", 5, 3, 3, 3)
    y = conv2d(x, w, stride, padding, dilation)
    head = head_of(y)
    values = {x: draw(x), w: draw(w), head: draw(head)}
    found = evaluate(te.gradient(y, [x, w], head), values)
    leaves = [torch.tensor(values[tensor], requires_grad=True) for tensor in (x, w)]
    torch.nn.functional.conv2d(*leaves, stride=stride, padding=padding, dilation=dilation).backward(
        torch.tensor(values[head])
    )
    for got, leaf in zip(found, leaves, strict=True):
        np.testing.assert_allclose(got, leaf.grad.numpy(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("size, stride", [(2, 2), (3, 2), (3, 1)])
def test_max_pooling_of_equal_values_is_torchs(size: int, stride: int) -> None:
    """Of equal values the first is the maximum: whole numbers from 0 to 2 are full of them."""
    torch = pytest.importorskip("torch", reason="torch is not installed: finite differences have checked the same")
    x = placeholder("x", 2, 3, 13, 11)
    y = pool(x, size, stride, "max")
    head = head_of(y)
    values = {x: np.round(np.abs(draw(x))), head: draw(head)}
    (got,) = evaluate(te.gradient(y, x, head), values)
    leaf = torch.tensor(values[x], requires_grad=True)
    torch.nn.functional.max_pool2d(leaf, size, stride).backward(torch.tensor(values[head]))
    np.testing.assert_allclose(got, leaf.grad.numpy(), rtol=1e-12)


def test_a_network_is_torchs() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: finite differences have checked the same")
    x, w, v = placeholder("x", 2, 1, 9, 9), placeholder("w", 3, 1, 3, 3), placeholder("v", 12, 5)
    labels = te.placeholder((2,), "int32", "labels")
    hidden = pool(conv2d(x, w, 2, 1, 1), 2, 2, "max")
    flat = te.compute((2, 12), lambda i, j: te.sigmoid(hidden[i, j // 4, j // 2 % 2, j % 2]), "flat")
    p = softmax(matmul(flat, v))
    i = te.reduce_axis((0, 2), "i")
    loss = te.compute((), lambda: te.sum(-te.log(p[i, labels[i]]), axis=i), "loss")
    values = {x: draw(x), w: draw(w), v: draw(v), labels: np.array([4, 1], "int32")}
    found = evaluate(te.gradient(loss, [x, w, v]), values)
    leaves = [torch.tensor(values[tensor], requires_grad=True) for tensor in (x, w, v)]
    f = torch.nn.functional
    out = f.max_pool2d(f.conv2d(leaves[0], leaves[1], stride=2, padding=1), 2).flatten(1).sigmoid() @ leaves[2]
    f.cross_entropy(out, torch.tensor([4, 1]), reduction="sum").backward()
    for got, leaf in zip(found, leaves, strict=True):
        np.testing.assert_allclose(got, leaf.grad.numpy(), rtol=1e-8, atol=1e-10)


# How much they compute


@pytest.mark.parametrize("stride, padding, dilation", CONVOLUTIONS)
def test_a_convolutions_gradients_take_as_many_steps_as_the_convolution(
    stride: int, padding: int, dilation: int
) -> None:
    x, w = placeholder("x", 2, 8, 24, 24), placeholder("w", 16, 8, 3, 3)
    y = conv2d(x, w, stride, padding, dilation)
    head = head_of(y)
    forward = multiply_adds(tw.lower(te.create_schedule(y.op), [x, w, y]))
    by_x, by_w = te.gradient(y, [x, w], head)
    assert multiply_adds(tw.lower(te.create_schedule(by_w.op), [x, head, by_w])) == forward
    # Each input element times the window positions that may reach it; where stride and dilation have a common divisor
    # most input elements are reached by none, which a guard outside the window's loops says.
    window = np.prod([-(-3 // (stride // np.gcd(stride, dilation)))] * 2)
    back = multiply_adds(tw.lower(te.create_schedule(by_x.op), [w, head, by_x]))
    assert back <= 2 * 8 * 24 * 24 * 16 * window
    if np.gcd(stride, dilation) == 1 and stride <= 3:
        assert back <= 2.6 * forward


def steps(made: te.Tensor) -> list[int]:
    return [int(axis.dom.extent) for axis in made.op.reduce_axis]


@pytest.mark.parametrize("outs, ins, groups", [(2, 3, 4), (1, 1, 8), (3, 1, 2)])
def test_grouped_and_depthwise_convolutions_stay_within_their_group(outs: int, ins: int, groups: int) -> None:
    x, w = placeholder("x", 1, groups * ins, 4, 5), placeholder("w", groups * outs, ins, 3, 3)
    c, p, q = te.reduce_axis((0, ins), "c"), te.reduce_axis((0, 3), "p"), te.reduce_axis((0, 3), "q")
    y = te.compute(
        (1, groups * outs, 2, 3),
        lambda b, f, i, j: te.sum(x[b, f // outs * ins + c, i + p, j + q] * w[f, c, p, q], axis=[c, p, q]),
        "y",
    )
    by_x, by_w = check_gradient(y, {x: draw(x), w: draw(w)}, jacobian=False, interpret=False)
    assert sorted(steps(by_x)) == sorted([*([outs] if outs > 1 else []), 2, 3])
    assert steps(by_w) == [2, 3]


def test_channels_in_blocks() -> None:
    x, w = placeholder("x", 1, 2, 6, 6, 4), placeholder("w", 8, 8, 3, 3)
    c, p, q = te.reduce_axis((0, 8), "c"), te.reduce_axis((0, 3), "p"), te.reduce_axis((0, 3), "q")
    y = te.compute(
        (1, 2, 4, 4, 4),
        lambda b, outer, i, j, inner: te.sum(
            x[b, c // 4, i + p, j + q, c % 4] * w[outer * 4 + inner, c, p, q], axis=[c, p, q]
        ),
        "y",
    )
    by_x, by_w = te.gradient(y, [x, w], head_of(y))
    assert (steps(by_x), steps(by_w)) == ([2, 4, 3, 3], [4, 4])


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_poolings_gradients_visit_the_windows_that_an_element_lies_in(kind: str) -> None:
    x = placeholder("x", 1, 4, 32, 32)
    for size, stride, windows in ((2, 2, 1), (3, 2, 4), (3, 1, 9)):
        y = pool(x, size, stride, kind)
        (made,) = te.gradient(y, x, head_of(y))
        assert np.prod(steps(made), initial=1) == windows, (size, stride)

"""Work on rows that memory bounds, or nearly: softmax, norms, activations, reductions, and a chain of elementwise operations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tilewright import te, topi

from .cases import Case, draw, floats, scheduled
from .peers import halide_peer, jax_peer, numba_peer, numpy_peer, onnx_peers, torch_peer
from .peers.onnx_model import Node

__all__ = ["CASES"]

prange: Any = range
"""numba_peer puts numba's here."""


# Softmax


def _softmax_loops(x: np.ndarray, y: np.ndarray) -> None:
    for i in prange(x.shape[0]):
        row, out = x[i], y[i]
        largest = row[0]
        for j in range(x.shape[1]):
            largest = max(largest, row[j])
        total = np.float32(0)
        for j in range(x.shape[1]):
            out[j] = math.exp(row[j] - largest)
            total += out[j]
        scale = np.float32(1) / total
        for j in range(x.shape[1]):
            out[j] *= scale


def _softmax(rows: int, columns: int) -> Case:
    return Case(
        group="softmax",
        name=f"{rows}x{columns}",
        inputs=floats((rows, columns)),
        outputs=[((rows, columns), "float32")],
        ours=scheduled(lambda x: topi.nn.softmax(x, 1), (rows, columns)),
        bytes=8 * rows * columns,
        ceiling="copy",
        peers={
            "torch": torch_peer.call(lambda torch, x, out: torch.softmax(x, 1, out=out), out=True),
            **onnx_peers.call([Node("Softmax", ["x0"], attributes={"axis": 1})]),
            "jax": jax_peer.call(lambda jax, x: jax.nn.softmax(x, axis=1)),
            "numba": numba_peer.call(_softmax_loops),
            "halide": halide_peer.softmax,
        },
    )


# Norms


def _layer_norm_loops(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, y: np.ndarray) -> None:
    count = np.float32(x.shape[1])
    for i in prange(x.shape[0]):
        row, out = x[i], y[i]
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += row[j]
        mean = total / count
        squares = np.float32(0)
        for j in range(x.shape[1]):
            squares += (row[j] - mean) * (row[j] - mean)
        scale = np.float32(1) / math.sqrt(squares / count + np.float32(1e-5))
        for j in range(x.shape[1]):
            out[j] = (row[j] - mean) * scale * gamma[j] + beta[j]


def _layer_norm(rows: int, columns: int) -> Case:
    def of_torch(torch: Any, x: Any, gamma: Any, beta: Any, out: Any) -> Any:
        statistics = torch.empty(2, rows, 1)
        return torch.ops.aten.native_layer_norm.out(
            x, (columns,), gamma, beta, 1e-5, out0=out, out1=statistics[0], out2=statistics[1]
        )[0]

    def of_jax(jax: Any, x: Any, gamma: Any, beta: Any) -> Any:
        mean = x.mean(1, keepdims=True)
        centred = x - mean
        return centred / jax.numpy.sqrt((centred * centred).mean(1, keepdims=True) + 1e-5) * gamma + beta

    node = Node("LayerNormalization", ["x0", "x1", "x2"], attributes={"axis": 1, "epsilon": 1e-5})
    shapes = ((rows, columns), (columns,), (columns,))
    return Case(
        group="layer_norm",
        name=f"{rows}x{columns}",
        inputs=floats(*shapes),
        outputs=[((rows, columns), "float32")],
        ours=scheduled(topi.nn.layer_norm, *shapes),
        bytes=8 * rows * columns,
        ceiling="copy",
        peers={
            "torch": torch_peer.call(of_torch, out=True),
            **onnx_peers.call([node]),
            "jax": jax_peer.call(of_jax),
            "numba": numba_peer.call(_layer_norm_loops),
        },
    )


# Elementwise


def _gelu_loops(x: np.ndarray, y: np.ndarray) -> None:
    for i in prange(x.size):
        y[i] = np.float32(0.5) * x[i] * (np.float32(1) + math.erf(x[i] * np.float32(0.7071067811865476)))


def _gelu(count: int) -> Case:
    return Case(
        group="gelu",
        name=f"{count >> 20} M",
        inputs=floats((count,)),
        outputs=[((count,), "float32")],
        ours=scheduled(topi.nn.gelu, (count,)),
        bytes=8 * count,
        ceiling="copy",
        peers={
            "torch": torch_peer.call(lambda torch, x, out: torch.ops.aten.gelu.out(x, out=out), out=True),
            **onnx_peers.call([Node("Gelu", ["x0"])]),
            "jax": jax_peer.call(lambda jax, x: jax.nn.gelu(x, approximate=False)),
            "numba": numba_peer.call(_gelu_loops),
        },
    )


def _chain_loops(a: np.ndarray, x: np.ndarray, b: np.ndarray, y: np.ndarray) -> None:
    for i in prange(x.size):
        y[i] = max(a[0] * x[i] + b[0], np.float32(0)) + b[1]


def _chain(count: int) -> Case:
    """relu(a x + b) + c, with numbers a, b and c that the call brings."""

    def define(a: te.Tensor, x: te.Tensor, b: te.Tensor) -> te.Tensor:
        y: te.Tensor = te.compute((count,), lambda i: te.max(a[0] * x[i] + b[0], te.const(0.0, "float32")) + b[1], "y")
        return y

    def of_torch(torch: Any, a: Any, x: Any, b: Any, out: Any) -> Any:
        torch.mul(x, a[0], out=out)
        return out.add_(b[0]).relu_().add_(b[1])

    def of_numpy(a: Any, x: Any, b: Any, out: Any) -> Any:
        np.multiply(x, a[0], out=out)
        np.add(out, b[0], out=out)
        np.maximum(out, 0, out=out)
        return np.add(out, b[1], out=out)

    def of_halide(hl: Any, given: list[Any]) -> Any:
        a, x, b = given
        i, o, block = hl.Var("i"), hl.Var("o"), hl.Func("y")
        block[i] = hl.max(a[0] * x[i] + b[0], hl.f32(0)) + b[1]
        block.split(i, o, i, 1 << 16).vectorize(i, 16).parallel(o)
        return block

    shapes = ((1,), (count,), (2,))
    return Case(
        group="chain",
        name=f"relu(a x + b) + c, {count >> 20} M",
        inputs=floats(*shapes),
        outputs=[((count,), "float32")],
        ours=scheduled(define, *shapes),
        bytes=8 * count,
        ceiling="copy",
        peers={
            "numpy": numpy_peer.call(of_numpy, out=True),
            "torch": torch_peer.call(of_torch, out=True),
            "jax": jax_peer.call(lambda jax, a, x, b: jax.numpy.maximum(a[0] * x + b[0], 0) + b[1]),
            "numba": numba_peer.call(_chain_loops),
            "halide": halide_peer.call(of_halide),
        },
    )


# Reductions


def _rows_sum_loops(x: np.ndarray, y: np.ndarray) -> None:
    for i in prange(x.shape[0]):
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
        y[i] = total


def _sum(size: int, axis: int | None) -> Case:
    axes = np.array([0, 1] if axis is None else [axis], np.int64)
    node = Node("ReduceSum", ["x0", "axes"], attributes={"keepdims": 0})
    loops = {"numba": numba_peer.call(_rows_sum_loops)} if axis == 1 else {}
    return Case(
        group="sum",
        name=f"{size}^2 over {'everything' if axis is None else f'axis {axis}'}",
        inputs=floats((size, size)),
        outputs=[(() if axis is None else (size,), "float32")],
        ours=scheduled(lambda x: topi.sum(x, axis), (size, size)),
        bytes=4 * size * size,
        ceiling="read",
        tolerance=(0.5, 1e-3),
        peers={
            "torch": torch_peer.call(
                lambda torch, x, out: torch.sum(x, (0, 1) if axis is None else axis, out=out), out=True
            ),
            "numpy": numpy_peer.call(lambda x, out: np.sum(x, axis, out=out), out=True),
            **onnx_peers.call([node], extra={"axes": axes}),
            "jax": jax_peer.call(lambda _, x: x.sum(axis)),
            **loops,
        },
    )


def _argmax(size: int, axis: int) -> Case:
    return Case(
        group="argmax",
        name=f"{size}^2 over axis {axis}",
        inputs=draw(lambda rng, shape: rng.random(shape, np.float32), (size, size)),
        outputs=[((size,), "int32")],
        ours=scheduled(lambda x: topi.argmax(x, axis), (size, size)),
        bytes=4 * size * size,
        ceiling="read",
        tolerance=(0, 0),
        peers={
            "numpy": numpy_peer.call(lambda x: np.argmax(x, axis)),
            "torch": torch_peer.call(lambda torch, x: torch.argmax(x, axis)),
            "jax": jax_peer.call(lambda _, x: x.argmax(axis)),
        },
    )


CASES = [
    _softmax(1024, 4096),
    _layer_norm(1024, 1024),
    _layer_norm(8192, 768),
    _gelu(1 << 24),
    _chain(1 << 24),
    _sum(4096, 0),
    _sum(4096, 1),
    _sum(4096, None),
    _argmax(4096, 1),
    _argmax(4096, 0),
]

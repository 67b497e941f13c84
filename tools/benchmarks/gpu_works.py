"""What `make gpu` times on a GPU: programs that the rules schedule, and the same by a library of arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright import te, topi

__all__ = ["COPY", "WORK", "Work"]

Tensors = list[Any]


@dataclass(frozen=True)
class Work:
    """A program to time. group: whose rows are judged together. declare(size): its tensors, inputs and then the output.
    peer(library, *inputs): the same by torch, cupy or numpy, or None where that has no such function. amount(size): floating-point
    operations, or bytes of memory, of a call. small: a size at which it is checked alone. asked: how fast it is to be, the peer
    being 1."""

    name: str
    group: str
    size: int
    small: int
    declare: Callable[[int], Tensors]
    peer: Callable[..., Any]
    amount: Callable[[int], float]
    unit: str
    asked: float | None = None
    tolerance: float = 1e-4


def _matrices(n: int, dtype: str) -> tuple[Any, Any]:
    return te.placeholder((n, n), dtype, name="A"), te.placeholder((n, n), dtype, name="B")


def _product(n: int) -> Tensors:
    a, b = _matrices(n, "float32")
    return [a, b, topi.matmul(a, b)]


def _half_product(n: int) -> Tensors:
    """Added up in float32, and rounded once."""
    a, b = _matrices(n, "float16")
    k = te.reduce_axis((0, n), "k")
    sums = te.compute(
        (n, n), lambda i, j: te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k), name="sums"
    )
    return [a, b, te.compute((n, n), lambda i, j: sums[i, j].astype("float16"), name="C")]


def _product_operations(n: int) -> float:
    return 2.0 * n**3


def _two_matrices(n: int) -> float:
    """Bytes of what is read and of what is written."""
    return 8.0 * n * n


def _elementwise(function: Callable[[Any], Any]) -> Callable[[int], Tensors]:
    def declare(n: int) -> Tensors:
        a = te.placeholder((n, n), name="A")
        return [a, function(a)]

    return declare


def _sum_of_two(n: int) -> Tensors:
    a, b = _matrices(n, "float32")
    return [a, b, topi.add(a, b)]


def _norm(n: int) -> Tensors:
    a, gamma, beta = (
        te.placeholder((n, n), name="A"),
        te.placeholder((n,), name="gamma"),
        te.placeholder((n,), name="beta"),
    )
    return [a, gamma, beta, topi.nn.layer_norm(a, gamma, beta, axis=[1])]


def _functional(library: Any) -> Any:
    return getattr(getattr(library, "nn", None), "functional", None)


def _peer_softmax(library: Any, a: Any) -> Any:
    return library.softmax(a, dim=1) if hasattr(library, "softmax") else None


def _peer_norm(library: Any, a: Any, gamma: Any, beta: Any) -> Any:
    functions = _functional(library)
    return None if functions is None else functions.layer_norm(a, gamma.shape, gamma, beta)


def _attention(causal: bool) -> Callable[[int], Tensors]:
    def declare(n: int) -> Tensors:
        q, k, v = (te.placeholder((16, n, 64), "float16", name=name) for name in "qkv")
        return [q, k, v, topi.nn.attention(q, k, v, causal=causal)]

    return declare


def _peer_attention(causal: bool) -> Callable[..., Any]:
    def peer(library: Any, q: Any, k: Any, v: Any) -> Any:
        functions = _functional(library)
        return (
            None
            if functions is None
            else functions.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)[0]
        )

    return peer


LAYERS = (
    (3, 224, 64, 7, 2),
    (64, 56, 64, 1, 1),
    (64, 56, 64, 3, 1),
    (64, 56, 256, 1, 1),
    (256, 56, 128, 1, 1),
    (128, 56, 128, 3, 2),
    (128, 28, 512, 1, 1),
    (256, 56, 512, 1, 2),
    (512, 28, 256, 1, 1),
    (256, 28, 256, 3, 2),
    (256, 14, 1024, 1, 1),
    (256, 14, 256, 3, 1),
    (1024, 14, 512, 1, 1),
    (512, 14, 512, 3, 2),
    (512, 7, 2048, 1, 1),
    (512, 7, 512, 3, 1),
)
"""ResNet-50's convolutions: channels, height and width, filters, window, stride."""


def _layer(channels: int, size: int, filters: int, window: int, stride: int) -> Work:
    def declare(batch: int) -> Tensors:
        image = te.placeholder((batch, channels, size, size), name="image")
        weights = te.placeholder((filters, channels, window, window), name="weights")
        return [image, weights, topi.nn.conv2d(image, weights, stride, window // 2)]

    def peer(library: Any, image: Any, weights: Any) -> Any:
        functions = _functional(library)
        return None if functions is None else functions.conv2d(image, weights, stride=stride, padding=window // 2)

    out = size // stride
    name = f"conv {channels}x{size}x{size} to {filters}, {window}x{window} / {stride}"
    return Work(
        name,
        "ResNet-50's layers",
        16,
        1,
        declare,
        peer,
        lambda batch: 2.0 * batch * filters * out * out * channels * window * window,
        "GFLOP/s",
        0.9,
        1e-3,
    )


COPY = Work(
    "copy",
    "bandwidth",
    8192,
    65,
    _elementwise(lambda a: te.compute(a.shape, lambda i, j: a[i, j], name="C")),
    lambda _, a: a + 0,
    lambda n: 8.0 * n * n,
    "GB/s",
)
WORK = (
    Work(
        "matmul float32",
        "products",
        4096,
        65,
        _product,
        lambda _, a, b: a @ b,
        _product_operations,
        "GFLOP/s",
        0.9,
        1e-3,
    ),
    Work(
        "matmul float16",
        "half products",
        8192,
        65,
        _half_product,
        lambda _, a, b: a @ b,
        _product_operations,
        "GFLOP/s",
        0.8,
        2e-2,
    ),
    COPY,
    Work("add", "bandwidth", 8192, 65, _sum_of_two, lambda _, a, b: a + b, lambda n: 12.0 * n * n, "GB/s", 1.0),
    Work(
        "transpose",
        "bandwidth",
        8192,
        65,
        _elementwise(topi.transpose),
        lambda _, a: a.T + 0,
        _two_matrices,
        "GB/s",
        1.0,
    ),
    Work(
        "sums of rows",
        "bandwidth",
        8192,
        65,
        _elementwise(lambda a: topi.sum(a, 1)),
        lambda _, a: a.sum(1),
        lambda n: 4.0 * n * n,
        "GB/s",
        1.0,
    ),
    Work(
        "softmax",
        "bandwidth",
        8192,
        65,
        _elementwise(lambda a: topi.nn.softmax(a, 1)),
        _peer_softmax,
        _two_matrices,
        "GB/s",
        1.0,
    ),
    Work("layer norm", "bandwidth", 8192, 65, _norm, _peer_norm, _two_matrices, "GB/s", 1.0, 1e-3),
    Work(
        "attention",
        "attention",
        2048,
        33,
        _attention(False),
        _peer_attention(False),
        lambda n: 4.0 * 16 * n * n * 64,
        "GFLOP/s",
        0.7,
        2e-2,
    ),
    Work(
        "attention, causal",
        "attention",
        2048,
        33,
        _attention(True),
        _peer_attention(True),
        lambda n: 2.0 * 16 * n * n * 64,
        "GFLOP/s",
        0.7,
        2e-2,
    ),
    *(_layer(*layer) for layer in LAYERS),
)

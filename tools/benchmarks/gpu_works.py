"""The work that `make gpu` times on a GPU: programs that the rules schedule, and the same by a library of arrays, or by Triton."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tilewright as tw
from tilewright import te, topi

__all__ = ["COPY", "WORK", "Numpy", "Peer", "Torch", "Work", "find_peer", "triton_peers"]

Tensors = list[Any]


@dataclass(frozen=True)
class Work:
    """A program to time. group: whose rows are judged together. declare(size): its tensors, inputs and then the output.
    peer(library, *inputs): the same by torch, cupy or numpy, or None where that has no such function. amount(size): floating-point
    operations, or bytes of memory, of a call. small: a size at which it is checked alone. asked: how fast it is to be, the peer
    being 1."""

    name: str
    group: str
    declare: Callable[[int], Tensors]
    peer: Callable[..., Any]
    amount: Callable[[int], float]
    unit: str = "GB/s"
    size: int = 8192
    small: int = 65
    asked: float | None = 1.0
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


def _operations(n: int) -> float:
    return 2.0 * n**3


def _peer_product(_: Any, a: Any, b: Any) -> Any:
    return a @ b


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

    def operations(batch: int) -> float:
        return 2.0 * batch * filters * (size // stride) ** 2 * channels * window * window

    name = f"conv {channels}x{size}x{size} to {filters}, {window}x{window} / {stride}"
    return Work(name, "ResNet-50's layers", declare, peer, operations, "GFLOP/s", 16, 1, 0.9, 1e-3)


def _attentions(name: str, causal: bool, products: int) -> Work:
    """Works of attention.

    products: how many of its two a score takes part in.
    """

    def operations(n: int) -> float:
        return 2.0 * products * 16 * n * n * 64

    return Work(
        name, "attention", _attention(causal), _peer_attention(causal), operations, "GFLOP/s", 2048, 33, 0.7, 2e-2
    )


_copied = _elementwise(lambda a: te.compute(a.shape, lambda i, j: a[i, j], name="C"))
COPY = Work("copy", "bandwidth", _copied, lambda _, a: a + 0, _two_matrices, asked=None)
WORK = (
    Work("matmul float32", "products", _product, _peer_product, _operations, "GFLOP/s", 4096, 65, 0.9, 1e-3),
    Work("matmul float16", "half products", _half_product, _peer_product, _operations, "GFLOP/s", 8192, 65, 0.8, 2e-2),
    COPY,
    Work("add", "bandwidth", _sum_of_two, lambda _, a, b: a + b, lambda n: 12.0 * n * n),
    Work("transpose", "bandwidth", _elementwise(topi.transpose), lambda _, a: a.T + 0, _two_matrices),
    Work(
        "sums of rows",
        "bandwidth",
        _elementwise(lambda a: topi.sum(a, 1)),
        lambda _, a: a.sum(1),
        lambda n: 4.0 * n * n,
    ),
    Work("softmax", "bandwidth", _elementwise(lambda a: topi.nn.softmax(a, 1)), _peer_softmax, _two_matrices),
    Work("layer norm", "bandwidth", _norm, _peer_norm, _two_matrices, tolerance=1e-3),
    _attentions("attention", False, 2),
    _attentions("attention, causal", True, 1),
    *(_layer(*layer) for layer in LAYERS),
)


# Who it is compared with

ROUNDS = 9


class Torch:
    """torch on one device."""

    def __init__(self, device: str = "cuda") -> None:
        self.library: Any = importlib.import_module("torch")
        self.device = device
        self.name = f"torch {self.library.__version__}"
        if device == "cuda" and not self.library.cuda.is_available():
            raise ImportError("torch was built without CUDA, or finds no GPU")
        self.library.backends.cuda.matmul.allow_tf32 = False  # what float32 says is what is compared
        self.library.backends.cudnn.allow_tf32 = False

    def put(self, values: np.ndarray) -> Any:
        return self.library.from_numpy(values).to(self.device)

    def get(self, tensor: Any) -> np.ndarray:
        return tensor.cpu().numpy()

    def seconds(self, run: Callable[[], Any]) -> float:
        return _seconds(run, self.library.cuda.synchronize if self.device == "cuda" else lambda: None)


class Cupy:
    """cupy, for those operations that it has."""

    def __init__(self) -> None:
        self.library: Any = importlib.import_module("cupy")
        self.name = f"cupy {self.library.__version__}"

    def put(self, values: np.ndarray) -> Any:
        return self.library.asarray(values)

    def get(self, tensor: Any) -> np.ndarray:
        return self.library.asnumpy(tensor)

    def seconds(self, run: Callable[[], Any]) -> float:
        return _seconds(run, self.library.cuda.Device().synchronize)


class Alone:
    """Our own arrays, where there is no other library."""

    name, library = "", None

    def put(self, values: np.ndarray) -> Any:
        return tw.array(values, tw.cuda(0))

    def get(self, tensor: Any) -> np.ndarray:
        return tensor.numpy()

    def seconds(self, run: Callable[[], Any]) -> float:
        raise AssertionError(f"there is nothing to compare {run} with")


class Numpy:
    """numpy on the host, for a dry run."""

    name, library = "numpy", np

    def put(self, values: np.ndarray) -> Any:
        return values

    def get(self, tensor: Any) -> np.ndarray:
        return np.asarray(tensor)

    def seconds(self, run: Callable[[], Any]) -> float:
        return _seconds(run, lambda: None)


Peer = Torch | Cupy | Numpy | Alone


def _seconds(run: Callable[[], Any], synchronize: Callable[[], Any]) -> float:
    """Seconds of a call, from the host's clock around many calls: the median of a few measurements."""
    run()
    count, seconds = 1, list[float]()
    while len(seconds) < ROUNDS:
        synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            run()
        synchronize()
        spent = time.perf_counter() - begin
        if not seconds and spent < 0.01:
            count *= 4
            continue
        seconds.append(spent / count)
    return statistics.median(seconds)


def find_peer() -> Peer:
    """The library to compare with."""
    for kind in (Torch, Cupy):
        try:
            return kind()
        except ImportError:
            continue
    return Alone()


_SOURCE = """
import triton
import triton.language as tl

@triton.jit
def add(a, b, c, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(c + at, tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside)

@triton.jit
def softmax(a, c, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    values = tl.load(a + row + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(c + row + at, powers / tl.sum(powers, axis=0), mask=at < columns)
"""


def triton_peers(folder: str) -> dict[str, Callable[..., Any]]:
    """Return, by the name of a piece of work, the same by Triton on torch's tensors; empty without Triton. folder: on sys.path, where a
    file of the kernels may lie, whose source Triton reads."""
    try:
        importlib.import_module("triton")
    except ImportError:
        return {}
    with open(f"{folder}/tilewright_triton_kernels.py", "w") as file:
        file.write(_SOURCE)
    kernels = importlib.import_module("tilewright_triton_kernels")

    def add(a: Any, b: Any) -> Any:
        c = a.new_empty(a.shape)
        kernels.add[(-(-a.numel() // 4096),)](a, b, c, a.numel(), BLOCK=4096)
        return c

    def softmax(a: Any) -> Any:
        c = a.new_empty(a.shape)
        kernels.softmax[(a.shape[0],)](a, c, a.shape[1], BLOCK=1 << (a.shape[1] - 1).bit_length(), num_warps=16)
        return c

    return {"add": add, "softmax": softmax}

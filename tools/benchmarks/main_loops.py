"""Sixty kernels whose main loops tools.benchmarks.mca looks at: a row each, of products to scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, topi

Case = Callable[[], list[te.Tensor]]


def _tensor(shape: Sequence[int], dtype: str = "float32", name: str = "X") -> te.Tensor:
    return te.placeholder(tuple(shape), dtype, name)


def _case(function: Callable[..., te.Tensor], *shapes: Sequence[int], dtype: str = "float32") -> Case:
    """Return a case: a function of arrays of these shapes."""

    def declare() -> list[te.Tensor]:
        arrays = [_tensor(shape, dtype, f"X{at}") for at, shape in enumerate(shapes)]
        return [*arrays, function(*arrays)]

    return declare


def _product(m: int, n: int, depth: int, dtype: str, out: str | None = None) -> Case:
    """Return a product of matrices; of integers and of bfloat16 the sums are wider than the factors."""

    def declare() -> list[te.Tensor]:
        a, b, k = _tensor((m, depth), dtype, "A"), _tensor((depth, n), dtype, "B"), te.reduce_axis((0, depth), "k")
        wide = out or dtype
        return [a, b, te.compute((m, n), lambda i, j: te.sum(a[i, k].astype(wide) * b[k, j].astype(wide), k), "C")]

    return declare


def _conv(size: int, channels: int, kernel: int, stride: int = 1, groups: int = 1) -> Case:
    pad = kernel // 2
    return _case(
        lambda x, w: topi.nn.conv2d(x, w, stride, pad, 1, groups),
        (1, channels, size, size),
        (channels, channels // groups, kernel, kernel),
    )


def _depthwise(size: int, channels: int, kernel: int, stride: int = 1) -> Case:
    return _case(
        lambda x, w: topi.nn.depthwise_conv2d_nchw(x, w, stride, kernel // 2),
        (1, channels, size, size),
        (channels, 1, kernel, kernel),
    )


def _stencil(shape: Sequence[int], *offsets: tuple[float, Sequence[int]], dtype: str = "float32") -> Case:
    """Return a weighted sum of neighbours."""

    def declare() -> list[te.Tensor]:
        reach = [max(offset[axis] for _, offset in offsets) for axis in range(len(shape))]
        x = _tensor([extent + more for extent, more in zip(shape, reach, strict=True)], dtype)

        def value(*index: Any) -> Any:
            terms = [
                x(*(i + step for i, step in zip(index, offset, strict=True))) * weight for weight, offset in offsets
            ]
            return sum(terms[1:], terms[0])

        return [x, te.compute(tuple(shape), value, "Y")]

    return declare


def _blur() -> list[te.Tensor]:
    x = _tensor((1602, 2562))
    rows = te.compute((1602, 2560), lambda i, j: x[i, j] + x[i, j + 1] + x[i, j + 2], "rows")
    return [x, te.compute((1600, 2560), lambda i, j: rows[i, j] + rows[i + 1, j] + rows[i + 2, j], "Y")]


def _recurrence() -> list[te.Tensor]:
    """Return a filter of first order down the columns."""
    x, state = _tensor((1024, 512)), te.placeholder((1024, 512), name="state")
    first = te.compute((1, 512), lambda _, i: x[0, i], "first")
    step = te.compute((1024, 512), lambda t, i: state[t - 1, i] * 0.5 + x[t, i], "step")
    return [x, te.scan(first, step, state, name="Y")]


def _complex_product() -> list[te.Tensor]:
    a, b = _tensor((4096, 256, 2), name="A"), _tensor((4096, 256, 2), name="B")

    def value(i: Any, j: Any, part: Any) -> Any:
        real = a[i, j, 0] * b[i, j, 0] - a[i, j, 1] * b[i, j, 1]
        return te.if_then_else(part.equal(0), real, a[i, j, 0] * b[i, j, 1] + a[i, j, 1] * b[i, j, 0])

    return [a, b, te.compute((4096, 256, 2), value, "C")]


_WIDE, _IMAGE = (1024, 1024), (1, 64, 112, 112)
_CROSS = ((0.6, (1, 1)), (0.1, (0, 1)), (0.1, (2, 1)), (0.1, (1, 0)), (0.1, (1, 2)))
_CROSS_3D = tuple(
    (weight, offset)
    for weight, offset in (
        (0.4, (1, 1, 1)),
        (0.1, (0, 1, 1)),
        (0.1, (2, 1, 1)),
        (0.1, (1, 0, 1)),
        (0.1, (1, 2, 1)),
        (0.1, (1, 1, 0)),
        (0.1, (1, 1, 2)),
    )
)
_SQUARE = tuple((1.0 / 9, (i, j)) for i in range(3) for j in range(3))

CASES: dict[str, Case] = {
    "product fp32, 512": _product(512, 512, 512, "float32"),
    "product fp32, 37 x 513 x 1000": _product(37, 1000, 513, "float32"),
    "product fp32, 8 rows": _product(8, 1024, 1024, "float32"),
    "product fp32, 1 row": _product(1, 1024, 1024, "float32"),
    "product fp32, 1 column": _product(1024, 1, 1024, "float32"),
    "product fp32, transposed": _case(topi.nn.dense, (256, 512), (512, 512)),
    "product fp32, batched": _case(topi.batch_matmul, (12, 128, 64), (12, 128, 64)),
    "product fp64, 512": _product(512, 512, 512, "float64"),
    "product fp16, 512": _case(topi.matmul, (512, 512), (512, 512), dtype="float16"),
    "product bf16, 512": _product(512, 512, 512, "bfloat16", "float32"),
    "product int8, 512": _product(512, 512, 512, "int8", "int32"),
    "product uint8, 512": _product(512, 512, 512, "uint8", "int32"),
    "product int16, 512": _product(512, 512, 512, "int16", "int32"),
    "product int32, 512": _product(512, 512, 512, "int32"),
    "complex product of elements": _complex_product,
    "convolution 1x1, 128 at 28": _conv(28, 128, 1),
    "convolution 3x3, 64 at 56": _conv(56, 64, 3),
    "convolution 3x3, 512 at 7": _conv(7, 512, 3),
    "convolution 3x3, 128 at 28, by 2": _conv(28, 128, 3, 2),
    "convolution 5x5, 32 at 28": _conv(28, 32, 5),
    "convolution 3x3, 64 at 28, 4 groups": _conv(28, 64, 3, 1, 4),
    "depthwise 3x3, 144 at 56": _depthwise(56, 144, 3),
    "depthwise 3x3, 144 at 56, by 2": _depthwise(56, 144, 3, 2),
    "depthwise 5x5, 160 at 14": _depthwise(14, 160, 5),
    "largest of 3x3, by 2": _case(lambda x: topi.nn.max_pool2d(x, (3, 3), (2, 2), (1, 1)), _IMAGE),
    "mean of 2x2": _case(lambda x: topi.nn.avg_pool2d(x, (2, 2), (2, 2)), _IMAGE),
    "mean of planes": _case(topi.nn.global_avg_pool2d, _IMAGE),
    "softmax": _case(topi.nn.softmax, _WIDE),
    "logarithm of softmax": _case(topi.nn.log_softmax, _WIDE),
    "layer norm": _case(topi.nn.layer_norm, _WIDE, (1024,), (1024,)),
    "root mean square norm": _case(topi.nn.rms_norm, _WIDE, (1024,)),
    "sums of rows": _case(lambda x: topi.sum(x, 1), _WIDE),
    "sums of columns": _case(lambda x: topi.sum(x, 0), _WIDE),
    "sum of all": _case(topi.sum, _WIDE),
    "sums of rows, fp16": _case(lambda x: topi.sum(x, 1), _WIDE, dtype="float16"),
    "sums of rows, int8": _case(lambda x: topi.sum(topi.cast(x, "int32"), 1), _WIDE, dtype="int8"),
    "largest of rows": _case(lambda x: topi.max(x, 1), _WIDE),
    "place of the largest of rows": _case(lambda x: topi.argmax(x, 1), _WIDE),
    "relu": _case(topi.nn.relu, _WIDE),
    "sum of two": _case(topi.add, _WIDE, _WIDE),
    "sum of two, uint8": _case(topi.add, _WIDE, _WIDE, dtype="uint8"),
    "bias": _case(topi.nn.bias_add, (64, 1024), (1024,)),
    "division": _case(topi.divide, _WIDE, _WIDE),
    "square root": _case(topi.sqrt, _WIDE),
    "exponential": _case(topi.exp, _WIDE),
    "logarithm": _case(topi.log, _WIDE),
    "hyperbolic tangent": _case(topi.tanh, _WIDE),
    "sigmoid": _case(topi.sigmoid, _WIDE),
    "gelu": _case(topi.nn.gelu, _WIDE),
    "sine": _case(topi.sin, _WIDE),
    "exponential, fp64": _case(topi.exp, _WIDE, dtype="float64"),
    "fp16 to fp32": _case(lambda x: topi.cast(x, "float32"), _WIDE, dtype="float16"),
    "transposition": _case(topi.transpose, _WIDE),
    "blur 3x3, two stages": _blur,
    "square of 3x3": _stencil((1024, 1024), *_SQUARE),
    "heat": _stencil((1024, 1024), *_CROSS),
    "heat, fp64": _stencil((1024, 1024), *_CROSS, dtype="float64"),
    "heat in space": _stencil((96, 96, 96), *_CROSS_3D),
    "running sums of columns": _case(lambda x: topi.cumsum(x, 0), _WIDE),
    "recurrence": _recurrence,
}
"""Name -> the arguments of a kernel, the outputs last."""

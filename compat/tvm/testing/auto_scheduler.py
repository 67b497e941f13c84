"""tvm.testing.auto_scheduler: the workloads that TVM's tests of its search are written on, each registered by its name."""

from __future__ import annotations

from .. import te, topi
from ..auto_scheduler import ComputeDAG, register_workload
from ..auto_scheduler.loop_state import State
from ..te import Tensor

__all__ = [
    "conv2d_nchw_bn_relu_auto_scheduler_test",
    "double_matmul_auto_scheduler_test",
    "get_tiled_matmul",
    "matmul_auto_scheduler_test",
    "matmul_auto_scheduler_test_rename_0",
    "max_pool2d_auto_scheduler_test",
    "min_nm_auto_scheduler_test",
    "parallel_matmul_auto_scheduler_test",
    "softmax_abcd_auto_scheduler_test",
    "softmax_nm_auto_scheduler_test",
    "zero_rank_compute_auto_scheduler_test",
    "zero_rank_reduce_auto_scheduler_test",
]


def _product(a: Tensor, b: Tensor, name: str) -> Tensor:
    k = te.reduce_axis((0, a.shape[1]), name="k")
    return te.compute((a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=[k]), name=name)


@register_workload
def matmul_auto_scheduler_test(N: int, M: int, K: int) -> list[Tensor]:
    """(N, K) by (K, M)."""
    a, b = te.placeholder((N, K), name="A"), te.placeholder((K, M), name="B")
    return [a, b, _product(a, b, "C")]


@register_workload
def matmul_auto_scheduler_test_rename_0(N: int, M: int, K: int) -> list[Tensor]:
    """The same under another name."""
    return matmul_auto_scheduler_test(N, M, K)


@register_workload
def double_matmul_auto_scheduler_test(N: int) -> list[Tensor]:
    """(A B) C."""
    a, b, c = (te.placeholder((N, N), name=name) for name in "ABC")
    return [a, b, c, _product(_product(a, b, "D"), c, "E")]


@register_workload
def parallel_matmul_auto_scheduler_test(N: int) -> list[Tensor]:
    """A B and A C."""
    a, b, c = (te.placeholder((N, N), name=name) for name in "ABC")
    return [a, b, c, _product(a, b, "D"), _product(a, c, "E")]


@register_workload
def conv2d_nchw_bn_relu_auto_scheduler_test(
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    kernel_size: int,
    strides: int,
    padding: int,
    dilation: int = 1,
) -> list[Tensor]:
    """A convolution with bias, normalisation and relu: data, kernel, bias, offset, scale, result."""
    data, kernel = (
        te.placeholder((N, CI, H, W), name="Data"),
        te.placeholder((CO, CI, kernel_size, kernel_size), name="Kernel"),
    )
    bias, scale, offset = (te.placeholder((CO, 1, 1), name=name) for name in ("Bias", "Bn_scale", "Bn_offset"))
    conv = topi.nn.conv2d_nchw(data, kernel, strides, padding, dilation)
    biased = te.compute(conv.shape, lambda n, c, y, x: conv[n, c, y, x] + bias[c, 0, 0], name="Bias_add")
    scaled = te.compute(conv.shape, lambda n, c, y, x: biased[n, c, y, x] * scale[c, 0, 0], name="Bn_mul")
    moved = te.compute(conv.shape, lambda n, c, y, x: scaled[n, c, y, x] + offset[c, 0, 0], name="Bn_add")
    return [data, kernel, bias, offset, scale, topi.nn.relu(moved)]


@register_workload
def max_pool2d_auto_scheduler_test(N: int, H: int, W: int, CI: int, padding: int) -> list[Tensor]:
    """The greatest of 2 by 2 pixels, one step apart."""
    data = te.placeholder((N, CI, H, W), name="Data")
    return [data, topi.nn.pool2d(data, [2, 2], [1, 1], [1, 1], [padding] * 4, "max")]


@register_workload
def min_nm_auto_scheduler_test(N: int, M: int) -> list[Tensor]:
    """The least of each row."""
    a = te.placeholder((N, M), name="A")
    return [a, topi.min(a, axis=-1)]


@register_workload
def softmax_nm_auto_scheduler_test(N: int, M: int) -> list[Tensor]:
    """Softmax of each row."""
    a = te.placeholder((N, M), name="A")
    return [a, topi.nn.softmax(a, axis=1)]


@register_workload
def softmax_abcd_auto_scheduler_test(a: int, b: int, c: int, d: int) -> list[Tensor]:
    """Declare softmax along the last of four dimensions."""
    data = te.placeholder((a, b, c, d), name="A")
    return [data, topi.nn.softmax(data, axis=-1)]


@register_workload
def zero_rank_reduce_auto_scheduler_test(N: int) -> list[Tensor]:
    """A sum without axes."""
    a, k = te.placeholder((N,), name="A"), te.reduce_axis((0, N), name="k")
    return [a, te.compute((), lambda: te.sum(a[k], k), name="B")]


@register_workload
def zero_rank_compute_auto_scheduler_test(N: int) -> list[Tensor]:
    """A sum without axes, and one more than it."""
    a, b = zero_rank_reduce_auto_scheduler_test(N)
    return [a, te.compute((), lambda: b() + 1.0, name="C")]


def get_tiled_matmul() -> tuple[ComputeDAG, State]:
    """The product of 512 by 512 by 512, and a state that tiles it three times over."""
    a, b, c = matmul_auto_scheduler_test(512, 512, 512)
    dag = ComputeDAG([a, b, c])
    state = dag.get_init_state()
    y = state.split(c, state[c].iters[0], [4, 8, 8])
    x = state.split(c, state[c].iters[4], [8, 4, 4])
    k = state.split(c, state[c].iters[8], [8])
    state.reorder(c, [y[0], x[0], y[1], x[1], k[0], y[2], x[2], k[1], y[3], x[3]])
    return dag, state

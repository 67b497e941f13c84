"""topi.testing's references and the operators that they are for, each by the other; modules that TVM's tests import by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tilewright.compat import tvm
from tilewright.compat.tvm import te, topi
from tilewright.compat.tvm.contrib.dlpack import to_pytorch_func
from tilewright.compat.tvm.tir.analysis import expr_deep_equal
from tilewright.compat.tvm.tir.expr import IntImm
from tilewright.compat.tvm.tir.stmt_functor import substitute
from tilewright.compat.tvm.topi import nn, testing
from tilewright.compat.tvm.topi.vision.rcnn import roi_align_nchw

RNG = np.random.default_rng(0)


def reals(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype("float32")


_PLACES = np.array([[0, 2, 1], [3, 1, 0]], "int64")
_WINDOW = ([3, 2], [2, 2], [1, 0, 1, 1])

CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "conv2d_transpose_nchw": (
        lambda a, w: nn.conv2d_transpose_nchw(a, w, (2, 2), (1, 1), "float32", (1, 1)),
        lambda a, w: testing.conv2d_transpose_nchw_python(a, w, 2, 1, (1, 1)),
        (reals(2, 3, 5, 6), reals(3, 4, 3, 3)),
    ),
    "conv1d_transpose_ncw": (
        lambda a, w: nn.conv1d_transpose_ncw(a, w, 2, 1, "float32", 0),
        lambda a, w: testing.conv1d_transpose_ncw_python(a, w, 2, 1, 0),
        (reals(2, 3, 7), reals(3, 4, 3)),
    ),
    "conv1d_nwc": (
        lambda a, w: nn.conv1d_nwc(a, w, 1, 0),
        lambda a, w: testing.conv1d_nwc_python(a, w, 1, 0),
        (reals(2, 9, 3), reals(3, 3, 4)),
    ),
    "conv3d_ndhwc": (
        lambda a, w: nn.conv3d_ndhwc(a, w, 1, 1, 1),
        lambda a, w: testing.conv3d_ndhwc_python(a, w, 1, 1),
        (reals(1, 4, 5, 6, 2), reals(3, 3, 3, 2, 4)),
    ),
    "dense": (
        lambda *a: nn.relu(nn.dense(*a)),
        lambda *a: testing.dense(*a, True, True),
        (reals(3, 5), reals(4, 5), reals(4)),
    ),
    "group_norm": (
        lambda *a: nn.group_norm(*a, 2, 1, [2, 3]),
        lambda *a: testing.group_norm_python(*a, 2, 1, [2, 3]),
        (reals(2, 6, 4, 5), reals(6), reals(6)),
    ),
    "instance_norm": (
        lambda *a: nn.instance_norm(*a, 1, (2, 3)),
        lambda *a: testing.instance_norm_python(*a, (2, 3)),
        (reals(2, 3, 4, 5), reals(3), reals(3)),
    ),
    "matrix_set_diag": (
        lambda *a: topi.matrix_set_diag(*a, (-1, 2), "RIGHT_LEFT"),
        lambda *a: testing.matrix_set_diag(*a, (-1, 2), "RIGHT_LEFT"),
        (reals(2, 4, 5), reals(2, 4, 4)),
    ),
    "space_to_batch": (
        lambda a: nn.space_to_batch_nd(a, [2, 3], [0, 1], [1, 0]),
        lambda a: testing.space_to_batch_nd_python(a, [2, 3], [0, 1], [1, 0]),
        (reals(2, 3, 5, 4),),
    ),
    "batch_to_space": (
        lambda a: nn.batch_to_space_nd(a, [2, 3], [0, 1], [1, 0]),
        lambda a: testing.batch_to_space_nd_python(a, [2, 3], [0, 1], [1, 0]),
        (reals(12, 3, 5, 4),),
    ),
    "strided_set": (
        lambda a, v: topi.strided_set(a, v, [1, 0], [4, 5], [2, 1]),
        lambda a, v: testing.strided_set_python(a, v, [1, 0], [4, 5], [2, 1]),
        (reals(5, 5), reals(2, 5)),
    ),
    "searchsorted": (
        lambda *a: topi.searchsorted(*a, True, "int64"),
        lambda *a: testing.searchsorted_ref(*a, True, "int64"),
        (np.sort(reals(3, 9), -1), reals(3, 4)),
    ),
    "scatter_nd": (
        lambda *a: topi.scatter_nd(*a, "add"),
        lambda *a: testing.scatter_nd_python(*a, "add"),
        (reals(3, 4), _PLACES, reals(3)),
    ),
    "affine_grid": (
        lambda a: topi.image.affine_grid(a, (4, 5)),
        lambda a: testing.affine_grid_python(a, (4, 5)),
        (reals(2, 2, 3),),
    ),
    "pool_grad_max": (
        lambda g, a: nn.pool_grad(g, a, *_WINDOW, "max", False, True),
        lambda g, a: testing.pool_grad_nchw(a, g, *_WINDOW, "max", False, True),
        (reals(2, 3, 3, 3), reals(2, 3, 5, 6)),
    ),
    "pool_grad_avg": (
        lambda g, a: nn.pool_grad(g, a, *_WINDOW, "avg", False, False),
        lambda g, a: testing.pool_grad_nchw(a, g, *_WINDOW, "avg", False, False),
        (reals(2, 3, 3, 3), reals(2, 3, 5, 6)),
    ),
    "nll_loss": (
        lambda *a: nn.nll_loss(*a, "mean", 1),
        lambda *a: testing.nll_loss(*a, "mean", 1),
        (reals(5, 4), np.array([0, 3, 1, 2, 3], "int32"), np.abs(reals(4))),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operators_are_what_their_references_say(name: str) -> None:
    operator, reference, arrays = CASES[name]
    inputs = [te.placeholder(a.shape, str(a.dtype), f"in{at}") for at, a in enumerate(arrays)]
    out = operator(*inputs)
    f = tvm.build(topi.generic.schedule_injective([out]), [*inputs, out], "llvm")
    got = tvm.nd.empty(out.shape, out.dtype)
    f(*map(tvm.nd.array, arrays), got)
    np.testing.assert_allclose(got.numpy(), reference(*arrays), rtol=1e-4, atol=1e-4)


def test_transposed_convolutions_by_a_kernels_format() -> None:
    data, kernel = reals(1, 4, 5, 3), reals(3, 2, 3, 6)
    got = testing.conv2d_transpose_nhwc_python(data, kernel.transpose(0, 1, 3, 2), "HWOI", 2, 0)
    np.testing.assert_allclose(got[0, 0, 0], data[0, 0, 0] @ kernel[0, 0], rtol=1e-5, atol=1e-6)
    assert got.shape == (1, 9, 10, 6)


def test_modules_and_devices_of_tvm_have_their_names() -> None:
    x = te.var("x")
    assert expr_deep_equal(substitute(x + 1, {x: te.var("y")}), te.var("z") + 1) is False
    assert isinstance(substitute(x, {x: te.const(3, "int32")}), IntImm)
    assert roi_align_nchw is topi.vision.roi_align_nchw and tvm.ir.Map is tvm.container.Map
    assert str(tvm.opencl(1)) == "opencl(1)" and not tvm.vulkan().exist and not tvm.rocm(0).exist
    assert tvm.runtime.const(2, "int64").dtype == "int64"
    mark: Any = tvm.testing.requires_vulkan()
    assert mark.mark.args == (True,), "what needs a GPU that nothing drives is skipped"


@pytest.mark.parametrize("target", ["llvm", "cuda"])
def test_a_stage_of_a_schedule_is_spread_over_the_machine(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_EMULATE", "1")
    a = te.placeholder((6, 100), name="A")
    b = te.compute((6, 100), lambda i, j: a[i, j] + 1, name="B")
    with tvm.target.Target(target):
        s = topi.generic.schedule_injective_from_existing(te.create_schedule(b.op), b)
        f = to_pytorch_func(tvm.build(s, [a, b], target))
    text = str(tvm.lower(s, [a, b]))
    assert ("threadIdx.x" in text) == (target == "cuda") and ("vectorized" in text) == (target == "llvm")
    values, result = reals(6, 100), tvm.nd.empty((6, 100))
    f(tvm.nd.array(values), result)
    np.testing.assert_array_equal(result.numpy(), values + 1)

"""What programs on TVM do that a kernel's own rules would refuse: the façade takes it as TVM does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from exported import needs_compiler
from tilewright.codegen.cuda import nvrtc
from tilewright.compat import tvm
from tilewright.compat.tvm import autotvm, te, topi
from tilewright.compat.tvm.contrib.nvcc import (
    find_cuda_path,
    get_target_compute_version,
    have_bf16,
    have_fp16,
    have_int8,
    have_tensorcore,
)
from tilewright.compat.tvm.contrib.pickle_memoize import memoize
from tilewright.compat.tvm.te.hybrid.runtime import HYBRID_GLOBALS
from tilewright.compat.tvm.topi.nn.utils import get_pad_tuple, get_pad_tuple1d, get_pad_tuple3d


def chain() -> tuple[Any, Any, Any]:
    A = te.placeholder((11,), name="A")
    B = te.compute((11,), lambda i: A[i] + 1, name="B")
    return A, B, te.compute((11,), lambda i: B[i] * 2, name="C")


def zeros(*shape: int) -> Any:
    return tvm.nd.array(np.zeros(shape, "float32"))


def test_extents_that_are_whole_floats() -> None:
    n = 64
    A = te.placeholder((n / 2,), name="A")
    B = te.compute((n / 8, 4), lambda i, j: A[i * 4 + j], name="B")
    assert [int(extent) for extent in B.shape] == [8, 4]
    with pytest.raises(tvm.TVMError, match=r"got 4\.5, a float"):
        te.placeholder((9 / 2,))


def test_an_argument_that_is_inlined_is_passed_and_left_alone() -> None:
    A, B, C = chain()
    s = te.create_schedule(C.op)
    s[B].compute_inline()
    a, b, c = tvm.nd.array(np.arange(11, dtype="float32")), zeros(11), zeros(11)
    tvm.build(s, [A, B, C])(a, b, c)
    np.testing.assert_array_equal(c.numpy(), np.arange(11) * 2 + 2)
    assert not b.numpy().any()


def test_an_output_that_is_no_argument_is_memory_of_the_kernel() -> None:
    A, B, C = chain()
    D = te.compute((11,), lambda i: C[i] - A[i], name="D")
    s = te.create_schedule([B.op, C.op, D.op])
    for kernel in (tvm.build(s, [A, D]), tvm.build(tvm.lower(s, [A, D]))):
        d = zeros(11)
        kernel(tvm.nd.array(np.arange(11, dtype="float32")), d)
        np.testing.assert_array_equal(d.numpy(), np.arange(11) + 2)


def test_a_module_for_gpus_has_its_source_within() -> None:
    A, B, C = chain()
    s = te.create_schedule(C.op)
    s[B].set_scope("local")
    block, thread = s[C].split(C.op.axis[0], factor=4)
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    s[C].bind(thread, te.thread_axis("threadIdx.x"))
    s[B].compute_at(s[C], thread)
    module = tvm.build(s, [A, C], "cuda -emulate")
    source = module.imported_modules[0].get_source()
    assert source == module.get_source() and "threadIdx.x" in source
    assert "float B[1]" in source, "a thread keeps one element, not those of its block"


@needs_compiler
def test_what_was_built_as_c_is_exported_and_loaded(tmp_path: Any) -> None:
    A, _, C = chain()
    module = tvm.build(te.create_schedule(C.op), [A, C], "c", name="both")
    assert "int32_t both" in module.get_source()
    module.export_library(tmp_path / "libboth.so")
    c = zeros(11)
    tvm.runtime.load_module(tmp_path / "libboth.so")["both"](tvm.nd.array(np.ones(11, "float32")), c)
    assert c.numpy().tolist() == [4.0] * 11


def test_cache_read_without_readers_is_for_all_of_them() -> None:
    A, B, C = chain()
    D = te.compute((11,), lambda i: A[i] + C[i], name="D")
    s = te.create_schedule(D.op)
    copy = s.cache_read(A, "local", [])
    assert [tensor.name for op in (s[B].op, s[D].op) for tensor in op.input_tensors] == ["A.local", "A.local", "C"]
    assert copy.name == "A.local"


def test_errors_are_runtime_errors() -> None:
    with pytest.raises(RuntimeError, match="TW0110"):
        te.placeholder((-1,))


def test_a_hybrid_script_is_built_by_itself() -> None:
    @te.hybrid.script
    def shifted(a):
        b = output_tensor((7,), "float32")  # noqa: F821  # pyright: ignore
        for i in range(7):
            b[i] = a[i] + 1.0
        return b

    a = te.placeholder((7,), name="a")
    b = shifted(a)
    result = te.hybrid.build(te.create_schedule(b.op), [a], [b])(tvm.nd.array(np.zeros(7, "float32")))
    assert result.tolist() == [1.0] * 7
    assert {"output_tensor", "parallel", "sqrt"} <= set(HYBRID_GLOBALS)


def test_loops_on_threads_are_an_operation_again() -> None:
    """Some elements stay zeros, which threads store too where the loops have no axes of a schedule."""

    @te.hybrid.script
    def most(a):
        b = output_tensor((77,), "float32")  # noqa: F821  # pyright: ignore
        for i in bind("threadIdx.x", 70):  # noqa: F821  # pyright: ignore
            b[i] = a[i] + 1.0
        return b

    a = te.placeholder((77,), name="a")
    b = most(a)
    again = te.hybrid.build(te.create_schedule(b.op), [a], [b])(a)
    data, out = np.arange(77, dtype="float32"), np.ones(77, "float32")
    tw.build(te.create_schedule(again.op), [a, again], target="cuda -emulate")(data, out)
    np.testing.assert_array_equal(out, np.where(data < 70, data + 1, 0))


def test_values_that_tvm_defines_otherwise() -> None:
    assert tvm.tir.const(np.float64(1.5)).dtype == "float64" and tvm.tir.const(1.5).dtype == "float32"
    assert topi.utils.get_shape((1, 16, 7, 5), "NCHW", "NCHW4c") == (1, 4, 7, 5, 4)
    assert topi.utils.get_shape((1, 4, 7, 5, 4), "NCHW4c", "NHWC") == (1, 7, 5, 16)
    A = te.placeholder((1, 1, 3, 2), name="A")
    B = topi.nn.upsampling(A, 2, 2, "NCHW", "bilinear")
    b = zeros(1, 1, 6, 4)
    tvm.build(te.create_schedule(B.op), [A, B])(tvm.nd.array(np.arange(6, dtype="float32").reshape(1, 1, 3, 2)), b)
    np.testing.assert_array_equal(b.numpy()[0, 0, :2], [[0, 0.5, 1, 1], [1, 1.5, 2, 2]])


def test_devices_that_nothing_here_drives_are_not_there() -> None:
    assert not tvm.device("opencl").exist and str(tvm.device("vulkan", 1)) == "vulkan(1)"
    assert tvm.device("llvm").exist


def test_paddings_as_operators_take_them() -> None:
    assert get_pad_tuple("SAME", (3, 4)) == (1, 2, 1, 1)
    assert get_pad_tuple((1, 2), (3, 3)) == (1, 2, 1, 2) == get_pad_tuple((1, 2, 1, 2), (5, 5))
    assert get_pad_tuple1d(2, 3) == (2, 2) and get_pad_tuple3d("VALID", (3, 3, 3)) == (0,) * 6
    with pytest.raises(ValueError, match="has 3 parts, of 2 dimensions"):
        get_pad_tuple((1, 2, 3), (3, 3))


def test_references_are_computed_once_for_the_same_arguments() -> None:
    calls: list[int] = []

    @memoize("test.squares")
    def squares(n: int) -> np.ndarray[Any, Any]:
        calls.append(n)
        return np.arange(n) ** 2

    assert squares(3).tolist() == squares(3).tolist() == [0, 1, 4] and squares(2).tolist() == [0, 1]
    assert calls == [3, 2]


@pytest.mark.parametrize("shape, stride", [((2, 4, 4, 6), 2), ((1, 9, 3, 3), 3), ((1, 3, 5, 1), 1), ((0, 4, 2, 2), 2)])
def test_darknets_reorganisation(shape: tuple[int, ...], stride: int) -> None:
    """By what Darknet says of each element's place, and by the reference."""
    a = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    n, c, h, w = np.indices(shape)
    part, channel = c // max(shape[1] // stride**2, 1), c % max(shape[1] // stride**2, 1)
    across, down = w * stride + part % stride, h * stride + part // stride
    source = across + shape[3] * stride * (down + shape[2] * stride * (channel + shape[1] // stride**2 * n))
    wanted = a.ravel()[source].reshape(shape[0], shape[1] * stride**2, shape[2] // stride, shape[3] // stride)
    A = te.placeholder(shape, name="A")
    B = topi.vision.reorg(A, stride)
    out = np.empty(wanted.shape, "float32")
    tvm.build(topi.generic.schedule_injective(B), [A, B])(a, out)
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(topi.testing.reorg_python(a, stride), wanted)


def test_a_reorganisation_that_leaves_a_rest_is_refused() -> None:
    for shape in ((1, 3, 4, 4), (1, 4, 3, 4)):
        with pytest.raises(tvm.TVMError, match="TW0181"):
            topi.vision.reorg(te.placeholder(shape), 2)


def test_where_cuda_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(nvrtc, "_wheel_folders", lambda: iter(()))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    assert find_cuda_path() == str(tmp_path)


def test_what_capabilities_have() -> None:
    assert get_target_compute_version("cuda -arch=sm_90a") == "9.0"
    assert [have_fp16("5.3"), have_fp16("5.2"), have_int8("6.1"), have_tensorcore("7.0"), have_bf16("7.5")] == [
        True,
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("cached", [False, True])
def test_a_reducer_that_reads_axes(cached: bool) -> None:
    n, m = 7, 5
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    # The sum of the first half of a row, the greatest of the other half of them.
    C = te.compute(
        (n,),
        lambda i: te.comm_reducer(
            lambda x, y: tvm.tir.Select(te.all(i < 3, k < 4), x + y, te.max(x, y)),
            lambda t: tvm.tir.const(0, t),
            name="mixed",
        )(A[i, k], axis=k),
        name="C",
    )
    s = te.create_schedule(C.op)
    stage = s[s.cache_write(C, "local")] if cached else s[C]
    outer, inner = stage.split(stage.op.axis[0], 2)
    stage.reorder(inner, outer) if cached else stage.parallel(outer)
    a = np.random.default_rng(0).random((n, m)).astype("float32")
    out = np.empty(n, "float32")
    tvm.build(s, [A, C])(a, out)
    wanted = np.where(np.arange(n) < 3, np.maximum(a[:, :4].sum(1), a[:, 4]), a.max(1))
    np.testing.assert_allclose(out, wanted, rtol=1e-6)
    with pytest.raises(tvm.TVMError, match=r"TW0221(.*\n)*.*its combiner reads the axis"):
        s.rfactor(stage.op.output(0), stage.op.reduce_axis[0])


def test_devices_have_tvms_numbers() -> None:
    assert [tvm.device(kind).device_type for kind in ("opencl", "vulkan", "metal", "rocm")] == [4, 7, 8, 10]
    assert tvm.device(7, 2) == tvm.vulkan(2) != tvm.vulkan(1) and tvm.device(4).device_name == "opencl"


def test_references_of_convolutions_take_a_dilation_and_groups() -> None:
    data, kernel = np.arange(18, dtype="float32").reshape(1, 2, 9), np.array([[[1, 2, 5]], [[3, -1, 4]]], "float32")
    got = topi.testing.group_conv1d_ncw_python(data, kernel, 2, (1, 0), 3, 2)
    padded = np.pad(data, ((0, 0), (0, 0), (1, 0)))
    want = [
        [sum(padded[0, c, 2 * x + 3 * tap] * kernel[c, 0, tap] for tap in range(3)) for x in range(2)] for c in range(2)
    ]
    np.testing.assert_array_equal(got[0], want)
    dense = np.concatenate([kernel, kernel], 1)
    plain = topi.testing.conv1d_ncw_python(data, dense, 1, "SAME", 2)
    assert plain.shape == (1, 2, 9), "SAME pads for the kernel as it is dilated"
    other = topi.testing.conv1d_nwc_python(data.transpose(0, 2, 1), dense.transpose(2, 1, 0), 1, "SAME", 2)
    np.testing.assert_array_equal(other, plain.transpose(0, 2, 1))


def test_names_stand_in_tvms_modules() -> None:
    from tilewright.compat.tvm._ffi.base import TVMError
    from tilewright.compat.tvm._ffi.runtime_ctypes import DataType
    from tilewright.compat.tvm.driver.build_module import form_irmodule, get_binds
    from tilewright.compat.tvm.te.hybrid.runtime import allocate, ceil_div, output_tensor
    from tilewright.compat.tvm.topi.nn.utils import simplify

    assert TVMError is tvm.TVMError and DataType("float32x4").lanes == 4 and simplify(te.const(3) + 4) == 7
    assert output_tensor((2, 3), "int8").shape == (2, 3) and allocate((4,)).dtype == np.float32 and ceil_div(7, 2) == 4
    made = tvm.runtime.convert([1, [2, "x"]])
    assert isinstance(made, tvm.container.Array) and isinstance(made[1], tvm.container.Array) and int(made[1][0]) == 2
    A, B, C = chain()
    binds, args = get_binds([A, C])
    assert [binds[A], binds[C]] == args and args[0].name == "A"
    mod = form_irmodule(te.create_schedule(C.op), args, "both", binds)
    assert [name.name_hint for name in mod.get_global_vars()] == ["both"]
    ((key, function),) = mod.functions.items()
    assert (
        isinstance(key, tvm.ir.GlobalVar) and mod[key] is function is mod["both"] and mod.get_global_var("both") == key
    )
    with pytest.raises(ValueError, match="no function 'none'; there are both"):
        mod.get_global_var("none")


def test_parallel_loops_are_serial_where_a_pass_says_so() -> None:
    A, B, C = chain()
    s = te.create_schedule(C.op)
    s[C].parallel(C.op.axis[0])
    mod = tvm.lower(s, [A, C])
    assert "parallel" in str(mod) and "parallel" not in str(tvm.tir.transform.ConvertForLoopsToSerial()(mod))
    assert isinstance(tvm.tir.transform.Simplify(), tvm.tir.transform.PrimFuncPass)


def test_what_only_moves_elements_has_no_arithmetic_to_count() -> None:
    A = te.placeholder((8,), name="A")
    moved = te.compute((8,), lambda i: A[7 - i], name="moved")
    with pytest.raises(RuntimeError, match="cannot find an operation on values"):
        autotvm.task.compute_flop(te.create_schedule(moved.op))
    space = autotvm.task.space.ConfigSpace()
    space.define_split("t", space.axis(12), num_outputs=2)
    assert [one.size for one in space.space_map["t"].entities] == [
        (-1, 1),
        (-1, 2),
        (-1, 3),
        (-1, 4),
        (-1, 6),
        (-1, 12),
    ]

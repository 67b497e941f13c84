"""Running on a GPU: what a machine without one says, and what the driver is told where there is one (a stand-in here)."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import os
import re
import shutil
import struct
import subprocess
import sys
import weakref
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import gpu_programs
import numpy as np
import pytest
import tilewright as tw
from fake_gpu import FakeGpu, OnGpu, fake_library, use_fake_gpu
from tilewright import te
from tilewright.base.errors import CallError, CudaError
from tilewright.cli.doctor import examine
from tilewright.runtime import cuda_binding, cuda_driver
from tilewright.runtime.capsule import make_capsule
from tilewright.runtime.tensors import capsule_tensor, find_device_tensor
from warpgroups import wgmma_matmul


def kernel(name: str = "vector_add", arch: str = "sm_80") -> Any:
    program = gpu_programs.PROGRAMS[name]()
    return tw.build(program.schedule, program.args, target=f"cuda -arch={arch}")


def driver_library(folder: Path, status: int, count: int) -> str:
    """A library with the two functions of a driver that are asked before anything else."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "the emulator's compiler is there too"
    source = folder / "driver.c"
    source.write_text(
        f"int cuInit(unsigned f) {{ return {status}; }} int cuDeviceGetCount(int *n) {{ *n = {count}; return 0; }}"
    )
    library = folder / f"libcuda_{status}_{count}.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return str(library)


# The three things that may be missing


def test_without_a_driver_everything_but_running_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "DRIVER_LIBRARY", "libno_such_driver.so.1")
    f = kernel()
    assert "main_kernel0" in f.source("cuda")
    assert "FADD" in f.source("sass")
    message = (
        r"(?s)^CudaError TW0830: cannot run on a GPU: this machine has no NVIDIA driver\n  libno_such_driver.so.1: cannot open.*"
        r'fix: install NVIDIA\'s driver; target="cuda -emulate" runs kernels without a GPU\n  page: tilewright explain TW0830$'
    )
    for run in (
        lambda: f(*[np.zeros(1003, "float32")] * 3),
        lambda: tw.array([1.0], tw.cuda(0)),
        lambda: f.time(None, None, None),
    ):
        with pytest.raises(CudaError, match=message):
            run()


def test_a_driver_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cuda_driver, "DRIVER_LIBRARY", driver_library(tmp_path, status=100, count=0))
    with pytest.raises(
        CudaError,
        match=r"(?s)^CudaError TW0831: cannot run on a GPU: there is no cuda\(0\)\n"
        r"  the driver's cuInit returned 100.*fix: run where a GPU is visible",
    ):
        kernel()(*[np.zeros(1003, "float32")] * 3)
    monkeypatch.setattr(cuda_driver, "DRIVER_LIBRARY", driver_library(tmp_path, status=0, count=1))
    with pytest.raises(CudaError, match=r"(?s)TW0831.*there is no cuda\(1\)\n  the driver finds 1 GPUs"):
        tw.empty(3, "float32", tw.cuda(1))


def test_the_doctor_tells_a_driver_without_a_gpu_from_one_that_has_some(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def driver(status: int, count: int) -> tuple[bool, str]:
        monkeypatch.setattr(cuda_driver, "DRIVER_LIBRARY", driver_library(tmp_path, status, count))
        (finding,) = (one for one in examine() if one.part == "CUDA driver")
        return finding.found, finding.detail

    assert driver(100, 0) == (False, "it finds no GPU (status 100); GPU kernels cannot run here")
    assert driver(0, 0)[0] is False
    assert driver(0, 2) == (True, "2 GPUs")


def test_a_gpu_that_no_package_launches_on_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cuda_driver, "DRIVER_LIBRARY", driver_library(tmp_path, status=0, count=1))
    monkeypatch.setitem(sys.modules, "pycuda", None)
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    with pytest.raises(
        CudaError,
        match=r"(?s)^CudaError TW0832: cannot run on a GPU: neither pycuda nor cuda-bindings is installed\n.*"
        r"fix: pip install 'tilewright\[cuda\]', or pip install cuda-bindings; target=\"cuda -emulate\"",
    ):
        kernel()(*[np.zeros(1003, "float32")] * 3)


# What the driver is told, which is a fake one that finds faults


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGpu]:
    made = use_fake_gpu(monkeypatch)
    before = made.held()
    yield made
    gc.collect()
    held, retained = made.held(), max(map(made.library.fake_retained, range(2)))
    cuda_driver._load_driver(made.path)._release()
    cuda_binding._bound.cache_clear()
    gc.collect()
    assert not made.faults and made.library.fake_depth() == 0
    assert held == before, "memory, events and code are given back"
    assert retained <= 2, "the primary context is retained once, by us and by pycuda"
    assert not any(map(made.library.fake_retained, range(2))), "and released"


def vectors(count: int = 3, elements: int = 1003, device: int = 0) -> list[Any]:
    return [tw.array(np.zeros(elements, "float32"), tw.cuda(device)) for _ in range(count)]


def address(array: Any) -> int:
    return array.__cuda_array_interface__["data"][0]


def passed(line: str, letters: str) -> tuple[Any, ...]:
    """The values of a launch's parameters, from the driver's log."""
    _, _, told = line.partition(" bytes ")
    size, _, values = told.partition(" ")
    assert int(size) == struct.calcsize(letters)
    return struct.unpack(letters, bytes.fromhex(values))


def test_device_arrays_copy_there_and_back(gpu: FakeGpu) -> None:
    values = np.arange(6, dtype="float32").reshape(2, 3)
    there = tw.array(values, tw.cuda(0))
    assert (there.shape, there.dtype, there.device) == ((2, 3), np.dtype("float32"), tw.cuda(0))
    np.testing.assert_array_equal(there.numpy(), values)
    assert there.__cuda_array_interface__["typestr"] == "<f4"
    np.testing.assert_array_equal(tw.empty((2, 3), "float32", tw.cuda(0)).copyfrom(values + 1).numpy(), values + 1)
    tw.cuda(0).sync()
    assert tw.cuda(1).exist and not tw.cuda(2).exist


class Shared:
    """A consumer's view of a capsule: numpy's own, on memory that it may touch."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule


@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3, 4)], ids=str)
def test_a_capsule_shares_memory_and_keeps_its_owner_until_the_consumer_is_done(shape: tuple[int, ...]) -> None:
    class Owner:
        pass

    owner, values = Owner(), np.arange(np.prod(shape, dtype=int), dtype="int16").reshape(shape)
    alive = weakref.ref(owner)
    taken = np.from_dlpack(Shared(make_capsule(values.ctypes.data, shape, "int16", (1, 0), owner)))
    unused = make_capsule(values.ctypes.data, shape, "int16", (1, 0), owner)
    del owner
    np.testing.assert_array_equal(taken, values)
    assert taken.dtype == np.int16 and (taken.ctypes.data == values.ctypes.data or not values.size)
    del taken
    assert alive() is not None, "the capsule that nobody took holds it still"
    del unused
    assert alive() is None


def test_device_arrays_hand_their_memory_on_by_dlpack(gpu: FakeGpu) -> None:
    there = tw.array(np.arange(6, dtype="float32").reshape(2, 3), tw.cuda(1))
    assert there.__dlpack_device__() == (2, 1)
    for found in (find_device_tensor(there), there.found()):
        assert (found.data, found.dtype, found.shape) == (address(there), "float32", (2, 3))
        assert found.device == "cuda(1)"
    for stream in (None, 1, -1):
        there.__dlpack__(stream=stream)
    assert not gpu.noted("synchronize") and not gpu.noted("0 waits"), (
        "it lies on the default stream, as does the consumer"
    )
    there.__dlpack__(stream=77)
    assert gpu.log[-1] == "77 waits for 0", "on the GPU"
    copied = there.__dlpack__(copy=True)
    assert capsule_tensor(copied)[0].data not in (None, address(there))
    del copied
    with pytest.raises(BufferError, match=r"lies on cuda\(1\); numpy\(\) copies it to the host"):
        there.__dlpack__(dl_device=(1, 0))


def test_a_call_launches_on_the_tensors_own_memory(gpu: FakeGpu) -> None:
    gpu.say("capability", 86)
    f, tensors = kernel(), vectors()
    f(*tensors)
    f(*tensors)
    assert gpu.noted("load") == ["load cubin"], "code is loaded once; an sm_86 GPU runs a cubin of sm_80"
    first, _ = gpu.noted("launch")
    assert first.startswith("launch main_kernel0 grid 16 1 1 block 64 1 1 shared 0 stream 0 ")
    assert passed(first, "PPP") == tuple(map(address, tensors))
    assert not gpu.noted("synchronize") and not gpu.noted("event"), "nobody waits"


def test_a_newer_gpu_gets_portable_code_and_an_older_one_an_error(gpu: FakeGpu) -> None:
    tensors = vectors()
    kernel()(*tensors)
    assert gpu.noted("load") == ["load ptx"]
    gpu.say("capability", 80)
    with pytest.raises(
        CudaError, match=r"(?s)TW0833: cannot run code for sm_90 on cuda\(0\).*this GPU is sm_80.*-arch=sm_80"
    ):
        kernel(arch="sm_90")(*tensors)


def test_code_of_own_instructions_of_a_generation_runs_on_that_alone(gpu: FakeGpu) -> None:
    tensors, f = vectors(), kernel(arch="sm_90a")
    f(*tensors)
    assert gpu.noted("load") == ["load cubin"] and f.kernels[0].cluster == (1, 1, 1)
    gpu.say("capability", 100)
    with pytest.raises(CudaError, match=r"(?s)TW0833: cannot run code for sm_90a on cuda\(0\).*this GPU is sm_100"):
        kernel(arch="sm_90a")(*tensors)


def through_memory() -> Any:
    """A kernel of two launches, with an intermediate of n elements."""
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n,), lambda i: B[i] + B[n - 1 - i], name="C")
    s = te.create_schedule(C.op)
    for stage in (B, C):
        outer, inner = s[stage].split(s[stage].op.axis[0], factor=32)
        s[stage].bind(outer, te.thread_axis("blockIdx.x"))
        s[stage].bind(inner, te.thread_axis("threadIdx.x"))
    return tw.build(s, [A, C], target="cuda")


def test_workspaces_and_shape_symbols_follow_the_arguments(gpu: FakeGpu) -> None:
    f = through_memory()
    assert [launch.args for launch in f.kernels] == [(0, 2, 3), (1, 2, 3)]
    a, c = vectors(2, 70)
    f(a, c)
    assert gpu.noted("alloc 280 on 0"), "the workspace of 70 floats"
    first, second = (passed(line, "PPi") for line in gpu.noted("launch"))
    assert gpu.noted("launch")[0].startswith("launch main_kernel0 grid 3 1 1 ")
    assert first[1] == second[1] and first[2] == 70, "one workspace"
    assert gpu.log[-1] == "free on 0"


def test_workspaces_are_given_back_whatever_thread_calls_and_whatever_fails(gpu: FakeGpu) -> None:
    f, tensors = through_memory(), vectors(2, 70)
    f(*tensors)
    live = gpu.live
    for _ in range(5):
        thread = Thread(target=lambda: f(*tensors))
        thread.start()
        thread.join()
    assert gpu.live == live
    for function, times in (("cuLaunchKernel", 1), ("cuMemAllocAsync", 1)):
        gpu.fail(function, 2, times)
        with pytest.raises(
            CudaError, match=r"(?s)TW0834: (the driver refused to launch|no memory on the GPU for the inter)"
        ):
            f(*tensors)
        assert gpu.live == live
    made: list[Any] = []
    thread = Thread(target=lambda: made.append((through_memory(), vectors(2, 70))))
    thread.start()
    thread.join()
    (g, others), own = made.pop(), gpu.held()
    g(*others)
    del g, others
    gc.collect()
    assert gpu.held() == (live, own[1], own[2]), "arrays and code of another thread are given back in this one"


def test_a_gpu_without_memory_pools_gives_memory_too(gpu: FakeGpu) -> None:
    gpu.say("pools", 0)
    f, tensors = through_memory(), vectors(2, 70)
    live = gpu.live
    f(*tensors)
    assert gpu.live == live and not gpu.noted("alloc 280 on")


def unaligned(array: Any, first: int, shape: tuple[int, ...]) -> OnGpu:
    """A part of an array, from an element on."""
    return OnGpu(address(array) + first * array.dtype.itemsize, shape, str(array.dtype))


def test_unaligned_tensors_run_code_that_asks_for_no_alignment(gpu: FakeGpu) -> None:
    f = kernel("vector_add_vectors")
    assert f.kernels[0].aligned == (0, 1, 2)
    tensors = vectors(3, 1025)
    for first in (0, 1, 0, 1):
        f(*[unaligned(tensor, first, (1024,)) for tensor in tensors])
    assert len(gpu.noted("load")) == 2


def test_inputs_that_the_copy_engine_does_not_take_are_copied_once(gpu: FakeGpu) -> None:
    """Not by a thread, element by element; the code is that of others."""
    program = wgmma_matmul(264, 128, 136, bulk=True, roles=True)
    f = tw.build(program.schedule, program.args, target="cuda -arch=sm_90a")
    a, b, c = (tw.array(np.zeros(1 << 16, dtype), tw.cuda(0)) for dtype in ("float16", "float16", "float32"))
    for first in (0, 3):
        gpu.forget()
        f(unaligned(a, first, (264, 136)), unaligned(b, first, (136, 128)), unaligned(c, 0, (264, 128)))
        assert gpu.noted("copy") == ([] if first == 0 else [f"copy {264 * 136 * 2} on 0", f"copy {136 * 128 * 2} on 0"])
        assert len(gpu.noted("map")) == 2 and len(gpu.noted("launch")) == 1
    assert not gpu.noted("load"), "as of aligned ones"


def test_large_shared_memory_is_asked_for_at_the_launch(gpu: FakeGpu) -> None:
    A = te.placeholder((160, 100), name="A")
    B = te.compute((160, 100), lambda i, j: A[159 - i, j], name="B")
    s = te.create_schedule(B.op)
    S = s.cache_read(A, "shared", [B])
    outer, inner = s[B].split(s[B].op.axis[0], factor=160)
    s[B].bind(outer, te.thread_axis("blockIdx.x"))
    s[B].bind(inner, te.thread_axis("threadIdx.x"))
    s[S].compute_at(s[B], outer)
    s[S].bind(s[S].op.axis[0], te.thread_axis("threadIdx.x"))
    f = tw.build(s, [A, B], target="cuda")
    assert f.kernels[0].dynamic_shared_bytes == 64000
    a, b = (tw.array(np.zeros((160, 100), "float32"), tw.cuda(0)) for _ in range(2))
    f(a, b)
    assert "shared 64000" in gpu.noted("launch")[0] and gpu.noted("main_kernel0 may have") == [
        "main_kernel0 may have 64000"
    ]
    values, result = np.arange(16000, dtype="float32").reshape(160, 100), np.empty((160, 100), "float32")
    tw.build(s, [A, B], target="cuda -emulate")(values, result)
    np.testing.assert_array_equal(result, values[::-1])


@pytest.mark.parametrize(("cluster", "held", "blocks"), [(1, 1, 3), (1, 5, 12), (2, 2, 4), (2, 0, 2)])
def test_blocks_that_stay_are_as_many_as_the_gpu_holds(gpu: FakeGpu, cluster: int, held: int, blocks: int) -> None:
    """Of three multiprocessors, with so many blocks each; or so many clusters in all."""
    gpu.say("held", held)
    program = wgmma_matmul(264, 128, 136, resident=4, bulk=True, roles=True, cluster=cluster)
    f = tw.build(program.schedule, program.args, target="cuda -arch=sm_90a")
    f(*(tw.empty([int(n) for n in each.shape], each.dtype, tw.cuda(0)) for each in program.args))
    assert f" grid {blocks} 1 1 block 256 1 1" in gpu.noted("launch")[0]


def test_arguments_are_checked_as_on_the_host(gpu: FakeGpu) -> None:
    f, good = kernel(), vectors()
    host = np.zeros(1003, "float32")
    cases = [
        (
            [host, *good[1:]],
            r"(?s)TW0512: 'A' \(argument 1 of main\) is on the host; this kernel runs on a GPU.*"
            r"tw.array\(x, tw.cuda\(0\)\)",
        ),
        ([good[0], tw.array(np.zeros(1003, "float64"), tw.cuda(0)), good[2]], "TW0504.*'B'.*float64"),
        ([good[0], tw.array(np.zeros(7, "float32"), tw.cuda(0)), good[2]], "TW0506.*'B'.*7"),
        ([good[0], good[1], good[0]], "TW0511.*'C'"),
        (good[:2], "TW0501"),
        ([None, *good[1:]], "TW0503.*'A'.*None"),
        ([good[0], tw.array(np.zeros(1003, "float32"), tw.cuda(1)), good[2]], "TW0512.*one GPU|on cuda"),
    ]
    for arguments, message in cases:
        with pytest.raises(CallError, match=message):
            f(*arguments)
    assert not gpu.noted("launch")


class Tensor:
    """What torch and cupy hand out, over memory of the host's."""

    def __init__(self) -> None:
        self.values, self.asked = np.zeros(1003, "float32"), list[Any]()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 1

    def __dlpack__(self, *, stream: int, **options: Any) -> Any:
        self.asked.append(stream)
        return self.values.__dlpack__(**options)


def test_tensors_come_by_dlpack_without_a_copy(gpu: FakeGpu) -> None:
    tensors, f = [Tensor() for _ in range(3)], kernel()
    f(*tensors)
    f(*tensors, stream=99)
    assert passed(gpu.noted("launch")[0], "PPP") == tuple(t.values.ctypes.data for t in tensors)
    assert tensors[0].asked == [1, 99], "they say on which stream the elements are to be there; 1 is the default one"
    with pytest.raises(CallError, match=r"TW0503.*'B'"):
        f(tensors[0], "text", tensors[2])


@pytest.mark.parametrize(
    ("dtype", "letter", "packed"),
    [
        ("float32", "f", 3.0),
        ("float64", "d", 3.0),
        ("int64", "q", 3),
        ("uint8", "B", 3),
        ("float16", "H", 0x4200),
        ("bfloat16", "H", 0x4040),
        ("float8_e4m3fn", "B", 0x44),
        ("float8_e5m2", "B", 0x42),
    ],
)
def test_scalars_are_packed_as_their_type(gpu: FakeGpu, dtype: str, letter: str, packed: float) -> None:
    a = te.var("a", dtype)
    A = te.placeholder((50,), name="A")
    B = te.compute((50,), lambda i: A[i] * a.astype("float32"), name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    x, y = vectors(2, 50)
    tw.build(s, [a, A, B], target="cuda")(3, x, y)
    assert passed(gpu.noted("launch")[0], f"{letter}PP") == (packed, address(x), address(y))


def test_time_is_taken_by_events_of_the_stream(gpu: FakeGpu) -> None:
    result = kernel().time(*vectors(), number=10, repeat=3, stream=5)
    assert result.results == (5e-3,) * 3
    launches = gpu.noted("launch")
    assert len(launches) == 1 + 3 * 10 and not gpu.noted("synchronize")


@pytest.mark.parametrize(
    ("function", "result", "message"),
    [
        ("cuLaunchKernel", 701, r"TW0834: the driver refused to launch main_kernel0.*grid \(16, 1, 1\)"),
        ("cuModuleLoadData", 218, r"TW0833: cuda\(0\) does not take the code of these kernels"),
        ("cuModuleGetFunction", 500, "TW0833: cuda"),
        ("cuMemAlloc", 2, r"TW0834: no memory on cuda\(0\) for an array of 4012 bytes.*out of memory"),
        ("cuMemcpyHtoD", 700, "TW0834: a copy to the GPU failed.*illegal address"),
        ("cuEventSynchronize", 700, "TW0834: a kernel failed on the GPU.*illegal address"),
        ("cuEventElapsedTime", 719, "TW0834: a kernel failed on the GPU.*launch failed"),
        ("cuEventCreate", 2, "TW0834: the driver makes no event.*out of memory"),
        ("cuCtxPushCurrent", 46, r"TW0831: cannot run on cuda\(0\).*device unavailable"),
    ],
)
def test_what_the_driver_refuses_is_an_error_of_ours(gpu: FakeGpu, function: str, result: int, message: str) -> None:
    gpu.fail(function, result)
    with pytest.raises(CudaError, match=f"(?s){message}"):
        kernel().time(*vectors(), number=1, repeat=1)


def test_what_the_driver_refuses_to_pycuda_is_an_error_of_ours(gpu: FakeGpu) -> None:
    """Its own errors never reach a caller: of a context that is not retained, and of a stream that stands for the caller's."""
    tensors, f = vectors(), kernel()
    for function, result, stream, message in (
        ("cuDevicePrimaryCtxRetain", 46, 0, r"TW0831: cannot run on cuda\(0\).*failed: 46"),
        ("cuStreamCreate", 2, 5, "TW0834: the driver makes no stream.*failed: 2"),
    ):
        gpu.fail(function, result)
        with pytest.raises(CudaError, match=f"(?s){message}"):
            f(*tensors, stream=stream)
        f(*tensors, stream=stream)


def test_a_kernel_that_failed_is_told_by_whoever_waits(gpu: FakeGpu) -> None:
    kernel()(*vectors())
    gpu.say("sticky", 700)
    with pytest.raises(CudaError, match=r"(?s)TW0834: a kernel failed on cuda\(0\).*illegal address"):
        tw.cuda(0).sync()
    gpu.say("sticky", 0)


# Streams


def test_kernels_run_on_the_callers_stream(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's or cupy's current one, or what the caller names: a number, or an object that has one."""

    class Torch(Tensor):
        is_cuda, device = True, "cuda:1"

    class Cupy(Tensor):
        device = nullcontext()

    current = SimpleNamespace(cuda_stream=0x70)
    torch = SimpleNamespace(Tensor=Torch, cuda=SimpleNamespace(current_stream=lambda device: current))
    cupy = SimpleNamespace(ndarray=Cupy, cuda=SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=0x80)))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    f = kernel()
    for kind, named, stream in (
        (Torch, {}, 0x70),
        (Cupy, {}, 0x80),
        (Torch, {"stream": 0x90}, 0x90),
        (Torch, {"stream": 0}, 0),
        (Torch, {"stream": 1}, 0),
        (Torch, {"stream": current}, 0x70),
        (Tensor, {"stream": SimpleNamespace(handle=0x91)}, 0x91),
        (Tensor, {"stream": SimpleNamespace(__cuda_stream__=lambda: (0, 0x92))}, 0x92),
        (Tensor, {}, 0),
    ):
        gpu.forget()
        tensors = [kind() for _ in range(3)]
        f(*tensors, **named)
        own = int(gpu.noted("launch")[0].partition(" stream ")[2].split()[0])
        order = [f"{own} waits for {stream}", f"{stream} waits for {own}"] if stream else []
        assert [line for line in gpu.log if "waits" in line] == order, "pycuda's own stream stands for it"
        assert bool(own) == bool(stream) and tensors[0].asked == [stream or 1]
    with pytest.raises(CudaError, match=r"(?s)TW0835: there is no stream in 'fast'.*fix: stream=torch"):
        f(*(Tensor() for _ in range(3)), stream="fast")


def test_arrays_of_ours_follow_a_kernel_to_another_stream_and_back(gpu: FakeGpu) -> None:
    f, tensors = kernel(), vectors()
    f(*tensors, stream=0x70)
    assert "112 waits for 0" in gpu.log, "what was copied there before"
    gpu.forget()
    f(*tensors)
    tensors[2].numpy()
    assert gpu.log.count("0 waits for 112") == 3 and len(gpu.log) == 4, (
        "once for each; then they are on the default stream"
    )


def test_other_peoples_arrays_say_where_they_were_made(gpu: FakeGpu) -> None:
    f, tensors = kernel(), vectors()
    f(*(OnGpu(address(t), (1003,), stream=s) for t, s in zip(tensors, (None, 1, 0x60), strict=True)))
    assert [line for line in gpu.log if "waits" in line] == ["0 waits for 96"]


def test_a_parameter_that_is_called_stream_is_one() -> None:
    stream = te.placeholder((8,), name="stream")
    copy = te.compute((8,), lambda i: stream[i], name="copy")
    s = te.create_schedule(copy.op)
    s[copy].bind(copy.op.axis[0], te.thread_axis("threadIdx.x"))
    values = np.arange(8, dtype="float32")
    result = np.zeros_like(values)
    tw.build(s, [stream, copy], target="cuda -emulate")(copy=result, stream=values)
    np.testing.assert_array_equal(result, values)


def test_a_cuda_graph_captures_a_call(gpu: FakeGpu) -> None:
    """Once the code is loaded: memory is taken in the stream's order, and nothing waits, nor runs on the default stream."""
    f, tensors = through_memory(), vectors(2, 70)
    given = [unaligned(tensor, 0, (70,)) for tensor in tensors]
    f(*given, stream=0x70)
    gpu.forget()
    with gpu.capture(0x70):
        f(*given, stream=0x70)
        f(*tensors, stream=0x70)
    assert len(gpu.noted("launch")) == 4 and gpu.log.count("alloc 280 on 112") == 2 == gpu.log.count("free on 112")


REAL = """
import ctypes, gc, sys
import numpy as np
import tilewright as tw
from tilewright.runtime import cuda_binding, cuda_driver
sys.path.insert(0, sys.argv[2])
if sys.argv[1] == "cuda.bindings.driver":
    sys.modules["pycuda"] = sys.modules["pycuda.driver"] = None
import gpu_programs
from warpgroups import wgmma_matmul
from threading import Thread
program = wgmma_matmul(264, 128, 136, resident=4, bulk=True, roles=True)
f = tw.build(program.schedule, program.args, target="cuda -arch=sm_90a")
f.source("ptx")  # NVRTC asks a driver that it finds for more than the fake one has
for library in sys.argv[3:]:
    ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
arrays = [tw.empty([int(n) for n in each.shape], each.dtype, tw.cuda(0)) for each in program.args]
driver = cuda_driver.find_driver()
assert cuda_binding.find_binding().module.__name__ == sys.argv[1]
live = driver.library.fake_live()
for stream in (None, 0x70):
    f(*arrays, **({} if stream is None else {"stream": stream}))
thread = Thread(target=lambda: f(*arrays))
thread.start(); thread.join()
assert driver.library.fake_live() == live
try:
    driver.library.fake_fail(b"cuLaunchKernel", 701, 1)
    f(*arrays)
except tw.CudaError as error:
    assert "TW0834: the driver refused to launch main_kernel0" in str(error), error
driver.library.fake_log.restype = driver.library.fake_faults.restype = ctypes.c_char_p
launches = [line for line in driver.library.fake_log().decode().splitlines() if line.startswith("launch")]
assert all(" grid 3 1 1 block 256 1 1 shared 68576 " in line for line in launches) and len(launches) == 3, launches
del f, arrays
gc.collect()
assert not driver.library.fake_faults(), driver.library.fake_faults()
print("well", driver.library.fake_live(), driver.library.fake_modules())
"""


def other_functions(folder: Path) -> Path:
    """A library with all functions of the driver that pycuda's is linked to, and that the fake one has not."""
    spec = importlib.util.find_spec("pycuda")
    assert spec is not None and spec.submodule_search_locations
    (linked,) = Path(spec.submodule_search_locations[0]).glob("_driver*.so")
    known = ctypes.CDLL(str(folder / "libfake.so"))
    names = {name.decode() for name in re.findall(rb"\bcu[A-Z]\w+", linked.read_bytes())}
    source, library = folder / "more.c", folder / "libmore.so"
    source.write_text(
        "".join(f"int {each}(void) {{ return 801; }}\n" for each in sorted(names) if not hasattr(known, each))
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", library, source], check=True)
    return library


@pytest.mark.parametrize("name", ["pycuda.driver", "cuda.bindings.driver"])
def test_the_real_packages_do_the_same_on_the_fake_driver(name: str) -> None:
    if importlib.util.find_spec(name.split(".")[0]) is None:
        pytest.skip(f"{name} is not installed")
    folder = fake_library()
    libraries = [str(folder / "libcuda.so.1"), *([str(other_functions(folder))] if name == "pycuda.driver" else [])]
    environment = os.environ | {"FAKE_LIBCUDA": libraries[0]}
    command = [sys.executable, "-c", REAL, name, str(Path(__file__).parents[1] / "support"), *libraries]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "well 0 0\n"


class Claimed:
    """Device memory that is said to be there, of any size."""

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        place, typestr = len(shape) << 40, np.dtype(dtype).str
        self.__cuda_array_interface__ = {"shape": shape, "typestr": typestr, "data": (place, False), "version": 3}


def powers(count: int) -> Any:
    """A kernel over n * n elements, each by a block, that reads an intermediate of `count` dimensions of n."""
    n = te.var("n")
    A = te.placeholder((n,), "int8", name="A")
    P = te.compute((n,) * count, lambda *at: A[at[0]] + A[at[-1]], name="P")
    B = te.compute((n, n), lambda i, j: P[(i, j) * (count // 2)] + P[(j, i) * (count // 2)], name="B")
    s = te.create_schedule(B.op)
    for tensor in (P, B):
        s[tensor].bind(s[tensor].fuse(*tensor.op.axis), te.thread_axis("blockIdx.x"))
    return tw.build(s, [A, B], target="cuda -arch=sm_80")


def test_more_blocks_than_a_grid_holds_are_an_error(gpu: FakeGpu) -> None:
    f, n = powers(2), 46341
    f(Claimed((n - 1,), "int8"), Claimed((n - 1, n - 1), "int8"))
    assert [line.split(" block")[0] for line in gpu.noted("launch")] == [
        f"launch main_kernel{at} grid {(n - 1) ** 2} 1 1" for at in range(2)
    ]
    with pytest.raises(CudaError, match=f"TW0834: .* cannot be launched on {n * n} x 1 x 1 blocks"):
        f(Claimed((n,), "int8"), Claimed((n, n), "int8"))


def test_an_intermediate_that_no_memory_holds_is_an_error_at_the_call(gpu: FakeGpu) -> None:
    f, n = powers(4), 1 << 16
    with pytest.raises(CallError, match=rf"TW0517: could not get memory for the intermediate P\n.*it has {n**4} bytes"):
        f(Claimed((n,), "int8"), Claimed((n, n), "int8"))
    assert not gpu.noted("alloc") and not gpu.noted("launch")

"""Running on a GPU: what a machine without one says, and what the driver is told where there is one (a stand-in here)."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
import sys
import types
import weakref
from pathlib import Path
from typing import Any

import gpu_programs
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.cli.doctor import examine
from tilewright.errors import CallError, CudaError
from tilewright.runtime import cuda_driver
from tilewright.runtime.capsule import make_capsule
from tilewright.runtime.tensors import capsule_tensor, find_device_tensor


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


@pytest.fixture(autouse=True)
def forget_contexts() -> Any:
    cuda_driver._primary.cache_clear()
    yield
    cuda_driver._primary.cache_clear()


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


def test_a_gpu_without_pycuda_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cuda_driver, "DRIVER_LIBRARY", driver_library(tmp_path, status=0, count=1))
    monkeypatch.setitem(sys.modules, "pycuda", None)
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)
    with pytest.raises(
        CudaError,
        match=r"(?s)^CudaError TW0832: cannot run on a GPU: pycuda is not installed\n.*"
        r"fix: pip install 'tilewright\[cuda\]'; target=\"cuda -emulate\"",
    ):
        kernel()(*[np.zeros(1003, "float32")] * 3)


# A stand-in for pycuda's driver module, whose device memory is the host's


class Memory:
    def __init__(self, size: int) -> None:
        self.bytes = np.zeros(size, np.uint8)

    def __int__(self) -> int:
        return self.bytes.ctypes.data


class Stub(types.ModuleType):
    """Records what is loaded and launched."""

    class Error(Exception):
        pass

    class function_attribute:
        MAX_DYNAMIC_SHARED_SIZE_BYTES = "dynamic shared"

    def __init__(self, capability: tuple[int, int]) -> None:
        super().__init__("pycuda.driver")
        self.capability = capability
        self.launched: list[tuple[Any, ...]] = []
        self.loaded: list[bytes] = []
        self.allocated: list[int] = []
        self.attributes: list[tuple[str, int]] = []
        self.formats: list[str] = []
        self.depth = self.synchronised = 0
        self.Context = types.SimpleNamespace(synchronize=self.synchronize)

    def synchronize(self) -> None:
        assert self.depth, "a context is current"
        self.synchronised += 1

    def init(self) -> None: ...

    def Device(self, index: int) -> Any:
        stub = self

        class Context:
            def push(self) -> None:
                stub.depth += 1

            def pop(self) -> None:
                stub.depth -= 1

        return types.SimpleNamespace(retain_primary_context=Context, compute_capability=lambda: stub.capability)

    def mem_alloc(self, size: int) -> Memory:
        assert self.depth, "a context is current"
        self.allocated.append(size)
        return Memory(size)

    def memcpy_htod(self, target: Memory, source: np.ndarray) -> None:
        target.bytes[: source.nbytes] = source.reshape(-1).view(np.uint8)

    def memcpy_dtoh(self, target: np.ndarray, source: Memory) -> None:
        target.reshape(-1).view(np.uint8)[:] = source.bytes[: target.nbytes]

    def memcpy_dtod(self, target: int, source: int, size: int) -> None:
        ctypes.memmove(target, source, size)

    def module_from_buffer(self, code: bytes) -> Any:
        self.loaded.append(code)
        return types.SimpleNamespace(get_function=self.function)

    def function(self, name: str) -> Any:
        stub = self

        class Function:
            def set_attribute(self, attribute: str, value: int) -> None:
                stub.attributes.append((attribute, value))

            def prepare(self, formats: str) -> None:
                self.formats = formats

            def prepared_call(self, grid: Any, block: Any, *arguments: Any, shared_size: int) -> None:
                assert stub.depth, "a context is current"
                struct.pack(self.formats, *arguments)
                stub.formats.append(self.formats)
                stub.launched.append((name, arguments, grid, block, shared_size))

        return Function()

    class Event:
        def record(self) -> None: ...
        def synchronize(self) -> None: ...
        def time_since(self, other: Any) -> float:
            return 50.0


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stub:
    made = Stub((8, 6))
    monkeypatch.setattr(cuda_driver, "DRIVER_LIBRARY", driver_library(tmp_path, status=0, count=2))
    package = types.ModuleType("pycuda")
    package.driver = made  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "pycuda", package)
    monkeypatch.setitem(sys.modules, "pycuda.driver", made)
    return made


def test_device_arrays_copy_there_and_back(stub: Stub) -> None:
    values = np.arange(6, dtype="float32").reshape(2, 3)
    there = tw.array(values, tw.cuda(0))
    assert (there.shape, there.dtype, there.device) == ((2, 3), np.dtype("float32"), tw.cuda(0))
    np.testing.assert_array_equal(there.numpy(), values)
    assert there.__cuda_array_interface__["typestr"] == "<f4"
    np.testing.assert_array_equal(tw.empty((2, 3), "float32", tw.cuda(0)).copyfrom(values + 1).numpy(), values + 1)


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


def test_device_arrays_hand_their_memory_on_by_dlpack(stub: Stub) -> None:
    there = tw.array(np.arange(6, dtype="float32").reshape(2, 3), tw.cuda(1))
    assert there.__dlpack_device__() == (2, 1)
    for found in (find_device_tensor(there), there.found()):
        assert (found.data, found.dtype, found.shape) == (int(there._memory), "float32", (2, 3))
        assert found.device == "cuda(1)"
    assert stub.synchronised == 1, "the consumer's stream must find the elements written"
    there.__dlpack__(stream=-1)
    assert stub.synchronised == 1
    copied = there.__dlpack__(copy=True)
    assert capsule_tensor(copied)[0].data not in (None, int(there._memory))
    with pytest.raises(BufferError, match=r"lies on cuda\(1\); numpy\(\) copies it to the host"):
        there.__dlpack__(dl_device=(1, 0))


def test_a_call_launches_on_the_tensors_own_memory(stub: Stub) -> None:
    f = kernel()
    tensors = [tw.array(np.zeros(1003, "float32"), tw.cuda(0)) for _ in range(3)]
    f(*tensors)
    f(*tensors)
    assert len(stub.loaded) == 1, "code is loaded once"
    assert stub.loaded[0][:4] == b"\x7fELF", "an sm_86 GPU runs a cubin of sm_80"
    name, arguments, grid, block, shared = stub.launched[0]
    assert (name, grid, block, shared) == ("main_kernel0", (16, 1, 1), (64, 1, 1), 0)
    assert [int(a) for a in arguments] == [t.__cuda_array_interface__["data"][0] for t in tensors]
    assert stub.depth == 0


def test_a_newer_gpu_gets_portable_code_and_an_older_one_an_error(stub: Stub) -> None:
    stub.capability = (9, 0)
    tensors = [tw.array(np.zeros(1003, "float32"), tw.cuda(0)) for _ in range(3)]
    kernel()(*tensors)
    assert stub.loaded[0].lstrip().startswith(b"//"), "PTX"
    stub.capability = (8, 0)
    with pytest.raises(
        CudaError, match=r"(?s)TW0833: cannot run code for sm_90 on cuda\(0\).*this GPU is sm_80.*-arch=sm_80"
    ):
        kernel(arch="sm_90")(*tensors)


def test_code_of_own_instructions_of_a_generation_runs_on_that_alone(stub: Stub) -> None:
    tensors = [tw.array(np.zeros(1003, "float32"), tw.cuda(0)) for _ in range(3)]
    f = kernel(arch="sm_90a")
    stub.capability = (9, 0)
    f(*tensors)
    assert stub.loaded[0][:4] == b"\x7fELF" and f.kernels[0].cluster == (1, 1, 1)
    stub.capability = (10, 0)
    with pytest.raises(CudaError, match=r"(?s)TW0833: cannot run code for sm_90a on cuda\(0\).*this GPU is sm_100"):
        kernel(arch="sm_90a")(*tensors)


def test_workspaces_and_shape_symbols_follow_the_arguments(stub: Stub) -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n,), lambda i: B[i] + B[n - 1 - i], name="C")
    s = te.create_schedule(C.op)
    for stage in (B, C):
        outer, inner = s[stage].split(s[stage].op.axis[0], factor=32)
        s[stage].bind(outer, te.thread_axis("blockIdx.x"))
        s[stage].bind(inner, te.thread_axis("threadIdx.x"))
    f = tw.build(s, [A, C], target="cuda")
    assert [launch.args for launch in f.kernels] == [(0, 2, 3), (1, 2, 3)]
    a, c = (tw.array(np.zeros(70, "float32"), tw.cuda(0)) for _ in range(2))
    stub.allocated.clear()
    f(a, c)
    assert stub.allocated == [280], "the workspace of 70 floats"
    (_, first, grid, _, _), (_, second, _, _, _) = stub.launched
    assert grid == (3, 1, 1)
    assert int(first[1]) == int(second[1]), "one workspace"
    assert first[2] == 70
    assert stub.formats == ["PPi", "PPi"]


def test_unaligned_tensors_run_code_that_asks_for_no_alignment(stub: Stub) -> None:
    f = kernel("vector_add_vectors")
    assert f.kernels[0].aligned == (0, 1, 2)
    tensors = [tw.array(np.zeros(1025, "float32"), tw.cuda(0)) for _ in range(3)]

    def view(tensor: Any, first: int) -> Any:
        interface = {**tensor.__cuda_array_interface__, "shape": (1024,)}
        interface["data"] = (interface["data"][0] + 4 * first, False)
        return types.SimpleNamespace(__cuda_array_interface__=interface, keep=tensor)

    f(*[view(t, 0) for t in tensors])
    f(*[view(t, 1) for t in tensors])
    assert len(set(stub.loaded)) == 2


def test_large_shared_memory_is_asked_for_at_the_launch(stub: Stub) -> None:
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
    assert stub.launched[0][4] == 64000
    assert stub.attributes == [("dynamic shared", 64000)]
    values, result = np.arange(16000, dtype="float32").reshape(160, 100), np.empty((160, 100), "float32")
    tw.build(s, [A, B], target="cuda -emulate")(values, result)
    np.testing.assert_array_equal(result, values[::-1])


def test_arguments_are_checked_as_on_the_host(stub: Stub) -> None:
    f = kernel()
    good = [tw.array(np.zeros(1003, "float32"), tw.cuda(0)) for _ in range(3)]
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
    assert stub.launched == []


def test_tensors_come_by_dlpack_without_a_copy(stub: Stub) -> None:
    class Tensor:
        """What torch and cupy hand out, over memory of the host's."""

        def __init__(self) -> None:
            self.values = np.zeros(1003, "float32")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 1

        def __dlpack__(self, **options: Any) -> Any:
            return self.values.__dlpack__(**options)

    tensors = [Tensor() for _ in range(3)]
    f = kernel()
    f(*tensors)
    assert [int(a) for a in stub.launched[0][1]] == [t.values.ctypes.data for t in tensors]
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
    ],
)
def test_scalars_are_packed_as_their_type(stub: Stub, dtype: str, letter: str, packed: float) -> None:
    a = te.var("a", dtype)
    A = te.placeholder((50,), name="A")
    B = te.compute((50,), lambda i: A[i] * a.astype("float32"), name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    x, y = (tw.array(np.zeros(50, "float32"), tw.cuda(0)) for _ in range(2))
    tw.build(s, [a, A, B], target="cuda")(3, x, y)
    assert stub.formats == [f"{letter}PP"]
    assert stub.launched[0][1][0] == packed


def test_time_is_taken_by_events(stub: Stub) -> None:
    tensors = [tw.array(np.zeros(1003, "float32"), tw.cuda(0)) for _ in range(3)]
    result = kernel().time(*tensors, number=10, repeat=3)
    assert result.results == (5e-3,) * 3
    assert len(stub.launched) == 1 + 3 * 10


def test_a_refused_launch_names_the_kernel(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = [tw.array(np.zeros(1003, "float32"), tw.cuda(0)) for _ in range(3)]

    class Refusing:
        def prepare(self, formats: str) -> None: ...

        def prepared_call(self, *arguments: Any, **options: Any) -> None:
            raise Stub.Error("out of resources")

    def refuse(name: str) -> Any:
        return Refusing()

    monkeypatch.setattr(stub, "function", refuse)
    message = r"(?s)TW0834: the driver refused to launch main_kernel0.*grid \(16, 1, 1\).*out of resources"
    with pytest.raises(CudaError, match=message):
        kernel()(*tensors)


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


def test_more_blocks_than_a_grid_holds_are_an_error(stub: Stub) -> None:
    f, n = powers(2), 46341
    f(Claimed((n - 1,), "int8"), Claimed((n - 1, n - 1), "int8"))
    assert [launch[2] for launch in stub.launched] == [((n - 1) ** 2, 1, 1)] * 2
    with pytest.raises(CudaError, match=f"TW0834: .* cannot be launched on {n * n} x 1 x 1 blocks"):
        f(Claimed((n,), "int8"), Claimed((n, n), "int8"))


def test_an_intermediate_that_no_memory_holds_is_an_error_at_the_call(stub: Stub) -> None:
    f, n = powers(4), 1 << 16
    with pytest.raises(CallError, match=rf"TW0517: could not get memory for the intermediate P\n.*it has {n**4} bytes"):
        f(Claimed((n,), "int8"), Claimed((n, n), "int8"))
    assert not stub.allocated and not stub.launched

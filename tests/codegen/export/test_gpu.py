"""Functions for GPUs in libraries, called by C: the driver has no GPU, notes what it is asked, and fails where it is told to."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from exported import compile_program, needs_compiler, run
from tilewright import te, topi
from tilewright.codegen.cuda.nvrtc import find_nvrtc
from warpgroups import wgmma_matmul

pytestmark = [needs_compiler, pytest.mark.skipif(find_nvrtc() is None, reason="no NVRTC here")]
FAKE = Path(__file__).resolve().parents[2] / "support" / "fake_cuda.c"
ROWS = 5

PROGRAM = """
#include "layers.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    static float memory[3][5 * 64 + 4];
    int64_t shape[2] = {5, 64};
    int kind = argc > 2 ? atoi(argv[2]) : 2, status;
    void *stream = (void *)(size_t)atoi(argv[1]);
    DLTensor a = {memory[0], {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, NULL, NULL, 0}, c = a;
    a.shape = c.shape = shape;
    c.data = memory[1];
    a.device.device_type = c.device.device_type = (DLDeviceType)kind;
    status = kind == 2 ? on_gpu(stream, 5, memory[0], 2.5f, memory[1]) : 0;
    if (status == 0) status = on_gpu_checked(stream, &a, 2.5f, &c);
    printf("%s\\n", on_gpu_error(status));
    for (int i = 0; i < 64; i++) memory[0][i] = 1;
    status = on_cpu(memory[0], memory[2]);
    return status == 0 && memory[2][0] == 64.0f ? 0 : 1;
}
"""


def on_gpu() -> tuple[Any, list[Any]]:
    """Two kernels: the first computes an intermediate of n rows, the second adds a constant that the library holds."""
    n, factor = te.size_var("n"), te.var("factor", "float32")
    A = te.placeholder((n, 64), name="A")
    row = te.constant(np.arange(3, 67, dtype="float32"), name="row")
    T = te.compute((n, 64), lambda i, j: A[i, j] * factor, name="T")
    C = te.compute((n, 64), lambda i, j: T[i, 63 - j] + row[j], name="C")
    s = te.create_schedule(C.op)
    for stage in (T, C):
        i, j = s[stage].op.axis
        s[stage].bind(i, te.thread_axis("blockIdx.x"))
        s[stage].bind(j, te.thread_axis("threadIdx.x"))
    return s, [A, factor, C]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the library, a program that calls it, and the driver in a folder of its own."""
    folder = tmp_path_factory.mktemp("gpu library")
    library = tw.Library("layers")
    s, args = on_gpu()
    library.add("on_gpu", s, args, target="cuda -arch=sm_80,sm_90")
    A = te.placeholder((64,), name="A")
    library.add("on_cpu", [A, topi.sum(A, 0)])
    library.export(folder)
    compile_program(folder, PROGRAM, ["liblayers.so"])
    (folder / "driver").mkdir()
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", folder / "driver/libcuda.so.1", FAKE], check=True)
    return folder


def called(made: Path, plan: str, *arguments: object) -> tuple[str, list[str]]:
    """What the program says of the function's status, and what the driver was asked."""
    log = made / "log"
    log.unlink(missing_ok=True)
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(made / "driver"),
        "FAKE_CUDA_LOG": str(log),
        "FAKE_CUDA": plan,
        "FAKE_CUDA_ARGUMENTS": "on_gpu_kernel0=pfpi,on_gpu_kernel1=ppci,",
    }
    done = run([made / "program_cc", *(arguments or (7,))], env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip(), log.read_text().splitlines() if log.exists() else []


def test_what_is_launched_is_what_the_kernel_says(made: Path) -> None:
    s, args = on_gpu()
    kernels = tw.build(s, args, target="cuda -arch=sm_90", name="on_gpu").kernels
    said, log = called(made, "capability=90")
    assert said == "success"
    launches = [line for line in log if line.startswith("launch")]
    assert len(launches) == 2 * len(kernels) == 4, "by pointers, then by DLPack's tensors"
    for line, kernel in zip(launches, (*kernels, *kernels), strict=True):
        grid = " ".join(map(str, kernel.blocks({"n": ROWS})))
        block = " ".join(map(str, kernel.block))
        expected = f"launch {kernel.name} grid {grid} block {block} shared {kernel.dynamic_shared_bytes}"
        assert line.startswith(f"{expected} stream 7 ")
    values = [line.split(" stream 7 ")[1].split() for line in launches]
    assert [kernel.args for kernel in kernels] == [(0, 1, 3, 5), (2, 3, 4, 5)]
    assert values[0][1] == "2.5" and values[1][2] == "3", "the number, and the first element of the constant"
    assert values[0][3] == values[1][3] == str(ROWS)
    assert values[0][2] == values[1][1], "the intermediate passes from one to the other"


def test_memory_is_given_back_on_the_stream_and_code_is_loaded_once(made: Path) -> None:
    _, log = called(made, "capability=80")
    code = [line for line in log if line.startswith("cuLibrary")]
    assert code == ["cuLibraryLoadData cubin 80", *["cuLibraryGetKernel of 1001"] * 2]
    assert log.count(f"cuMemAllocAsync {ROWS * 64 * 4}") == 2 and log.count("cuMemcpyHtoDAsync 256 7") == 2
    assert log.count("cuMemFreeAsync 7") == 4
    assert log.count("cuInit 0") == 1 and log[-1] == "cuCtxPopCurrent 0"


@pytest.mark.parametrize(
    ("capability", "image"), [(80, "cubin 80"), (89, "cubin 80"), (90, "cubin 90"), (100, "ptx 90")]
)
def test_the_nearest_code_is_taken(made: Path, capability: int, image: str) -> None:
    _, log = called(made, f"capability={capability}")
    assert [line for line in log if "LoadData" in line] == [f"cuLibraryLoadData {image}"]


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("fail=cuInit:100", "TW0831: on_gpu did not run: the driver finds no GPU to run it on (no device)"),
        (
            "fail=cuDevicePrimaryCtxRetain:101",
            "TW0831: on_gpu did not run: the driver finds no GPU to run it on (invalid device)",
        ),
        ("capability=75", "TW0833: on_gpu did not run: it has no code for this GPU's architecture"),
        (
            "capability=90 fail=cuLibraryLoadData:200",
            "TW0833: on_gpu did not run: the driver refuses its code (invalid image)",
        ),
        ("fail=cuLibraryGetKernel:500", "TW0833: on_gpu did not run: the driver refuses its code (not found)"),
        (
            "fail=cuMemAllocAsync:2",
            "TW0834: on_gpu did not run: no memory on the GPU for its intermediates (out of memory)",
        ),
        (
            "fail=cuMemcpyHtoDAsync:1",
            "TW0834: on_gpu did not run: no memory on the GPU for its intermediates (invalid value)",
        ),
        (
            "fail=cuLaunchKernel:701",
            "TW0834: on_gpu did not run: the driver refuses a launch (out of resources for a launch)",
        ),
    ],
)
def test_faults_are_statuses_that_leave_nothing_behind(made: Path, plan: str, said: str) -> None:
    told, log = called(made, plan, 0)
    assert told == said
    asked = sum(line.startswith("cuMemAllocAsync") for line in log) - ("cuMemAllocAsync" in plan)
    assert sum(line.startswith("cuMemFreeAsync") for line in log) == asked
    pushed = sum(line.startswith("cuCtxPush") for line in log)
    assert pushed == sum(line.startswith("cuCtxPop") for line in log)


def test_code_that_the_driver_refuses_is_followed_by_the_portable_one(made: Path) -> None:
    said, log = called(made, "capability=90 fail=cuLibraryLoadData:209:1")
    assert said == "success"
    assert [line for line in log if "LoadData" in line][:2] == [
        "cuLibraryLoadData cubin 90",
        "cuLibraryLoadData ptx 90",
    ]


def test_a_context_that_is_current_is_used_and_a_stream_brings_its_own(made: Path) -> None:
    _, log = called(made, "context", 0)
    assert not any(line.startswith(("cuCtxPush", "cuDevicePrimary")) for line in log)
    _, log = called(made, "context", 64)
    assert log[1:3] == ["cuStreamGetCtx 64", "cuCtxPushCurrent 48"]


def test_without_a_driver_there_is_a_status(made: Path) -> None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        done = run([made / "program_cc", 0])
        assert done.returncode == 0
        assert done.stdout.strip() == "TW0830: on_gpu did not run: this machine has no NVIDIA driver (libcuda.so.1)"


def test_checked_entries_ask_for_memory_of_a_gpu(made: Path) -> None:
    said, log = called(made, "", 0, 1)
    assert said.startswith("TW0512: 'A' (argument 1 of on_gpu) is on another device; this function runs on a GPU")
    assert not any(line.startswith("launch") for line in log)


def test_header_manifest_and_python_know_both_kinds(made: Path) -> None:
    header = (made / "layers.h").read_text()
    assert "int32_t on_gpu(void *stream, int64_t n, const float *A, float factor, float *C);" in header
    assert "int32_t on_cpu(const float *A, float *" in header and "sm_90" in header
    manifest = json.loads((made / "layers.json").read_text())
    assert [each["name"] for each in manifest["functions"]] == ["on_cpu"]
    (function,) = manifest["gpu_functions"]
    code = [(each["architecture"], each["kind"]) for each in function["code"]]
    assert code == [("sm_90", "cubin"), ("sm_80", "cubin"), ("sm_90", "ptx")]
    assert [launch["name"] for launch in function["launches"][0]] == ["on_gpu_kernel0", "on_gpu_kernel1"]
    assert list(tw.load(made / "liblayers.so")) == ["on_cpu", "on_gpu"]
    needed = run(["ldd", made / "liblayers.so"]).stdout
    assert "libcuda" not in needed


PYTHON = """
import sys
import numpy as np
import tilewright as tw

class OnGpu:
    "Memory that says it is a GPU's."
    def __init__(self, values):
        self.values = values
        self.__cuda_array_interface__ = {"version": 3, "shape": values.shape, "typestr": values.dtype.str,
                                         "data": (values.ctypes.data, False), "strides": None}

library = tw.load(sys.argv[1])
a, c, host = OnGpu(np.ones((5, 64), "f4")), OnGpu(np.ones((5, 64), "f4")), np.ones((5, 64), "f4")
library["on_cpu"](np.ones(64, "f4"), total := np.zeros((), "f4"))
print(total)
for arguments in ((a, 2.5, c), (a, 2.5, host), (a, 2.5, OnGpu(np.ones((4, 64), "f4")))):
    try:
        library["on_gpu"](*arguments)
        print(library["on_gpu"].time(*arguments, number=2, repeat=3, min_repeat_ms=0).number)
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0], "|", error.reason)
"""


def in_python(made: Path, plan: str) -> tuple[list[str], list[str]]:
    """What a program that loads the library prints, and what the driver was asked."""
    log = made / "log"
    log.unlink(missing_ok=True)
    environment = os.environ | {"LD_LIBRARY_PATH": str(made / "driver"), "FAKE_CUDA_LOG": str(log), "FAKE_CUDA": plan}
    done = run([sys.executable, "-c", PYTHON, made / "liblayers.so"], env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), log.read_text().splitlines() if log.exists() else []


def test_python_calls_what_runs_on_a_gpu(made: Path) -> None:
    said, log = in_python(made, "")
    assert said[:2] == ["64.0", "2"]
    assert said[2].startswith(
        "WrongDevice CallError TW0512: 'C' (argument 3 of on_gpu) is on the host; this kernel runs on a GPU"
    )
    assert said[3].startswith("SymbolDisagrees CallError TW0507: 'C' (argument 3 of on_gpu) has 4")
    assert sum(line.startswith("launch on_gpu_kernel0 grid 5 ") for line in log) == 1 + 1 + 3 * 2
    assert log.count("cuCtxPopCurrent 0") == log.count("cuCtxPushCurrent 32") == 1 + 1 + 3 * 2, (
        "each call on the tensors' own GPU"
    )
    assert log.count("cuEventSynchronize ") == 1 + 3 * 2, "a time ends when the GPU is done"


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (
            "capability=75",
            "WrongArchitecture CudaError TW0833: on_gpu did not run | it has no code for this GPU's architecture",
        ),
        (
            "fail=cuLaunchKernel:701",
            "LaunchFailed CudaError TW0834: on_gpu did not run | the driver refuses a launch (out of",
        ),
        (
            "fail=cuDevicePrimaryCtxRetain:2",
            "GpuMissing CudaError TW0831: cannot run on cuda(0) | the driver says: out of memory",
        ),
        (
            "fail=cuInit:100",
            "GpuMissing CudaError TW0831: cannot run on a GPU: there is no cuda(0) | the driver's cuInit returned 100",
        ),
        (
            "fail=cuEventSynchronize:700",
            "LaunchFailed CudaError TW0834: a kernel failed on the GPU | the driver says: illegal address",
        ),
    ],
)
def test_faults_of_the_driver_are_errors_in_python(made: Path, plan: str, said: str) -> None:
    told, log = in_python(made, plan)
    assert told[1].startswith(said)
    pushed = sum(line.startswith("cuCtxPush") for line in log)
    assert pushed == sum(line.startswith("cuCtxPop") for line in log)


@pytest.mark.parametrize(
    ("file", "archs", "portable"),
    [("libone.so", "sm_86", b"sm_86"), ("one.o", "sm_80,sm_90a", b"sm_80"), ("libone.a", "sm_90a", b"sm_90a")],
)
def test_a_kernel_alone_is_exported_with_the_portable_code_of_what_is_most(
    tmp_path: Path, file: str, archs: str, portable: bytes
) -> None:
    """What sm_90a has alone runs on nothing else, in either form."""
    A = te.placeholder((64,), name="A")
    kernel = tw.build([A, topi.exp(A)], target=f"cuda -arch={archs}")
    library, header, _ = kernel.export(tmp_path / file)
    assert "int32_t one(void *stream, const float *A" in header.read_text()
    content = library.read_bytes()
    assert re.findall(rb"\.target (sm_\w+)", content) == [portable]


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    A = te.placeholder((64,), name="A")
    program = [A, topi.exp(A)]
    library = tw.Library("layers")
    library.add("f", program, target=["cuda -arch=sm_80", "cuda -arch=sm_90"])
    for target in ("llvm", ["llvm", "cuda"]):
        with pytest.raises(tw.ExportError, match="TW0710: 'f' cannot be in library 'layers' for CPUs and for GPUs"):
            library.add("f", program, target=target)
    with pytest.raises(tw.ExportError, match=r"TW0704: f\(.*\) would be exported twice"):
        library.add("f", program, target="cuda -arch=sm_90")
    with pytest.raises(tw.ExportError, match=r"(?s)TW0710: 'g' cannot be in library .*in this process alone"):
        library.add("g", program, target="cuda -emulate")
    with pytest.raises(tw.ExportError, match="TW0710: 'f' is there already with other parameters"):
        library.add("f", [B := te.placeholder((63,), name="B"), topi.exp(B)], target="cuda -arch=sm_89")
    with pytest.raises(tw.ExportError, match="TW0710: a Python package cannot have f"):
        library.export_python(tmp_path)
    with pytest.raises(tw.ExportError, match="TW0740: cannot export main"):
        tw.build(program, target="cuda -emulate").export(tmp_path / "libx.so")


BOXES = """
#include "boxes.h"
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **given)   /* rows, and by how many bytes A lies behind a multiple of 64 */
{
    static char bytes[4096 + 128];
    char *memory = bytes + (-(size_t)bytes & 63);
    int64_t n = atoi(given[1]);
    printf("%s\\n", boxes_error(boxes(NULL, n, (void *)(memory + atoi(given[2])), (void *)(memory + 2048))));
    return count != 3;
}
"""


@pytest.fixture(scope="module")
def boxed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a library whose kernel takes a map of boxes, a program that calls it, and the driver in a folder of its own."""
    folder = tmp_path_factory.mktemp("boxes")
    n = te.size_var("n")
    A = te.placeholder((n, 72), "float16", name="A")
    C = te.compute((n, 72), lambda i, j: A[i, j] + 1, name="C")
    s = te.create_schedule(C.op)
    tile = s.cache_read(A, "shared", [C])
    rows, i = s[C].split(C.op.axis[0], factor=16)
    columns, j = s[C].split(C.op.axis[1], factor=24)
    s[C].reorder(rows, columns, i, j)
    s[C].bind(rows, te.thread_axis("blockIdx.x"))
    s[C].bind(i, te.thread_axis("threadIdx.x"))
    s[tile].compute_at(s[C], columns)
    s[tile].pipeline(2, by="tma")
    tw.build(s, [A, C], target="cuda -arch=sm_90a", name="boxes").export(folder / "libboxes.so")
    (folder / "driver").mkdir()
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", folder / "driver/libcuda.so.1", FAKE], check=True)
    compile_program(folder, BOXES, ["libboxes.so"])
    return folder


def asked(boxed: Path, plan: str, command: list[object]) -> tuple[list[str], list[str]]:
    """What a program says, and what of boxes and launches the driver was asked."""
    log = boxed / "log"
    log.unlink(missing_ok=True)
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(boxed / "driver"),
        "FAKE_CUDA_LOG": str(log),
        "FAKE_CUDA": plan,
        "FAKE_CUDA_ARGUMENTS": "boxes_kernel0=p,",
    }
    done = run(command, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = log.read_text().splitlines() if log.exists() else []
    assert sum(line.startswith("cuCtxPush") for line in lines) == sum(line.startswith("cuCtxPop") for line in lines)
    return done.stdout.splitlines(), [line for line in lines if line.startswith(("cuTensorMap", "launch"))]


ENCODED = ["cuTensorMapEncodeTiled extents 72 5 stride 144", "cuTensorMapEncodeTiled box 24 16 kind+swizzle 60"]
"""Of five rows."""


def test_maps_of_boxes_are_encoded_by_the_driver(boxed: Path) -> None:
    """The kernel's first parameters, from the shapes and addresses of the call."""
    said, lines = asked(boxed, "capability=90", [boxed / "program_cc", 5, 0])
    assert said == ["success"] and lines[:2] == ENCODED
    assert lines[2].endswith("stream 0 72"), "the map is what the kernel gets first"
    said, lines = asked(boxed, "capability=90", [boxed / "program_cc", 0, 0])
    assert said == ["success"] and not lines, "no rows: nothing is encoded, and nothing launched"
    launch = json.loads((boxed / "boxes.json").read_text())["gpu_functions"][0]["launches"][0][0]
    assert launch["args"][0] == {
        "argument": 0,
        "dtype": "float16",
        "shape": ["n", 72],
        "strides": [144, 2],
        "box": [16, 24],
        "swizzle": 0,
    }


@pytest.mark.parametrize(
    ("plan", "shift", "reason"),
    [
        (
            "capability=90 fail=cuTensorMapEncodeTiled:1",
            0,
            "TW0834: boxes did not run: the driver refuses a launch (invalid value)",
        ),
        (
            "capability=90 fail=cuTensorMapEncodeTiled:801",
            0,
            "TW0834: boxes did not run: the driver refuses a launch (not supported)",
        ),
        ("capability=90", 8, "TW0834: boxes did not run: the driver refuses a launch (invalid value)"),
        ("capability=80", 0, "TW0833: boxes did not run: it has no code for this GPU's architecture"),
        ("capability=100 fail=cuLibraryLoadData:218", 0, "TW0833: boxes did not run: "),
    ],
)
def test_maps_that_the_driver_refuses_are_statuses(boxed: Path, plan: str, shift: int, reason: str) -> None:
    """Also of a tensor between multiples of 16 bytes, where the engine finds no rows; and of other architectures."""
    said, lines = asked(boxed, plan, [boxed / "program_cc", 5, shift])
    assert said[0].startswith(reason)
    assert not any(line.startswith("launch") for line in lines), "nothing is launched"


BOXES_IN_PYTHON = """
import sys
import numpy as np
import tilewright as tw

class OnGpu:
    def __init__(self, address, rows):
        self.__cuda_array_interface__ = {"version": 3, "shape": (rows, 72), "typestr": "<f2", "data": (address, False),
                                         "strides": None}

memory = np.zeros(4096, "u1")
begin = memory.ctypes.data + -memory.ctypes.data % 64
boxes = tw.load(sys.argv[1])
for place, rows in ((begin, 5), (begin + 2, 5), (begin, 0)):
    try:
        boxes(OnGpu(place, rows), OnGpu(begin + 2048, rows))
        print("success")
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0], "|", error.reason)
"""


def test_python_calls_what_takes_maps_of_boxes(boxed: Path) -> None:
    command = [sys.executable, "-c", BOXES_IN_PYTHON, boxed / "libboxes.so"]
    said, lines = asked(boxed, "capability=90", command)
    assert [said[0], said[2]] == ["success"] * 2 and lines[:2] == ENCODED and len(lines) == 3
    assert re.match(r"\w*Aligned?\w* CallError TW05\d\d.*'A'|\w+ CallError TW05\d\d.*'A'.*", said[1]), said[1]
    assert "16" in said[1], "the engine's alignment is said before the driver is asked"
    said, lines = asked(boxed, "capability=90 fail=cuTensorMapEncodeTiled:1", command)
    assert said[0] == "LaunchFailed CudaError TW0834: boxes did not run | the driver refuses a launch (invalid value)"
    assert not any(line.startswith("launch") for line in lines)


RESIDENT_IN_PYTHON = """
import sys
import numpy as np
import tilewright as tw

class OnGpu:
    def __init__(self, address, shape, kind):
        self.__cuda_array_interface__ = {"version": 3, "shape": shape, "typestr": kind, "data": (address, False), "strides": None}

memory = np.zeros(1 << 19, "u1")
begin = memory.ctypes.data + -memory.ctypes.data % 64
f = tw.load(sys.argv[1])
f(OnGpu(begin, (264, 136), "<f2"), OnGpu(begin, (136, 128), "<f2"), OnGpu(begin + (1 << 18), (264, 128), "<f4"))
"""


@pytest.mark.parametrize(("cluster", "blocks"), [(1, 6), (2, 4)])
def test_blocks_that_stay_are_as_many_as_the_gpu_holds(cluster: int, blocks: int, boxed: Path) -> None:
    """Of three multiprocessors with two blocks each, or of two clusters at once; not as many as the schedule's GPU would hold."""
    program = wgmma_matmul(264, 128, 136, resident=8, bulk=True, roles=True, cluster=cluster)
    library = boxed / f"libresident{cluster}.so"
    tw.build(program.schedule, program.args, target="cuda -arch=sm_90a", name="resident").export(library)
    log = boxed / "log"
    for plan, grid in (("", blocks), ("fail=cuOccupancyMaxActive:1 ", 0)):
        log.unlink(missing_ok=True)
        plan = plan.replace("Active:", f"Active{'BlocksPerMultiprocessor' if cluster == 1 else 'Clusters'}:")
        environment = os.environ | {
            "LD_LIBRARY_PATH": str(boxed / "driver"),
            "FAKE_CUDA_LOG": str(log),
            "FAKE_CUDA": f"{plan}capability=90",
        }
        done = run([sys.executable, "-c", RESIDENT_IN_PYTHON, library], env=environment)
        launched = [line for line in log.read_text().splitlines() if line.startswith("launch")]
        if grid:
            assert done.returncode == 0, done.stdout + done.stderr
            assert f"grid {grid} 1 1 block 256 1 1" in launched[0]
        else:
            assert "TW0834: resident did not run" in done.stderr and not launched

"""The emulated GPU itself, on CUDA C text written by hand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gpu_programs
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.base.errors import CodegenError, CudaError
from tilewright.codegen.cuda import nvrtc
from tilewright.codegen.cuda.emulate import compiler
from tilewright.codegen.cuda.emulate.compiler import KernelEntry, compile_for_emulation
from tilewright.codegen.cuda.emulate.run import Launch, Memory, emulate
from tilewright.ir.text.parser import parse


def run(
    body: str,
    values: np.ndarray,
    block: tuple[int, int, int] = (32, 1, 1),
    grid: tuple[int, int, int] = (1, 1, 1),
    seed: int = 0,
    check: bool = True,
    prelude: str = "",
    misaligned: int = 0,
) -> np.ndarray:
    """`body` over one array X of ints or floats; the array afterwards."""
    kind = "float" if values.dtype == np.float32 else "int"
    text = f'{prelude}\nextern "C" __global__ void k({kind} *X, int n) {{\n{body}\n}}\n'
    library = compile_for_emulation(text, (KernelEntry("k", (f"{kind} *", "int")),), False)
    memory = Memory("X", values.reshape(-1).view(np.uint8).copy(), values.itemsize, misaligned)
    number = np.int32(values.size).tobytes()
    emulate(library, [Launch("k", grid, block, (0, number), 4)], [memory], [], seed=seed, check=check)
    return memory.content.view(values.dtype)


def ints(count: int) -> np.ndarray:
    return np.arange(count, dtype="int32")


def test_every_thread_of_every_block_runs_once_with_its_own_indices() -> None:
    body = """int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    X[b * (blockDim.x * blockDim.y * blockDim.z) + t] = b * 100 + t;"""
    found = run(body, np.full(2 * 3 * 4 * 2 * 2 * 2, -1, "int32"), block=(4, 3, 2), grid=(2, 2, 2))
    np.testing.assert_array_equal(found, (np.arange(8)[:, None] * 100 + np.arange(24)).reshape(-1))


def test_a_barrier_shows_what_all_threads_stored() -> None:
    body = "__shared__ int S[256]; S[threadIdx.x] = X[threadIdx.x]; __syncthreads(); X[threadIdx.x] = S[255 - threadIdx.x];"
    for seed in range(3):
        np.testing.assert_array_equal(run(body, ints(256), (256, 1, 1), seed=seed), ints(256)[::-1])


def test_barriers_in_loops_pair_by_iteration() -> None:
    body = """__shared__ int S[64];
    for (int i = 0; i < 5; ++i) {
      S[threadIdx.x] = X[threadIdx.x];
      __syncthreads();
      X[threadIdx.x] = S[(threadIdx.x + 1) % 64];
      __syncthreads();
    }"""
    np.testing.assert_array_equal(run(body, ints(64), (64, 1, 1)), np.roll(ints(64), -5))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("__shfl_down_sync(0xffffffffu, v, 3)", lambda lane: lane + 3 if lane + 3 < 32 else lane),
        ("__shfl_down_sync(0xffffffffu, v, 2, 8)", lambda lane: lane + 2 if lane % 8 + 2 < 8 else lane),
        ("__shfl_sync(0xffffffffu, v, 5)", lambda lane: 5),
        ("__shfl_sync(0xffffffffu, v, 1, 4)", lambda lane: lane // 4 * 4 + 1),
    ],
)
def test_shuffles_move_values_between_lanes(call: str, expected: Any) -> None:
    for seed in range(3):
        found = run(f"int v = X[threadIdx.x]; X[threadIdx.x] = {call};", ints(64), (64, 1, 1), seed=seed)
        np.testing.assert_array_equal(found, [expected(t % 32) + t // 32 * 32 for t in range(64)])


def test_half_warps_shuffle_on_their_own() -> None:
    body = "int v = X[threadIdx.x]; if (threadIdx.x < 16) X[threadIdx.x] = __shfl_down_sync(0xffffu, v, 1, 16);"
    np.testing.assert_array_equal(run(body, ints(32)), [*range(1, 16), 15, *range(16, 32)])


def test_shared_memory_begins_as_no_number() -> None:
    body = "__shared__ float S[32]; if (n < 0) S[threadIdx.x] = 1.0f; X[threadIdx.x] = S[threadIdx.x];"
    found = run(body, np.zeros(32, "float32"))
    assert np.isnan(found).all()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("X[threadIdx.x + 1] = 1;", r"TW0821: .*thread \(31, 0, 0\).*stores element 32 of 'X'"),
        ("X[0] = X[(int)threadIdx.x - 1];", r"(?s)TW0821: .*thread \(0, 0, 0\).*reads element -1 of 'X'|TW0820"),
        ("X[n + 900] = 1;", r"TW0821: .*element 932 of 'X'"),
        ("__shared__ int S[8]; S[threadIdx.x] = 1;", r"(?s)TW0821: .*takes element \d+ of an array.*fewer elements"),
        (
            "int L[4]; for (int i = 0; i <= n / 8; ++i) L[i] = i; X[threadIdx.x] = L[n / 16];",
            r"TW0821: .*takes element 4 of an array",
        ),
        ("int *p = 0; X[threadIdx.x] = *p;", r"TW0821: .*reads"),
        (
            "X[0] = threadIdx.x;",
            r"(?s)TW0820: race in k, line 3: thread .* stores element 0 of 'X'.*stored it at line 3",
        ),
        ("int v = X[5]; if (threadIdx.x == 5) X[5] = v + 1;", r"(?s)TW0820: .*element 5 of 'X'"),
        ("if (threadIdx.x < 8) __syncthreads();", r"(?s)TW0822: barrier in k, line 3: 8 of 32 threads.*has ended"),
        ("if (threadIdx.x < 8)\n __syncthreads();\nelse\n __syncthreads();", r"(?s)TW0822: .*waits at line"),
        ("X[threadIdx.x] = __shfl_sync(0xffu, X[threadIdx.x], 0);", r"TW0823: shuffle in k, line 3"),
        (
            "if (threadIdx.x != 3) X[threadIdx.x] = __shfl_down_sync(0xffffffffu, 1, 1);",
            r"TW0823: shuffle in k, line 3",
        ),
    ],
)
def test_faults_are_found(body: str, message: str) -> None:
    for seed in range(2):
        with pytest.raises(CudaError, match=message):
            run(body, ints(32), seed=seed)


def test_threads_of_two_blocks_race_on_global_memory_alone() -> None:
    body = "if (threadIdx.x == 0) X[0] = 1;"
    with pytest.raises(CudaError, match=r"(?s)TW0820: race in k, line 3: .*another block stored it"):
        run(body, ints(32), grid=(2, 1, 1))
    reads = "if (threadIdx.x == 0) { X[2 + blockIdx.x] = X[1]; if (blockIdx.x == 1) X[1] = 9; }"
    for seed in range(4):
        with pytest.raises(CudaError, match=r"(?s)TW0820: .*element 1 of 'X'.*another block"):
            run(reads, ints(32), grid=(3, 1, 1), seed=seed)
    shared = "__shared__ int S[32]; S[threadIdx.x] = blockIdx.x; X[blockIdx.x * 32 + threadIdx.x] = S[threadIdx.x];"
    np.testing.assert_array_equal(run(shared, ints(96), grid=(3, 1, 1)), np.repeat(np.arange(3), 32))


def test_races_are_not_looked_for_where_they_are_not_asked_about() -> None:
    assert run("X[0] = threadIdx.x;", ints(32), check=False)[0] in range(32)


def test_the_seed_decides_the_order_of_threads() -> None:
    def last(seed: int) -> int:
        return int(run("X[0] = threadIdx.x;", ints(32), seed=seed, check=False)[0])

    assert len({last(seed) for seed in range(8)}) > 2
    assert [last(seed) for seed in range(4)] == [last(seed) for seed in range(4)]


def test_vectors_at_addresses_that_are_no_multiple_of_their_size_are_found() -> None:
    prelude = "template <class T, int lanes> struct alignas(sizeof(T) * lanes) vector { T lane[lanes]; };"
    body = "auto *p = (vector<int, 4> *)(X + 4 * threadIdx.x); auto v = *p; v.lane[0] = 7; *p = v;"
    np.testing.assert_array_equal(run(body, ints(32), (8, 1, 1), prelude=prelude)[:5], [7, 1, 2, 3, 7])
    with pytest.raises(CudaError, match=r"TW0824: misaligned in k, line 3: .*(16|8) bytes at element"):
        run(body, ints(32), (8, 1, 1), prelude=prelude, misaligned=4)


def test_kernels_may_be_called_from_several_threads() -> None:
    program = gpu_programs.PROGRAMS["matmul"]()
    kernel = tw.build(program.schedule, program.args, target="cuda -emulate")

    def call(seed: int) -> bool:
        inputs, output = program.inputs(seed), program.output()
        kernel(*inputs, output)
        return bool(np.allclose(output, program.reference(*inputs), atol=1e-4))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(8)))


def test_a_machine_without_a_compiler_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler._compiler.cache_clear()
    compiler._machine.cache_clear()
    monkeypatch.setenv("PATH", "")
    try:
        with pytest.raises(
            CudaError, match=r"(?s)TW0815: cannot emulate: there is no C\+\+ compiler.*fix: install g\+\+"
        ):
            run("X[threadIdx.x] = 123;", ints(32))
    finally:
        compiler._compiler.cache_clear()


def test_a_machine_without_nvrtc_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    program = gpu_programs.vector_add(8)
    kernel = tw.build(program.schedule, program.args, target="cuda")
    monkeypatch.setattr(nvrtc, "find_nvrtc", lambda: None)
    nvrtc._library.cache_clear()
    nvrtc.compile_cuda.cache_clear()
    try:
        with pytest.raises(
            CudaError, match=r"(?s)TW0813: cannot compile CUDA code: NVRTC is not installed.*'tilewright\[nvrtc\]'"
        ):
            kernel.source("ptx")
    finally:
        nvrtc._library.cache_clear()
    monkeypatch.setattr(nvrtc, "_disassembler", lambda: None)
    with pytest.raises(
        CudaError, match=r"(?s)TW0814: cannot show SASS: nvdisasm is not installed.*'tilewright\[nvrtc\]'"
    ):
        nvrtc.disassemble(b"")


@pytest.mark.parametrize("target", ["cuda", "cuda -emulate"])
def test_a_function_that_nobody_defines_is_named(target: str) -> None:
    function = parse(
        '@attrs(stage="loops")\ndef main(C: out float32[4]):\n    for i in thread("threadIdx.x", 4):\n'
        '        C[i] = call_extern(float32, "no_such_function", 1.0)\n'
    )
    kernel = tw.build(function, target=target)
    use = (lambda: kernel(np.zeros(4, "float32"))) if "emulate" in target else lambda: kernel.source("ptx")
    with pytest.raises(CodegenError, match="TW0411: the program calls 'no_such_function', which is not defined"):
        use()


@pytest.mark.parametrize("begin", [0, 1])
def test_vectors_of_long_elements_need_only_the_elements_alignment_of_arguments(begin: int) -> None:
    """Compilers report 16 bytes that are aligned to 8 as an aligned access."""
    n = 12
    A = te.placeholder((n,), "int64", "A")
    B = te.compute((n,), lambda i: A[i] * 3, name="B")
    s = te.create_schedule(B)
    outer, inner = s[B].split(B.op.axis[0], factor=2)
    s[B].bind(outer, te.thread_axis("threadIdx.x"))
    s[B].vectorize(inner)
    given, found = (np.arange(n + 1, dtype="int64")[begin : begin + n] for _ in range(2))
    f = tw.build(s, [A, B], target="cuda -emulate")
    assert "tw_load<2>" in f.source("cuda")
    f(given, found)
    np.testing.assert_array_equal(found, np.arange(begin, begin + n) * 3)


def test_nvrtc_of_an_older_toolkit_is_found_and_says_what_it_is_too_old_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """CUDA 12's package has a folder of its own; CUDA 13's comes first."""
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(nvrtc.importlib.util, "find_spec", lambda name: spec)
    for folder in ("cuda_nvrtc/lib/libnvrtc.so.12", "cu13/lib/libnvrtc.so.13"):
        (tmp_path / folder).parent.mkdir(parents=True)
        (tmp_path / folder).touch()
        nvrtc.find_nvrtc.cache_clear()
        assert nvrtc.find_nvrtc() == tmp_path / folder
    monkeypatch.undo()
    nvrtc.find_nvrtc.cache_clear()
    with pytest.raises(CudaError, match=r"(?s)TW0813: cannot compile CUDA code for sm_999: NVRTC \d+\.\d+ is older"):
        nvrtc.compile_cuda('extern "C" __global__ void f() {}', "sm_999")

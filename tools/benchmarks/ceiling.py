"""Ceilings of the machine: multiply-adds that never leave the registers, and memory read or copied past the caches."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from llvmlite import binding

__all__ = ["Ceilings", "fma_gflops"]

CHAINS = 24
"""Independent accumulators: latency 4 times two units a cycle is 8; more hide what the loop itself costs."""
STREAM_BYTES = 96 << 20
"""What each thread reads, or copies: several times the last cache."""
_UNROLLED = 8


class Ceilings:
    """The rates of `threads` threads together, each measured anew at every call, in short bursts that fit between the
    rounds of a measurement."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._lanes = 16 if binding.get_host_cpu_features().get("avx512f") else 8
        self._engine = _compile(_text(self._lanes))
        self._burn = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64, ctypes.c_float)(
            self._engine.get_function_address("burn")
        )
        self._read = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_void_p, ctypes.c_int64)(
            self._engine.get_function_address("read")
        )
        self._copy = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
            self._engine.get_function_address("copy")
        )
        self._pool = ThreadPoolExecutor(threads)
        self._memory: list[np.ndarray] = []

    def fma(self, seconds: float = 0.004) -> float:
        """float32 operations a second, a multiply-add being two: nothing but those, on full vectors."""
        rounds = max(1000, int(seconds * 4e9 / CHAINS * 2))
        return self._parallel_rate(lambda _: self._burn(rounds, 0.5), 2.0 * self._lanes * CHAINS * rounds)

    def read(self) -> float:
        """Bytes a second of a loop that only reads."""
        sides = self._sides()
        return self._parallel_rate(lambda i: self._read(sides[i][0], STREAM_BYTES // 64), STREAM_BYTES)

    def copy(self) -> float:
        """Bytes a second, read and written ones together, of a loop that copies by stores past the caches."""
        sides = self._sides()
        return self._parallel_rate(lambda i: self._copy(*sides[i], STREAM_BYTES // 128), STREAM_BYTES)

    def _sides(self) -> list[tuple[int, int]]:
        """Return for each thread the addresses of the two halves of its memory."""
        while len(self._memory) < self.threads:
            self._memory.append(np.ones(STREAM_BYTES + 64, np.uint8))
        starts = [-(-memory.ctypes.data // 64) * 64 for memory in self._memory]
        return [(start, start + STREAM_BYTES // 2) for start in starts]

    def _parallel_rate(self, work: Callable[[int], object], amount: float) -> float:
        """The sum of the rates at which the threads, which begin together, do `amount` each."""
        begin = threading.Barrier(self.threads)

        def one(i: int) -> float:
            begin.wait()
            start = time.perf_counter()
            work(i)
            return amount / (time.perf_counter() - start)

        return sum(self._pool.map(one, range(self.threads)))


def fma_gflops(threads: int, seconds: float = 0.3) -> float:
    """float32 GFLOP/s of `threads` threads that do nothing but fused multiply-adds on full vectors."""
    return Ceilings(threads).fma(seconds) / 1e9


def _text(lanes: int) -> str:
    return _burn_text(lanes) + _read_text() + _copy_text()


def _burn_text(lanes: int) -> str:
    vector = f"<{lanes} x float>"
    phis = "\n".join(f"  %a{i} = phi {vector} [ zeroinitializer, %entry ], [ %b{i}, %loop ]" for i in range(CHAINS))
    fmas = "\n".join(
        f"  %b{i} = call {vector} @llvm.fma.v{lanes}f32({vector} %a{i}, {vector} %x, {vector} %y)"
        for i in range(CHAINS)
    )
    sums = "\n".join(
        f"  %s{i + 1} = fadd {vector} {f'%s{i}' if i else 'zeroinitializer'}, %b{i}" for i in range(CHAINS)
    )
    return f"""
declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})
define float @burn(i64 %rounds, float %seed) {{
entry:
  %one = insertelement {vector} poison, float %seed, i32 0
  %x = shufflevector {vector} %one, {vector} poison, <{lanes} x i32> zeroinitializer
  %y = fadd {vector} %x, %x
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{phis}
{fmas}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %rounds
  br i1 %more, label %loop, label %done
done:
{sums}
  %r = extractelement {vector} %s{CHAINS}, i32 0
  ret float %r
}}
"""


def _read_text() -> str:
    """Sums of whole cache lines, `_UNROLLED` of them a turn; `lines` is a multiple of that."""
    vector, lines = "<16 x float>", range(_UNROLLED)
    phis = "\n".join(f"  %a{k} = phi {vector} [ zeroinitializer, %entry ], [ %b{k}, %loop ]" for k in lines)
    loads = "\n".join(
        f"""  %p{k} = getelementptr i8, ptr %at, i64 {64 * k}
  %v{k} = load {vector}, ptr %p{k}, align 64
  %b{k} = fadd {vector} %a{k}, %v{k}"""
        for k in lines
    )
    sums = "\n".join(f"  %s{k + 1} = fadd {vector} {f'%s{k}' if k else 'zeroinitializer'}, %b{k}" for k in lines)
    return f"""
define float @read(ptr %from, i64 %lines) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{phis}
  %offset = mul i64 %i, 64
  %at = getelementptr i8, ptr %from, i64 %offset
{loads}
  %next = add i64 %i, {_UNROLLED}
  %more = icmp ult i64 %next, %lines
  br i1 %more, label %loop, label %done
done:
{sums}
  %r = extractelement {vector} %s{_UNROLLED}, i32 0
  ret float %r
}}
"""


def _copy_text() -> str:
    vector, lines = "<16 x float>", range(_UNROLLED)
    moves = "\n".join(
        f"""  %p{k} = getelementptr i8, ptr %at, i64 {64 * k}
  %q{k} = getelementptr i8, ptr %into, i64 {64 * k}
  %v{k} = load {vector}, ptr %p{k}, align 64
  store {vector} %v{k}, ptr %q{k}, align 64, !nontemporal !0"""
        for k in lines
    )
    return f"""
define void @copy(ptr %from, ptr %to, i64 %lines) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %offset = mul i64 %i, 64
  %at = getelementptr i8, ptr %from, i64 %offset
  %into = getelementptr i8, ptr %to, i64 %offset
{moves}
  %next = add i64 %i, {_UNROLLED}
  %more = icmp ult i64 %next, %lines
  br i1 %more, label %loop, label %done
done:
  ret void
}}
!0 = !{{i32 1}}
"""


def _compile(text: str) -> binding.ExecutionEngine:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten(), opt=3
    )
    engine = binding.create_mcjit_compiler(binding.parse_assembly(text), machine)
    engine.finalize_object()
    return engine

"""What the machine can do at most: fused multiply-adds that never leave the registers."""

from __future__ import annotations

import ctypes
import time
from concurrent.futures import ThreadPoolExecutor

from llvmlite import binding

__all__ = ["fma_gflops"]

CHAINS = 24
"""Independent accumulators: latency 4 times two units a cycle is 8; more hide what the loop itself costs."""


def fma_gflops(threads: int, seconds: float = 0.3) -> float:
    """float32 GFLOP/s of `threads` threads that do nothing but fused multiply-adds on full vectors."""
    lanes = 16 if binding.get_host_cpu_features().get("avx512f") else 8
    kernel, engine = _compile(lanes)
    rounds = 200_000
    while True:
        start = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(kernel, [rounds] * threads))
        spent = time.perf_counter() - start
        if spent >= seconds:
            del engine
            return 2 * lanes * CHAINS * rounds * threads / spent / 1e9
        rounds = int(rounds * max(2, 1.2 * seconds / spent))


def _compile(lanes: int) -> tuple[ctypes._CFuncPtr, binding.ExecutionEngine]:
    vector = f"<{lanes} x float>"
    phis = "\n".join(f"  %a{i} = phi {vector} [ zeroinitializer, %entry ], [ %b{i}, %loop ]" for i in range(CHAINS))
    fmas = "\n".join(
        f"  %b{i} = call {vector} @llvm.fma.v{lanes}f32({vector} %a{i}, {vector} %x, {vector} %y)" for i in range(CHAINS)
    )
    sums = "\n".join(
        f"  %s{i + 1} = fadd {vector} {f'%s{i}' if i else 'zeroinitializer'}, %b{i}" for i in range(CHAINS)
    )
    text = f"""
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
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    module = binding.parse_assembly(text)
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten(), opt=3
    )
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    burn = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64, ctypes.c_float)(engine.get_function_address("burn"))
    return lambda rounds: burn(rounds, 0.5), engine

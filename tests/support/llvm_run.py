"""Builds small loop programs from nodes and runs their machine code through ctypes, by the kernel ABI."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from tilewright.codegen.llvm.build import CodegenOptions, compile_function, kernel_symbol
from tilewright.codegen.llvm.jit import CompiledModule
from tilewright.codegen.target import Target
from tilewright.ir import ops
from tilewright.ir.buffer import Buffer
from tilewright.ir.dtype import DType
from tilewright.ir.expr import BufferLoad, Expr, Ramp, Var
from tilewright.ir.stmt import BufferStore, For, Function, LoopKind, Seq, Stmt

_TASK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)
_TASKS = 3


@ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)
def parallel_for(body: int, context: int, tasks: int) -> int:
    """A serial tw_parallel_for: three tasks, or as many as there are."""
    count = min(_TASKS, max(tasks, 1))
    task = _TASK(body)
    return max((task(i, count, context) for i in range(count)), key=abs)


OPTIONS = {"tw_parallel_for": ctypes.cast(parallel_for, ctypes.c_void_p).value or 0}


def int32(value: int) -> Expr:
    return ops.const(value, "int32")


def buffer(name: str, size: Any, dtype: Any = "float32") -> Buffer:
    """A flat buffer of `size` elements."""
    return Buffer(name, (size if isinstance(size, Expr) else int32(size),), DType(dtype))


def serial(var: Var, extent: Any, body: Stmt | Sequence[Stmt], kind: LoopKind = LoopKind.SERIAL) -> For:
    """for var in [0, extent)."""
    return For(var, int32(0), ops.convert(extent), kind, body if isinstance(body, Stmt) else Seq(tuple(body)))


def build(function: Function, target: str = "llvm", **options: Any) -> CompiledModule:
    """The compiled function."""
    return compile_function([function], Target.parse(target), CodegenOptions(symbols=OPTIONS, **options))


def call(compiled: CompiledModule, name: str, *args: Any) -> int:
    """The kernel's status. Arrays are passed as pointers, numbers as int64 symbols or ctypes values as they are."""
    passed = [
        ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else ctypes.c_int64(a) if isinstance(a, int) else a
        for a in args
    ]
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[type(a) for a in passed])(compiled.address(kernel_symbol(name)))
    return function(*passed)


def run(function: Function, *args: Any, **options: Any) -> int:
    """Builds and calls."""
    return call(build(function, **options), function.name, *args)


def elementwise(compute: Callable[..., Expr], *inputs: np.ndarray, lanes: int = 1, **options: Any) -> np.ndarray:
    """compute(elements ...) over flat arrays of one length, which `lanes` divides; as vectors of `lanes` lanes."""
    count = inputs[0].size
    assert count % lanes == 0
    buffers = [buffer(f"in{i}", count, array.dtype) for i, array in enumerate(inputs)]
    i = Var("i")
    index = i if lanes == 1 else Ramp(i * lanes, int32(1), lanes)
    value = compute(*(BufferLoad(b, (index,)) for b in buffers))
    out = buffer("out", count, value.dtype.element)
    function = Function("f", (*buffers, out), serial(i, count // lanes, BufferStore(out, value, (index,))), (out,))
    result = np.zeros(count, numpy_dtype(value.dtype.element))
    assert run(function, *(np.ascontiguousarray(a) for a in inputs), result, **options) == 0
    return result


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """bfloat16 is ml_dtypes'."""
    return np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(str.__str__(dtype))

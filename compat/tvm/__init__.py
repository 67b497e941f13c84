"""TVM's tensor-expression API (up to 0.19) over tilewright: `from tilewright.compat import tvm`.

A program on tensors and schedules runs with its import lines changed and nothing else. The names that stood in `tvm`
itself before 0.6 (tvm.var, tvm.compute, tvm.sum ...) stand there too.
"""

from __future__ import annotations

import sys
from importlib import import_module

from ...base.errors import TilewrightError as TVMError
from ...ir.dtype import DType as DataType
from . import (
    _ffi,
    arith,
    container,
    contrib,
    error,
    ir,
    nd,
    relay,
    runtime,
    target,
    te,
    testing,
    tir,
    tir_transform,
    topi,
    transform,
)
from . import nd as ndarray
from . import tir as expr
from . import tir as stmt
from .driver import Module, build, lower
from .ir import Range
from .ir_module import IRModule
from .nd import cl, context, cpu, cuda, device, ext_dev, gpu, hexagon, metal, opencl, rocm, vpi, vulkan, webgpu
from .runtime import convert, get_global_func, register_func
from .target import Target
from .te import (
    abs,
    all,
    any,
    ceil,
    comm_reducer,
    compute,
    const,
    cos,
    create_schedule,
    decl_tensor_intrin,
    erf,
    exp,
    extern,
    floor,
    floordiv,
    floormod,
    fmod,
    hybrid,
    if_then_else,
    indexdiv,
    indexmod,
    isnan,
    likely,
    log,
    log2,
    log10,
    max,
    max_value,
    min,
    min_value,
    nearbyint,
    placeholder,
    popcount,
    pow,
    power,
    prod,
    reduce_axis,
    round,
    rsqrt,
    schedule,
    select,
    sigmoid,
    sin,
    size_var,
    sqrt,
    sum,
    tag_scope,
    tanh,
    tensor,
    thread_axis,
    trunc,
    truncdiv,
    truncmod,
    var,
)
from .tir import (
    call_extern,
    call_llvm_intrin,
    call_packed,
    call_pure_extern,
    call_pure_intrin,
    decl_buffer,
    div,
    ir_builder,
)
from .transform import build_config

setattr(tir, "transform", tir_transform)  # noqa: B010  (passes are built by the driver, which stands above tir)
setattr(ir, "container", container)  # noqa: B010  (its names stand on tir, which knows nothing of it)
for _of, _named in (
    (
        tir,
        {
            "transform": tir_transform,
            "analysis": tir.analysis,
            "stmt_functor": tir.stmt_functor,
            "ir_builder": ir_builder,
            **dict.fromkeys(("expr", "stmt", "op", "buffer", "function", "generic"), tir),
        },
    ),
    (ir, {"container": container, "expr": ir, "module": ir, "op": ir}),
    (arith, dict.fromkeys(("analyzer", "bound", "int_set", "int_solver", "iter_affine_map"), arith)),
    (runtime, {"ndarray": nd, "container": container, "module": runtime, "packed_func": runtime}),
):  # modules of TVM's whose names stand in the one above them
    for _name, _module in _named.items():
        sys.modules[f"{_of.__name__}.{_name}"] = _module
        setattr(_of, _name, _module)

__version__ = "0.19.0"
"""The release of TVM whose names these are."""

_ELSEWHERE = {
    "meta_schedule": "tilewright.autotune derives a search space from the tensors: autotune.tune([A, B, C])",
    "relax": "networks are compositions of te and topi here, or models: tvm.relay.frontend.from_onnx, tilewright.graph",
    "script": "loops are written by te.hybrid.script or tvm.tir.ir_builder",
    "rpc": "kernels are exported (func.export_library) and run where they are copied to",
    "micro": 'kernels are exported as C-callable objects: func.export_library("f.o")',
}


_LATER = ("auto_scheduler", "autotvm", "vdla")
"""Modules that are loaded when they are first named: what runs kernels need not load what chooses them."""


def __getattr__(name: str) -> object:
    if name in _LATER:
        return import_module(f".{name}", __name__)
    hint = f"; {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


__all__ = [
    "DataType",
    "IRModule",
    "Module",
    "Range",
    "TVMError",
    "Target",
    "_ffi",
    "abs",
    "all",
    "any",
    "arith",
    "build",
    "build_config",
    "call_extern",
    "call_llvm_intrin",
    "call_packed",
    "call_pure_extern",
    "call_pure_intrin",
    "ceil",
    "cl",
    "comm_reducer",
    "compute",
    "const",
    "container",
    "context",
    "contrib",
    "convert",
    "cos",
    "cpu",
    "create_schedule",
    "cuda",
    "decl_buffer",
    "decl_tensor_intrin",
    "device",
    "div",
    "erf",
    "error",
    "exp",
    "expr",
    "ext_dev",
    "extern",
    "floor",
    "floordiv",
    "floormod",
    "fmod",
    "get_global_func",
    "gpu",
    "hexagon",
    "hybrid",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "ir",
    "ir_builder",
    "isnan",
    "likely",
    "log",
    "log10",
    "log2",
    "lower",
    "max",
    "max_value",
    "metal",
    "min",
    "min_value",
    "nd",
    "ndarray",
    "nearbyint",
    "opencl",
    "placeholder",
    "popcount",
    "pow",
    "power",
    "prod",
    "reduce_axis",
    "register_func",
    "relay",
    "rocm",
    "round",
    "rsqrt",
    "runtime",
    "schedule",
    "select",
    "sigmoid",
    "sin",
    "size_var",
    "sqrt",
    "stmt",
    "sum",
    "tag_scope",
    "tanh",
    "target",
    "te",
    "tensor",
    "testing",
    "thread_axis",
    "tir",
    "topi",
    "transform",
    "trunc",
    "truncdiv",
    "truncmod",
    "var",
    "vpi",
    "vulkan",
    "webgpu",
]

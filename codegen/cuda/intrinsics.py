"""Intrinsics of CUDA C: the rows that C has too, and its own."""

from __future__ import annotations

import re
from dataclasses import replace

from ...ir import Add, BufferLoad, Call, DType, Expr, IntImm, StringImm
from ...ir.copies import WAIT
from ...ir.ops import const, integer_value, is_const
from ...ir.passes.gpu.reduce import OF_WARPS, SHUFFLE, SHUFFLE_DOWN
from ...ir.rounding import FLOAT8
from ..clike import intrinsics as clike
from ..clike.emit_expr import CallTable
from .emit_expr import CudaExprEmitter
from .types import storage_type, value_type
from .warpgroup import DESCRIBED, PRODUCT

__all__ = ["CALLS"]


def _reinterpret(em: CudaExprEmitter, call: Call, lane: int) -> str:
    """The bits of a value in another type. Lanes of the one may be several lanes of the other."""
    source, target = call.args[0], call.dtype
    ratio = max(target.bits // source.dtype.bits, source.dtype.bits // target.bits)
    wider, to, of = target.bits >= source.dtype.bits, storage_type(target), storage_type(source.dtype)
    lanes = range(lane * ratio, (lane + 1) * ratio) if wider else range(lane // ratio, lane // ratio + 1)
    parts = [em.memory_text(em.value(source, lane), source.dtype) for lane in lanes]
    if ratio == 1:
        return em.loaded(f"tw_reinterpret<{to}, {of}>({parts[0]})", target)
    if wider:
        packed = f"tw_vector<{of}, {ratio}>"
        return em.loaded(f"tw_reinterpret<{to}, {packed}>({packed}{{{{{', '.join(parts)}}}}})", target)
    return em.loaded(f"tw_reinterpret<tw_vector<{to}, {ratio}>, {of}>({parts[0]}).lane[{lane % ratio}]", target)


def _emit_outside_call(em: CudaExprEmitter, call: Call, lane: int) -> str:
    name = call.args[0]
    assert isinstance(name, StringImm), "the first argument of an external call is its symbol"
    args, steps = call.args[1:], list[str]()
    if re.fullmatch(PRODUCT, name.value):
        parts = [_split_address(arg) for arg in args]
        args, steps = tuple(arg for arg, _ in parts), [str(step) for _, step in parts if step is not None]
    operands = [em.value(arg, lane) for arg in args]
    if name.value in (SHUFFLE, SHUFFLE_DOWN, *OF_WARPS.values()):
        kind, is_float8 = value_type(call.dtype), call.dtype.kind in FLOAT8
        wide = is_float8 or (call.dtype.bits < 32 and not call.dtype.is_float)
        first = f"(int)({operands[0]}){'.bits' if is_float8 else ''}" if wide else operands[0]
        text = f"{name.value}({', '.join([first, *operands[1:]])})"
        return f"{kind}{{(unsigned char){text}}}" if is_float8 else f"({kind}){text}" if wide else text
    if name.value == "tw_barrier":
        return "__syncthreads()"
    count = _constants(name.value)
    constants = f"<{', '.join([*operands[:count], *steps])}>" if count else ""
    return f"{name.value}{constants}({', '.join(operands[count:])})"


def _constants(name: str) -> int:
    """Return the number of leading arguments of a device function that are constants of its template."""
    if name in (WAIT, "tw_wgmma_wait", "tw_wgmma_fill", "tw_more_registers", "tw_fewer_registers"):
        return 1
    product = re.fullmatch(PRODUCT, name)
    return 0 if product is None else 1 if product[1] else 2


def _split_address(pointer: Expr) -> tuple[Expr, int | None]:
    """An address in shared memory, and a constant step from there on, in units of descriptors; None for anything else."""
    if not isinstance(pointer, Call) or pointer.name != "access_ptr":
        return pointer, None
    load, *rest = pointer.args
    assert isinstance(load, BufferLoad), "access_ptr takes an element"
    if load.buffer.scope != "shared":
        return pointer, None
    place = load.indices[0]
    apart, last = (place.a, place.b) if isinstance(place, Add) else (const(0, place.dtype), place)
    step = integer_value(last, 0) * load.buffer.dtype.bytes
    if not isinstance(last, IntImm) or step % DESCRIBED:
        return pointer, 0
    return replace(pointer, args=(replace(load, indices=(apart,)), *rest)), step // DESCRIBED


def _address(em: CudaExprEmitter, call: Call, lane: int) -> str:
    """A pointer to an element, which is not read."""
    load, offset, _ = call.args
    assert isinstance(load, BufferLoad), "access_ptr takes an element"
    further = "" if is_const(offset, 0) else f" + {em.operand_text(offset, lane)}"
    return f"&{em.element(load.buffer, load.indices[0], lane)}{further}"


def _trace(em: CudaExprEmitter, call: Call, lane: int) -> str:
    """Print, and give the last value."""
    parts, passed = list[str](), list[str]()
    for arg in call.args[:-1]:
        if isinstance(arg, StringImm):
            parts.append(arg.value.replace("%", "%%"))
        else:
            parts.append(_format(arg.dtype))
            passed.append(f"({_emit_print(arg.dtype)})({em.value(arg, lane)})")
    last = call.args[-1]
    parts = [f"{parts[0]}:", *parts[1:], _format(last.dtype)]
    passed.append(f"({_emit_print(last.dtype)})(last)")
    line = '"' + " ".join(parts).translate(_IN_C) + '\\n"'
    return f"[&]() {{ auto last = {em.value(last, lane)}; printf({', '.join([line, *passed])}); return last; }}()"


def _format(dtype: DType) -> str:
    return "%.9g" if dtype.is_float else "%lld"


def _emit_print(dtype: DType) -> str:
    return "double" if dtype.is_float else "long long"


_IN_C = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n"})
"""Characters that a C string has in other words."""

CALLS = CallTable(
    "CUDA",
    clike.FLOAT_ROWS,
    {
        **clike.OTHER_ROWS,
        "reinterpret": _reinterpret,
        "call_extern": _emit_outside_call,
        "call_pure_extern": _emit_outside_call,
        "access_ptr": _address,
        "trace": _trace,
    },
)

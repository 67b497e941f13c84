"""The mathematical functions with the instructions of any processor, run on this one: AVX-512's are functions of scalars,
written out from Intel's manual (volume 2: VGETEXPPS, VGETMANTPS, VSCALEFPS, VPERMI2PS, and those of float64)."""

from __future__ import annotations

import ctypes
import re
from types import SimpleNamespace
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from tilewright.codegen.llvm.maths import FUNCTIONS
from tilewright.codegen.llvm.maths_options import MathsOptions
from tilewright.codegen.llvm.text import FunctionText, ModuleText
from tilewright.codegen.llvm.types import llvm_type
from tilewright.ir.dtype import DType

__all__ = ["Processor"]

_SCALARS = """
define internal {kind} @getexp({kind} %x) {{
  %size = call {kind} @llvm.fabs.{suffix}({kind} %x)
  %tiny = fcmp olt {kind} %size, {least}
  %large = fmul {kind} %size, {lift}
  %normal = select i1 %tiny, {kind} %large, {kind} %size
  %bits = bitcast {kind} %normal to {word}
  %biased = lshr {word} %bits, {mantissa}
  %less = select i1 %tiny, {word} {lifted_bias}, {word} {bias}
  %exponent = sub {word} %biased, %less
  %value = sitofp {word} %exponent to {kind}
  %zero = fcmp oeq {kind} %size, 0.0
  %finite = fcmp olt {kind} %size, 0x7FF0000000000000
  %known = select i1 %finite, {kind} %value, {kind} %size
  %result = select i1 %zero, {kind} 0xFFF0000000000000, {kind} %known
  ret {kind} %result
}}
define internal {kind} @getmant({kind} %x) {{  ; into [3/4, 3/2); of what is below 0 a NaN
  %size = call {kind} @llvm.fabs.{suffix}({kind} %x)
  %tiny = fcmp olt {kind} %size, {least}
  %large = fmul {kind} %size, {lift}
  %normal = select i1 %tiny, {kind} %large, {kind} %size
  %bits = bitcast {kind} %normal to {word}
  %fraction = and {word} %bits, {fraction_mask}
  %above = icmp uge {word} %fraction, {half}
  %biased = select i1 %above, {word} {bits_of_half}, {word} {bits_of_one}
  %together = or {word} %fraction, %biased
  %value = bitcast {word} %together to {kind}
  %zero = fcmp oeq {kind} %size, 0.0
  %infinite = fcmp oeq {kind} %size, 0x7FF0000000000000
  %odd = or i1 %zero, %infinite
  %one = select i1 %odd, {kind} 1.0, {kind} %value
  %below = fcmp olt {kind} %x, 0.0
  %nan = fcmp uno {kind} %x, 0.0
  %none = or i1 %below, %nan
  %result = select i1 %none, {kind} 0x7FF8000000000000, {kind} %one
  ret {kind} %result
}}
define internal {kind} @scalef({kind} %x, {kind} %n) {{  ; n beyond 5000 leaves 0 or infinity as well
  %floor = call {kind} @llvm.floor.{suffix}({kind} %n)
  %low = fcmp olt {kind} %floor, -5.0e3
  %most = select i1 %low, {kind} -5.0e3, {kind} %floor
  %high = fcmp ogt {kind} %most, 5.0e3
  %within = select i1 %high, {kind} 5.0e3, {kind} %most
  %nan = fcmp uno {kind} %n, 0.0
  %number = select i1 %nan, {kind} 0.0, {kind} %within
  %whole = fptosi {kind} %number to i32
  %value = call {kind} @llvm.ldexp.{suffix}.i32({kind} %x, i32 %whole)
  %result = select i1 %nan, {kind} %n, {kind} %value
  ret {kind} %result
}}
"""


def _scalars(bits: int) -> str:
    """The instructions as functions of one number."""
    mantissa, bias = (23, 127) if bits == 32 else (52, 1023)
    return _SCALARS.format(
        kind="float" if bits == 32 else "double",
        suffix=f"f{bits}",
        word=f"i{bits}",
        least=f"0x{1023 + 1 - bias << 52:016X}",
        lift=f"0x{1023 + mantissa + 1 << 52:016X}",
        mantissa=mantissa,
        bias=bias,
        lifted_bias=bias + mantissa + 1,
        fraction_mask=(1 << mantissa) - 1,
        half=1 << (mantissa - 1),
        bits_of_half=bias - 1 << mantissa,
        bits_of_one=bias << mantissa,
    )


_LOOP = """
define void @all(ptr %x, ptr %y, ptr %out, i64 %count) {{
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %next ]
  %first = mul i64 %i, {lanes}
  %px = getelementptr {element}, ptr %x, i64 %first
  %py = getelementptr {element}, ptr %y, i64 %first
  %po = getelementptr {element}, ptr %out, i64 %first
  %a = load {kind}, ptr %px, align {align}
  %b = load {kind}, ptr %py, align {align}
  %c = call {kind} @one({kind} %a, {kind} %b)
  store {kind} %c, ptr %po, align {align}
  %after = add i64 %i, 1
  %done = icmp eq i64 %after, %count
  br i1 %done, label %end, label %next
end:
  ret void
}}
"""


class Processor:
    """A processor with these instructions."""

    def __init__(self, options: MathsOptions) -> None:
        self.options = options

    def run(self, name: str, *inputs: np.ndarray, lanes: int) -> np.ndarray:
        """The function of that name of as many elements as fill vectors of `lanes` lanes."""
        count = len(inputs[0]) // lanes
        given = [np.ascontiguousarray(x[: count * lanes]) for x in inputs]
        out = np.empty_like(given[0])
        engine = _compiled(self.text(name, len(inputs), DType(str(out.dtype)).with_lanes(lanes)))
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(engine.get_function_address("all"))
        function(given[0].ctypes.data, given[-1].ctypes.data, out.ctypes.data, count)
        return out

    def text(self, name: str, operands: int, dtype: DType) -> str:
        """The module of the function, with functions in the place of AVX-512's instructions."""
        module, kind = ModuleText(), llvm_type(dtype)
        f = FunctionText(module, f"define internal {kind} @one({kind} %a, {kind} %b) noinline")
        emitter: Any = SimpleNamespace(f=f, maths=self.options)
        f.do(f"ret {kind} {FUNCTIONS[name](emitter, ['%a', '%b'][:operands], dtype)}")
        f.finish()
        written = re.sub(r"@llvm\.x86\.avx512\.([\w.]+)", lambda match: f"@{_plain(match[1])}", module.text())
        instructions = set(re.findall(r"@(\w+_p[sd]_(?:128|256|512))\(", written))
        loop = _LOOP.format(lanes=dtype.lanes, kind=kind, element=llvm_type(dtype.element), align=dtype.bits // 8)
        return "\n".join([_scalars(dtype.bits), *map(_instruction, sorted(instructions)), written, loop])


def _plain(name: str) -> str:
    return name.replace(".", "_")


def _instruction(name: str) -> str:
    """An instruction as a function of vectors, by the one of scalars."""
    operation, width, bits = re.fullmatch(r"(\w+)_(p[sd])_(\d+)", name).groups()  # type: ignore[union-attr]
    element, lanes = ("float", int(bits) // 32) if width == "ps" else ("double", int(bits) // 64)
    kind, mask, last = f"<{lanes} x {element}>", f"i{max(lanes, 8)}", ", i32 %r" if bits == "512" else ""
    parameters, operands = {
        "mask_getexp": (f"{kind} %x, {kind} %p, {mask} %m{last}", ["x"]),
        "mask_getmant": (f"{kind} %x, i32 %how, {kind} %p, {mask} %m{last}", ["x"]),
        "mask_scalef": (f"{kind} %x, {kind} %n, {kind} %p, {mask} %m{last}", ["x", "n"]),
        "vpermi2var": (f"{kind} %x, <{lanes} x i32> %row, {kind} %n", []),
    }[operation]
    lines, result = [f"define internal {kind} @{name}({parameters}) {{"], "poison"
    for lane in range(lanes):
        if operation == "vpermi2var":
            lines += [
                f"  %i{lane} = extractelement <{lanes} x i32> %row, i32 {lane}",
                f"  %j{lane} = and i32 %i{lane}, {lanes - 1}",
                f"  %k{lane} = and i32 %i{lane}, {lanes}",
                f"  %s{lane} = icmp ne i32 %k{lane}, 0",
                f"  %a{lane} = extractelement {kind} %x, i32 %j{lane}",
                f"  %b{lane} = extractelement {kind} %n, i32 %j{lane}",
                f"  %c{lane} = select i1 %s{lane}, float %b{lane}, float %a{lane}",
            ]
        else:
            lines += [f"  %{each}{lane} = extractelement {kind} %{each}, i32 {lane}" for each in operands]
            passed = ", ".join(f"{element} %{each}{lane}" for each in operands)
            lines.append(f"  %c{lane} = call {element} @{operation.split('_')[1]}({passed})")
        lines.append(f"  %v{lane} = insertelement {kind} {result}, {element} %c{lane}, i32 {lane}")
        result = f"%v{lane}"
    return "\n".join([*lines, f"  ret {kind} {result}", "}"])


def _compiled(text: str) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2, jit=True
    )
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine

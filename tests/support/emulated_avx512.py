"""The mathematical functions of float32 with the instructions of any processor, run on this one: AVX-512's are functions of scalars,
written out from Intel's manual (volume 2: VGETEXPPS, VGETMANTPS, VSCALEFPS, VPERMI2PS)."""

from __future__ import annotations

import ctypes
import re
from types import SimpleNamespace
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from tilewright.codegen.llvm.maths import FLOAT32_FUNCTIONS
from tilewright.codegen.llvm.maths_lanes import MathsOptions
from tilewright.codegen.llvm.text import FunctionText, ModuleText
from tilewright.ir.dtype import DType

__all__ = ["Processor"]

_SCALARS = """
define internal float @getexp(float %x) {
  %size = call float @llvm.fabs.f32(float %x)
  %tiny = fcmp olt float %size, 0x3810000000000000
  %large = fmul float %size, 0x4170000000000000
  %normal = select i1 %tiny, float %large, float %size
  %bits = bitcast float %normal to i32
  %biased = lshr i32 %bits, 23
  %less = select i1 %tiny, i32 151, i32 127
  %exponent = sub i32 %biased, %less
  %value = sitofp i32 %exponent to float
  %zero = fcmp oeq float %size, 0.0
  %finite = fcmp olt float %size, 0x7FF0000000000000
  %known = select i1 %finite, float %value, float %size
  %result = select i1 %zero, float 0xFFF0000000000000, float %known
  ret float %result
}
define internal float @getmant(float %x) {  ; into [3/4, 3/2); of what is below 0 a NaN
  %size = call float @llvm.fabs.f32(float %x)
  %tiny = fcmp olt float %size, 0x3810000000000000
  %large = fmul float %size, 0x4170000000000000
  %normal = select i1 %tiny, float %large, float %size
  %bits = bitcast float %normal to i32
  %fraction = and i32 %bits, 8388607
  %above = icmp uge i32 %fraction, 4194304
  %biased = select i1 %above, i32 1056964608, i32 1065353216
  %together = or i32 %fraction, %biased
  %value = bitcast i32 %together to float
  %zero = fcmp oeq float %size, 0.0
  %infinite = fcmp oeq float %size, 0x7FF0000000000000
  %odd = or i1 %zero, %infinite
  %one = select i1 %odd, float 1.0, float %value
  %below = fcmp olt float %x, 0.0
  %nan = fcmp uno float %x, 0.0
  %none = or i1 %below, %nan
  %result = select i1 %none, float 0x7FF8000000000000, float %one
  ret float %result
}
define internal float @scalef(float %x, float %n) {  ; n beyond 1000 leaves 0 or infinity as well
  %floor = call float @llvm.floor.f32(float %n)
  %low = fcmp olt float %floor, -5.0e2
  %most = select i1 %low, float -5.0e2, float %floor
  %high = fcmp ogt float %most, 5.0e2
  %within = select i1 %high, float 5.0e2, float %most
  %nan = fcmp uno float %n, 0.0
  %number = select i1 %nan, float 0.0, float %within
  %whole = fptosi float %number to i64
  %biased = add i64 %whole, 1023
  %bits = shl i64 %biased, 52
  %power = bitcast i64 %bits to double
  %wide = fpext float %x to double
  %product = fmul double %wide, %power
  %value = fptrunc double %product to float
  %result = select i1 %nan, float %n, float %value
  ret float %result
}
"""

_LOOP = """
define void @all(ptr %x, ptr %y, ptr %out, i64 %count) {{
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %next ]
  %first = mul i64 %i, {lanes}
  %px = getelementptr float, ptr %x, i64 %first
  %py = getelementptr float, ptr %y, i64 %first
  %po = getelementptr float, ptr %out, i64 %first
  %a = load {kind}, ptr %px, align 4
  %b = load {kind}, ptr %py, align 4
  %c = call {kind} @one({kind} %a, {kind} %b)
  store {kind} %c, ptr %po, align 4
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
        given = [np.ascontiguousarray(x[: count * lanes], np.float32) for x in inputs]
        out = np.empty_like(given[0])
        engine = _compiled(self.text(name, len(inputs), lanes))
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(engine.get_function_address("all"))
        function(given[0].ctypes.data, given[-1].ctypes.data, out.ctypes.data, count)
        return out

    def text(self, name: str, operands: int, lanes: int) -> str:
        """The module of the function, with functions in the place of AVX-512's instructions."""
        module, dtype = ModuleText(), DType("float32").with_lanes(lanes)
        kind = "float" if lanes == 1 else f"<{lanes} x float>"
        f = FunctionText(module, f"define internal {kind} @one({kind} %a, {kind} %b) noinline")
        emitter: Any = SimpleNamespace(f=f, maths=self.options)
        f.do(f"ret {kind} {FLOAT32_FUNCTIONS[name](emitter, ['%a', '%b'][:operands], dtype)}")
        f.finish()
        written = re.sub(r"@llvm\.x86\.avx512\.([\w.]+)", lambda match: f"@{_plain(match[1])}", module.text())
        instructions = set(re.findall(r"@(\w+_ps_(?:128|256|512))\(", written))
        return "\n".join(
            [_SCALARS, *map(_instruction, sorted(instructions)), written, _LOOP.format(kind=kind, lanes=lanes)]
        )


def _plain(name: str) -> str:
    return name.replace(".", "_")


def _instruction(name: str) -> str:
    """An instruction as a function of vectors, by the one of scalars."""
    lanes = int(name.rsplit("_", 1)[1]) // 32
    kind, mask, last = f"<{lanes} x float>", "i16" if lanes == 16 else "i8", ", i32 %r" if lanes == 16 else ""
    parameters, operands = {
        "mask_getexp": (f"{kind} %x, {kind} %p, {mask} %m{last}", ["x"]),
        "mask_getmant": (f"{kind} %x, i32 %how, {kind} %p, {mask} %m{last}", ["x"]),
        "mask_scalef": (f"{kind} %x, {kind} %n, {kind} %p, {mask} %m{last}", ["x", "n"]),
        "vpermi2var": (f"{kind} %x, <{lanes} x i32> %row, {kind} %n", []),
    }[name.split("_ps_")[0]]
    lines, result = [f"define internal {kind} @{name}({parameters}) {{"], "poison"
    for lane in range(lanes):
        if name.startswith("vpermi2var"):
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
            passed = ", ".join(f"float %{each}{lane}" for each in operands)
            lines.append(f"  %c{lane} = call float @{name.split('_')[1]}({passed})")
        lines.append(f"  %v{lane} = insertelement {kind} {result}, float %c{lane}, i32 {lane}")
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

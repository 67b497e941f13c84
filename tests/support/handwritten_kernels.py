"""Kernels written by hand in LLVM IR, to test the way into a kernel without the compiler that makes kernels."""

from __future__ import annotations

import itertools

import llvmlite.binding as llvm
from tilewright.codegen.abi.parallel import PARALLEL_FOR, parallel_for_address
from tilewright.codegen.abi.stub import kernel_symbol, stub_symbols, stub_text
from tilewright.runtime.kernel import Kernel, make_kernel
from tilewright.runtime.signature import BufferParam, ScalarParam, Signature, Symbol

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
_numbers = itertools.count()


def build(signature: Signature, text: str, messages: tuple[str, ...] = (), **rest: object) -> Kernel:
    """Compile `text`, in which KERNEL stands for the kernel's symbol, with its call stub, and make it callable."""
    kernel = text.replace("KERNEL", "@" + kernel_symbol(signature.name))
    machine = llvm.Target.from_default_triple().create_target_machine(opt=1)
    jit = llvm.create_lljit_compiler(machine)
    builder = llvm.JITLibraryBuilder().add_ir(kernel).add_ir(stub_text(signature)).add_current_process()
    if PARALLEL_FOR in text:
        builder.import_symbol(PARALLEL_FOR, parallel_for_address())
    symbols = stub_symbols(signature.name)
    for symbol in symbols.values():
        builder.export_symbol(symbol)
    tracker = builder.link(jit, f"handmade{next(_numbers)}")
    addresses = {role: tracker[symbol] for role, symbol in symbols.items()}
    return make_kernel(signature, addresses, messages=messages, code=(tracker, jit), **rest)  # pyright: ignore


def buffers(text: str) -> tuple[BufferParam, ...]:
    """ "A:float32[3,n] out C:int8[]" as parameters. Extents are numbers or names."""
    params = []
    is_output = False
    for word in text.split():
        if word == "out":
            is_output = True
            continue
        name, dtype, shape = word.replace("]", "").replace("[", ":").split(":")
        extents = tuple(int(e) if e.isdigit() else e for e in shape.split(",") if e)
        params.append(BufferParam(name, dtype, extents, is_output))
        is_output = False
    return tuple(params)


def elementwise(count: str, kind: str = "float", symbols: int = 1, operation: str = "fadd") -> str:
    """The text of a kernel C[i] = A[i] op B[i] for i < count, an i64 expression over %n0, %n1 ... or a number."""
    names = ", ".join(["ptr %a", "ptr %b", "ptr %c", *(f"i64 %n{k}" for k in range(symbols))])
    return f"""
define i32 KERNEL({names}) {{
entry:
  %empty = icmp eq i64 {count}, 0
  br i1 %empty, label %out, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %loop ]
  %pa = getelementptr {kind}, ptr %a, i64 %i
  %pb = getelementptr {kind}, ptr %b, i64 %i
  %pc = getelementptr {kind}, ptr %c, i64 %i
  %x = load {kind}, ptr %pa
  %y = load {kind}, ptr %pb
  %s = {operation} {kind} %x, %y
  store {kind} %s, ptr %pc
  %i1 = add i64 %i, 1
  %end = icmp eq i64 %i1, {count}
  br i1 %end, label %out, label %loop
out:
  ret i32 0
}}
"""


def vector_add(name: str = "vadd") -> Kernel:
    """C = A + B over float32[n]."""
    return build(
        Signature(name, buffers("A:float32[n] B:float32[n] out C:float32[n]"), (Symbol("n"),)), elementwise("%n0")
    )


__all__ = ["BufferParam", "ScalarParam", "Signature", "Symbol", "buffers", "build", "elementwise", "vector_add"]

"""Values of expressions, remembered by identity."""

from __future__ import annotations

from tilewright.codegen.llvm.emit_stmt import BUILDERS
from tilewright.codegen.llvm.emitter import ExprEmitter
from tilewright.codegen.llvm.facts import IndexFacts
from tilewright.codegen.llvm.text import FunctionText, ModuleText
from tilewright.ir.dtype import DType
from tilewright.ir.expr import Add, FloatImm, Var


def test_temporary_expressions_keep_their_own_values() -> None:
    """CPython gives the address of a freed expression to the next one, so a memo by address must keep its keys alive."""
    emitter = ExprEmitter(
        FunctionText(ModuleText(), "define void @f(float %x)"), IndexFacts(), BUILDERS, fast_math=False
    )
    x = Var("x", DType("float32"))
    emitter.variables[x] = "%x"
    values = [emitter.value(Add(x, FloatImm(float(number), x.dtype))) for number in range(1, 100)]
    assert len(set(values)) == len(values)

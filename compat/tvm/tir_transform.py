"""tvm.tir.transform: passes over lowered functions; one's own by prim_func_pass, and those of ours that stand alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir import Function
from ...ir.passes.common.cse import share_subexpressions
from ...ir.passes.common.hoist import hoist_invariants
from ...ir.passes.common.loop_partition import loop_partition
from ...ir.passes.common.options import PassOptions, with_options
from ...ir.passes.common.simplify import simplify
from ...ir.passes.common.unroll import unroll
from .ir_module import IRModule
from .nodes import ours
from .transform import ModulePass, PassContext

__all__ = [
    "Apply", "CommonSubexprElimTIR", "HoistIfThenElse", "LoopPartition", "RemoveNoOp", "Simplify", "UnrollLoop", "VectorizeLoop",
    "prim_func_pass",
]


def prim_func_pass(pass_func: Any = None, opt_level: int = 0, name: str = "", **_: object) -> Any:
    """The decorator of a function of (function, module, context) that gives a function."""
    del opt_level

    def made(function: Callable[..., Any]) -> ModulePass:
        return ModulePass(lambda mod: _each(mod, lambda f: function(f, mod, PassContext.current())), name or function.__name__)

    return made if pass_func is None else made(pass_func)


def _each(mod: IRModule, step: Callable[[Function], Function]) -> IRModule:
    return IRModule({key: step(function) for key, function in mod.functions.items()})


def _ours(name: str, step: Callable[[Function], Function]) -> Callable[..., ModulePass]:
    def make(*_: object, **__: object) -> ModulePass:
        return ModulePass(lambda mod: _each(mod, lambda function: step(ours(function))), f"tir.{name}")

    make.__name__ = name
    make.__doc__ = f"TVM's {name}, as a pass of ours over every function."
    return make


Simplify, RemoveNoOp = _ours("Simplify", simplify), _ours("RemoveNoOp", simplify)
UnrollLoop, LoopPartition = _ours("UnrollLoop", unroll), _ours("LoopPartition", loop_partition)
HoistIfThenElse = _ours("HoistIfThenElse", hoist_invariants)
CommonSubexprElimTIR = _ours("CommonSubexprElimTIR", share_subexpressions)


def Apply(ftransform: Callable[[Function], Function]) -> ModulePass:
    """A function from function to function as a pass."""
    return ModulePass(lambda mod: _each(mod, ftransform), "tir.Apply")


def VectorizeLoop(enable_vectorize: bool = True) -> ModulePass:
    """Off, vectorized loops become serial. On, they are kept: lanes are made when the function is built."""
    options = PassOptions(vectorize=enable_vectorize)
    return ModulePass(lambda mod: _each(mod, lambda function: with_options(ours(function), options)), "tir.VectorizeLoop")

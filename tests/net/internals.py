"""The texts between a lowered function and machine code, and the plan of a model, which no public call gives.

This is the only file of the net that imports anything internal; where a module of ours is renamed, it is mended here.
"""

from __future__ import annotations

from typing import Any

from tilewright.codegen.abi.signature import make_signature
from tilewright.codegen.c.module import c_text
from tilewright.codegen.c.pipeline import c_pipeline
from tilewright.codegen.export.final_kernel import FinalKernel
from tilewright.codegen.folding import OF_ANOTHER_TARGET, fold
from tilewright.codegen.llvm.build import CodegenOptions, module_text
from tilewright.codegen.llvm.emit_stmt import shape_symbols
from tilewright.codegen.llvm.pipeline import build_pipeline
from tilewright.codegen.target import Target
from tilewright.ir.passes.common.options import AS_USUAL
from tilewright.ir.passes.common.runner import run_pipeline
from tilewright.ir.visit import deep_recursion
from tilewright.te.tag import AlgorithmTag

__all__ = ["c_source", "cpu_sources", "plan_of", "tagged"]


def cpu_sources(function: Any, target_text: str) -> tuple[str, str]:
    """A lowered function for a CPU: the loop IR right before code generation, and the LLVM IR before the optimiser.

    What is computed from constants alone is a function of its own, as in a build, and its texts come first.
    """
    target = Target.parse(target_text)
    pipeline = build_pipeline(target)
    with deep_recursion():
        parts = _parts(function)
        symbols = {part.name: tuple(shape_symbols(part)) for part in parts}
        final = [run_pipeline(part, pipeline) for part in parts]
        text, _ = module_text(final, target, CodegenOptions(shape_symbols=symbols))
        return "\n".join(map(str, final)), text


def c_source(function: Any) -> str:
    """The C text of a lowered function."""
    with deep_recursion():
        parts = _parts(function)
        symbols = [tuple(shape_symbols(part)) for part in parts]
        final = [run_pipeline(part, c_pipeline(False, AS_USUAL)) for part in parts]
        programs = [
            FinalKernel(one, make_signature(part, own), own)
            for one, part, own in zip(final, parts, symbols, strict=True)
        ]
        return c_text(programs, False).text


def _parts(function: Any) -> list[Any]:
    """What is computed from constants alone, where there is any, and the rest."""
    folded = fold(function, OF_ANOTHER_TARGET)
    return [part for part in (folded.made, folded.function) if part is not None]


def plan_of(model: Any) -> tuple[dict[str, int], list[str], list[list[str]]]:
    """Of a built model: how often a call runs each kernel, their order, and the operators of each one."""
    plan = next(reversed(model._programs.values())).plan
    return plan.counts, list(plan.names), [[node.operator for node in step.nodes] for step in plan.steps]


def tagged(word: str) -> str:
    """A tag by which rules know an operator of ours."""
    return AlgorithmTag(word)

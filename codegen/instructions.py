"""Instruction sets of processors, asked of LLVM: it inlines a function only into one that may use all that it uses."""

from __future__ import annotations

import re
from collections.abc import Sequence

import llvmlite.binding as llvm

from ..runtime.critical_section import run_in_turn

__all__ = ["add_attributes", "attributes", "stronger_callees", "least"]

_GENERIC_HABITS = {
    "aarch64": ("trbe", "ete", "enable-select-opt", "fuse-adrp-add", "fuse-aes", "use-postra-scheduler"),
    "riscv64": ("optimized-nf2-segment-load-store",),
}
"""What LLVM's "generic" processors have beyond the baseline: habits of compiling, and tracing, which code has no use for."""


def attributes(cpu: str, features: str) -> str:
    """Return the attributes that name the processor of a function. cpu, features (+name or -name, with commas) are LLVM's."""
    return f'"target-cpu"="{cpu}" "target-features"="{features}"'


def least(architecture: str, feature: str) -> str:
    """Attributes of a function that may use the baseline of an architecture and one feature, of as few habits as can be: so
    that LLVM inlines it into every function whose processor has the feature."""
    if architecture == "x86_64":
        return attributes("x86-64", f"+{feature}")
    removed = "".join(f"-{name}," for name in _GENERIC_HABITS.get(architecture, ()))
    return attributes("generic", f"{removed}+{feature}")


@run_in_turn
def stronger_callees(caller: str, callees: Sequence[str], machine: llvm.TargetMachine) -> list[int]:
    """Return the callees that may use instructions that the caller may not, by their places. Both are given by their attributes.
    machine: LLVM's, of their architecture."""
    texts = [f'target triple = "{machine.triple}"', "declare void @inner()"]
    texts += [
        f"define internal void @callee{at}() {callee} {{\n  call void @inner()\n  ret void\n}}"
        for at, callee in enumerate(callees)
    ]
    calls = "".join(f"  call void @callee{at}()\n" for at in range(len(callees)))
    texts.append(f"define void @caller() {caller} {{\n{calls}  ret void\n}}")
    with llvm.create_context() as context, llvm.parse_assembly("\n".join(texts), context) as module:
        with (
            llvm.create_pipeline_tuning_options(2) as options,
            llvm.create_pass_builder(machine, options) as builder,
            builder.getModulePassManager() as passes,
        ):
            passes.run(module, builder)
        left = str(module)
    return [at for at in range(len(callees)) if f"@callee{at}()" in left]


_GROUP = re.compile(r"^(attributes #\d+ = \{ )(?!.*\"target-cpu\")(.*\})$", re.MULTILINE)
_DEFINED = re.compile(r"^define [^@\n]*@[\w.$]+", re.MULTILINE)
_ADDRESS = re.compile(r" (?:local_)?unnamed_addr")


def add_attributes(text: str, own: str) -> str:
    """LLVM IR whose functions have these attributes of a processor, so that they can stand in a module for another."""
    parts: list[str] = []
    end = 0
    for match in _DEFINED.finditer(text):
        at = _find_parameters_end(text, match.end())
        address = _ADDRESS.match(text, at)
        at = address.end() if address else at
        line = text[at : text.index("\n", at)]
        parts.append(text[end:at])
        if not re.search(r" #\d", line):
            parts.append(f" {own}")
        end = at
    return _GROUP.sub(rf"\g<1>{own} \g<2>", "".join([*parts, text[end:]]))


def _find_parameters_end(text: str, at: int) -> int:
    """The place behind the bracket that closes the one at a place."""
    depth = 0
    while True:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
        if not depth:
            return at

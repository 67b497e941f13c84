"""LLVM IR of the user's (the pragma import_llvm), linked into the module of the kernels that call it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import llvmlite.binding as llvm

from ...errors import user_source
from ...runtime.shield import in_turn
from ..errors import RejectedImport

__all__ = ["with_imports"]

_TARGET = re.compile(r"^target (?:datalayout|triple) = .*$", re.MULTILINE)


@in_turn
def with_imports(text: str, imported: Sequence[str]) -> str:
    """The module `text` with what the imported texts define. They are compiled for the kernel's target, whatever theirs.

    Raises RejectedImport."""
    if not imported:
        return text
    with llvm.create_context() as context:
        modules = [llvm.parse_assembly(text, context)]
        try:
            for number, theirs in enumerate(imported):
                try:
                    modules.append(llvm.parse_assembly(_TARGET.sub("", theirs), context))
                    modules[0].link_in(modules[-1])
                except RuntimeError as fault:
                    raise RejectedImport(
                        f"LLVM refuses the text number {number} of those imported",
                        reason=str(fault).strip(),
                        called=user_source(),
                        fix="give LLVM IR as text, as `clang -S -emit-llvm -o -` writes it, in which no name is defined twice",
                    ) from None
            return str(modules[0])
        finally:
            for module in modules:  # before their context, whoever still refers to them
                module.close()

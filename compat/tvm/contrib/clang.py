"""tvm.contrib.clang."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ....codegen.c.source import llvm_of_c

__all__ = ["create_llvm"]


def create_llvm(inputs: str | list[str], output: str | None = None, options: Any = None, cc: Any = None) -> str:
    """LLVM IR of C++ source (text, or a list of texts) for the pragma import_llvm, also written to the file `output`."""
    del options, cc
    text = llvm_of_c(inputs if isinstance(inputs, str) else "\n".join(inputs))
    if output is not None:
        Path(output).write_text(text)
    return text

"""Manifest of a library: the text beside it, and the one within it."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from ..target import Target
from .companion import ALONE, Companion
from .cpu import needed_features
from .final_kernel import FinalKernel
from .header import declarations

__all__ = ["describe", "manifest_text", "own_version"]

FORMAT = 1  # a reader refuses a greater number


def own_version() -> str:
    """tilewright's."""
    # the package may be under another name, as in a built library
    return sys.modules[__name__.partition(".")[0]].__version__


def describe(
    library: str,
    programs: Sequence[FinalKernel],
    messages: Mapping[str, Sequence[str]],
    target: Target,
    *,
    features: Sequence[str],
    threads: str,
    is_parallel: bool,
    is_module: bool,
    companion: Companion = ALONE,
) -> dict[str, Any]:
    """Plain data: the library's functions with shapes and dtypes, what it was compiled for and by what. is_parallel: some
    loop is. is_module: it was exported as several kernels by name, not as one. companion:
    what it has beside them."""
    return {
        "format": FORMAT,
        "library": library,
        "is_module": is_module,
        "is_parallel": is_parallel,
        "functions": [
            {
                "name": program.signature.name,
                "key": program.key or program.signature.name,
                "declarations": list(declarations(program.signature, companion.types)),
                "signature": program.signature.plain_json(),
                "messages": list(messages[program.signature.name]),
                "variants": [list(needed_features(each.target)) for each in program.variants] or [list(features)],
            }
            for program in programs
        ],
        "cases": {name: list(kernels) for name, kernels in companion.cases.items()},
        # left out where there is none: older readers do not know it
        **({} if companion.model is None else {"model": companion.model.plain_json()}),
        "target": {
            "text": str(target),
            "triple": target.llvm_triple,
            "cpu": target.llvm_cpu,
            "features": list(features),
        },
        "threads": threads,
        "versions": {
            "tilewright": own_version(),
            "llvm": ".".join(map(str, llvm.llvm_version_info)),
            "llvmlite": llvmlite.__version__,
        },
    }


def manifest_text(description: Mapping[str, Any], files: Mapping[str, bytes]) -> str:
    """The JSON file beside a library: its description, and the SHA-256 of its files by name."""
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return json.dumps({**description, "sha256": hashes}, indent=1) + "\n"

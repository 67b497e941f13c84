"""tvm.contrib.cc: the system's compiler, to link what export_library wrote as objects."""

from __future__ import annotations

from collections.abc import Sequence

from ....codegen.c.source import link_objects, system_compiler
from ....codegen.errors import RejectedSource

__all__ = ["create_shared", "get_cc"]


def get_cc() -> str | None:
    """The system's C++ compiler: $CXX, c++, g++ or clang++."""
    return system_compiler(cplusplus=True)


def create_shared(
    output: str, objects: str | Sequence[str], options: Sequence[str] | None = None, cc: str | None = None
) -> None:
    """Links objects (and compiles sources among them) to a shared library, with OpenMP, whose threads parallel loops run on,
    where the compiler has it. Raises NoCompiler, RejectedSource."""
    parts, given = [objects] if isinstance(objects, str) else list(objects), list(options or ())
    try:
        link_objects(output, parts, ["-fopenmp", *given], cc)
    except RejectedSource:
        link_objects(output, parts, given, cc)

"""tvm.contrib.cc: the system's compiler, to link what export_library wrote as objects."""

from __future__ import annotations

from collections.abc import Sequence

from ....codegen.c_source import link_objects, system_compiler

__all__ = ["create_shared", "get_cc"]


def get_cc() -> str | None:
    """The system's C++ compiler: $CXX, c++, g++ or clang++."""
    return system_compiler(cplusplus=True)


def create_shared(output: str, objects: str | Sequence[str], options: Sequence[str] | None = None, cc: str | None = None) -> None:
    """Links objects (and compiles sources among them) to a shared library. Raises NoCompiler, RejectedSource."""
    link_objects(output, [objects] if isinstance(objects, str) else list(objects), list(options or ()), cc)

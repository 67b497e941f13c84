"""Companion code of a library: what stands beside its kernels."""

from __future__ import annotations

from collections.abc import Mapping

from ...base import dataclass, field
from ...runtime.loaded_model import ModelRoles

__all__ = ["ALONE", "Companion", "find_handles"]


@dataclass(frozen=True)
class Companion:
    """Companion code of a library.

    functions: further C functions, by name, each with its comment and declaration. types: other C types for the parameters of
    kernels, by name, as a declaration begins with them. code: LLVM IR of the functions. before: what the header says before all
    functions. statuses: what further statuses mean. notes: what the header says of parameters, by name, beside their type.
    cases: for a function of several shapes, the kernels that it calls. model: what the parameters of a model's function are.
    version: of the library, for CMake and pkg-config; "" for tilewright's own.
    """

    functions: Mapping[str, str] = field(default_factory=dict[str, str])
    types: Mapping[str, str] = field(default_factory=dict[str, str])
    code: str = ""
    before: str = ""
    statuses: Mapping[int, str] = field(default_factory=dict[int, str])
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    cases: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    model: ModelRoles | None = None
    version: str = ""


def find_handles(types: Mapping[str, str]) -> frozenset[str]:
    """The parameters that a function of the library itself made, as what maps its weights: they come first in C, and are passed to
    checked functions as they are. types: as of Companion."""
    # what is passed as a pointer to const of a type of ours is such a handle
    return frozenset(name for name, kind in types.items() if kind.startswith("const "))


ALONE = Companion()

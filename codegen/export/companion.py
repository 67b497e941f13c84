"""What a library has beside its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ALONE", "Companion"]


@dataclass(frozen=True)
class Companion:
    """functions: further C functions, by name, each with its comment and declaration. types: other C types for the parameters of
    kernels, by name, as a declaration begins with them. code: LLVM IR of the functions. before: what the header says before all
    functions. statuses: what further statuses mean. notes: what the header says of parameters, by name, beside their type.
    cases: for a function of several shapes, the kernels that it calls."""

    functions: Mapping[str, str] = field(default_factory=dict[str, str])
    types: Mapping[str, str] = field(default_factory=dict[str, str])
    code: str = ""
    before: str = ""
    statuses: Mapping[int, str] = field(default_factory=dict[int, str])
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    cases: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


ALONE = Companion()

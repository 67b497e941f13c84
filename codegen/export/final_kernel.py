"""A kernel on its way into a library."""

from __future__ import annotations

from typing import Self

from ...base import dataclass, field, replace, user_source
from ...ir import Function, Var
from ...runtime.signature import Signature
from ..abi.packed_calls import calls_packed
from .errors import CallsPython
from .names import library_identifier
from .variants import Variant

__all__ = ["FinalKernel", "KernelExporter", "refuse_callback"]

_DEFAULT_NAME = "main"
"""What a kernel is called that was given no name; C has a `main` of its own."""


def refuse_callback(name: str, function: Function) -> None:
    """Raise CallsPython (TW0709) where a function calls one of Python."""
    callback = calls_packed(function)
    if callback is not None:
        raise CallsPython(
            f"cannot export {name}",
            called=user_source(),
            reason=f"it calls the Python function {callback!r}, which is in this process alone",
            fix="call a C function by te.call_extern, and link the library that has it",
        )


@dataclass(frozen=True)
class FinalKernel:
    """One kernel as it is compiled: its function at stage "final", its signature, and its free shape symbols in call
    order. key: its name in its module, where C knows it by another. variants: its code, where that is for other targets than
    its library, best first; the function is then that of one of them."""

    function: Function
    signature: Signature
    symbols: tuple[Var, ...]
    key: str = ""
    variants: tuple[Variant, ...] = ()

    def take_name(self, stem: str) -> FinalKernel:
        """Itself; or, where it was given no name, the same under the library's."""
        if self.signature.name != _DEFAULT_NAME:  # a name that was given stays
            return self
        name = library_identifier(stem)
        return replace(
            self,
            function=replace(self.function, name=name),
            signature=replace(self.signature, name=name),
            key=_DEFAULT_NAME,
        )


@dataclass(frozen=True)
class KernelExporter:
    """Exporter of kernels that were built together. is_module: they go by their names, even if there is but one."""

    programs: tuple[FinalKernel, ...]
    fast_math: bool
    fp_contract: bool
    is_module: bool = field(default=True, kw_only=True)

    def only(self, name: str) -> Self:
        """Return the part for one of the kernels alone."""
        # alone, a kernel is not looked up by its name
        return replace(self, programs=tuple(p for p in self.programs if p.signature.name == name), is_module=False)

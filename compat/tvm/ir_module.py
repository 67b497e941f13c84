"""tvm.IRModule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from ...ir import Function
from .nodes import theirs

__all__ = ["GlobalVar", "IRModule"]


class GlobalVar(str):
    """The name of a function in a module."""

    __slots__ = ()

    @property
    def name_hint(self) -> str:
        """The name, as a text."""
        return str(self)


class IRModule:
    """Lowered functions by name; prints as their loops."""

    def __init__(self, functions: Mapping[Any, Function] | None = None) -> None:
        self.functions: dict[str, Function] = {
            GlobalVar(name): theirs(function) for name, function in (functions or {}).items()
        }

    @staticmethod
    def from_expr(expr: Function) -> IRModule:
        """A module of one function, under its own name."""
        return IRModule({expr.name: expr})

    def __getitem__(self, name: str) -> Function:
        return self.functions[str(name)]

    def __setitem__(self, name: str, function: Function) -> None:
        self.functions[GlobalVar(name)] = theirs(function)

    def __contains__(self, name: object) -> bool:
        return str(name) in self.functions

    def get_global_vars(self) -> list[GlobalVar]:
        """The names of the functions."""
        return [GlobalVar(name) for name in self.functions]

    def get_global_var(self, name: str) -> GlobalVar:
        """The name of a function that is there. Raises ValueError."""
        if name not in self.functions:
            raise ValueError(f"the module has no function {name!r}; there are {', '.join(self.functions)}")
        return GlobalVar(name)

    def update(self, other: IRModule) -> None:
        """Take over the functions of another module."""
        self.functions.update(other.functions)

    def script(self, **_: object) -> str:
        """The text of every function."""
        return "\n".join(map(str, self.functions.values()))

    def show(self, **_: object) -> None:
        """Print the functions."""
        Console().print(self.script(), markup=False, highlight=False)

    def astext(self, **_: object) -> str:
        """The text of every function."""
        return self.script()

    __str__ = __repr__ = astext

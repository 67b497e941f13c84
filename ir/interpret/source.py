"""Collector of the interpreter's source: lines, blocks, functions, names and constants."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from ...base.dataclass import dataclass
from ..buffer import Buffer
from ..rounding import truncated_quotient, truncated_remainder
from .faults import HELPERS

__all__ = ["MAX_NESTING", "SOURCE_NAME", "Code", "Memory", "Race", "Source"]

SOURCE_NAME = "<tilewright interpreter>"
MAX_NESTING = 12
"""Levels of text inside a statement, and of blocks inside a function: Python stops at 100 blocks, 20 of them loops."""


@dataclass(slots=True)
class Code:
    """Source of a value. [lo, hi] holds an integer, where known; `raw`: it may have left the range of its dtype."""

    text: str
    nesting: int = 0
    lo: int | None = None
    hi: int | None = None
    raw: bool = False

    @property
    def is_atom(self) -> bool:
        return self.nesting == 0


@dataclass(slots=True)
class Memory:
    """Access to a buffer from the source: names or constants for its list, extents, strides, first element."""

    number: int
    data: str
    extents: list[str]
    strides: list[str]
    first: str
    tracked: bool
    """Whether reads are checked for having been written."""
    constant: bool
    """Whether nothing writes it."""


@dataclass(slots=True)
class Race:
    """A parallel loop that is being run: its variable, and the shadow memory of what it writes."""

    var: str
    shadows: dict[Buffer, tuple[str, str]]


class Source:
    """The lines of the source, function by function."""

    def __init__(self) -> None:
        self.space: dict[str, Any] = {
            **HELPERS,
            "truncated_quotient": truncated_quotient,
            "truncated_remainder": truncated_remainder,
            "copysign": math.copysign,
            "nan": float("nan"),
            "inf": float("inf"),
        }
        """What the source may name."""
        self.finished: list[list[str]] = []
        self.open: list[tuple[list[str], int]] = []
        self.lines: list[str] = []
        self.depth = 0
        self.live: list[str] = []
        """Names that functions of their own may need: what is bound around the present place."""
        self.constants: dict[Any, str] = {}
        self.count = 0

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def line(self, text: str) -> None:
        self.lines.append(" " * self.depth + text)

    def open_function(self, name: str, parameters: list[str]) -> None:
        self.open.append((self.lines, self.depth))
        self.lines, self.depth = [f"def {name}({', '.join(parameters)}):"], 1

    def close_function(self) -> None:
        self.line("return")
        self.finished.append(self.lines)
        self.lines, self.depth = self.open.pop()

    @contextmanager
    def block(self, header: str) -> Generator[None]:
        self.line(header)
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def constant(self, value: Any, key: object, prefix: str = "k") -> str:
        """A name for a value that the source uses."""
        name = self.constants.get(key)
        if name is None:
            name = self.constants[key] = self.name(prefix)
            self.space[name] = value
        return name

    def keep(self, text: str) -> str:
        """A name for a value that everything within may use."""
        name = self.spill(text)
        self.live.append(name)
        return name

    def spill(self, text: str) -> str:
        name = self.name("t")
        self.line(f"{name} = {text}")
        return name

"""Values of names while a script is read, besides numbers, expressions and tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...base import dataclass, field
from ...ir import Buffer, Expr, LoopKind, Stmt
from ...ir.dtype import BOOL, FLOAT32, INT32, DType
from ...ir.ops import common_dtype
from ...ir.visit import seq

__all__ = ["Block", "LocalBuffer", "LoopSpec", "ScalarTypes", "Scalar", "Storage", "UnboundName", "is_number"]


@dataclass(frozen=True, eq=False, slots=True)
class Storage:
    """Storage of output_tensor and allocate, before a name is given to it. scope "" is that of an output."""

    shape: tuple[Expr, ...]
    dtype: DType
    scope: str


@dataclass(frozen=True, eq=False, slots=True)
class LocalBuffer:
    """A buffer of the script: an output, or memory that it allocates."""

    buffer: Buffer
    is_output: bool


@dataclass(eq=False, slots=True)
class Scalar:
    """A name that is assigned more than once: an element of memory, whose dtype is known at the first assignment."""

    name: str
    key: object
    buffer: Buffer | None = None


@dataclass(frozen=True, slots=True)
class UnboundName:
    """A name that has no value here. why: said of it in the error. fix: what to write instead."""

    why: str
    fix: str


@dataclass(frozen=True, eq=False, slots=True)
class LoopSpec:
    """Range of a loop. kind None: it is written out while the script is read, over `values`."""

    begin: Expr | int = 0
    end: Expr | int = 0
    step: int = 1
    kind: LoopKind | None = LoopKind.SERIAL
    thread: str = ""
    independent: bool = False
    """Whether the script vouches that iterations touch no element in common."""
    values: Sequence[Any] = ()


class Block:
    """Statements in order; what wraps the rest of the block (an allocation, a binding) is a function of that rest."""

    def __init__(self) -> None:
        self._parts: list[Stmt | Callable[[Stmt], Stmt]] = []

    def add(self, part: Stmt | Callable[[Stmt], Stmt]) -> None:
        """Append a statement or a wrapper."""
        self._parts.append(part)

    def close(self) -> Stmt:
        """All of it as one statement."""
        body = seq()
        for part in reversed(self._parts):
            body = seq(part, body) if isinstance(part, Stmt) else part(body)
        return body


@dataclass(slots=True)
class ScalarTypes:
    """The dtypes of scalars. A script is read again until they are stable: `s = 0`, then `s += a[i]` of floats, makes s a
    float, as it would be in Python."""

    chosen: dict[object, DType] = field(default_factory=dict[object, DType])
    seen: dict[object, DType] = field(default_factory=dict[object, DType])
    literal: dict[object, type] = field(default_factory=dict[object, type])

    def note(self, key: object, value: Any) -> None:
        """A scalar is given `value`."""
        if isinstance(value, (bool, int, float)):
            kinds = (bool, int, float)
            before = self.literal.get(key, bool)
            self.literal[key] = kinds[max(kinds.index(before), kinds.index(type(value)))]
        else:
            dtype = value.dtype
            self.seen[key] = common_dtype(self.seen[key], dtype) if key in self.seen else dtype

    def of(self, key: object, value: Any) -> DType:
        """The dtype that the scalar has while the script is read this time; `value` is its first one."""
        dtype = self.chosen.get(key)
        if dtype is None:
            dtype = self.chosen[key] = (
                value.dtype if not isinstance(value, (bool, int, float)) else _literal_dtype(type(value))
            )
        return dtype

    def settle(self) -> bool:
        """Choose what was seen; whether that is what was chosen before."""
        stable = True
        for key, before in self.chosen.items():
            joined = common_dtype(before, self.seen[key]) if key in self.seen else before
            literal = self.literal.get(key)
            if literal is float and not joined.is_float:
                joined = FLOAT32
            elif literal is int and joined.is_bool:
                joined = INT32
            self.chosen[key] = joined
            stable = stable and joined == before
        self.seen, self.literal = {}, {}
        return stable


def _literal_dtype(kind: type) -> DType:
    return {bool: BOOL, int: INT32, float: FLOAT32}[kind]


def is_number(value: Any) -> bool:
    """Return whether this is a plain number, known now."""
    return isinstance(value, (bool, int, float))

"""Statements of the loop IR, and functions of them."""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar

from ..base import dataclass, field, replace
from .buffer import Buffer
from .constant import Constant
from .expr import Expr, Node, Var

__all__ = [
    "INDEPENDENT",
    "Allocate",
    "Assert",
    "Attr",
    "BufferStore",
    "Evaluate",
    "For",
    "Function",
    "If",
    "LetStmt",
    "LoopKind",
    "Seq",
    "Stmt",
    "While",
]


class Stmt(Node):
    """An action."""

    __slots__ = ()


class LoopKind(Enum):
    """Kind of a loop. Every kind means what SERIAL means, so each may be checked by running it serially."""

    SERIAL = "for"
    PARALLEL = "parallel"
    VECTORIZED = "vectorized"
    UNROLLED = "unrolled"
    THREAD = "thread"
    """Bound to a thread axis, named by the loop's `thread`. A loop inside another of the same tag runs on the same
    hardware threads: cooperative work, of which each outer iteration may do a share or, serially, the whole."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class For(Stmt):
    """`for var in [begin, begin + extent)`; `kind` changes how it runs, never what it means."""

    var: Var
    begin: Expr
    extent: Expr
    kind: LoopKind
    body: Stmt
    thread: str = ""
    """The thread tag of a THREAD loop: blockIdx.x, threadIdx.y, vthread ..."""
    pragmas: tuple[tuple[str, Expr], ...] = ()
    """What the user said about this loop, in order: (key, value)."""
    line: int = field(default=0, compare=False)
    """The line of a text that it came from, for those who look for its instructions; 0: not noted. It means nothing."""
    _children: ClassVar[tuple[str, ...]] = ("begin", "extent", "body")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BufferStore(Stmt):
    """`buffer[indices] = value`, for the lanes where `predicate` holds."""

    buffer: Buffer
    value: Expr
    indices: tuple[Expr, ...]
    predicate: Expr | None = None
    line: int = field(default=0, compare=False)
    """As of a loop."""
    _children: ClassVar[tuple[str, ...]] = ("value", "indices", "predicate")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Allocate(Stmt):
    """Fresh, uninitialised memory for `buffer`, that lives as long as `body` runs.

    The extents of `buffer.shape` are evaluated here.
    """

    buffer: Buffer
    body: Stmt
    _children: ClassVar[tuple[str, ...]] = ("body",)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class If(Stmt):
    condition: Expr
    then_body: Stmt
    else_body: Stmt | None = None
    _children: ClassVar[tuple[str, ...]] = ("condition", "then_body", "else_body")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class While(Stmt):
    """Run `body` as long as `condition` holds, which is looked at before each time. It reads memory that the body changes; no
    thread of a block waits for others within it."""

    condition: Expr
    body: Stmt
    _children: ClassVar[tuple[str, ...]] = ("condition", "body")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Seq(Stmt):
    """Statements in order. Empty: nothing happens."""

    body: tuple[Stmt, ...]
    _children: ClassVar[tuple[str, ...]] = ("body",)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LetStmt(Stmt):
    """`value` bound to `var` within `body`."""

    var: Var
    value: Expr
    body: Stmt
    _children: ClassVar[tuple[str, ...]] = ("value", "body")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evaluate(Stmt):
    """A call for its effect."""

    value: Expr
    line: int = field(default=0, compare=False)
    """As of a loop."""
    _children: ClassVar[tuple[str, ...]] = ("value",)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Assert(Stmt):
    """Ends the function with an error status, and `message` for whoever called it, where `condition` is false."""

    condition: Expr
    message: str
    _children: ClassVar[tuple[str, ...]] = ("condition",)


INDEPENDENT = "independent"
"""The pragma: no iteration of a loop touches what another one stores; and the key of an Attr whose subject is the thread axis of such
a loop, the body of which it has."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Attr(Stmt):
    """A fact about `body` for later passes: `key` says which, `subject` and `value` of what."""

    key: str
    subject: object
    value: Expr
    body: Stmt
    _children: ClassVar[tuple[str, ...]] = ("value", "body")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Function:
    """A whole program: parameters in call order, a body and facts about it.

    params: Buffers (inputs and outputs, distinguished by `outputs`) and scalar Vars. Shape symbols of the buffers need
    not be parameters: they are read from the arguments' shapes. attrs: facts for passes and code generation, by name;
    plain values only, so that they print.
    """

    name: str
    params: tuple[Buffer | Var, ...]
    body: Stmt
    outputs: tuple[Buffer, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict[str, Any])
    constants: tuple[Constant, ...] = ()
    """What the last of the parameters hold, as many as these: nobody passes them."""

    def with_body(self, body: Stmt) -> Function:
        """This function with another body (itself where the body is the same)."""
        return self if body is self.body else replace(self, body=body)

    def with_attrs(self, **attrs: Any) -> Function:
        """This function with more, or other, attributes."""
        return replace(self, attrs={**self.attrs, **attrs})

    @property
    def arguments(self) -> tuple[Buffer | Var, ...]:
        """The parameters that the caller passes."""
        return self.params[: len(self.params) - len(self.constants)]

    @property
    def constant_buffers(self) -> dict[Buffer, Constant]:
        """The parameters that nobody passes, and what they hold."""
        hidden = self.params[len(self.params) - len(self.constants) :]
        return {buffer: held for buffer, held in zip(hidden, self.constants, strict=True) if isinstance(buffer, Buffer)}

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The parameters that are buffers, in call order."""
        return tuple(p for p in self.params if isinstance(p, Buffer))

    @property
    def scalars(self) -> tuple[Var, ...]:
        """The parameters that are scalars, in call order."""
        return tuple(p for p in self.params if isinstance(p, Var))

    def __str__(self) -> str:
        return Node.text_of(self)

    __repr__ = __str__

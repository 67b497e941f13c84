"""Programs in a form that can be run backwards: of loops, choices and stores alone.

    for i in range(n):                       sum = local; t = local
        t = x[i] * 2        (a binding)      for i in range(n):
        if t > 0:                     →          t[] = x[i] * 2
            sum += t                             if t[] > 0: sum[] = sum[] + t[]

Memory lives as long as the whole program, and what begins as zeros where it is allocated in a loop is cleared there. Every loop is
serial, and has a variable of its own: an operation's axes are its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...base import SourceLine, dataclass, replace, user_source
from ...ir import ops
from ...ir.accesses import reads_memory
from ...ir.atomics import added
from ...ir.buffer import Buffer
from ...ir.expr import BufferLoad, Expr, IterVar, Node, ProducerLoad, Range, Var
from ...ir.stmt import Allocate, Assert, Attr, BufferStore, For, If, LetStmt, LoopKind, Seq, Stmt, While
from ...ir.visit import post_order, rewrite, seq, substitute, substitute_lets
from ..hybrid.zeros import needs_zeros
from ..loops import nest_loops
from ..shape import declare_axes
from .errors import NotDifferentiable

__all__ = ["Program", "fresh_loop", "is_fixed", "build_program", "reads_own_memory"]


@dataclass(frozen=True)
class Program:
    """Program of loops whose derivative is taken.

    body: Seq, For, While, If and BufferStore alone. buffers: where its outputs are. memory: what else it stores to. All begin as
    zeros, scalars of its own memory apart, which are stored to before they are read.
    """

    body: Stmt
    buffers: tuple[Buffer, ...]
    memory: tuple[Buffer, ...]


def build_program(body: Stmt, outputs: Sequence[Buffer], declared: SourceLine | None) -> Program:
    """The program that a statement is, over buffers of its own. Raises NotDifferentiable (TW0170)."""
    reader = _Reader(outputs, declared)
    made = reader.visit(body, (), False)
    return Program(made, tuple(reader.buffers[output] for output in outputs), tuple(reader.memory))


def fresh_loop(loop: For, begin: Expr, extent: Expr, fixed: bool) -> Var:
    """A variable for another loop over the same iterations: an axis where they are fixed, neither data nor loops around it changing
    how many there are."""
    var = loop.var
    return IterVar(var.name, var.dtype, Range(begin, extent)) if fixed else Var(var.name, var.dtype)


def is_fixed(loop: For, around: Collection[Var]) -> bool:
    """Return whether data and the loops around it say nothing about a loop's iterations."""
    return not any(
        isinstance(part, (BufferLoad, ProducerLoad)) or part in around for part in post_order(loop.begin, loop.extent)
    )


def reads_own_memory(value: Expr) -> bool:
    """Return whether a value depends on what the program has stored."""
    return any(isinstance(node, BufferLoad) for node in post_order(value))


class _Reader:
    """Reader of a statement into a program.

    values: what variables of the statement are in the program. buffers: the program's by the statement's.
    """

    def __init__(self, outputs: Sequence[Buffer], declared: SourceLine | None) -> None:
        self.declared = declared
        self.values: dict[Var, Expr] = {}
        self.buffers = {output: replace(output) for output in outputs}
        self.memory: list[Buffer] = []
        self.loops: set[Var] = set()

    def value(self, value: Expr) -> Expr:
        """An expression of the statement over the program's variables and memory."""

        def rule(node: Node) -> Node | None:
            return replace(node, buffer=self.buffers[node.buffer]) if isinstance(node, BufferLoad) else None

        return substitute(rewrite(substitute_lets(value), rule), self.values)

    def visit(self, node: Stmt, loops: tuple[Var, ...], guarded: bool) -> Stmt:
        """A statement within loops over these variables; guarded: in a branch of a choice too, or in a loop that data ends."""
        if isinstance(node, Seq):
            return seq(*(self.visit(part, loops, guarded) for part in node.body))
        if isinstance(node, BufferStore) and node.predicate is None:
            more = added(node)
            stored = node.value if more is None else ops.add(BufferLoad(node.buffer, node.indices), more)
            return BufferStore(self.buffers[node.buffer], self.value(stored), tuple(map(self.value, node.indices)))
        if isinstance(node, For):
            begin, extent = self.value(node.begin), self.value(node.extent)
            var = self.values[node.var] = fresh_loop(node, begin, extent, is_fixed(node, self.loops))
            self.loops.add(node.var)
            return For(var, begin, extent, LoopKind.SERIAL, self.visit(node.body, (*loops, var), guarded))
        if isinstance(node, If):
            branches = [
                None if part is None else self.visit(part, loops, True) for part in (node.then_body, node.else_body)
            ]
            return If(self.value(node.condition), branches[0] or seq(), branches[1])
        if isinstance(node, While):
            return While(self.value(node.condition), self.visit(node.body, loops, True))
        if isinstance(node, LetStmt):
            return self._binding(node, loops, guarded)
        if isinstance(node, Allocate):
            return self._allocation(node, loops, guarded)
        if isinstance(node, Attr):
            return self.visit(node.body, loops, guarded)
        if isinstance(node, Assert):
            return seq()  # the program itself has looked
        raise self._refusal(f"a statement of it is `{str(node).strip()[:120]}`")

    def _binding(self, node: LetStmt, loops: tuple[Var, ...], guarded: bool) -> Stmt:
        value = self.value(node.value)
        if not reads_memory(value) and not value.dtype.is_float:
            self.values[node.var] = value
            return self.visit(node.body, loops, guarded)
        held = Buffer(node.var.name, (), value.dtype, scope="local")
        self.memory.append(held)
        self.values[node.var] = BufferLoad(held, ())
        return seq(BufferStore(held, value, ()), self.visit(node.body, loops, guarded))

    def _allocation(self, node: Allocate, loops: tuple[Var, ...], guarded: bool) -> Stmt:
        shape = tuple(map(self.value, node.buffer.shape))
        if node.buffer.scope == "shared" or any(
            isinstance(part, (BufferLoad, ProducerLoad)) or part in loops
            for extent in shape
            for part in post_order(extent)
        ):
            raise self._refusal(
                f"it allocates {node.buffer.name}, whose size is known in the middle of it, or which threads share"
            )
        made = self.buffers[node.buffer] = replace(node.buffer, shape=shape)
        self.memory.append(made)
        body = self.visit(node.body, loops, guarded)
        if not shape or not (loops or guarded) or not needs_zeros(node.body, node.buffer):
            return body
        axes = declare_axes(shape, made.name)
        return seq(nest_loops(axes, BufferStore(made, ops.const(0, made.dtype), axes)), body)

    def _refusal(self, reason: str) -> NotDifferentiable:
        return NotDifferentiable(
            "the gradient would go through a program that cannot be run backwards",
            reason=reason,
            declared=self.declared,
            called=user_source(),
            fix="write it by loops, choices, bindings and stores, with memory of sizes that are known before",
        )

"""Unrolled loops to their iterations in sequence.

    for i in unrolled(0, 2): C[i] = A[i]      →      C[0] = A[0];  C[1] = A[1]
    for i in unrolled(0, 2 - j): C[i] = A[i]  →      if 0 < 2 - j: C[0] = A[0];  if 1 < 2 - j: C[1] = A[1]      where j is 0 or 1

Besides loops that the schedule unrolls, `auto_unroll_max_step` on a loop unrolls the innermost constant loops below it
whose statements, over all their iterations, number no more than its value, provided that `unroll_explicit` is on.
It stands after vectorize, which leaves unrolled loops of vector chunks, and before memory is planned.
"""

from __future__ import annotations

from ....base.errors import user_source
from ...contents import require_any
from ...expr import Expr, IntImm, Range, StringImm
from ...ops import const
from ...stmt import Assert, BufferStore, Evaluate, For, Function, If, LoopKind, Stmt
from ...visit import Rewriter, distinct, rebuild, seq, statements
from .errors import UnrollNotConstant, UnrollTooLarge
from .fresh_copy import fresh_copies
from .simplify import build_analyzer

__all__ = ["MAX_STATEMENTS", "unroll"]

MAX_STATEMENTS = 16384
"""The most statements that the unrolled loops of a function may become, huge statements counted as several. LLVM's own time
grows with the square of a block's length: about ten seconds for so many."""
MOST_GUARDED = 64
"""The most iterations of a loop whose extent loops outside decide: each of its copies has a guard."""
_AUTOMATIC = "auto_unroll_max_step"
NODES_OF_A_STEP = 128
"""Beyond so many nodes a statement counts as several."""


@require_any(LoopKind.UNROLLED, _AUTOMATIC)
def unroll(function: Function, max_statements: int = MAX_STATEMENTS) -> Function:
    """`function` without UNROLLED loops.

    Raises UnrollNotConstant, UnrollTooLarge, naming the loop."""
    return function.with_body(_Unroller(max_statements, function).visit(function.body))


class _Unroller(Rewriter):
    def __init__(self, max_statements: int, function: Function) -> None:
        self.max_statements, self.function = max_statements, function
        self.around: list[For] = []
        self.auto_steps = 0
        self.explicit = True
        self.made = 0

    def For(self, node: For) -> Stmt:
        # the pragma of an inner loop does not reach its siblings
        before, made_before = (self.auto_steps, self.explicit), self.made
        self._read_pragmas(node)
        self.around.append(node)
        body = self.visit(node.body)
        self.around.pop()
        steps, explicit = self.auto_steps, self.explicit
        self.auto_steps, self.explicit = before
        if node.kind is LoopKind.UNROLLED:
            return self._unroll(node, body, made_before)
        # automatic unrolling takes innermost loops only: the inner ones are gone by then
        if node.kind is LoopKind.SERIAL and steps and explicit and self._small(node, body, steps):
            return self._unroll(node, body, made_before)
        return rebuild(node, [node.begin, node.extent, body])

    def _read_pragmas(self, node: For) -> None:
        for key, value in node.pragmas:
            if key == _AUTOMATIC:
                self.auto_steps = _convert_to_int(value)
            elif key == "unroll_explicit":
                self.explicit = bool(_convert_to_int(value))

    def _small(self, node: For, body: Stmt, steps: int) -> bool:
        if not isinstance(node.extent, IntImm):
            return False
        return not _has_loop(body) and node.extent.value * _steps(body) <= steps

    def _unroll(self, node: For, body: Stmt, made_before: int) -> Stmt:
        extent = self._most(node)
        if extent is None:
            raise UnrollNotConstant(
                f"cannot unroll '{node.var.name}'",
                reason=f"its extent {node.extent} is not known when the kernel is built",
                called=user_source(),
                loops=_mark(node),
                fix="unroll a loop of constant extent: split this one by a constant factor and unroll the inner loop",
            )
        steps, made_inside = _steps(body), self.made - made_before
        if extent * steps > self.max_statements:
            raise UnrollTooLarge(
                f"cannot unroll '{node.var.name}'",
                reason=f"{extent} copies of {steps} statements are more than {self.max_statements}, which "
                "would take minutes to compile",
                called=user_source(),
                loops=_mark(node),
                fix="split the loop and unroll an inner part of it",
            )
        self.made += extent * steps - made_inside  # inner copies are in `steps` already
        if self.made > self.max_statements:
            raise UnrollTooLarge(
                f"cannot unroll '{node.var.name}' too",
                reason=f"the function's unrolled loops would reach {self.made} statements, more than "
                f"{self.max_statements}, which would take minutes to compile",
                called=user_source(),
                loops=_mark(node),
                fix="unroll fewer loops, or inner parts of them",
            )
        copies = fresh_copies(body, node.var, [_substitute(node.begin, step) for step in range(extent)])
        if isinstance(node.extent, IntImm):
            return seq(*copies)
        # each copy is guarded, since the extent may be smaller in some iterations
        return seq(*[If(const(step, node.extent.dtype) < node.extent, copy) for step, copy in enumerate(copies)])

    def _most(self, node: For) -> int | None:
        """Return the number of iterations, or of those that may be where loops outside decide; None where that is not known."""
        if isinstance(node.extent, IntImm):
            return node.extent.value
        analyzer = build_analyzer(self.function)
        for loop in self.around:
            analyzer.bind(loop.var, Range(loop.begin, loop.extent))
        most = analyzer.interval(node.extent).hi
        # more guards than that would cost more than the loop
        return most if most is not None and most <= MOST_GUARDED else None


def _mark(node: For) -> str:
    """The loop's first line, with a caret under its name."""
    return f"for {node.var.name} in {node.extent}:  # unrolled\n    {'^' * len(node.var.name)}"


def _substitute(begin: Expr, step: int) -> Expr:
    return begin + const(step, begin.dtype)


def _convert_to_int(value: Expr) -> int:
    if isinstance(value, IntImm):
        return value.value
    return int(value.value not in ("", "0", "False")) if isinstance(value, StringImm) else 0


def _has_loop(body: Stmt) -> bool:
    return any(isinstance(node, For) for node in statements(body))


def _steps(body: Stmt) -> int:
    """Return the number of statements of ordinary size that it amounts to: one of a thousand operators is no single step."""
    nodes = distinct(body)
    statements = sum(isinstance(node, (BufferStore, Evaluate, Assert)) for node in nodes)
    return statements + len(nodes) // NODES_OF_A_STEP  # statements of many operators compile as slowly as several

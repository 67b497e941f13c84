"""Statements over the lanes of a vector.

    if lane < n: C[lane] = A[lane]      →      if 0 < n: C[Ramp(0, 1, 16)] = A[Ramp(0, 1, 16)], both where the mask holds

A condition on the lane becomes a mask. Where it is a bound, an If on the first (or last) lane skips the statement when
no lane is active; then what the lanes share may be loaded as a scalar. Memory allocated below gains a dimension of
lanes. A statement that cannot be done in lanes runs in a serial loop over them.

    C[lane] = A[(i + lane) // 100 * 128 + (i + lane) % 100]      →      if i % 100 < 85: C[Ramp(0, 1, 16)] = A[Ramp(.., 1, 16)]
                                                                        else: a gather

Lanes over several axes as one mostly lie within a row, where they are read side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...accesses import reads_memory
from ...expr import LT, Add, BufferLoad, Call, Cast, Expr, Mul, Not, Var
from ...ops import cast, conjunction, const, disjunction, is_const
from ...stmt import Allocate, Attr, BufferStore, For, If, LetStmt, LoopKind, Seq, Stmt, While
from ...visit import free_vars, loads, seq, substitute
from ..common.fresh_copy import Copier, fold, fresh_copy
from .lane_conditions import negation, some_active
from .vector_exprs import LaneExprs, Mask, NotVectorizable, Row

__all__ = ["LaneStmts"]

MOST_ROWS = 2
"""Rows whose ends are looked for: statements that cross more of them are short of such vectors."""


class LaneStmts:
    """Turn one iteration of a loop over `var` into `lanes` iterations at once. `stores` counts those done in lanes."""

    def __init__(self, var: Var, lanes: int, rows: Sequence[Row] = ()) -> None:
        self.var, self.lanes = var, lanes
        self.lane = Var(var.name, var.dtype)
        self.exprs = LaneExprs(self.lane, lanes, rows)
        self.stores = 0
        self._vector_bindings = 0
        """How many vectors are bound by enclosing statements: a serial loop could not name their lanes."""

    def run(self, body: Stmt, first: Expr, active: Expr | None) -> Stmt:
        """`body` for var = first + lane, for lanes below `active` (all where None)."""
        copy = _Privatizer(self.var, fold(Add, first, self.lane), self.lane, self.lanes).visit(body)
        # lanes from `active` on are beyond the loop's end
        vectors = self.visit(copy if active is None else If(LT(self.lane, active), copy))
        outside = {*free_vars(copy)}
        rows = [
            row for row in self.exprs.crossed if outside.issuperset(free_vars(row.base)) and not reads_memory(row.base)
        ]
        # the copy within rows is made once, and only for few row ends
        if self.exprs.rows or not 0 < len(rows) <= MOST_ROWS or not self.stores:
            return vectors
        within = LaneStmts(self.var, self.lanes, rows).run(body, first, active)
        return If(conjunction(*(row.holds(self.lanes) for row in rows)), within, vectors)

    def visit(self, stmt: Stmt) -> Stmt:
        mask, bindings = self.exprs.mask, self._vector_bindings
        stores = self.stores
        try:
            method: Callable[[Stmt], Stmt] | None = getattr(self, type(stmt).__name__, None)
            if method is None:
                raise NotVectorizable
            return method(stmt)
        except NotVectorizable:
            # what the failed attempt counted and bound is void
            self.exprs.mask, self._vector_bindings, self.stores = mask, bindings, stores
            if bindings:  # a serial loop could not read single lanes of the bound vectors
                raise
            return self._serial(stmt)

    def _serial(self, stmt: Stmt) -> Stmt:
        """`stmt` lane by lane."""
        mask = self.exprs.mask
        guarded = stmt if mask is None else If(mask.scalar, stmt)
        lane = Var(self.var.name, self.var.dtype)
        body = fresh_copy(guarded, {self.lane: lane})
        return For(lane, const(0, lane.dtype), const(self.lanes, lane.dtype), LoopKind.SERIAL, body)

    def _scalar(self, expr: Expr) -> Expr:
        """Return the value on which all lanes agree."""
        value = self.exprs.visit(expr)
        if value.dtype.lanes > 1:  # a bound or a size that differs between lanes has no common loop
            raise NotVectorizable
        return value

    def Seq(self, stmt: Seq) -> Stmt:
        return seq(*[self.visit(inner) for inner in stmt.body])

    def BufferStore(self, stmt: BufferStore) -> Stmt:
        index = self.exprs.index(stmt.indices[0])
        # lanes that store to one element do so in the loop's order
        if stmt.predicate is not None or index.dtype.lanes == 1:
            raise NotVectorizable
        value = self.exprs.vector(stmt.value)
        self.stores += 1
        return BufferStore(
            stmt.buffer, value, (index,), None if self.exprs.mask is None else self.exprs.mask.vector, stmt.line
        )

    def For(self, stmt: For) -> Stmt:
        begin, extent = self._scalar(stmt.begin), self._scalar(stmt.extent)
        kind = LoopKind.SERIAL if stmt.kind is LoopKind.PARALLEL else stmt.kind  # threads do not start within a lane
        running, body = self._some_runs(stmt), self.visit(stmt.body)
        body = body if running is None else If(running, body)
        return For(stmt.var, begin, extent, kind, body, stmt.thread, stmt.pragmas, stmt.line)

    def While(self, stmt: While) -> Stmt:
        """A loop that runs until its last lane has left it: lanes that have are masked."""
        if self.exprs.mask is not None:  # what it leaves out is not known where the loop asks whether some lane runs
            raise NotVectorizable
        if self.exprs.visit(stmt.condition).dtype.lanes == 1:
            return While(self._scalar(stmt.condition), self.visit(stmt.body))
        running = (substitute(stmt.condition, {self.lane: const(at, self.lane.dtype)}) for at in range(self.lanes))
        return While(disjunction(*running), self.visit(If(stmt.condition, stmt.body)))

    def _some_runs(self, loop: For) -> Expr | None:
        """Condition of a loop that each lane leaves when a flag of its own is set: whether some lane is in it still, so that the
        loop is over when the last one has left (see ..common.early_exit). Lanes that a mask leaves out have set no flag."""
        body = loop.body  # the flag is tested by an If around the whole body, else something runs after it is set
        if self.exprs.mask is not None or loop.kind is not LoopKind.SERIAL:
            return None
        if not isinstance(body, If) or body.else_body is not None:
            return None
        flag = body.condition.value if isinstance(body.condition, Not) else None
        # one flag for each lane, side by side
        if not isinstance(flag, BufferLoad) or not is_const(flag.buffer.shape[0], self.lanes):
            return None
        (index,) = flag.indices
        if (index.value if isinstance(index, Cast) else index) is not self.lane:
            return None
        return disjunction(*(Not(replace(flag, indices=(const(at, index.dtype),))) for at in range(self.lanes)))

    def LetStmt(self, stmt: LetStmt) -> Stmt:
        value = self.exprs.visit(stmt.value)
        if value.dtype.lanes == 1:
            return LetStmt(stmt.var, value, self.visit(stmt.body))
        var = Var(stmt.var.name, value.dtype)
        self.exprs.vectors[stmt.var] = var
        self._vector_bindings += 1
        body = self.visit(stmt.body)
        self._vector_bindings -= 1
        return LetStmt(var, value, body)

    def If(self, stmt: If) -> Stmt:
        condition = self.exprs.visit(stmt.condition)
        if condition.dtype.lanes == 1:
            else_body = None if stmt.else_body is None else self.visit(stmt.else_body)
            return If(condition, self.visit(stmt.then_body), else_body)
        # what reads no memory is the same whenever it is evaluated
        if next(loads(stmt.condition), None) is None:
            return self._branches(stmt, condition)
        # the branches may store what the condition has loaded: it is evaluated once
        bound = Var("mask", condition.dtype)
        self._vector_bindings += 1
        branches = self._branches(stmt, bound)
        self._vector_bindings -= 1
        return LetStmt(bound, condition, branches)

    def _branches(self, stmt: If, condition: Expr) -> Stmt:
        outer = self.exprs.mask
        then_body = self._mask(self.exprs.narrow(outer, stmt.condition, condition), stmt.then_body)
        if stmt.else_body is None:
            return then_body
        otherwise = self.exprs.narrow(outer, negation(stmt.condition), Not(condition))
        return seq(then_body, self._mask(otherwise, stmt.else_body))  # both branches run, each in its lanes

    def _mask(self, mask: Mask, body: Stmt) -> Stmt:
        some = some_active(mask.scalar, self.lane, self.lanes)
        # the If around it holds for some lane, so what lanes share may be read
        outer, self.exprs.mask = self.exprs.mask, mask if some is None else replace(mask, some_active=True)
        masked = self.visit(body)
        self.exprs.mask = outer
        return masked if some is None or is_const(some, 1) else If(some, masked)

    def Allocate(self, stmt: Allocate) -> Stmt:
        for extent in stmt.buffer.shape:
            self._scalar(extent)
        return Allocate(stmt.buffer, self.visit(stmt.body))

    def Attr(self, stmt: Attr) -> Stmt:
        return Attr(stmt.key, stmt.subject, self._scalar(stmt.value), self.visit(stmt.body))


class _Privatizer(Copier):
    """A copy for `var` = `value`, in which memory allocated within gains a dimension of lanes, the innermost."""

    def __init__(self, var: Var, value: Expr, lane: Var, lanes: int) -> None:
        super().__init__({var: value})
        self.lane, self.lanes = lane, lanes

    def Call(self, node: Call) -> Expr:
        return self.visit(node.args[0]) if node.name == "likely" else super().Call(node)

    def Allocate(self, node: Allocate) -> Stmt:
        size = self.visit(node.buffer.shape[0])
        buffer = replace(node.buffer, shape=(fold(Mul, size, const(self.lanes, size.dtype)),))
        self.rename(node.buffer, buffer)
        return Allocate(buffer, self.visit(node.body))

    def BufferLoad(self, node: BufferLoad) -> Expr:
        new = self.generic(node)
        buffer = self.buffers.get(node.buffer)
        return new if buffer is None else replace(new, buffer=buffer, indices=(self._own(new.indices[0]),))

    def BufferStore(self, node: BufferStore) -> Stmt:
        new = self.generic(node)
        buffer = self.buffers.get(node.buffer)
        return new if buffer is None else replace(new, buffer=buffer, indices=(self._own(new.indices[0]),))

    def _own(self, index: Expr) -> Expr:
        if index.dtype.lanes > 1:  # an index that is a vector already belongs to another lane loop
            raise NotVectorizable
        return fold(Add, fold(Mul, index, const(self.lanes, index.dtype)), cast(self.lane, index.dtype))

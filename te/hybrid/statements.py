"""Reading the statements of a script into statements of the IR.

Scalars that are assigned once are bindings, others live in memory of one element; see liveness.py for where. Loops whose
bounds are known when the kernel begins, or depend on loops around them alone, become axes of the operation.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ...ir import ops
from ...ir.accesses import reads_memory
from ...ir.arith.analyzer import Analyzer
from ...ir.atomics import ATOMIC_TYPES, atomic_add
from ...ir.buffer import Buffer
from ...ir.expr import BufferLoad, Expr, IterVar, ProducerLoad, Range, Var
from ...ir.stmt import Allocate, Assert, BufferStore, For, If, LetStmt, LoopKind, Stmt, While
from ...ir.visit import post_order
from ..shape import axis_dtype
from ..tensor import Tensor, TensorSlice
from ..wraparound import wrapping
from .errors import (
    BadHybridAssignment,
    BadHybridCall,
    BadHybridLoop,
    BadHybridReturn,
    HybridAssertionFails,
    HybridLoopRaces,
    NotInHybridScripts,
)
from .expressions import plain
from .liveness import Declaration, Liveness, written_elements
from .loops import GREATEST_CONST_RANGE, LoopReader, loop_kind
from .races import meeting_buffer, racing_buffer
from .refusals import STATEMENTS
from .source import Source
from .values import Block, LocalBuffer, LoopSpec, Scalar, ScalarTypes, Storage, UnboundName, is_number

__all__ = ["ScriptReader"]

_SMALL = 16
"""Index arithmetic of so many nodes is repeated where it is used; what is larger is bound to a name."""


class ScriptReader(LoopReader):
    """Read one call of a script. inlined: it is called by another script, whose block it writes to.

    outputs: the output tensors, by name, in the order of their declaration. returned: what the script returns.
    """

    def __init__(
        self,
        source: Source,
        outside: Mapping[str, Any],
        closure: Mapping[str, Any],
        types: ScalarTypes,
        analyzer: Analyzer,
        inlined: ScriptReader | None = None,
    ) -> None:
        super().__init__(source, outside)
        self.closure, self.types, self.analyzer, self.inlined = closure, types, analyzer, inlined
        self.liveness = Liveness(source.tree)
        self.own = frozenset(self.liveness.assigned)
        self.block = inlined.block if inlined is not None else Block()
        self.locals: set[Var] = inlined.locals if inlined is not None else set()
        self.loop_names: set[str] = inlined.loop_names if inlined is not None else set()
        self.outputs: dict[str, LocalBuffer] = {}
        self.returned: list[LocalBuffer] = []
        self.depth = 0
        self.repeated = 0 if inlined is None else inlined.repeated
        """The number of `while` around: loops within run anew each time, and are not axes of the operation."""

    def run(self, arguments: Mapping[str, Any]) -> None:
        """Read the whole function, its parameters standing for `arguments`."""
        for name in arguments:
            if name in self.liveness.assigned:
                raise self.source.error(
                    BadHybridAssignment,
                    f"'{name}' is an argument, and is assigned",
                    self._site(name),
                    reason="arguments keep their values",
                    fix=f"assign another name: {name}_ = ...",
                )
        written = written_elements(self.source.tree)
        self.names.update(
            {name: self._own(name, value) if name in written else value for name, value in arguments.items()}
        )
        body = self.source.tree.body
        self._statements(body)
        if not isinstance(body[-1], ast.Return):
            raise self.source.error(
                BadHybridReturn,
                f"{self.source.name} returns nothing",
                body[-1],
                reason="a script's results are the tensors that it returns",
                fix="return the output tensors at its end",
            )

    def _own(self, name: str, value: Any) -> Any:
        """A copy of an argument whose elements the script assigns: what is passed keeps its values."""
        if not isinstance(value, (Tensor, LocalBuffer)):
            return value
        given = value.buffer if isinstance(value, LocalBuffer) else value
        buffer = Buffer(name, given.shape, given.dtype)
        at = tuple(Var(f"{name}.ax{place}", axis_dtype(extent)) for place, extent in enumerate(given.shape))
        read = ProducerLoad(value, at) if isinstance(value, Tensor) else BufferLoad(value.buffer, at)
        copied: Stmt = BufferStore(buffer, read, at)
        for var, extent in reversed(list(zip(at, given.shape, strict=True))):
            copied = For(var, ops.const(0, var.dtype), ops.cast(extent, var.dtype), LoopKind.SERIAL, copied)
        self.block.add(lambda rest: Allocate(buffer, rest))
        self.block.add(copied)
        return LocalBuffer(buffer, False)

    def _site(self, name: str) -> ast.AST:
        stores = (
            node
            for node in ast.walk(self.source.tree)
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        )
        return next(stores, self.source.tree)

    # Blocks

    def _read_block(self, body: Sequence[ast.stmt]) -> Stmt:
        """A block of its own: what it binds ends with it."""
        outer, names = self.block, dict(self.names)
        self.block = Block()
        self.depth += 1
        self._statements(body)
        statement, self.block = self.block.close(), outer
        self.depth -= 1
        gone = {
            name: UnboundName(
                f"it was assigned in a loop or an if that has ended, at {self.source.line(self._site(name))}",
                f"assign it before as well: {name} = 0",
            )
            for name in self.names
            if name not in names
        }
        self.names = {**gone, **names}
        return statement

    def _statements(self, body: Sequence[ast.stmt]) -> None:
        for declaration in self.liveness.declared(body):
            self._declare(declaration, body)
        for statement in body:
            method = getattr(self, "_read_" + type(statement).__name__.lower(), None)
            if method is None:
                raise self._refusal(statement)
            method(statement)

    def _refusal(self, statement: ast.stmt) -> NotInHybridScripts:
        kind = type(statement).__name__
        what, fix = STATEMENTS.get(kind, (f"`{ast.unparse(statement).split()[0]}`", "leave it out"))
        return NotInHybridScripts(
            f"{what} cannot stand in a hybrid script",
            called=self.source.line(statement),
            loops=self.source.shown(statement),
            reason="a script is one operation: loops, ifs and assignments",
            fix=fix,
        )

    def _declare(self, declaration: Declaration, body: Sequence[ast.stmt]) -> None:
        """Make room for a name that is assigned more than once."""
        name = declaration.name
        if declaration.once:
            self.names[name] = UnboundName("it is assigned further down", "assign it before it is read")
            return
        scalar = Scalar(name, (id(body), name))
        self.names[name] = scalar
        self.unassigned.add(name)
        self.block.add(lambda rest: rest if scalar.buffer is None else Allocate(scalar.buffer, rest))

    # Loops and ifs

    def _read_for(self, node: ast.For) -> None:
        spec = self.loop_spec(node)
        name = cast(ast.Name, node.target).id
        if name in self.liveness.assigned or name in self.outputs:
            raise self.source.error(
                BadHybridAssignment,
                f"'{name}' is the variable of this loop, and is assigned elsewhere",
                node.target,
                reason="the variable of a loop keeps its value within it",
                fix=f"use another name than {name}",
            )
        around = self.names.get(name)
        if spec.kind is None:
            for value in spec.values:
                self._count(node)
                self.names[name] = value
                self.block.add(self._read_block(node.body))
        else:
            self._loop(node, spec, name)
        self.names[name] = (
            around
            if around is not None
            else UnboundName(
                f"it is the variable of the loop at {self.source.line(node)}, which has ended",
                "assign what is needed to a name before the loop",
            )
        )

    def _read_leftfor(self, node: ast.For) -> None:
        kind = self.loop_spec(node).kind
        if kind not in (LoopKind.SERIAL, None):
            raise self.source.error(
                BadHybridLoop,
                f"a {kind.value} loop is left before its end",
                node.iter,
                reason="its iterations run in no order: all of them do",
                fix="write range(...), or let the iterations run to their end",
            )
        self._read_for(node)

    def _read_while(self, node: ast.While) -> None:
        condition = self.condition(node.test)
        before = set(self.unassigned)
        self.repeated += 1
        body = self._read_block(node.body)
        self.repeated -= 1
        self.unassigned = before
        self.block.add(While(ops.truth(condition), body))

    def _count(self, node: ast.For) -> None:
        """One more iteration that is written out. Raises BadHybridLoop where they are too many."""
        first = self.callers_first()
        first.written += 1
        if first.written > GREATEST_CONST_RANGE:
            raise self.source.error(
                BadHybridLoop,
                f"more than {GREATEST_CONST_RANGE} iterations are written out",
                node,
                reason="loops of const_range multiply, and each iteration is code of its own",
                fix="use range(...), or unroll(...)",
            )

    def _loop(self, node: ast.For, spec: LoopSpec, name: str) -> None:
        span, stride = ops.convert(spec.end - spec.begin if spec.step > 0 else spec.begin - spec.end), abs(spec.step)
        extent = self.analyzer.simplify(ops.floordiv(span + (stride - 1), stride) if stride > 1 else span)
        dtype = axis_dtype(ops.convert(spec.end) + extent if isinstance(spec.end, int) else extent)
        extent = ops.cast(extent, dtype)
        if not self.analyzer.can_prove(extent >= 0):
            extent = ops.maximum(extent, 0)
        domain = Range(ops.const(0, dtype), extent)
        if self.repeated and spec.kind is LoopKind.THREAD:
            raise self.source.error(
                BadHybridLoop,
                "threads are bound within `while`",
                node.iter,
                reason="threads of a block wait for each other, and not all of them may be there each time",
                fix="put the `while` into the loop that is bound",
            )
        own = self._loop_name(name)
        if self.repeated or reads_memory(extent) or any(var in self.locals for var in post_order(extent)):
            var: Var = Var(own, dtype)
            self.locals.add(var)
        else:
            var = IterVar(own, dtype, domain)
        self.analyzer.bind(var, (0, None) if reads_memory(extent) else domain)
        self.names[name] = plain(spec.begin + var * spec.step if spec.step != 1 else var + spec.begin)
        before = set(self.unassigned)
        body = self._read_block(node.body)
        self.unassigned = before
        loop = For(var, ops.const(0, dtype), extent, loop_kind(spec), body, spec.thread)
        self._check_kind(node, loop, spec.independent)
        self.block.add(loop)

    def _loop_name(self, name: str) -> str:
        """The name in the program of another loop over `name`: of the first one this, then with numbers, so that loops are told apart."""
        own, number = name, 0
        while own in self.loop_names:
            number += 1
            own = f"{name}_{number}"
        self.loop_names.add(own)
        return own

    def _check_kind(self, node: ast.For, loop: For, independent: bool) -> None:
        """Check that the declared kind of a loop is not certainly wrong; of a loop that it vouches for, nothing needs a proof."""
        if loop.kind not in (LoopKind.PARALLEL, LoopKind.VECTORIZED) or ops.is_const(loop.extent, 1):
            return
        racing, name = racing_buffer(loop), ast.unparse(node.target)
        if racing is not None:
            raise self.source.error(
                HybridLoopRaces,
                f"the iterations of this {loop.kind.value} loop write the same element of '{racing.name}'",
                node.iter,
                reason=f"where {racing.name} is written does not depend on {name}: the last one to write wins",
                fix=f"write range(...), or let each iteration have its own: assign {racing.name} within the loop, or index it "
                f"by {name}",
            )
        met = meeting_buffer(loop) if loop.kind is LoopKind.PARALLEL and not independent else None
        if met is not None:
            buffer, by_data = met
            raise self.source.error(
                HybridLoopRaces,
                f"iterations of this parallel loop may meet in an element of '{buffer.name}'",
                node.iter,
                reason=f"where {buffer.name} is written depends on data"
                if by_data
                else f"it is not proved that each value of {name} has elements of {buffer.name} of its own",
                fix=f"write range(...), or, where the loop adds, atomic_add({buffer.name}, index, value); or let each iteration "
                "have a part of its own, and join the parts in a second loop; where you know that they never meet, as places of a "
                f"permutation do, {ast.unparse(node.iter)[:-1]}, independent=True), which s.verify() checks",
            )
        inner = next(
            (node for node in post_order(loop.body) if isinstance(node, For) and node.kind is LoopKind.PARALLEL), None
        )
        if inner is not None and loop.kind is LoopKind.PARALLEL:
            raise self.source.error(
                BadHybridLoop,
                f"the loop over '{inner.var.name}' is parallel within this parallel loop",
                node.iter,
                reason="parallel loops do not nest: the outer one takes all threads",
                fix=f"write `for {inner.var.name} in range(...)`",
            )

    def _read_if(self, node: ast.If) -> None:
        condition = self.condition(node.test)
        if isinstance(condition, bool):
            self._read_branch(node.body if condition else node.orelse)
            return
        before = set(self.unassigned)
        then_body = self._read_block(node.body)
        after_then, self.unassigned = self.unassigned, before
        else_body = self._read_block(node.orelse) if node.orelse else None
        self.unassigned = self.unassigned | after_then
        self.block.add(If(condition, then_body, else_body))

    def _read_branch(self, body: Sequence[ast.stmt]) -> None:
        """The branch of an `if` whose condition is known."""
        if self.inlined is None and self.depth == 0:
            self._statements(body)  # outputs may be declared there
        elif body:
            self.block.add(self._read_block(body))

    # Assignments

    def _read_assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        targets = node.targets
        if len(targets) == 1 and isinstance(targets[0], (ast.Tuple, ast.List)):
            self._assign_several(node, targets[0].elts, value)
            return
        if len(targets) > 1 and isinstance(value, Storage):
            raise self.source.error(
                BadHybridAssignment,
                "one buffer is given several names",
                node,
                reason="a buffer has one name",
                fix="give it one, and each buffer a statement of its own",
            )
        if len(targets) > 1 and isinstance(value, Expr) and reads_memory(value):
            value = self._bound("value", value)
        for target in targets:
            self._store(target, value, node.value)

    def _assign_several(self, node: ast.Assign, targets: Sequence[ast.expr], value: Any) -> None:
        """All values are computed before any is stored, so that `a[i], a[j] = a[j], a[i]` swaps."""
        values = list(cast("Sequence[Any]", value)) if isinstance(value, (tuple, list)) else [value]
        if len(values) != len(targets):
            raise self.source.error(
                BadHybridAssignment,
                f"{len(targets)} names, and {len(values)} values",
                node,
                reason="each name takes one value",
                fix="give as many values as names",
            )
        nodes = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value] * len(values)
        values = [self._bound("value", new) if isinstance(new, Expr) and reads_memory(new) else new for new in values]
        for target, new, written in zip(targets, values, nodes, strict=True):
            self._store(target, new, written)

    def _read_augassign(self, node: ast.AugAssign) -> None:
        before = ast.copy_location(ast.parse(ast.unparse(node.target), mode="eval").body, node.target)
        for inner in ast.walk(before):
            ast.copy_location(inner, node.target)
        joined = ast.copy_location(ast.BinOp(before, node.op, node.value), node)
        self._store(node.target, self.number(joined), joined)

    def _bound(self, name: str, value: Expr) -> Var:
        """A variable that holds `value` to the end of the block."""
        var = Var(name, value.dtype)
        self.locals.add(var)
        self.block.add(lambda rest: LetStmt(var, value, rest))
        return var

    def _store(self, target: ast.expr, value: Any, written: ast.expr) -> None:
        if isinstance(target, ast.Subscript):
            self._store_element(target, value, written)
        elif isinstance(target, ast.Name):
            self._store_name(target, value, written)
        else:
            raise self.source.error(
                BadHybridAssignment,
                f"cannot assign to `{ast.unparse(target)}`",
                target,
                reason="only names and elements are assigned",
                fix="assign a name or an element: c[i] = ...",
            )

    def _store_element(self, target: ast.Subscript, value: Any, written: ast.expr) -> None:
        base: ast.expr = target.value
        local = self.value(base)
        if isinstance(local, (Tensor, TensorSlice)):
            raise self.source.error(
                BadHybridAssignment,
                f"cannot assign to an element of {local.name}",
                target,
                reason=f"{local.name} is an input, which others may read too",
                fix=f"copy it to a buffer first: own = allocate({local.name}.shape, {local.name}.dtype)",
            )
        if not isinstance(local, LocalBuffer):
            raise self.source.error(
                BadHybridAssignment,
                f"cannot assign to an element of `{ast.unparse(base)}`",
                target,
                reason="it is not a buffer",
                fix="allocate(shape, dtype) gives memory to write to",
            )
        stored = ops.cast(self.convert(self.require_number(value, written), local.buffer, written), local.buffer.dtype)
        self.block.add(BufferStore(local.buffer, self._wrapping(stored), self.element(local, target)))

    def convert(self, value: Any, buffer: Buffer, node: ast.expr) -> Expr:
        """A number as an element of `buffer`."""
        if isinstance(value, Expr):
            return value
        with self.source.at(node):
            fits = not isinstance(value, float) or buffer.dtype.is_float
            return ops.const(value, buffer.dtype) if fits else ops.const(value)

    def _wrapping(self, value: Expr) -> Expr:
        """A value that is stored, which wraps where index arithmetic would be taken not to overflow."""
        return wrapping((), (value,))[0]

    def _store_name(self, target: ast.Name, value: Any, written: ast.expr) -> None:
        name = target.id
        place = self.names.get(name)
        if isinstance(place, Scalar):
            self._store_scalar(place, target, value, written)
        elif isinstance(value, Storage):
            self._allocate(target, value)
        elif isinstance(value, LoopSpec):
            raise self.source.error(
                BadHybridAssignment,
                f"'{name}' would be a loop",
                target,
                reason="loops have no value",
                fix="write `for i in range(...)`",
            )
        elif isinstance(value, Expr) and (reads_memory(value) or not self._is_small(value)):
            self.names[name] = self._bound(name, value)
        else:
            self.names[name] = value

    def _is_small(self, value: Expr) -> bool:
        if not value.dtype.is_integer:
            return False
        return sum(1 for _, _ in zip(post_order(value), range(_SMALL + 1), strict=False)) <= _SMALL

    def _store_scalar(self, place: Scalar, target: ast.Name, value: Any, written: ast.expr) -> None:
        if not is_number(value) and isinstance(
            value, (Storage, LocalBuffer, Tensor, TensorSlice, tuple, list, str, LoopSpec)
        ):
            raise self.source.error(
                BadHybridAssignment,
                f"'{place.name}' is assigned more than once, and is not a number here",
                target,
                reason="only numbers change while a script runs; a buffer, a tensor or a tuple has one name",
                fix="use a name of its own for each",
            )
        number = self.require_number(value, written)
        self.types.note(place.key, number)
        if place.buffer is None:
            place.buffer = Buffer(place.name, (), self.types.of(place.key, number), scope="local")
        stored = ops.cast(self.convert(number, place.buffer, written), place.buffer.dtype)
        self.block.add(BufferStore(place.buffer, self._wrapping(stored), ()))
        self.unassigned.discard(place.name)

    def _allocate(self, target: ast.Name, storage: Storage) -> None:
        name = target.id
        is_output = not storage.scope and self.inlined is None
        buffer = Buffer(name, storage.shape, storage.dtype, scope=storage.scope or "global")
        self.names[name] = LocalBuffer(buffer, is_output)
        if is_output:
            if self.depth:
                raise self.source.error(
                    BadHybridAssignment,
                    f"the output {name} is declared in a loop or an if",
                    target,
                    reason="outputs exist for the whole call",
                    fix="declare it at the begin of the script",
                )
            if name in self.outputs:
                raise self.source.error(
                    BadHybridAssignment,
                    f"the output {name} is declared twice",
                    target,
                    reason="an output is one tensor",
                    fix="use another name",
                )
            self.outputs[name] = cast(LocalBuffer, self.names[name])
        else:
            self.block.add(lambda rest: Allocate(buffer, rest))

    # Other statements

    def _read_expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):  # a docstring
            return
        if isinstance(node.value, ast.Call) and self.names_ours(node.value.func, "atomic_add"):
            self._atomic_add(node.value)
            return
        raise self.source.error(
            NotInHybridScripts,
            f"`{ast.unparse(node.value)}` is computed, and nothing is done with it",
            node,
            reason="functions in a script compute values, and do nothing else",
            fix="assign it, or leave it out",
        )

    def _atomic_add(self, node: ast.Call) -> None:
        """`atomic_add(o, index, value)`: o[index] += value in one step."""
        base, index, written = self.arguments(node, 3, 3, "atomic_add(buffer, index, value)")
        local = self.value(base)
        if not isinstance(local, LocalBuffer) or str(local.buffer.dtype) not in ATOMIC_TYPES:
            why = (
                f"its elements are {local.buffer.dtype}"
                if isinstance(local, LocalBuffer)
                else "it is not a buffer of the script"
            )
            raise self.source.error(
                BadHybridAssignment,
                f"cannot add to an element of `{ast.unparse(base)}` in one step",
                node,
                reason=why,
                allowed=f"outputs and allocated memory of {', '.join(ATOMIC_TYPES)}",
                fix="allocate(shape, dtype) gives memory to write to",
            )
        target = ast.copy_location(ast.Subscript(base, index, ast.Store()), node)
        value = ops.cast(
            self.convert(self.require_number(self.value(written), written), local.buffer, written), local.buffer.dtype
        )
        self.block.add(atomic_add(local.buffer, self.element(local, target), self._wrapping(value)))

    def _read_pass(self, node: ast.Pass) -> None:
        pass

    def _read_assert(self, node: ast.Assert) -> None:
        condition = self.condition(node.test)
        message = f"assert {ast.unparse(node.test)}"
        if node.msg is not None:
            given = self.value(node.msg)
            message = given if isinstance(given, str) else str(given)
        if condition is False:
            raise self.source.error(
                HybridAssertionFails, message, node, reason="it is known to be false", fix="correct the arguments"
            )
        if condition is not True:
            self.block.add(Assert(condition, f"{message} ({self.source.line(node)})"))

    def _read_return(self, node: ast.Return) -> None:
        if self.depth or node is not self.source.tree.body[-1]:
            raise self.source.error(
                BadHybridReturn,
                "`return` stands within a script, not at its end",
                node,
                reason="all elements are computed, and then the script is done",
                fix="write what it guards in the other branch of an if",
            )
        nodes = (
            node.value.elts
            if isinstance(node.value, (ast.Tuple, ast.List))
            else [node.value]
            if node.value is not None
            else []
        )
        for expression in nodes:
            local = self.value(expression)
            if not isinstance(local, LocalBuffer) or not (local.is_output or self.inlined is not None):
                raise self.source.error(
                    BadHybridReturn,
                    f"`{ast.unparse(expression)}` is not an output tensor",
                    expression,
                    reason="what a script returns is what output_tensor(shape, dtype) gave",
                    fix="declare it so: c = output_tensor(shape, dtype)",
                )
            if local in self.returned:
                raise self.source.error(
                    BadHybridReturn,
                    f"`{ast.unparse(expression)}` is returned twice",
                    expression,
                    reason="each output is one tensor",
                    fix="return it once",
                )
            self.returned.append(local)
        left = next((name for name, output in self.outputs.items() if output not in self.returned), None)
        if left is not None:
            raise self.source.error(
                BadHybridReturn,
                f"the output '{left}' is not returned",
                node,
                reason="an output is a result",
                fix=f"return it, or use memory of the script's own: {left} = allocate(shape, dtype)",
            )
        if not nodes:
            raise self.source.error(
                BadHybridReturn,
                "the script returns nothing",
                node,
                reason="a script's results are the tensors that it returns",
                fix="return the output tensors",
            )

    # Other scripts

    def read_foreign_call(self, node: ast.Call, function: Any) -> Any:
        """A call of another script is written out; its outputs are buffers of this one."""
        inline: Callable[..., Any] | None = getattr(function, "read_inlined", None)
        if inline is None:
            return super().read_foreign_call(node, function)
        values = [self.value(argument) for argument in node.args]
        named = {keyword.arg: self.value(keyword.value) for keyword in node.keywords if keyword.arg is not None}
        if any(caller is function for caller in self.callers()):
            raise self.source.error(
                BadHybridCall,
                f"{ast.unparse(node.func)} calls itself",
                node,
                reason="scripts are written out where they are called",
                fix="write a loop",
            )
        with self.source.at(node):
            outputs = inline(self, values, named)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    written = 0
    """How many iterations of const_range have been written out."""

    def callers_first(self) -> ScriptReader:
        """The reader of the script that was called with tensors."""
        reader = self
        while reader.inlined is not None:
            reader = reader.inlined
        return reader

    script: Any = None
    """The object that is being read, as callers know it."""

    def callers(self) -> list[Any]:
        """The scripts that are being read, this one first."""
        scripts: list[Any] = []
        reader: ScriptReader | None = self
        while reader is not None:
            scripts.append(reader.script)
            reader = reader.inlined
        return scripts

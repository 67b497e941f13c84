"""The nest of a tensorized stage: its outer loops, around the bodies of the intrinsic on the parts of the tensors.

    for i in 4:                       # no reduce loop outside: the body alone
        body(C[i * 16:], A, B)

    for i in 4:                       # k.outer outside: begun by reduce_init, gone on with by reduce_update
        reduce_init(C[i * 16:])
        for k.outer in 8:
            reduce_update(C[i * 16:], A[k.outer * 8:], B[i * 16:, k.outer * 8:])

Without a reduce_init the first iteration runs the body and the others reduce_update; where there may be none, plain loops
begin instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...base.errors import LoweringError, user_source
from ...ir import GE, LT, Expr, If, IterVar, Node, ProducerLoad, Stmt, Var
from ...ir.arith.analyzer import Analyzer
from ...ir.ops import conjunction, const, disjunction, is_const, likely
from ...ir.passes.common.fresh_copy import fresh_copy
from ...ir.visit import free_vars, rewrite, seq, substitute
from ...te.intrin_semantics import begun, interpretable
from ..lowering.computation import Loop
from ..lowering.errors import TensorizeGuard, TensorizeLoops, TensorizeReduction
from ..lowering.nest import Nest
from ..lowering.predicates import guards, side_guards
from ..model.checks import outline
from .bind import bind
from .match import match
from .plan import Plan

__all__ = ["tensorized_nest", "strip_inner"]


def tensorized_nest(nest: Nest, place: int) -> Stmt:
    """The statement that computes the region of a stage whose loop number `place` is tensorized.

    Raises TensorizeRegion (TW0380), TensorizeBody (TW0381), TensorizeBuffer (TW0382), TensorizeGuard (TW0383), TensorizeReduction
    (TW0384) and TensorizeLoops (TW0385).
    """
    return _Tensorized(nest, place).build()


class _Tensorized:
    def __init__(self, nest: Nest, place: int) -> None:
        self.nest, self.stage_bounds, self.place = nest, nest.stage_bounds, place
        self.outer, self.inner = nest.stage_bounds.loops[:place], nest.stage_bounds.loops[place:]
        self._check_loops()
        self._check_guards()
        self.axes = nest.axis_values(self.stage_bounds.offsets)
        self.plan: Plan = match(self.stage_bounds, place, self.axes, nest.analyzer, self._resolve)
        self.intrinsic = self.plan.intrinsic

    def _resolve(self, value: Expr, axes: Mapping[IterVar, Expr]) -> Expr:
        """A value with axes and threads replaced, and the reads of tensors kept."""

        def rule(node: Node) -> Node | None:
            if not isinstance(node, IterVar) or isinstance(node, ProducerLoad):
                return None
            value_of = axes.get(node)
            return value_of if value_of is not None else self.nest.thread(node)

        return rewrite(value, rule)

    def build(self) -> Stmt:
        nest, intrinsic = self.nest, self.intrinsic
        across = [loop for loop in self.outer if self.stage_bounds.marks.get(loop.axis, 0) & 2 and loop.var is not None]
        if not across:
            body = interpretable(intrinsic, intrinsic.body, begins=True, goes_on=True)
            return nest.loops(self.outer, self._guard(self._bound(body)), attach=True)
        if intrinsic.reduce_update is None:
            raise self._refusal(across[0])
        update = self._bound(interpretable(intrinsic, intrinsic.reduce_update, begins=False, goes_on=True))
        common = self.stage_bounds.first_reduce_loop
        loops = self.stage_bounds.loops[common : self.place]
        if intrinsic.reduce_init is None:
            first = conjunction(*(loop.value.equal(const(0, loop.value.dtype)) for loop in across))
            body = self._bound(interpretable(intrinsic, intrinsic.body, begins=True, goes_on=True))
            empty = [loop.extent <= 0 for loop in across if not nest.analyzer.can_prove(loop.extent > 0)]
            init = If(nest.value(disjunction(*empty), {}), self._init(loops, begun(intrinsic))) if empty else None
            update = If(first, body, update)
        else:
            init = self._init(loops, interpretable(intrinsic, intrinsic.reduce_init, begins=True, goes_on=False))
        updates = nest.loops(loops, self._guard(update), attach=True)
        return nest.loops(self.stage_bounds.loops[:common], seq(init, updates), attach=True)

    def _init(self, loops: Sequence[Loop], begin: Stmt) -> Stmt:
        """`begin`, a body of the intrinsic, over the data loops that stand within reduce loops, with variables of their
        own."""
        nest, bounds = self.nest, self.stage_bounds
        mixed = next((loop for loop in loops if bounds.marks.get(loop.axis, 0) == 3), None)
        if mixed is not None:
            raise self.error(
                TensorizeReduction,
                f"'{mixed.axis.name}' outside of it runs over data and reduce axes at once",
                "do not fuse data axes with reduce axes outside of the tensorized loop",
                mixed,
            )
        data = [loop for loop in loops if bounds.marks.get(loop.axis, 0) & 1]
        bound = self._bound(begin)
        offsets = nest.rename([*data, *self.inner])
        renamed: dict[Var, Expr] = {loop.var: nest.renamed[loop] for loop in data if loop.var is not None}
        only_reduce = frozenset(axis for axis, mark in bounds.marks.items() if mark == 2)
        body = fresh_copy(bound, renamed)
        inner = [nest.renamed[loop] for loop in self.inner if loop in nest.renamed]
        given = bounds, offsets, nest.analyzer, only_reduce
        for condition in reversed([*side_guards(*given), *guards(*given)]):
            body = If(likely(nest.value(strip_inner(condition, inner, nest.analyzer), {})), body)
        init = nest.loops(data, body, attach=False)
        nest.renamed = {}
        return init

    def _bound(self, body: Stmt) -> Stmt:
        """A body of the intrinsic on the parts that it works on; what it binds is its own copy's."""
        return fresh_copy(bind(self.nest, self.plan, body, self.error), {})

    def _guard(self, body: Stmt) -> Stmt:
        """`body` where the store predicate and the guards of the outer loops hold."""
        predicate = self.stage_bounds.computation.stage.store_predicate
        if predicate is not None:
            condition = self.nest.value(predicate, self.axes)
            self._check_condition(condition, "the store predicate")
            if not is_const(condition, 1):
                body = If(condition, body)
        for condition in reversed(self._guards()):
            body = If(likely(self.nest.value(condition, {})), body)
        return body

    def _guards(self) -> list[Expr]:
        """Guards of the outer loops, and of the inner ones where they are alike for all inner iterations."""
        inner = [loop.var for loop in self.inner if loop.var is not None]
        given = self.stage_bounds, self.stage_bounds.offsets, self.nest.analyzer
        conditions = [*side_guards(*given), *guards(*given)]
        return [strip_inner(condition, inner, self.nest.analyzer) for condition in conditions]

    # Checks

    def _check_loops(self) -> None:
        for loop in self.inner:
            if loop.attr.kind not in ("serial", "tensorized") or loop.attr.pragmas:
                how = (
                    loop.thread or loop.attr.kind
                    if loop.attr.kind != "serial"
                    else f"given the pragma {loop.attr.pragmas[0][0]}"
                )
                raise self.error(
                    TensorizeLoops,
                    f"'{loop.axis.name}', which it takes in, is {how}: the intrinsic is one piece",
                    f"leave '{loop.axis.name}' serial, or tensorize a loop further in",
                    loop,
                )
        for other in self.nest.dataflow.computations:
            if other.parent is self.stage_bounds.computation and other.place >= self.place:
                place = self.stage_bounds.loops[other.place].axis.name
                raise self.error(
                    TensorizeLoops,
                    f"{other.name} is computed at '{place}', which it takes in",
                    f"compute {other.name} at a loop outside of '{self.stage_bounds.loops[self.place].axis.name}'",
                )

    def _check_guards(self) -> None:
        for condition in self._guards():
            self._check_condition(condition, "the guard")

    def _check_condition(self, condition: Expr, what: str) -> None:
        inside = {loop.var: loop for loop in self.inner if loop.var is not None}
        for var in free_vars(condition):
            if var in inside:
                raise self.error(
                    TensorizeGuard,
                    f"{what} `{condition}` changes with '{var.name}' within it: the intrinsic always does all of "
                    "its work",
                    "pad the tensors to a multiple of the intrinsic's size in stages of their own, "
                    "or choose factors that divide",
                    inside[var],
                )

    def _refusal(self, loop: Loop) -> LoweringError:
        return self.error(
            TensorizeReduction,
            f"the reduction goes on over '{loop.axis.name}' outside of it, and the intrinsic has no reduce_update",
            f"return (body, reduce_init, reduce_update) from its function, or bring '{loop.axis.name}' inside",
            loop,
        )

    def error(self, kind: type[LoweringError], reason: str, fix: str, shown: Loop | None = None) -> LoweringError:
        """The error of `kind` about this loop (and `shown`)."""
        loop, stage = self.stage_bounds.loops[self.place], self.stage_bounds.computation.stage
        name = loop.attr.intrinsic.name if loop.attr.intrinsic is not None else "?"
        marked = [loop.axis] if shown is None else [loop.axis, shown.axis]
        return kind(
            f"cannot tensorize '{loop.axis.name}' of stage {stage.name} by {name}",
            reason=reason,
            declared=stage.op.source,
            called=user_source(),
            loops=outline(stage, marked),
            fix=fix,
        )


# Guards of a tensorized loop that are the same for everything inside it.
#
#     i * 16 + ii < 96, ii in 0..15      →      i * 16 < 96
#
# A guard is met by all inner iterations or by none where what they add never reaches the next multiple that its other terms
# step by: tiles that begin at multiples of their size, in a tensor that is a multiple of it, lie inside as a whole or not at
# all.


def strip_inner(condition: Expr, inner: Iterable[Var], analyzer: Analyzer) -> Expr:
    """`condition` at the first of the inner iterations, where it says the same at all of them; else as it is."""
    changing = set(inner) & set(free_vars(condition))
    if not changing or not isinstance(condition, (LT, GE)):
        return condition
    first: dict[Var, Expr] = {var: const(0, var.dtype) for var in changing}
    difference = condition.a - condition.b
    begin = analyzer.simplify(substitute(difference, first))
    added, steps = analyzer.interval(analyzer.simplify(difference - begin)), analyzer.modular(begin)
    if added.lo is None or added.hi is None or added.lo < 0 or steps.coeff <= 0:
        return condition
    greatest_negative = steps.base % steps.coeff - steps.coeff
    if greatest_negative + added.hi >= 0:
        return condition
    return analyzer.simplify(substitute(condition, first))

"""An access that is not proved to stay inside, tried out: here where its loops are constant, else when the kernel is called.

All arithmetic of a trial is that of 64 bits, whatever the dtype of an index, so that a product of symbols does not wrap.
"""

from __future__ import annotations

from ...ir.analysis.access_context import Access, depends_on_data, possible
from ...ir.analysis.bounds import symbolic_bounds
from ...ir.analysis.regions import Span, SpanEvaluator
from ...ir.arith.analyzer import Analyzer
from ...ir.arith.floats import truncated_ends
from ...ir.buffer import Buffer
from ...ir.dtype import INT64
from ...ir.errors import AssertionFailed
from ...ir.expr import Add, BinaryOp, Cast, Expr, FloorDiv, IntImm, Min, Mul, Producer, ProducerLoad, Range, Sub, Var
from ...ir.interpret.interpreter import run
from ...ir.ops import conjunction, is_const, logical_not
from ...ir.stmt import Assert, BufferStore, For, Function, If, LoopKind, Stmt
from ...ir.visit import free_vars, post_order, rewrite, walk
from ...ir.widen import widen
from ...te.errors import IndexOutOfRange
from ...te.operation import Operation

__all__ = ["Trial", "is_proved"]

_MOST_TRIED = 1 << 18
"""Iterations that are tried out at build: a fraction of a second. What has more of them is tried out at each call."""


def is_proved(analyzer: Analyzer, index: Expr, extent: Expr) -> bool:
    """Return whether an index is proved to lie in a dimension."""
    if isinstance(index, IntImm) and isinstance(extent, IntImm):
        return 0 <= index.value < extent.value
    return analyzer.can_prove(index >= 0) and (
        analyzer.can_prove(index < extent) or _is_folded(analyzer, index, extent)
    )


def _is_folded(analyzer: Analyzer, index: Expr, extent: Expr) -> bool:
    """Return whether an index is the lesser of two, one of which is below the extent wherever the other one is not: mirrored."""
    if not isinstance(index, Min):
        return False
    with analyzer.constraint(index.a >= extent):
        return analyzer.can_prove(index.b < extent)


class Trial:
    """One dimension of an access of an operation. `analyzer` knows the loops and conditions around it."""

    def __init__(self, op: Operation, access: Access, dimension: int, analyzer: Analyzer) -> None:
        self.op, self.access, self.dimension, self.analyzer = op, access, dimension, analyzer
        self.index, self.extent = access.indices[dimension], access.shape[dimension]
        self.loops = {
            around.var: around.within
            for around in access.around
            if around.var is not None and around.within is not None
        }
        self.own = {
            around.var: Var(around.var.name, INT64)
            for around in access.around
            if around.var is not None and not around.depends_on_data
        }
        self.ends = self._ends()

    def check(self) -> Stmt | None:
        """The statement that a call begins with; None where it is shown here that the access stays inside.

        Raises IndexOutOfRange (TW0114) where it certainly does not.
        """
        nest = self._nest()
        if not free_vars(nest) and self._turns(nest) <= _MOST_TRIED:
            outside = _find_first_violation(nest)
            if outside is not None:
                raise self._error(outside)
            return None
        if self._certainly_leaves():
            raise self._error("")
        if self._is_proved_unless_empty():
            return If(self.analyzer.simplify(self._wide(self.extent) < 1), nest)
        if self.ends is None:
            return nest
        low, high = (self._wide(end) for end in self.ends)
        extent = self._wide(self.extent)
        with self.analyzer.constraint(conjunction(*self._turning())):
            inside = self.analyzer.simplify(conjunction(extent > 0, low >= 0, high < extent))
        if is_const(inside, 1):
            return None
        return nest if is_const(inside, 0) else If(self.analyzer.simplify(logical_not(inside)), nest)

    def _is_proved_unless_empty(self) -> bool:
        """Return whether all that may leave a dimension is that it has no elements."""
        with self.analyzer.constraint(conjunction(self.extent > 0, *self._turning())):
            return is_proved(self.analyzer, self.index, self.extent)

    def _turns(self, nest: Stmt) -> int:
        """Return the number of iterations of the trial, at most."""
        turns = 1
        tried = {node.var for node in walk(nest) if isinstance(node, For)}
        for var, within in self.loops.items():
            if var in self.own and self.own[var] in tried:
                most = self.analyzer.interval(within.extent).hi
                turns *= _MOST_TRIED + 1 if most is None else max(most, 1)
        return turns

    def _nest(self) -> Stmt:
        """The loops and conditions that decide where the access goes, around an assertion that it stays inside."""
        index = self._wide(self.index)
        nest: Stmt = Assert(conjunction(index >= 0, index < self._wide(self.extent)), self._message())
        for around in reversed(self.access.around):
            if around.condition is not None:
                condition = self._wide(
                    possible(around.condition, lambda value: depends_on_data(value, self.access.data))
                )
                nest = nest if is_const(condition, 1) else If(condition, nest)
            elif around.var is not None and around.var in self.own and around.within is not None:
                begin, extent = self._wide(around.within.begin), self._wide(around.within.extent)
                if self.own[around.var] in free_vars(nest):
                    nest = For(self.own[around.var], begin, extent, LoopKind.SERIAL, nest)
                elif not (isinstance(extent, IntImm) and extent.value > 0):
                    nest = If(extent > 0, nest)
        return nest

    def _ends(self) -> tuple[Expr, Expr] | None:
        """The least and the greatest index, or bounds of them, by symbols alone, where there are iterations and elements."""
        with self.analyzer.constraint(conjunction(self.extent > 0, *self._turning())):
            index, spans = self._name_floats()
            low, high = symbolic_bounds(self.analyzer, index, (*self.loops, *spans))
            if low is None or high is None:
                span = SpanEvaluator({**self._spans(), **spans}, self.analyzer)(index)
                low, high = (None, None) if span is None else (span.low, span.high)
        if low is None or high is None or not self.loops.keys().isdisjoint((*free_vars(low), *free_vars(high))):
            return None
        return low, high

    def _name_floats(self) -> tuple[Expr, dict[Var, Span]]:
        """The index with a variable for each float that becomes an integer and is clamped by symbols, and the ranges of these."""
        spans: dict[Var, Span] = {}
        names: dict[Expr, Expr] = {}
        for node in post_order(self.index):
            if isinstance(node, Cast) and node.value.dtype.is_float and node.dtype.is_integer:
                low, high = truncated_ends(node.value, node.dtype)
                if low is not None and high is not None:
                    var = Var("converted", node.dtype)
                    self.analyzer.bind(var, Range(low, high - low + 1))
                    spans[var], names[node] = Span(low, high, None), var
        return (rewrite(self.index, names.get) if names else self.index), spans

    def _turning(self) -> list[Expr]:
        """Return the condition that the loops around have iterations."""
        return [within.extent > 0 for within in self.loops.values() if not isinstance(within.extent, IntImm)]

    def _spans(self) -> dict[Var, Span]:
        """Return the ranges of the loops, by symbols alone."""
        spans: dict[Var, Span] = {}
        for var, within in self.loops.items():
            first, last = (
                SpanEvaluator(spans, self.analyzer)(end) for end in (within.begin, within.begin + within.extent - 1)
            )
            if first is not None and last is not None:
                spans[var] = Span(first.low, last.high, None)
        return spans

    def _certainly_leaves(self) -> bool:
        """Return whether the least or the greatest index lies outside whatever the symbols are, and is one that occurs."""
        if self.ends is None or any(
            around.condition is not None or around.depends_on_data for around in self.access.around
        ):
            return False
        if (
            any(
                not self.loops.keys().isdisjoint((*free_vars(within.begin), *free_vars(within.extent)))
                for within in self.loops.values()
            )
            or not self._takes_its_ends()
        ):
            return False
        low, high = self.ends
        with self.analyzer.constraint(conjunction(*self._turning())):
            return self.analyzer.can_prove(low < 0) or self.analyzer.can_prove(high >= self.extent)

    def _takes_its_ends(self) -> bool:
        """Return whether each loop stands in the index once, under what takes its ends to ends of the index."""
        places = list(_element_list(self.index))
        variables = [node for node in places if node in self.loops]
        if len(places) > _MOST_PLACES or len(set(variables)) < len(variables):
            return False
        for node in places:
            if isinstance(node, (Mul, FloorDiv)) and not isinstance(node.b, IntImm) and not isinstance(node.a, IntImm):
                return False
            if isinstance(node, FloorDiv) and not (isinstance(node.b, IntImm) and node.b.value > 0):
                return False
            if not isinstance(node, (Add, Sub, Mul, FloorDiv, IntImm, Var)):
                return False
        return True

    # Texts

    def _what(self) -> tuple[str, str]:
        """Describe the access: the action and its tensor."""
        node = self.access.node
        target: Buffer | Producer = node.producer if isinstance(node, ProducerLoad) else node.buffer
        shape = ", ".join(map(str, target.shape))
        return "writes" if isinstance(node, BufferStore) else "reads", f"{target.name}: {target.dtype}[{shape}]"

    def _message(self) -> str:
        verb, target = self._what()
        return (
            f"{self.op.name} {verb} outside {target.split(':')[0]}: index {self.dimension}, {self.index}, leaves dimension "
            f"{self.dimension} of {target}"
        )

    def _error(self, at: str) -> IndexOutOfRange:
        verb, target = self._what()
        node = self.access.node
        interval = self.analyzer.interval(self.index)
        runs = f"leaves it{at}"
        if self._takes_its_ends() and not any(around.condition is not None for around in self.access.around):
            low, high = self.ends or (interval.lo, interval.hi)
            runs = f"runs from {low} to {high}"
        name = target.split(":")[0]
        advice = (
            "write where the index lies within: if index < extent"
            if verb == "writes"
            else (
                f"choose what lies outside: te.if_then_else(te.all(index >= 0, index < extent), {name}[...], 0), "
                "or compute fewer elements"
            )
        )
        return IndexOutOfRange(
            f"{self.op.name} {verb} outside {name}",
            declared=getattr(getattr(node, "producer", None), "source", None),
            called=self.op.source,
            fix=advice,
            reason=f"index {self.dimension}, `{self.index}`, {runs}; dimension {self.dimension} of {target} has the indices 0 to "
            f"{self.extent} - 1",
        )

    # Arithmetic

    def _wide(self, value: Expr) -> Expr:
        return widen(value, self.own)


_MOST_PLACES = 100
"""An index of more is not looked into."""


def _element_list(value: Expr) -> list[Expr]:
    places: list[Expr] = []
    stack = [value]
    while stack and len(places) <= _MOST_PLACES:
        node = stack.pop()
        places.append(node)
        if isinstance(node, BinaryOp):
            stack += [node.a, node.b]
    return places


def _find_first_violation(nest: Stmt) -> str | None:
    """Return the first access for which the assertion of a nest without symbols does not hold, as text; None where it does."""
    try:
        run(Function("trial", (), nest, (), {"stage": "loops"}), [])
    except AssertionFailed as failure:
        _, _, at = (failure.reason or "").partition(", at ")
        return f" at {at}" if at else ""
    return None

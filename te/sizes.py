"""Extents of operations that compute fewer elements than were declared: see Operation.choose_extents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..ir import Buffer, Expr, IntImm, IterVar, Producer, Range, Var, substitute
from ..ir.analysis.regions import Span, SpanEvaluator
from ..ir.arith.analyzer import Analyzer
from ..ir.ops import const
from .rewrite import redirect

__all__ = ["Need", "Sizes"]

Need = int | None
"""The greatest extent that readers need of a dimension; None for all of it."""


class Sizes:
    """Extents that were chosen so far. Operations choose theirs after all that read them.

    length: of the axis number n that is free to be shorter, in the order in which they are chosen, which has so many elements.
    """

    def __init__(self, length: Callable[[int, int], int]) -> None:
        self.length = length
        self.analyzer = Analyzer()
        self.count = 0
        self.needed: dict[Producer, list[Need]] = {}
        self.extents: dict[Var, Expr] = {}
        """Of the axes of operations."""
        self.shapes: dict[Producer | Buffer, tuple[Expr, ...]] = {}
        """Of the states of scans, and of the buffers of scripts."""
        self.asked: dict[Producer, list[Need]] = {}
        """What steps were found to ask of each state."""

    @staticmethod
    def most(needs: Iterable[Need]) -> Need:
        """Return what serves all of these needs."""
        listed = list(needs)
        return None if None in listed else max((need for need in listed if need is not None), default=0)

    def begin(self) -> None:
        """Choose all extents anew, by what was asked meanwhile."""
        self.count = 0
        self.needed.clear()

    def extent(self, extent: Expr, need: Need, is_free: bool) -> Expr:
        """The extent chosen for one that was declared. is_free: it may be longer than what is needed of it."""
        if not isinstance(extent, IntImm) or need is None:
            return extent
        chosen = need
        if is_free:
            chosen = max(need, self.length(self.count, extent.value))
            self.count += 1
        return const(min(extent.value, chosen), extent.dtype)

    def choose(self, axis: IterVar, need: Need, is_free: bool) -> None:
        """Choose the extent of an axis."""
        assert axis.dom is not None, "axes of operations have a domain"
        self.extents[axis] = self.extent(axis.dom.extent, need, is_free)

    def spans(self, axes: Iterable[IterVar]) -> SpanEvaluator:
        """Return what values expressions over these axes take."""

        def span(axis: IterVar) -> Span:
            assert axis.dom is not None, "axes of operations have a domain"
            return Span.of(axis.dom.begin, self.extents[axis])

        return SpanEvaluator({axis: span(axis) for axis in axes}, self.analyzer)

    def reach(self, indices: Sequence[Expr], evaluate: SpanEvaluator) -> list[Need]:
        """The extents within which a read or a store lies."""
        needs: list[Need] = []
        for index in indices:
            span = evaluate(index)
            greatest = None if span is None else self.analyzer.interval(span.high).hi
            needs.append(None if greatest is None else greatest + 1)
        return needs

    def requirements(self, tensor: Producer) -> list[Need]:
        """Return what is needed of each dimension."""
        return self.needed.get(tensor, [0] * len(tensor.shape))

    def need(self, tensor: Producer, needs: Sequence[Need]) -> None:
        """Note what somebody needs of each dimension."""
        self.needed[tensor] = [self.most(both) for both in zip(self.requirements(tensor), needs, strict=True)]

    def rebuild_axis(self, axis: IterVar, axes: dict[Var, Expr], tensors: Mapping[Any, Any]) -> IterVar:
        """An axis of the chosen extent. axes: those that were renewed before, and this one."""
        assert axis.dom is not None, "axes of operations have a domain"
        begin, extent = (substitute(redirect(end, tensors), axes) for end in (axis.dom.begin, self.extents[axis]))
        shorter = replace(axis, dom=Range(begin, extent))
        axes[axis] = shorter
        return shorter

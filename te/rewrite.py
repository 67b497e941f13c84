"""Rewriting the expressions of operations: which tensors they read, reads redirected, definitions put in place of reads."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..ir import Expr, IterVar, Node, Producer, ProducerLoad, Range, Reduce, Var, post_order, rewrite, substitute
from ..ir.ops import cast

__all__ = ["collect_loads", "inline", "redirect", "rewrite_reduction", "substitute_axes"]


def collect_loads(*roots: Node) -> list[ProducerLoad]:
    """Every read of a tensor in expressions and statements, each node once, in the order of evaluation."""
    return [node for node in post_order(*roots) if isinstance(node, ProducerLoad)]


def redirect(value: Any, tensors: Mapping[Any, Producer]) -> Any:
    """`value` reading, in place of each tensor that is a key, the one that it maps to."""
    targets: dict[int, Producer] = {id(old): new for old, new in tensors.items()}

    def rule(node: Node) -> Node | None:
        if isinstance(node, ProducerLoad) and id(node.producer) in targets:
            return ProducerLoad(targets[id(node.producer)], node.indices)
        return None

    return rewrite(value, rule)


def inline(value: Expr, tensor: Producer, axes: Sequence[IterVar], definition: Expr) -> Expr:
    """`value` with every read of `tensor` replaced by `definition`, its element at `axes`, at the read's indices."""

    definitions: dict[
        tuple[int, ...], Expr
    ] = {}  # reads at the same indices share one definition: chains of x * x stay small

    def rule(node: Node) -> Node | None:
        if isinstance(node, ProducerLoad) and node.producer is tensor:
            key = tuple(map(id, node.indices))
            if key not in definitions:
                definitions[key] = substitute_axes(definition, axes, node.indices)
            return definitions[key]
        return None

    return rewrite(value, rule)


def substitute_axes(value: Expr, axes: Sequence[Var], indices: Sequence[Expr]) -> Expr:
    """`value` with each axis replaced by an index, converted to the axis's dtype (which holds every index that lies in
    the axis's domain)."""
    return substitute(value, {axis: cast(index, axis.dtype) for axis, index in zip(axes, indices, strict=True)})


def rewrite_reduction(body: tuple[Expr, ...], rule: Callable[[Any], Any]) -> tuple[Expr, ...]:
    """`rule` applied to each value of an operation's body and to the domains of its reduce axes. The elements of one
    reduction go on sharing their sources; an unchanged body comes back as the same object."""
    first = body[0]
    if not isinstance(first, Reduce):
        changed = tuple(map(rule, body))
        return changed if any(map(operator.is_not, changed, body)) else body
    renamed: dict[Var, Expr] = {}
    axes: list[IterVar] = []
    for axis in first.axes:  # a domain may use the axes before it, which may just have been made anew
        axes.append(_add_domain(axis, lambda value: substitute(rule(value), renamed)))
        if axes[-1] is not axis:
            renamed[axis] = axes[-1]
    reduction = rule(first)
    if reduction is first and not renamed:
        return body
    reduction = replace(substitute(reduction, renamed), axes=tuple(axes))
    return tuple(replace(reduction, value_index=at) for at in range(len(body)))


def _add_domain(axis: IterVar, rule: Callable[[Any], Any]) -> IterVar:
    if axis.dom is None:
        return axis
    begin, extent = rule(axis.dom.begin), rule(axis.dom.extent)
    if begin is axis.dom.begin and extent is axis.dom.extent:
        return axis
    return replace(axis, dom=Range(begin, extent))

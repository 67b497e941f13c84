"""Caches of decoders: inputs whose update is an output, found in the graph.

input past: float32[2, 100, 64]               `present` is of the type of `past`, and made of it by operators that keep
kept = put(past, at, row, axis=1)        →    elements and replace others: `past` is state, and `present` follows it in
output present = kept                         its memory
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from ..base.errors import user_source
from .errors import BadGraph
from .node import Node, Parts

__all__ = ["State", "keep_state"]

State = Mapping[str, str] | Literal[True] | None
"""Inputs that are updated in place, each with the output that follows it; True: those that are found."""

_VIEWS = frozenset({"identity", "reshape", "slice", "transpose"})
_UPDATES = frozenset({"put", "scatter_elements", "scatter_nd"})


def keep_state(g: Parts) -> Parts:
    """The graph whose inputs that outputs update are state, beside what is state already. Raises BadGraph (TW0901) where it has no
    state then."""
    taken = set(g.state.values())
    followers: dict[str, list[str]] = defaultdict(list)
    for output in g.results:
        past = _find_past(g, output)
        if past is not None and past not in g.state and output not in taken:
            followers[past].append(output)
    # of several outputs the one of the input's own name follows, or else the first
    found = {past: past if past in outputs else outputs[0] for past, outputs in followers.items()}
    state = {**g.state, **found}
    if not state:
        raise BadGraph(
            f"graph {g.name} has no input that an output updates"[:300],
            reason="of no output is it found that it keeps elements of an input of its type and replaces others",
            called=user_source(),
            allowed=f"inputs {', '.join(g.inputs)}; outputs {', '.join(g.results)}"[:2000],
            fix='name them: state={"past": "present"}',
        )
    return replace(g, state=state)


def _find_past(g: Parts, output: str) -> str | None:
    """The input that an output updates; None where there is none, or more than one may be meant."""
    makers = {name: node for node in g.nodes for name in node.outputs}
    value = g.results[output]
    pasts: set[str] = set()
    seen: set[tuple[str, bool]] = set()
    stack = [(value, False)]  # a value, and whether some of its elements were replaced on the way to the output
    while stack:
        step = name, updated = stack.pop()
        if step in seen:
            continue
        seen.add(step)
        if name in makers:
            stack += ((kept, updated or replaces) for kept, replaces in _kept_values(g, makers[name]))
        elif updated and g.types[name] == g.types[value] and name in g.inputs:
            pasts.add(name)
    return pasts.pop() if len(pasts) == 1 else None


def _kept_values(g: Parts, node: Node) -> Iterator[tuple[str, bool]]:
    """The values of which a node's result keeps elements where they are, or moved, and whether it replaces others."""
    if node.operator in _VIEWS:
        yield node.inputs[0], False
    elif node.operator in _UPDATES:
        yield node.inputs[0], True
    elif node.operator == "concat":
        yield from ((name, True) for name in node.inputs)
    elif node.operator == "where" and not any(name in g.constants for name in node.inputs[1:]):
        yield from ((name, True) for name in node.inputs[1:])  # with a constant it is a mask, not an update

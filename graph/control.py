"""Nodes with graphs inside: `if` and `loop`.

    y: float32[2] = if(c, x) {                       # y = relu(x) if c else exp(x)
      graph then {
        input x: float32[2]
        y: float32[2] = relu(x)
        output y
      }
      graph else {
        input x: float32[2]
        y: float32[2] = exp(x)
        output y
      }
    }
    z: float32[2], rows: float32[3, 2] = loop(none, none, x, y, carried=1, count=(3,)) {
      graph body {
        input i: int64[]
        input sum: float32[2]
        input y: float32[2]
        next: float32[2] = add(sum, y)
        output next
        output row = next
      }
    }

A graph inside reads nothing but its inputs and its own parameters, so what a node reads stands among its inputs alone.

if(condition, *values): both graphs take the values, and give the same types.

loop(trips, condition, *first, *values): the graph takes the number of the iteration, from 0 on, what is `carried` from one to the
next, and the values, which stay; it gives whether to go on (where there is a condition), what is carried, and rows. The loop ends
after so many trips (int64; none: any number), or when the condition is false, before the first iteration too. It gives what is
carried at last, and each row of all iterations, one below the other: `count` of them, which is the most that run. Rows of
iterations that did not run are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ..base import dataclass, user_source
from ..ir.expr import Expr
from .errors import BadNode
from .node import Node, Parts
from .operators.row import REQUIRED, Attribute
from .types import Extent, TensorType, convert_extent, extents

__all__ = ["CONTROL", "MOST_DEPTH", "Loop", "control_types", "plain_parts"]

MOST_DEPTH = 64
"""So deep may graphs lie inside of each other: what walks them calls itself for each that is inside."""

CONDITION = TensorType((), "bool")
COUNTER = TensorType((), "int64")


@dataclass(frozen=True, slots=True, eq=False)
class Control:
    """A kind of node with graphs inside. attributes: their defaults, as an operator's. types: of what it gives."""

    name: str
    attributes: Mapping[str, Any]
    types: Callable[[Mapping[str, Attribute], Sequence[TensorType | None], Sequence[Parts]], Sequence[TensorType]]


@dataclass(frozen=True)
class Loop:
    """Inputs of a loop. trips, condition: values, "" where there is none. first: the values of what is carried. values: what
    stays. count: how many rows there are, a number or an expression over symbols; None where the graph gives none."""

    trips: str
    condition: str
    first: tuple[str, ...]
    values: tuple[str, ...]
    count: int | Expr | None

    @staticmethod
    def of(node: Node) -> Loop:
        """Loop of a node."""
        last = 2 + cast("int", node.attributes["carried"])
        count = extents(cast("tuple[Extent, ...]", node.attributes["count"]))
        trips, condition = node.inputs[:2]
        return Loop(trips, condition, node.inputs[2:last], node.inputs[last:], count[0] if count else None)


def control_types(
    name: str,
    attributes: Mapping[str, Attribute],
    inputs: Sequence[TensorType | None],
    bodies: Sequence[Parts],
) -> tuple[TensorType, ...]:
    """The types of what a node with graphs inside gives. Raises BadNode (TW0903)."""
    if max(map(_depth, bodies), default=0) >= MOST_DEPTH:
        raise _bad(
            name, f"its graphs are nested more than {MOST_DEPTH} deep", "fewer: a chain of conditions may choose first"
        )
    return tuple(CONTROL[name].types(attributes, inputs, bodies))


def _depth(g: Parts) -> int:
    """Return the nesting depth of a graph and those inside of it, 1 for one without."""
    return 1 + max((_depth(body) for node in g.nodes for body in node.bodies), default=0)


def plain_parts(g: Parts) -> Parts:
    """A graph as what it is made of, as nodes hold those inside of them."""
    return g if type(g) is Parts else Parts(g.name, g.inputs, g.constants, g.nodes, g.results)


def _if_types(
    attributes: Mapping[str, Attribute],
    inputs: Sequence[TensorType | None],
    bodies: Sequence[Parts],
) -> Sequence[TensorType]:
    del attributes
    if not inputs or inputs[0] != CONDITION:
        raise _bad("if", f"its condition is {inputs[0] if inputs else 'absent'}", str(CONDITION))
    if len(bodies) != 2:
        raise _bad("if", f"it has {len(bodies)} graphs inside", "2: where the condition is true, and where it is not")
    for body in bodies:
        _check_inputs("if", body, inputs[1:])
    results = [list(body.outputs.values()) for body in bodies]
    if results[0] != results[1] or not results[0]:
        raise _bad(
            "if",
            f"one graph inside gives {_types_text(results[0])}, the other {_types_text(results[1])}",
            "the same types, one at least",
        )
    return results[0]


def _loop_types(
    attributes: Mapping[str, Attribute],
    inputs: Sequence[TensorType | None],
    bodies: Sequence[Parts],
) -> Sequence[TensorType]:
    carried, count = attributes["carried"], _count(attributes["count"])
    if len(inputs) < 2:
        raise _bad("loop", f"it has {len(inputs)} inputs", "trips, or none; a condition, or none; values")
    trips, condition, *given = inputs
    if trips not in (None, COUNTER) or condition not in (None, CONDITION):
        raise _bad(
            "loop", f"its trips are {trips}, its condition {condition}", f"{COUNTER} or none, {CONDITION} or none"
        )
    if len(bodies) != 1 or isinstance(carried, bool) or not isinstance(carried, int) or not 0 <= carried <= len(given):
        raise _bad(
            "loop",
            f"it has {len(bodies)} graphs inside, and carries {carried!r} of {len(given)} values",
            "one graph, and as many of the first values as it carries",
        )
    body = bodies[0]
    _check_inputs("loop", body, [COUNTER, *given])
    results = list(body.outputs.values())
    ahead = [CONDITION] if condition is not None else []
    first = cast("list[TensorType]", given[:carried])
    if results[: len(ahead) + carried] != [*ahead, *first]:
        raise _bad(
            "loop", f"the graph inside gives {_types_text(results)}", f"{_types_text([*ahead, *first])}, then rows"
        )
    rows = results[len(ahead) + carried :]
    if rows and count is None or trips is None and condition is None and count is None or not carried and not rows:
        raise _bad(
            "loop",
            "it has no bound on its iterations, or no outputs",
            "count=(n,) where there are rows, or neither trips nor a condition",
        )
    return [*first, *(TensorType((cast("Extent", count), *row.shape), row.dtype) for row in rows)]


def _count(value: Attribute) -> Extent | None:
    """The extent that is alone in a tuple; None where it is empty. Raises BadNode (TW0903), BadGraph (TW0901)."""
    if value == ():
        return None
    if (
        not isinstance(value, tuple)
        or len(value) != 1
        or isinstance(value[0], bool)
        or not isinstance(value[0], (int, str))
        or isinstance(value[0], int)
        and value[0] < 0
    ):
        raise _bad("loop", f"its count is {value!r}"[:200], "(), or an extent alone: (3,)")
    return convert_extent(extents([value[0]])[0])


def _check_inputs(name: str, body: Parts, given: Sequence[TensorType | None]) -> None:
    takes = list(body.inputs.values())
    if takes != list(given):
        raise _bad(
            name,
            f"the graph inside, {body.name}, takes {_types_text(takes)}, and got {_types_text(given)}"[:600],
            "inputs of the types that it is given",
        )


def _types_text(types: Sequence[TensorType | None]) -> str:
    return f"({', '.join(map(str, types))})"


def _bad(name: str, reason: str, allowed: str) -> BadNode:
    return BadNode(
        f"{name} cannot be like this",
        reason=reason,
        called=user_source(),
        allowed=allowed,
        fix="graphs inside that fit what stands around them",
    )


CONTROL: dict[str, Control] = {
    "if": Control("if", {}, _if_types),
    "loop": Control("loop", {"carried": REQUIRED, "count": ()}, _loop_types),
}
"""The kinds of nodes with graphs inside, by name."""

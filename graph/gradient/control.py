"""Rules of nodes with graphs inside: the way back through an `if` is an `if`, through a `loop` two loops.

    y = if(c, x) {f} {g}             dx = if(c, x, dy) {f run, then backwards} {g run, then backwards}

    s = loop(trips, go, s0, w) {f}   rows, ran = loop(trips, go, s0, w) {f, and what it began with as a row}
                                     ds0, dw = loop(sum(ran), none, ds, 0, w, rows) {f on the row, from the last one on, backwards}

So the rows are the stack of what was carried, and the branch that was taken is told by the condition, which is still there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...base.errors import user_source
from ..assembly import Assembly
from ..errors import NoGradient
from ..node import Parts
from ..rewrite import begin_assembly, unused_name
from ..types import Extent
from .reverse import accumulate, add_adjoints, is_float, zeros
from .rule import Pullback, rule

__all__: list[str] = []


def _input_like(b: Assembly, name: str, like: Any) -> str:
    return b.input(unused_name(name, b.types), like.shape, like.dtype)


def _add_outputs(b: Assembly, values: Mapping[str, str]) -> None:
    """Make values outputs, each a value of its own that a node gives."""
    for name, value in values.items():
        b.output(name, b.node("identity", value))


@rule("if")
def _differentiate_if(p: Pullback) -> list[str | None]:
    condition, *values = p.inputs
    wanted = [at for at, name in enumerate(values) if name in p.relevant]
    heads = {at: head for at, head in enumerate(p.heads) if head is not None}
    bodies = [_branch(body, list(heads), wanted) for body in p.node.bodies]
    made = p.b.nodes("if", condition, *values, *heads.values(), bodies=bodies, source=p.node.source)
    gradients = dict(zip(wanted, made, strict=True))
    return [None, *(gradients.get(at) for at in range(len(values)))]


def _branch(body: Parts, heads: Sequence[int], wanted: Sequence[int]) -> Parts:
    """The graph that takes what `body` takes and the gradients by some of what it gives, and gives those by some of its inputs."""
    b, types = begin_assembly(body, {}), body.types
    inputs, results = list(body.inputs), list(body.results.values())
    seeds: dict[str, str] = {}
    for at in heads:
        accumulate(b, seeds, results[at], _input_like(b, f"head{at}", types[results[at]]))
    found = add_adjoints(b, body, seeds, [inputs[at] for at in wanted])
    _add_outputs(b, {f"grad{at}": found.get(inputs[at]) or zeros(b, inputs[at]) for at in wanted})
    return b.parts()


@rule("loop")
def _loop(p: Pullback) -> list[str | None]:
    trips, condition, *given = [*p.inputs, "", ""][: max(len(p.inputs), 2)]
    carried = int(p["carried"])
    floats = [at for at in range(carried) if is_float(p.type(given[at]))]
    wanted = [at for at in range(carried, len(given)) if given[at] in p.relevant]
    if _count(p, trips) == (0,):  # it gives what it is given
        return [None, None, *p.heads[:carried], *(None for _ in given[carried:])][: len(p.inputs)]
    heads = {at: head for at, head in enumerate(p.heads[carried:]) if head is not None}
    forward = p.b.nodes(
        "loop",
        trips,
        condition,
        *given,
        bodies=(_add_carried_rows(p.node.bodies[0], carried, bool(condition)),),
        carried=carried,
        count=_count(p, trips),
        source=p.node.source,
    )
    *rows, ran = forward[carried:]
    count = p.emit("sum", ran, axes=(0,))
    body = _backwards(p, p.node.bodies[0], carried, bool(condition), floats, wanted, list(heads))
    began = [p.heads[at] or zeros(p.b, given[at]) for at in floats]
    made = p.b.nodes(
        "loop",
        count,
        "",
        *began,
        *(zeros(p.b, given[at]) for at in wanted),
        *given[carried:],
        *rows,
        *heads.values(),
        count,
        bodies=(body,),
        carried=len(floats) + len(wanted),
        source=p.node.source,
    )
    gradients = dict(zip([*floats, *wanted], made, strict=True))
    return [None, None, *(gradients.get(at) for at in range(len(given)))][: len(p.inputs)]


def _count(p: Pullback, trips: str) -> tuple[Extent, ...]:
    """Return the number of iterations that run at most."""
    if p["count"]:
        return p["count"]
    known = p.b.data(trips) if trips else None
    if known is None:
        raise NoGradient(
            "a loop without a bound on its iterations has no gradient",
            reason="the backward pass keeps what the loop carries, one row for each iteration",
            called=user_source(),
            fix="give the largest number of iterations: count=(n,)",
        )
    return (max(int(known), 0),)


def _add_carried_rows(body: Parts, carried: int, conditional: bool) -> Parts:
    """The graph inside a loop with rows of its own: what is carried as it was, and that it ran."""
    b = begin_assembly(body, {})
    for name, value in list(body.results.items())[: carried + conditional]:
        b.output(name, value)
    kept = {unused_name(f"row{at}", b.types): name for at, name in enumerate(list(body.inputs)[1 : 1 + carried])}
    ran = b.param(unused_name("one", b.types), np.asarray(1, np.int64), fixed=True)
    _add_outputs(b, {**kept, unused_name("ran", b.types): ran})
    return b.parts()


def _backwards(
    p: Pullback,
    body: Parts,
    carried: int,
    conditional: bool,
    floats: Sequence[int],
    wanted: Sequence[int],
    heads: Sequence[int],
) -> Parts:
    """The graph inside the loop on the way back: one iteration, which is run again and then backwards."""
    b = Assembly(body.name)
    types, inputs, results = body.types, list(body.inputs), list(body.results.values())[conditional:]
    turn = b.input("turn", (), "int64")
    by_carried = {at: _input_like(b, f"d{at}", types[inputs[1 + at]]) for at in floats}
    by_values = {at: _input_like(b, f"d{at}", types[inputs[1 + at]]) for at in wanted}
    names = {name: _input_like(b, f"x{at}", types[name]) for at, name in enumerate(inputs[1 + carried :])}
    count = _known_rows(p)
    rows = [
        b.input(f"rows{at}", (*count, *types[name].shape), types[name].dtype)
        for at, name in enumerate(inputs[1 : 1 + carried])
    ]
    of_rows = {
        at: b.input(f"heads{at}", (*count, *types[results[carried + at]].shape), types[results[carried + at]].dtype)
        for at in heads
    }
    ran = b.input("ran", (), "int64")
    at_ = b.node("subtract", b.node("subtract", ran, b.param("one", np.asarray(1, np.int64), fixed=True)), turn)
    names[inputs[0]] = at_
    names.update(
        {name: b.node("take", row, at_, axis=0) for name, row in zip(inputs[1 : 1 + carried], rows, strict=True)}
    )
    names.update(
        {
            name: b.param(unused_name(f"p{number}", b.types), held)
            for number, (name, held) in enumerate(body.constants.items())
        }
    )
    for node in body.nodes:
        made = b.nodes(
            node.operator,
            *(names.get(name, "") for name in node.inputs),
            source=node.source,
            bodies=node.bodies,
            outputs=(),
            **node.attributes,
        )
        names.update(zip(node.outputs, made, strict=True))
    seeds: dict[str, str] = {}
    for at, value in by_carried.items():
        accumulate(b, seeds, names[results[at]], value)
    for at, value in of_rows.items():
        accumulate(b, seeds, names[results[carried + at]], b.node("take", value, at_, axis=0))
    there = {at: names[inputs[1 + at]] for at in (*floats, *wanted)}
    found = add_adjoints(b, b.parts(), seeds, list(there.values()))
    after = {at: found.get(there[at]) or zeros(b, there[at]) for at in floats}
    for at in wanted:
        more = found.get(there[at])
        after[at] = by_values[at] if more is None else b.node("add", by_values[at], more)
    _add_outputs(b, {f"after{at}": value for at, value in after.items()})
    return b.parts()


def _known_rows(p: Pullback) -> tuple[Extent, ...]:
    return _count(p, p.inputs[0])

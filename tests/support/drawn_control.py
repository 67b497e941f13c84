"""Drawn programs over a few vectors, with loops and branches inside of each other: as graphs, and run by Python on numpy's or
torch's arrays.

A program is a tuple of statements. Each reads variables of the names of NAMES, all of them vectors of LENGTH, and sets one or
several.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tilewright.graph import Builder, Graph

__all__ = ["LENGTH", "NAMES", "Program", "as_graph", "drawn_program", "drawn_variables", "run_program"]

NAMES = ("x", "w", "a", "b")
LENGTH = 3
_REAL = "float64"
_MATRIX = np.random.default_rng(5).standard_normal((LENGTH, LENGTH)) * 0.4


@dataclass(frozen=True)
class Assign:
    """name = operator(first, second)."""

    name: str
    operator: str
    first: str
    second: str


@dataclass(frozen=True)
class Branch:
    """if sum(asked) > limit: then; else: otherwise."""

    asked: str
    limit: float
    then: Program
    otherwise: Program


@dataclass(frozen=True)
class Repeat:
    """The body, `count` times at most and, where there is a limit, as long as sum(asked) < limit; then total = the sum over all
    iterations of what `row` is at the end of each."""

    count: int
    asked: str
    limit: float | None
    body: Program
    row: str
    total: str


Program: TypeAlias = "tuple[Assign | Branch | Repeat, ...]"

_OPERATORS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda lib, x, y: x + y,
    "subtract": lambda lib, x, y: x - y,
    "multiply": lambda lib, x, y: x * y * 0.5,
    "sin": lambda lib, x, y: lib.sin(x),
    "tanh": lambda lib, x, y: lib.tanh(x),
    "damped": lambda lib, x, y: x / (y * y + 1),
    "matmul": lambda lib, x, y: x @ (_MATRIX if lib is np else lib.from_numpy(_MATRIX)),
    "greater": lambda lib, x, y: lib.maximum(x, y),
}


def drawn_program(random: np.random.Generator, depth: int = 3) -> Program:
    """One with loops and branches up to this depth."""

    def name() -> str:
        return str(random.choice(NAMES))

    def block(depth: int, most: int = 3) -> Program:
        return tuple(statement(depth) for _ in range(random.integers(1, most + 1)))

    def statement(depth: int) -> Assign | Branch | Repeat:
        kind = random.random()
        if depth == 0 or kind < 0.35:
            return Assign(name(), str(random.choice(list(_OPERATORS))), name(), name())
        if kind < 0.65:
            return Branch(name(), float(random.normal()), block(depth - 1), block(depth - 1))
        limit = float(random.normal(2)) if random.random() < 0.5 else None
        return Repeat(int(random.integers(0, 4)), name(), limit, block(depth - 1), name(), name())

    return (*block(depth, 4), Repeat(2, "a", None, block(1), "b", "a"))


def run_program(program: Program, env: dict[str, Any], lib: Any) -> dict[str, Any]:
    """The variables afterwards. lib: numpy or torch."""
    env = dict(env)
    for one in program:
        if isinstance(one, Assign):
            env[one.name] = _OPERATORS[one.operator](lib, env[one.first], env[one.second])
        elif isinstance(one, Branch):
            env = run_program(one.then if float(env[one.asked].sum()) > one.limit else one.otherwise, env, lib)
        else:
            total, at = env[one.total] * 0, 0
            while at < one.count and (one.limit is None or float(env[one.asked].sum()) < one.limit):
                env = run_program(one.body, env, lib)
                total, at = total + env[one.row], at + 1
            env[one.total] = total
    return env


def as_graph(program: Program) -> Graph:
    """A graph of inputs x, w, a and b, whose output `loss` is the sum of all variables' squares afterwards."""
    b = Builder("drawn")
    env = _emitted(b, program, {name: b.input(name, (LENGTH,), _REAL) for name in NAMES})
    squares = [b.node("sum", b.node("square", env[name]), axes=(0,)) for name in NAMES]
    total = squares[0]
    for one in squares[1:]:
        total = b.node("add", total, one)
    b.output("loss", total)
    return b.graph()


def _number(b: Builder, value: Any) -> str:
    return b.param(b.fresh(1)[0], np.asarray(value))


def _assigned(b: Builder, one: Assign, env: dict[str, str]) -> str:
    x, y = env[one.first], env[one.second]
    if one.operator == "multiply":
        return b.node("multiply", b.node("multiply", x, y), _number(b, 0.5))
    if one.operator == "damped":
        return b.node("divide", x, b.node("add", b.node("square", y), _number(b, 1.0)))
    if one.operator == "matmul":
        return b.node("matmul", x, _number(b, _MATRIX))
    if one.operator == "greater":
        return b.node("maximum", x, y)
    return b.node(one.operator, *((x,) if one.operator in ("sin", "tanh") else (x, y)))


def _is(b: Builder, operator: str, value: str, limit: float) -> str:
    """Whether the sum of a value is greater, or less, than a limit."""
    return b.node(operator, b.node("sum", value, axes=(0,)), _number(b, limit))


def _emitted(b: Builder, program: Program, env: dict[str, str]) -> dict[str, str]:
    """The values of the variables afterwards."""
    env = dict(env)
    for one in program:
        if isinstance(one, Assign):
            env[one.name] = _assigned(b, one, env)
        elif isinstance(one, Branch):
            bodies = [_body(one.then, "then"), _body(one.otherwise, "otherwise")]
            values = b.nodes("if", _is(b, "greater", env[one.asked], one.limit), *env.values(), bodies=bodies)
            env = dict(zip(NAMES, values, strict=True))
        else:
            goes_on = "" if one.limit is None else _is(b, "less", env[one.asked], one.limit)
            *values, rows = b.nodes(
                "loop",
                _number(b, one.count),
                goes_on,
                *env.values(),
                bodies=[_body(one.body, "body", one)],
                carried=len(NAMES),
                count=(one.count,),
            )
            env = dict(zip(NAMES, values, strict=True))
            env[one.total] = b.node("sum", rows, axes=(0,))
    return env


def _body(program: Program, name: str, loop: Repeat | None = None) -> Graph:
    b = Builder(name)
    if loop is not None:
        b.input("i", (), "int64")
    before = {one: b.input(one, (LENGTH,), _REAL) for one in NAMES}
    env = _emitted(b, program, before)
    if loop is not None and loop.limit is not None:
        b.output("go", _is(b, "less", env[loop.asked], loop.limit))
    for one in NAMES:
        b.output(f"{one}_after", env[one])
    if loop is not None:
        b.output("row", env[loop.row])
    return b.graph()


def drawn_variables(random: np.random.Generator) -> dict[str, NDArray[Any]]:
    """What programs begin with."""
    return {name: random.standard_normal(LENGTH) for name in NAMES}

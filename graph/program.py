"""A graph of known sizes as machine code."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

from ..codegen.result import BuildOptions
from ..codegen.target import Target
from ..driver.linked import Part, build_linked
from ..ir.constant import Constant
from ..ir.stmt import Function
from ..runtime import Kernel
from .flow import functions_of
from .node import Parts
from .plan import Layout, Plan
from .weights import Weights

if TYPE_CHECKING:
    from ..autotune.records import Database

__all__ = ["Program", "build_program"]


@dataclass(frozen=True)
class Program:
    """main: takes the inputs, the state, the outputs and the arena. parts: the kernels by their names."""

    plan: Plan
    layout: Layout
    weights: Weights
    main: Kernel
    parts: dict[str, Part]

    @property
    def arena_bytes(self) -> int:
        """The memory that a call works in beside inputs, outputs and parameters."""
        return self.layout.bytes


def build_program(
    g: Parts, target: str, options: BuildOptions, tuned: str | PathLike[str] | Database | None, exact: bool,
    packed: MutableMapping[str, Constant],
) -> Program:
    """The graph, of known sizes, as machine code. packed: as weights_of takes it."""
    plan = Plan.of(g)
    made: list[tuple[Layout, Weights]] = []

    def caller(parts: Mapping[str, Part]) -> Function:
        made.append((plan.layout(parts), plan.weights(parts, packed)))
        return plan.main(*made[0])

    linked = build_linked(plan.kernels(), functions_of(plan), caller, Target.parse(target), options, tuned, exact, plan.over)
    return Program(plan, *made[0], linked.main, linked.parts)

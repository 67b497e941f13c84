"""A graph of known sizes as machine code."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

from ..codegen.result import BuildOptions
from ..codegen.target import Target
from ..driver.linked import build_linked
from ..runtime import Kernel
from .flow import functions_of
from .node import Parts
from .plan import Layout, Plan

if TYPE_CHECKING:
    from ..autotune.records import Database

__all__ = ["Program", "build_program"]


@dataclass(frozen=True)
class Program:
    """main: takes the inputs, the state, the outputs and the arena. addresses: of the kernels by their names, `i32
    f(inputs, outputs)`."""

    plan: Plan
    layout: Layout
    main: Kernel
    addresses: dict[str, int]

    @property
    def arena_bytes(self) -> int:
        """The memory that a call works in beside inputs, outputs and parameters."""
        return self.layout.size


def build_program(
    g: Parts, target: str, options: BuildOptions, tuned: str | PathLike[str] | Database | None, exact: bool,
) -> Program:
    """The graph, of known sizes, as machine code."""
    plan = Plan.of(g)
    linked = build_linked(plan.kernels(), functions_of(plan), lambda workspaces: plan.main(plan.layout(workspaces)),
                          Target.parse(target), options, tuned, exact, plan.over)
    return Program(plan, plan.layout(linked.workspaces), linked.main, linked.addresses)

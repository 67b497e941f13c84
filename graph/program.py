"""A graph as machine code, for one size or for many."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from os import PathLike
from typing import TYPE_CHECKING

from ..base.dataclass import dataclass
from ..codegen.result import BuildOptions
from ..codegen.target import Target
from ..driver.linking import Linked, Part, build_linked
from ..ir.constant import Constant
from ..ir.stmt import Function
from ..runtime import Kernel
from .node import Parts
from .plan import Layout, Plan
from .size_conditions import check_sizes
from .types import TensorType
from .variants import Buckets, Laid, Variants
from .weights import Weights

if TYPE_CHECKING:
    from ..autotune.records import Database

__all__ = ["Family", "Program", "build_family"]


@dataclass(frozen=True)
class Program:
    """Program for some sizes. main: takes the inputs, the state, the outputs and the arena. parts: the kernels by their names.
    bucket: where there are variants, for which sizes this one is."""

    sizes: Mapping[str, int]
    plan: Plan
    layout: Layout
    weights: Weights
    main: Kernel
    parts: dict[str, Part]
    bucket: str = ""

    @property
    def arena_bytes(self) -> int:
        """The memory that a call works in beside inputs, outputs and parameters."""
        return self.layout.bytes

    @property
    def types(self) -> dict[str, TensorType]:
        """The type of each value, of these sizes."""
        return {name: kind.at(self.sizes) for name, kind in self.plan.graph.types.items()}


@dataclass(frozen=True)
class Family:
    """A function for all sizes that its variants are for."""

    variants: Variants
    laid: Laid
    linked: Linked

    def known(self, sizes: Mapping[str, int]) -> Mapping[str, int]:
        """Return the sizes that this program knows."""
        return self.variants.each[self.variants.at(sizes)].sizes

    def at(self, sizes: Mapping[str, int]) -> Program:
        """Return the program for these sizes of the symbols. Raises BadGraphInput (TW0906)."""
        at = self.variants.at(sizes)
        each = self.variants.each
        check_sizes(each[at].plan.graph, sizes)
        return Program(
            sizes,
            each[at].plan,
            self.laid.layouts[at].at(sizes),
            self.laid.weights[at],
            self.linked.main,
            self.linked.parts,
            str(each[at]) if len(each) > 1 else "",
        )


def build_family(
    g: Parts,
    buckets: Buckets | None,
    target: str,
    options: BuildOptions,
    tuned: str | PathLike[str] | Database | None,
    exact: bool,
    packed: MutableMapping[str, Constant],
) -> Family:
    """The graph as machine code. packed: as collect_weights takes it. Raises BadBuckets (TW0909)."""
    variants = Variants.of(g, buckets)
    made: list[Laid] = []

    def caller(parts: Mapping[str, Part]) -> Function:
        made.append(variants.place_values(parts, packed))
        return variants.main(made[0])

    linked = build_linked(
        variants.kernels(),
        variants.functions(),
        caller,
        Target.parse(target),
        options,
        tuned,
        exact,
        variants.over,
        variants.recipes(),
    )
    return Family(variants, made[0], linked)

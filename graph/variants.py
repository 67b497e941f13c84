"""One function for all sizes of a graph, and for some of them code of their own.

    tw.build(g, buckets=[{"n": 1}, {"n": (8, 16)}])      main: n == 1 ? calls of kernels for one : n == 8 ? ... : calls for any size

A bucket is sizes of symbols, all of them or some; a symbol with several sizes is a bucket for each. Each has a plan of its own, in
which these sizes are numbers, the last one is for whatever is left, and main chooses, natively. What kernels read of parameters is
there once, if two plans read it alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import partial, reduce
from itertools import product
from typing import Any, TypeAlias, cast

from ..base import dataclass, user_source
from ..driver.linking import Inner, Part
from ..driver.recipes import Recipes
from ..ir import Assert, Buffer, Expr, Function, If, Seq, Stmt, Var, ops
from ..ir.constant import Constant
from ..ir.dtype import HANDLE, DType
from ..ir.lazy_values import LazyMapping
from ..runtime.loaded_model import ModelRoles
from ..te.shape import convert_shape
from .arena import ALIGNMENT, Size
from .control_functions import build_functions
from .errors import BadBuckets
from .kernels import Step, declared_kernel, step_as_json
from .node import Parts
from .operators import is_ours, row_of
from .plan import Layout, Place, Plan, value_buffer
from .rewrite import specialised
from .size_conditions import conditions
from .types import TensorType, symbol
from .weights import Weights

__all__ = ["Buckets", "Laid", "Variant", "Variants", "sizes_of_buckets", "weights_size"]

Buckets: TypeAlias = "Sequence[Mapping[str, int | Sequence[int]]]"
"""Sizes of symbols by name, one or several, in the order in which they are looked at."""

_MOST = 64
"""So many variants of a graph are in one function."""


@dataclass(frozen=True)
class Variant:
    """Program for some sizes of the symbols."""

    sizes: Mapping[str, int]
    plan: Plan

    @property
    def condition(self) -> Expr:
        """Condition that symbols have these sizes."""
        return reduce(
            ops.logical_and, (ops.equal(symbol(name), ops.const(size, "int64")) for name, size in self.sizes.items())
        )

    def chosen(self, this: Size, other: Size) -> Size:
        """One of two numbers of bytes, as extents can say it."""
        if this is other or not self.sizes:
            return this
        apart = reduce(
            ops.maximum, (ops.maximum(symbol(name) - size, size - symbol(name)) for name, size in self.sizes.items())
        )
        hit = ops.maximum(1 - apart, 0)
        return hit * this + (1 - hit) * other

    def __str__(self) -> str:
        return ", ".join(f"{name} = {size}" for name, size in self.sizes.items()) or "any size"


@dataclass(frozen=True)
class Laid:
    """Layout of values and parameters in each variant; the size of the arena, and all parameters by their
    digests."""

    layouts: tuple[Layout, ...]
    weights: tuple[Weights, ...]
    size: Size
    held: Mapping[str, Constant]


@dataclass(frozen=True)
class Variants:
    """Plans of a model for several sizes.

    whole: the plan for all sizes, whose arguments main takes. each: what runs, in the order in which it is chosen; of several,
    the first that fits.
    """

    whole: Plan
    each: tuple[Variant, ...]

    @staticmethod
    def of(g: Parts, buckets: Buckets | None) -> Variants:
        """The variants of a graph. Raises BadBuckets (TW0909)."""
        whole = Plan.of(g)
        each = [Variant(sizes, Plan.of(specialised(g, sizes))) for sizes in sizes_of_buckets(g, buckets or ())]
        return Variants(whole, (*each, Variant({}, whole)))

    def steps_by_name(self) -> dict[str, tuple[Step, dict[str, TensorType]]]:
        """The first step of each kernel, as Plan.steps_by_name gives it."""
        found: dict[str, tuple[Step, dict[str, TensorType]]] = {}
        for variant in self.each:
            found |= {name: step for name, step in variant.plan.steps_by_name().items() if name not in found}
        return found

    def kernels(self) -> Mapping[str, list[Any]]:
        """Each kernel as tensors, as Plan.kernels gives them, declared when it is asked for."""
        steps = self.steps_by_name()
        return LazyMapping({name: partial(declared_kernel, *found) for name, found in steps.items()})

    def recipes(self) -> Recipes:
        """Tell each kernel to other processes, and to those to come."""
        steps = self.steps_by_name()
        told = LazyMapping({name: partial(step_as_json, *found) for name, found in steps.items()})
        ours = all(is_ours(row_of(node.operator)) for step, _ in steps.values() for node in step.nodes)
        return Recipes(
            f"{__package__}.helper", told, {name: step.key for name, (step, _) in steps.items()} if ours else {}
        )

    def functions(self) -> dict[str, Inner]:
        """The functions of nodes with graphs inside, by the names of their steps."""
        return {name: inner for variant in self.each for name, inner in build_functions(variant.plan).items()}

    @property
    def over(self) -> frozenset[str]:
        """The kernels that put their result over a value that they read whole."""
        return frozenset[str]().union(*(variant.plan.over for variant in self.each))

    def place_values(self, parts: Mapping[str, Part], packed: MutableMapping[str, Constant]) -> Laid:
        """Lay out values once the kernels are known. parts: these, by name. packed: as collect_weights takes it."""
        layouts = tuple(variant.plan.layout(parts) for variant in self.each)
        weights = tuple(variant.plan.weights(parts, packed) for variant in self.each)
        size = layouts[-1].size
        for variant, layout in zip(reversed(self.each), reversed(layouts), strict=True):
            size = variant.chosen(layout.size, size)
        return Laid(layouts, weights, size, {digest: held for each in weights for digest, held in each.held.items()})

    def describe_arguments(self, order: Iterable[str], in_file: bool) -> ModelRoles:
        """Return the roles of main's arguments. order: of the inputs as users pass them. in_file: weights come before all
        others."""
        whole, names = self.whole, self.whole.arguments
        spelled = dict(zip([*whole.inputs, *whole.outputs], names, strict=False))
        inputs, outputs = ({name: spelled[name] for name in each} for each in (order, whole.outputs))
        return ModelRoles(inputs, outputs, names[-1], whole.weights_name if in_file else "")

    def at(self, sizes: Mapping[str, int]) -> int:
        """The number of what runs where symbols have these sizes."""
        return next(
            at
            for at, variant in enumerate(self.each)
            if all(sizes[name] == size for name, size in variant.sizes.items())
        )

    def main(self, laid: Laid, offsets: Mapping[str, int] | None = None) -> Function:
        """The function that calls the kernels: takes the inputs, the state, the outputs and the arena. offsets: where the weights
        lie in memory that is passed before all others, in bytes from its beginning, by digests; without it, they are the
        function's own constants."""
        g, types = self.whole.graph, self.whole.graph.types
        names = self.whole.arguments
        arena = Buffer(
            names[-1],
            convert_shape((laid.size,), "arena"),
            DType("uint8"),
            data=Var(names[-1], HANDLE),
            alignment=ALIGNMENT,
        )
        inputs = {
            name: value_buffer(spelled, types[name]) for name, spelled in zip(self.whole.inputs, names, strict=False)
        }
        outputs = {
            name: value_buffer(spelled, types[value])
            for (name, value), spelled in zip(self.whole.outputs.items(), names[len(inputs) :], strict=False)
        }
        own = (
            {}
            if offsets is not None
            else {
                digest: value_buffer(f"w{at}", TensorType(held.data.shape, str(held.data.dtype)))
                for at, (digest, held) in enumerate(laid.held.items())
            }
        )
        file: list[Buffer] = (
            []
            if offsets is None
            else [
                value_buffer(
                    self.whole.weights_name, TensorType((weights_size(laid.held, offsets),), "uint8"), ALIGNMENT
                )
            ]
        )
        held = {digest: Place(buffer) for digest, buffer in own.items()}
        held |= {digest: Place(file[0], at) for digest, at in (offsets or {}).items()}
        body = self._choice(laid, inputs, outputs, held, arena)
        params = (*file, *inputs.values(), *outputs.values(), arena, *own.values())
        state = [inputs[name] for name in g.state]
        return Function(
            "main", params, body, (*state, *outputs.values(), arena), {}, tuple(laid.held[digest] for digest in own)
        )

    def _choice(
        self,
        laid: Laid,
        inputs: Mapping[str, Buffer],
        outputs: Mapping[str, Buffer],
        held: Mapping[str, Place],
        arena: Buffer,
    ) -> Stmt:
        """The calls of the first variant that fits."""
        chosen: Stmt | None = None
        for variant, layout, weights in zip(
            reversed(self.each), reversed(laid.layouts), reversed(laid.weights), strict=True
        ):
            plan = variant.plan
            outer = {name: Place(inputs[name]) for name in plan.inputs}
            outer |= {value: Place(outputs[name]) for name, value in plan.outputs.items()}
            outer |= {plan.graph.results[present]: Place(inputs[past]) for past, present in plan.graph.state.items()}
            outer |= {name: held[digest] for name, digest in weights.whole.items()}
            calls = plan.calls(outer, layout, arena, [[held[digest] for digest in read] for read in weights.read])
            asked = [Assert(condition, said) for condition, said in conditions(plan.graph)]
            body = Seq((*asked, *calls.body))
            chosen = body if chosen is None else If(variant.condition, body, chosen)
        assert chosen is not None, "there is something that runs"
        return chosen


def weights_size(held: Mapping[str, Constant], offsets: Mapping[str, int]) -> int:
    """The bytes up to the end of the last of them."""
    return max((offsets[digest] + one.data.nbytes for digest, one in held.items()), default=0) or ALIGNMENT


def sizes_of_buckets(g: Parts, buckets: Any) -> list[dict[str, int]]:
    """The sizes of each variant. Raises BadBuckets (TW0909)."""
    found: dict[tuple[tuple[str, int], ...], dict[str, int]] = {}
    if not isinstance(buckets, (list, tuple)) or not all(
        isinstance(bucket, Mapping) for bucket in cast("list[object]", buckets)
    ):
        raise _bad(g, f"buckets are a list of dicts, and got {buckets!r}")
    for bucket in cast("Buckets", buckets):
        for name in bucket:
            if name not in g.symbols:
                raise _bad(g, f"{name!r} is not a symbol of its inputs' shapes")
        choices = [list(_sizes(g, name, given)) for name, given in bucket.items()]
        for sizes in product(*choices):
            if not sizes:
                raise _bad(g, "a bucket names no size")
            key = tuple(zip(bucket, sizes, strict=True))
            found.setdefault(tuple(sorted(key)), dict(key))
            if len(found) > _MOST:
                raise _bad(g, f"these are more than {_MOST} variants, each with code of its own")
    return list(found.values())


def _sizes(g: Parts, name: str, given: Any) -> Iterator[int]:
    several = cast("Sequence[object]", given if isinstance(given, (list, tuple, range)) else (given,))
    for size in several:
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise _bad(g, f"{name} is a number from 0 on, or several, and got {size!r}")
        yield size


def _bad(g: Parts, reason: str) -> BadBuckets:
    return BadBuckets(
        f"graph {g.name} has no such buckets",
        reason=reason[:300],
        called=user_source(),
        allowed=f"sizes of {', '.join(g.symbols)}" if g.symbols else "none: its sizes are known",
        fix='buckets=[{"n": 1}, {"n": range(2, 9)}], or buckets=[{"h": 224, "w": 224}], which leaves n open',
    )

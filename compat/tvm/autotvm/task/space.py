"""tvm.autotvm.task.space: what templates define their parts on, over autotune's configurator."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from math import prod
from typing import Any

import numpy as np

from .....autoschedule.errors import BadDefinition, UnknownPart
from .....autoschedule.search.space import Annotate, Choice, Configurator, Part
from .....autoschedule.search.space import Knob as OtherOptionEntity
from .....autoschedule.search.space import Reorder as ReorderEntity
from .....autoschedule.search.space import Split as SplitEntity
from .....autoschedule.search.space import find_factors as get_factors
from .....base import dataclass, user_source
from .....ir.expr import IntImm, IterVar
from .....schedule import Schedule

__all__ = [
    "AnnotateEntity",
    "ConfigEntity",
    "ConfigSpace",
    "FallbackConfigEntity",
    "InstantiationError",
    "OtherOptionEntity",
    "ReorderEntity",
    "SplitEntity",
    "VirtualAxis",
    "get_factors",
    "get_pow2s",
]


class InstantiationError(ValueError):
    """Raised by a template for a configuration that cannot be scheduled."""


@dataclass(frozen=True, eq=False)
class VirtualAxis:
    """A loop that a part speaks of: an axis of an operation, or an extent."""

    var: Any = None
    name: str = ""

    @property
    def length(self) -> int:
        """Its extent, where that is known; otherwise -1."""
        dom = self.var.dom if isinstance(self.var, IterVar) else None
        if dom is not None and isinstance(dom.extent, IntImm):
            return dom.extent.value
        return self.var if isinstance(self.var, int) else -1


class Choices(tuple[Choice, ...]):
    """The choices of a part."""

    __slots__ = ()

    @property
    def entities(self) -> list[Choice]:
        """The choices, as a list."""
        return list(self)


class AnnotateEntity(Annotate):
    """Annotation of each of the loops: "none", "unroll" or "vec"."""

    def apply(
        self,
        s: Schedule,
        op: Any,
        axes: Sequence[IterVar],
        axis_lens: Sequence[int] | None = None,
        max_unroll: int | None = None,
        vec_size: Sequence[int] | None = None,
        cfg: ConfigSpace | None = None,
        source: object = None,
    ) -> list[IterVar]:
        """Annotates the loops, which it returns. axis_lens: their extents, of which `max_unroll` bounds what is unrolled
        and `vec_size` lists what is vectorized; others are an error of `cfg`."""
        del source
        lengths = axis_lens or ()
        for what, length in zip(self.anns, lengths, strict=False):
            if what == "unroll" and max_unroll and length > max_unroll:
                _refuse(cfg, "Too large factor for unrolling")
            if what == "vec" and vec_size and length not in vec_size:
                _refuse(cfg, "Wrong size of lanes in vectorization")
        return Annotate.apply(self, s, op, axes)


def _refuse(cfg: ConfigSpace | None, message: str) -> None:
    if cfg is None:
        raise InstantiationError(message)
    cfg.raise_error(message)


class ConfigSpace:
    """The parts of a template and their choices, numbered together: `space.get(i)`, `len(space)`."""

    is_fallback = False

    def __init__(self) -> None:
        self._own = Configurator()
        self._about: dict[str, str] = {}
        self._decided: dict[str, Choice] = {}
        self._filters: list[Callable[[ConfigEntity], bool]] = []
        self._length: int | None = None
        self.flop = 0.0
        self.errors: list[str] = []
        self.code_hash: str | None = None

    # Definitions

    @staticmethod
    def axis(var: Any) -> VirtualAxis:
        """The loop of an axis, or of an extent."""
        return var if isinstance(var, VirtualAxis) else VirtualAxis(var, getattr(var, "name", ""))

    reduce_axis = axis

    def define_split(self, name: str, axis: Any, policy: str = "factors", **options: Any) -> list[VirtualAxis]:
        """Ways to split a loop. options: num_outputs, filter, max_factor, candidate, and no_tail, which leaves out splits
        that do not divide the extent. Raises BadDefinition."""
        of, wanted = self.axis(axis), options.pop("filter", None)
        if options.pop("no_tail", policy == "factors") and of.length > 0 and policy != "candidate":
            wanted = _and_divides(wanted, of.length)
        outputs = options.setdefault("num_outputs", 2)
        if self._defines(name, f"Split(policy={policy}, product={of.length}, num_outputs={outputs})"):
            self._own.define_split(name, of.var, policy, filter=wanted, **options)
        return [VirtualAxis(name=f"{of.name}.{at}") for at in range(outputs)]

    def define_knob(self, name: str, candidate: Iterable[Any]) -> None:
        """One of some values; `cfg[name].val` is the one chosen. Raises BadDefinition."""
        values = list(candidate)
        if self._defines(name, f"OtherOption({values})"):
            self._own.define_knob(name, values)

    def define_reorder(self, name: str, axes: Sequence[Any], policy: str = "all", **options: Any) -> list[VirtualAxis]:
        """Orders of loops. policy: "identity", "all", "interval" (interval=(begin, end)), "candidate" (candidate=[[...]]),
        "interleave" and "interleave_cuda" (spatial=[[...]], reduce=[[...]]). Raises BadDefinition."""
        if self._defines(name, f"Reorder(policy={policy}) of {len(axes)} loops"):
            self._own.define_reorder(
                name, list(axes), "candidate", candidate=_orders(name, list(axes), policy, options)
            )
        return [VirtualAxis(name=f"{name}.{at}") for at in range(len(axes))]

    def define_annotate(self, name: str, axes: Sequence[Any], policy: str = "try_unroll_vec", **_: object) -> None:
        """Define the annotation of loops: "none", "unroll", "vec", "try_unroll", "try_vec", "try_unroll_vec". Raises BadDefinition."""
        if self._defines(name, f"Annotate(policy={policy}) of {len(axes)} loops"):
            self._own.define_annotate(name, list(axes), policy)

    def multi_filter(self, filter: Callable[[ConfigEntity], bool], **_: object) -> None:
        """Keep the configurations for which it is true, of several parts at once."""
        self._filters.append(filter)
        self._length = None

    def _defines(self, name: str, about: str) -> bool:
        """Return whether this configuration learns its parts; a later definition of a name stands for the earlier."""
        self._own.parts.pop(name, None)
        self._about[name], self._length = about, None
        return True

    def add_flop(self, flop: float) -> None:
        """The arithmetic operations of the whole function, where they are not to be counted."""
        self.flop += float(flop)

    def raise_error(self, msg: str) -> None:
        """Notes that this configuration is none."""
        self.errors.append(msg)

    def valid(self) -> bool:
        """Return whether no error was noted."""
        return not self.errors

    # Choices

    def __getitem__(self, name: str) -> Any:
        """Return the choice for a part. Raises UnknownPart."""
        entity = self._decided[name] if name in self._decided else self._own[name]
        return AnnotateEntity(entity.anns) if type(entity) is Annotate else entity

    def __setitem__(self, name: str, entity: Choice) -> None:
        self._decided[name] = entity

    def __contains__(self, name: object) -> bool:
        return name in self._decided or name in self._own.parts

    def get_other_option(self) -> dict[str, Any]:
        """The values of the knobs, by name."""
        return {
            name: self[name].val
            for name in (*self._own.parts, *self._decided)
            if isinstance(self[name], OtherOptionEntity)
        }

    # The space

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts, as autotune holds them."""
        return tuple(self._own.parts.values())

    @property
    def space_map(self) -> dict[str, Choices]:
        """The choices of each part, by its name."""
        return {part.name: Choices(part.choices) for part in self.parts}

    @property
    def dims(self) -> list[int]:
        """The number of choices of each part."""
        return [len(part.choices) for part in self.parts]

    @property
    def range_length(self) -> int:
        """The number of indices; with `multi_filter` some of them stand for nothing."""
        return prod(self.dims)

    def __len__(self) -> int:
        if self._length is None:
            self._length = (
                sum(map(self.is_index_valid, range(self.range_length))) if self._filters else self.range_length
            )
        return self._length

    def is_index_valid(self, index: int) -> bool:
        """Return whether `index` stands for a configuration that the filters keep."""
        return 0 <= index < self.range_length and all(keeps(self.get(index)) for keeps in self._filters)

    def keeps(self, entity: ConfigEntity) -> bool:
        """Return whether the filters keep a configuration."""
        return all(filter(entity) for filter in self._filters)

    def get(self, index: int) -> ConfigEntity:
        """Configuration number `index`: the first part's choice counts fastest. Raises IndexError."""
        if not 0 <= index < self.range_length:
            raise IndexError(f"index {index} is out of range: the space has {self.range_length} configurations")
        numbers = self.knobs_of(index)
        chosen = {part.name: part.choices[number] for part, number in zip(self.parts, numbers, strict=True)}
        return ConfigEntity(index, self.code_hash, chosen)

    def knobs_of(self, index: int) -> list[int]:
        """The number of each part's choice."""
        knobs: list[int] = []
        for size in self.dims:
            knobs.append(index % size)
            index //= size
        return knobs

    def index_of(self, numbers: Sequence[int]) -> int:
        """The index of the configuration with these choices."""
        index, unit = 0, 1
        for number, size in zip(numbers, self.dims, strict=True):
            index, unit = index + number * unit, unit * size
        return index

    point2knob, knob2point = knobs_of, index_of

    def find(self, entity: ConfigEntity) -> int | None:
        """The index of a configuration by what it chose, whatever number it came with; None where the space has none such:
        the template has changed, or another program wrote the log."""
        numbers: list[int] = []
        for part in self.parts:
            wanted = json.dumps(_plain(entity[part.name])) if part.name in entity else ""
            number = next((at for at, choice in enumerate(part.choices) if json.dumps(_plain(choice)) == wanted), None)
            if number is None:
                return None
            numbers.append(number)
        return self.index_of(numbers)

    def get_rand_index(self, start: int = 0, end: int | None = None, to_exclude: Iterable[int] = ()) -> int:
        """An index drawn evenly among those that the filters keep."""
        leave = set(to_exclude)
        left = [
            index
            for index in range(start, self.range_length if end is None else end)
            if index not in leave and self.is_index_valid(index)
        ]
        return int(np.random.default_rng().choice(left))

    def sample_ints(self, m: int) -> list[int]:
        """`m` different indices, drawn evenly among those that the filters keep."""
        kept = [index for index in range(self.range_length) if self.is_index_valid(index)]
        return [int(index) for index in np.random.default_rng().choice(kept, size=min(m, len(kept)), replace=False)]

    def __iter__(self) -> Iterator[ConfigEntity]:
        return (self.get(index) for index in range(self.range_length) if self.is_index_valid(index))

    def __str__(self) -> str:
        lines = [
            f"{at:4} {part.name}: {self._about[part.name]} len={len(part.choices)}"
            for at, part in enumerate(self.parts)
        ]
        return "\n".join([f"ConfigSpace (len={len(self)}, space_map=", *lines, ")"])

    __repr__ = __str__


class ConfigEntity(ConfigSpace):
    """A configuration: what was chosen for each part. Definitions in the template change nothing."""

    def __init__(
        self, index: int, code_hash: str | None, entity_map: Mapping[str, Choice], constraints: object = None
    ) -> None:
        super().__init__()
        del constraints
        self.index, self.code_hash = index, code_hash
        self._decided = dict(entity_map)

    def _defines(self, name: str, about: str) -> bool:
        del name, about
        return False

    def multi_filter(self, filter: Callable[[ConfigEntity], bool], **_: object) -> None:
        """The filters chose before there was a configuration."""

    def __getitem__(self, name: str) -> Any:
        """Return the choice for a part. Raises UnknownPart."""
        if name not in self._decided:
            raise UnknownPart(
                f"the configuration has no part {name!r}",
                called=user_source(),
                allowed=", ".join(self._decided),
                fix="tune again: the template has changed since",
            )
        return super().__getitem__(name)

    def to_json_dict(self) -> dict[str, Any]:
        """Return the space as logs hold it."""
        return {
            "index": self.index,
            "code_hash": self.code_hash,
            "entity": [[name, *_plain(choice)] for name, choice in self._decided.items()],
        }

    @staticmethod
    def from_json_dict(json_dict: Mapping[str, Any]) -> ConfigEntity:
        """The configuration of what `to_json_dict` gave. Raises KeyError, TypeError, ValueError for anything else."""
        chosen = {str(name): _CHOICES[kind](value) for name, kind, value in json_dict["entity"]}
        return ConfigEntity(int(json_dict["index"]), json_dict.get("code_hash"), chosen)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigEntity) and self.to_json_dict() == other.to_json_dict()

    def __hash__(self) -> int:
        return hash((self.index, str(self)))

    def __str__(self) -> str:
        return f"{list(self._decided.items())},{self.code_hash},{self.index}"

    __repr__ = __str__


class FallbackConfigEntity(ConfigSpace):
    """The configuration where no record was found: each part's first choice, or what the template decides itself."""

    is_fallback = True

    def __init__(self) -> None:
        super().__init__()
        self._extents: dict[str, int] = {}

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Splits part `name` by the greatest factors within the constraints, one a loop, innermost first; -1: of any
        size. Raises BadDefinition."""
        extent = self._extents.get(name, -1)
        if extent < 0 or len(constraints) != len(self[name].size):
            raise BadDefinition(
                f"cannot choose a split for the part {name!r}",
                called=user_source(),
                reason=f"{list(constraints)} are not constraints on it",
                allowed="one for each of its loops",
            )
        left, size = extent, list[int]()
        for most in reversed(constraints):
            size.insert(0, max(factor for factor in get_factors(left) if most == -1 or factor <= max(most, 1)))
            left //= size[0]
        self[name] = SplitEntity(tuple(size))

    def define_split(self, name: str, axis: Any, policy: str = "factors", **options: Any) -> list[VirtualAxis]:
        """Define a split, as ConfigSpace's method does."""
        self._extents[name] = self.axis(axis).length
        return super().define_split(name, axis, policy, **options)

    def __str__(self) -> str:
        return f"{[(part.name, self[part.name]) for part in self.parts]},fallback"

    __repr__ = __str__


def get_pow2s(n: int) -> list[int]:
    """The powers of two up to a number."""
    return [1 << bit for bit in range(n.bit_length())]


def _and_divides(wanted: Callable[[SplitEntity], bool] | None, extent: int) -> Callable[[SplitEntity], bool]:
    def keeps(split: SplitEntity) -> bool:
        return extent % prod(split.size[1:]) == 0 and (wanted is None or wanted(split))

    return keeps


def _orders(name: str, axes: list[Any], policy: str, options: Mapping[str, Any]) -> list[Sequence[int]]:
    """The orders that a policy leaves, as places in `axes`."""
    places = {id(axis): at for at, axis in enumerate(axes)}

    def at(chain: Iterable[Any]) -> list[int]:
        return [axis if isinstance(axis, int) else places[id(axis)] for axis in chain]

    everything = list(range(len(axes)))
    if policy == "identity":
        return [everything]
    if policy == "all":
        return list(permutations(everything))
    if policy == "interval":
        begin, end = options["interval"]
        return [[*everything[:begin], *some, *everything[end:]] for some in permutations(everything[begin:end])]
    if policy == "candidate":
        return [at(order) for order in options["candidate"]]
    if policy not in ("interleave", "interleave_cuda"):
        raise BadDefinition(
            f"cannot define the part {name!r}",
            reason=f"policy is {policy!r}",
            called=user_source(),
            allowed="identity, all, interval, candidate, interleave, interleave_cuda",
        )
    spatial, reduce = [at(chain) for chain in options["spatial"]], [at(chain) for chain in options["reduce"]]
    outer, last = merged([chain[:-1] for chain in spatial]), [chain[-1:] for chain in spatial]
    if policy == "interleave":
        return [[*order, *other] for order in outer for other in merged([*last, *reduce])]
    innermost = [axis for chain in last for axis in chain]
    return [[*order, *other, *innermost] for order in outer for other in merged(reduce)]


def merged(chains: Sequence[Sequence[int]]) -> list[list[int]]:
    """Every sequence of the chains' elements in which each chain keeps its order."""
    if not any(chains):
        return [[]]
    return [
        [chain[0], *rest]
        for at, chain in enumerate(chains)
        if chain
        for rest in merged([other[1:] if place == at else other for place, other in enumerate(chains)])
    ]


def _plain(choice: Choice) -> tuple[str, Any]:
    if isinstance(choice, SplitEntity):
        return "sp", list(choice.size)
    if isinstance(choice, ReorderEntity):
        return "re", list(choice.perm)
    if isinstance(choice, Annotate):
        return "an", list(choice.anns)
    return "ot", choice.val


_CHOICES: dict[str, Callable[[Any], Choice]] = {
    "sp": lambda value: SplitEntity(tuple(int(part) for part in value)),
    "re": lambda value: ReorderEntity(tuple(int(part) for part in value)),
    "an": lambda value: AnnotateEntity(tuple(str(part) for part in value)),
    "ot": OtherOptionEntity,
}

"""Search spaces, and those of templates: named parts, each with a list of choices.

A template defines parts and applies what was chosen. It is run twice: once to learn the parts, with each at its first choice,
and then once for every configuration:

    cfg.define_split("tile_x", x, num_outputs=2)         # [-1, 1], [-1, 2], [-1, 4] ...
    x_outer, x_inner = cfg["tile_x"].apply(s, C, x)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from math import isqrt, prod
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from ...base import dataclass, field, user_source
from ...ir.expr import IntImm, IterVar
from ...schedule import Schedule, to_json
from ...te import Tensor
from ..errors import BadDefinition, UnknownPart
from .fingerprint import fingerprint, plain_text

__all__ = [
    "Annotate",
    "Choice",
    "Config",
    "Configurator",
    "Knob",
    "Made",
    "Part",
    "Rejected",
    "Reorder",
    "Space",
    "Split",
    "TemplateSpace",
    "split_sizes",
]

MAX_CHOICES = 200_000
"""The most choices that one part may have."""


MOST_FEATURES = 1024
"""Of a configuration that a file holds."""


class Rejected(Exception):
    """Raised for a combination of choices that its space leaves out. Nobody sees it: another is drawn."""


@dataclass(frozen=True, slots=True)
class Knob:
    """One of the values that define_knob was given."""

    val: Any

    def __repr__(self) -> str:
        return repr(self.val)


@dataclass(frozen=True, slots=True)
class Split:
    """Extents of the loops that an axis becomes, outermost first; the outermost is -1: whatever is left."""

    size: tuple[int, ...]

    def apply(self, s: Schedule, op: Any, axis: IterVar) -> list[IterVar]:
        """Splits `axis` of the stage of `op`; the loops, outermost first."""
        loops: list[IterVar] = []
        # from the innermost on: what is left over then is in the outermost loop
        for factor in reversed(self.size[1:]):
            axis, inner = s[op].split(axis, factor=factor)
            loops.insert(0, inner)
        return [axis, *loops]

    def __repr__(self) -> str:
        return repr(list(self.size))


@dataclass(frozen=True, slots=True)
class Reorder:
    """The order of loops: perm[n] is which of those given comes at place n."""

    perm: tuple[int, ...]

    def apply(self, s: Schedule, op: Any, axes: Sequence[IterVar]) -> list[IterVar]:
        """Reorders the loops; returns them in their new order."""
        ordered = [axes[at] for at in self.perm]
        s[op].reorder(*ordered)
        return ordered

    def __repr__(self) -> str:
        return repr(list(self.perm))


@dataclass(frozen=True, slots=True)
class Annotate:
    """Annotation of each of the loops: "none", "unroll" or "vec"."""

    anns: tuple[str, ...]

    def apply(self, s: Schedule, op: Any, axes: Sequence[IterVar]) -> list[IterVar]:
        """Annotates the loops, which it returns."""
        for axis, annotation in zip(axes, self.anns, strict=True):
            if annotation == "unroll":
                s[op].unroll(axis)
            elif annotation == "vec":
                s[op].vectorize(axis)
        return list(axes)

    def __repr__(self) -> str:
        return repr(list(self.anns))


Choice = Knob | Split | Reorder | Annotate


@dataclass(frozen=True, slots=True)
class Part:
    """One decision: its name and what may be decided."""

    name: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Config:
    """A point of a space: what was chosen, by the names of its parts. Of a template's parts it is the number of the choice, of the
    rules' decisions the description of a candidate. features: what is known of its loops, for models of other spaces."""

    space: str
    choices: tuple[tuple[str, int | str], ...]
    features: tuple[float, ...] = field(default=(), compare=False)

    def plain(self) -> dict[str, Any]:
        """Return the configuration as JSON holds it."""
        return {"space": self.space, "choices": dict(self.choices), "features": self.features}

    @classmethod
    def of(cls, plain: Any) -> Config | None:
        """The configuration that `plain` gave; None for anything else."""
        if not isinstance(plain, dict):
            return None
        fields = cast("dict[str, Any]", plain)
        space, choices, features = fields.get("space"), fields.get("choices"), fields.get("features")
        if not isinstance(space, str) or not isinstance(choices, dict) or not isinstance(features, list):
            return None
        pairs, numbers = cast("dict[str, Any]", choices), cast("list[Any]", features)
        # type, not isinstance: JSON's true is an int to Python
        if not all(type(choice) in (int, str) for choice in pairs.values()):
            return None
        if len(numbers) > MOST_FEATURES or not {*map(type, numbers)} <= {int, float}:
            return None
        return cls(space, tuple(pairs.items()), tuple(map(float, numbers)))


class Made(NamedTuple):
    """Result of a configuration: the schedule, the tensors in call order, and the configuration as it was decided."""

    schedule: Schedule
    args: Sequence[Tensor]
    config: Config


class Space(Protocol):
    """A search space. name: by which its configurations know it."""

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> str:
        """The name, and what tells the space from others of this name for the same program: the key of its trials holds it."""
        ...

    def make(self, config: Config) -> Made:
        """Make the schedule of a configuration. Raises Rejected, and the errors of the primitives."""
        ...

    def begin(self) -> Iterator[Config]:
        """The configurations to look at first, the best known one before all: none where nothing is known."""
        ...

    def sample(self, rng: np.random.Generator) -> Config:
        """Any configuration."""
        ...

    def mutate(self, config: Config, rng: np.random.Generator) -> Config:
        """A neighbour of a configuration."""
        ...

    def cross(self, one: Config, other: Config, rng: np.random.Generator) -> Config:
        """A configuration between two."""
        ...

    def fits(self, config: Config) -> bool:
        """Return whether a configuration can be one of this space."""
        ...


class Configurator:
    """Configurator on which a template defines its parts, and from which it reads its choices.

    chosen: the number of each part's choice; None for the first of each, while the parts are being learnt.
    """

    def __init__(self, chosen: Mapping[str, int] | None = None) -> None:
        self.parts: dict[str, Part] = {}
        self.chosen = chosen

    def define_split(
        self,
        name: str,
        axis: IterVar | int,
        policy: str = "factors",
        *,
        num_outputs: int = 2,
        filter: Callable[[Split], bool] | None = None,
        max_factor: int | None = None,
        candidate: Iterable[Sequence[int]] | None = None,
    ) -> None:
        """Ways to split an axis (or an extent) into `num_outputs` loops.

        policy: "factors" (every factorisation of the extent), "power2" (inner extents are powers of two, together up
        to the extent), "verbose" (factors and powers of two, mixed too), or "candidate" (those listed in `candidate`,
        outermost first, -1 for what is left).
        filter: keeps the choices for which it is true. max_factor: the greatest inner extent.
        Raises BadDefinition (TW0605).
        """
        if self._is_defined(name):
            return
        extent = axis if isinstance(axis, int) else _extent(name, axis)
        if num_outputs < 1:
            raise self._bad(name, f"num_outputs is {num_outputs}", "a loop is split into at least one")
        if policy == "candidate":
            sizes: Iterable[tuple[int, ...]] = (tuple(split) for split in candidate or ())
        elif policy in _SPLITTERS:
            sizes = split_sizes(extent, num_outputs, policy, max_factor or extent)
        else:
            raise self._bad(name, f"policy is {policy!r}", "factors, power2, verbose, candidate")
        splits = (Split(size) for size in sizes)
        self._define(name, splits if filter is None else (split for split in splits if filter(split)))

    def define_knob(self, name: str, candidate: Iterable[Any]) -> None:
        """One of some values; `cfg[name].val` is the one chosen. Raises BadDefinition (TW0605)."""
        if not self._is_defined(name):
            self._define(name, (Knob(value) for value in candidate))

    def define_reorder(
        self,
        name: str,
        axes: Sequence[IterVar],
        policy: str = "all",
        *,
        candidate: Iterable[Sequence[int]] | None = None,
    ) -> None:
        """Orders of loops. policy: "all" permutations, or "candidate": those listed, each as places in `axes`.

        Raises BadDefinition (TW0605).
        """
        if self._is_defined(name):
            return
        if policy == "all":
            orders: Iterable[Sequence[int]] = permutations(range(len(axes)))
        elif policy == "candidate":
            orders = candidate or ()
        else:
            raise self._bad(name, f"policy is {policy!r}", "all, candidate")
        self._define(name, (Reorder(tuple(order)) for order in orders))

    def define_annotate(self, name: str, axes: Sequence[IterVar], policy: str = "try_unroll_vec") -> None:
        """Define the annotation of loops. policy: "none", "unroll" (all of them), "vec" (the last), "try_unroll" (the last ones
        or none), "try_vec" (the last or not), "try_unroll_vec" (both kinds). Raises BadDefinition (TW0605)."""
        if self._is_defined(name):
            return
        if policy not in _ANNOTATIONS:
            raise self._bad(name, f"policy is {policy!r}", ", ".join(_ANNOTATIONS))
        self._define(name, (Annotate(annotation) for annotation in dict.fromkeys(_ANNOTATIONS[policy](len(axes)))))

    def __getitem__(self, name: str) -> Any:
        """Return the choice for a part: a Split, a Knob, a Reorder or an Annotate. Raises UnknownPart (TW0606)."""
        part = self.parts.get(name)
        if part is None:
            raise UnknownPart(
                f"the space has no part {name!r}",
                called=user_source(),
                allowed=", ".join(self.parts),
                fix=f"define it first: cfg.define_knob({name!r}, [...])",
            )
        # a part that a record does not know is new in the template, and takes its first choice
        number = 0 if self.chosen is None else self.chosen.get(name, 0)
        if not 0 <= number < len(part.choices):
            raise UnknownPart(
                f"part {name!r} has no choice number {number}",
                called=user_source(),
                allowed=f"0 to {len(part.choices) - 1}",
                fix="tune again: the template has changed since",
            )
        return part.choices[number]

    def _is_defined(self, name: str) -> bool:
        """Return whether this run has defined it; a second definition in one run would hide the first."""
        if name in self.parts:
            raise self._bad(name, "it is defined already", "one definition a name")
        return False

    def _define(self, name: str, choices: Iterable[Choice]) -> None:
        options: list[Choice] = []
        for choice in choices:
            options.append(choice)
            # at once, since the permutations of a dozen loops would not end
            if len(options) > MAX_CHOICES:
                raise self._bad(name, f"it has more than {MAX_CHOICES} choices", "a filter or max_factor narrows it")
        if not options:
            raise self._bad(name, "no choice is left", "at least one choice")
        self.parts[name] = Part(name, tuple(options))

    def _bad(self, name: str, reason: str, allowed: str) -> BadDefinition:
        return BadDefinition(f"cannot define the part {name!r}", reason=reason, called=user_source(), allowed=allowed)


def _extent(name: str, axis: IterVar) -> int:
    if axis.dom is None or not isinstance(axis.dom.extent, IntImm):
        raise BadDefinition(
            f"cannot define the part {name!r}",
            reason=f"the extent of {axis.name} is not known here",
            called=user_source(),
            fix=f"give it: cfg.define_split({name!r}, 64, ...); loops that a split made are counted by their factors",
        )
    return axis.dom.extent.value


def find_factors(extent: int) -> list[int]:
    """The factors of a number, least first."""
    lesser = [number for number in range(1, isqrt(max(extent, 0)) + 1) if extent % number == 0]
    return [*lesser, *(extent // number for number in reversed(lesser) if number * number != extent)]


def _powers(extent: int) -> list[int]:
    return [1 << bit for bit in range(max(extent, 1).bit_length()) if 1 << bit <= max(extent, 1)]


_SPLITTERS: dict[str, tuple[Callable[[int], list[int]], ...]] = {
    "factors": (find_factors,),
    "power2": (_powers,),
    "verbose": (find_factors, _powers),
}


def split_sizes(extent: int, loops: int, policy: str, max_factor: int) -> Iterator[tuple[int, ...]]:
    """Every way to split `extent` into `loops` by a policy, with -1 for the outermost. What the inner ones make together is at most
    the extent, and divides it where they are its factors."""
    sizes = list(
        dict.fromkeys(size for sizes_of in _SPLITTERS[policy] for size in sizes_of(extent) if size <= max_factor)
    )
    ways: list[tuple[tuple[int, ...], int]] = [((-1,), 1)]
    for _ in range(loops - 1):
        ways = [
            ((-1, size, *inner), together * size)
            for (_, *inner), together in ways
            for size in sizes
            if together * size <= max(extent, 1) and (policy != "factors" or extent % (together * size) == 0)
        ]
    return (way for way, _ in ways)


_ANNOTATIONS: dict[str, Callable[[int], list[tuple[str, ...]]]] = {
    "none": lambda n: [("none",) * n],
    "unroll": lambda n: [("unroll",) * n],
    "vec": lambda n: [("none",) * (n - 1) + ("vec",)],
    "try_unroll": lambda n: [("none",) * (n - k) + ("unroll",) * k for k in range(n + 1)],
    "try_vec": lambda n: [("none",) * n, ("none",) * (n - 1) + ("vec",)],
    "try_unroll_vec": lambda n: [
        *(("none",) * (n - k) + ("unroll",) * k for k in range(n + 1)),
        *(("none",) * (n - 1 - k) + ("unroll",) * k + ("vec",) for k in range(n)),
    ],
}
"""For each policy the choices for n loops: only loops at the end of the list are unrolled, the innermost is vectorized."""


def _part_text(part: Part) -> str:
    choices = (plain_text(choice.val) if isinstance(choice, Knob) else repr(choice) for choice in part.choices)
    return f"{part.name}: {', '.join(choices)}"


def _records_text(schedule: Schedule) -> str:
    """The records as JSON; "" where they hold what JSON does not, and no database ever will."""
    try:
        return to_json(schedule.records)
    except (TypeError, ValueError):
        return ""


@dataclass(frozen=True)
class TemplateSpace:
    """The space of a template: `build` reads its choices from a Configurator; `parts` are what it defines. arguments: those of the
    template, for people; code: what else defines the space."""

    name: str
    build: Callable[[Configurator], tuple[Schedule, Sequence[Tensor]]]
    parts: tuple[Part, ...]
    arguments: str = ""
    code: str = ""

    @classmethod
    def learn(
        cls,
        name: str,
        build: Callable[[Configurator], tuple[Schedule, Sequence[Tensor]]],
        arguments: str = "",
        code: str = "",
    ) -> TemplateSpace:
        """The space, its parts found by running `build` with the first choice of every part."""
        cfg = Configurator()
        schedule, _ = build(cfg)
        return cls(name, build, tuple(cfg.parts.values()), arguments, f"{code} {_records_text(schedule)}")

    @property
    def identity(self) -> str:
        """The name and the arguments, and a fingerprint of the parts with their choices, and of the code."""
        shown = self.arguments if len(self.arguments) <= 80 else f"{self.arguments[:79]}…"
        return f"{self.name}{shown} #{fingerprint(self.arguments, *map(_part_text, self.parts), self.code)}"

    @property
    def size(self) -> int:
        """The number of configurations."""
        return prod(len(part.choices) for part in self.parts)

    def make(self, config: Config) -> Made:
        """Make the schedule of a configuration. Raises Rejected, and the errors of the primitives."""
        numbers = {name: number for name, number in config.choices if isinstance(number, int)}
        return Made(*self.build(Configurator(numbers)), config)

    def begin(self) -> Iterator[Config]:
        """None: a template does not say which of its choices is good."""
        return iter(())

    def sample(self, rng: np.random.Generator) -> Config:
        """A configuration, each part drawn evenly."""
        return Config(self.name, tuple((part.name, int(rng.integers(len(part.choices)))) for part in self.parts))

    def mutate(self, config: Config, rng: np.random.Generator) -> Config:
        """The configuration with one or two parts drawn anew, of those that have a choice."""
        open_parts = [part for part in self.parts if len(part.choices) > 1]
        if not open_parts:
            return config
        chosen = dict(config.choices)
        for _ in range(1 + int(rng.random() < 0.3)):
            part = open_parts[int(rng.integers(len(open_parts)))]
            chosen[part.name] = int(rng.integers(len(part.choices)))
        return Config(self.name, tuple(chosen.items()))

    def cross(self, one: Config, other: Config, rng: np.random.Generator) -> Config:
        """Each part from one or the other."""
        theirs = dict(other.choices)
        return Config(
            self.name, tuple((name, theirs[name] if rng.random() < 0.5 else number) for name, number in one.choices)
        )

    def fits(self, config: Config) -> bool:
        """Return whether the configuration is one of this space."""
        chosen = dict(config.choices)
        return (
            config.space == self.name
            and len(chosen) == len(self.parts)
            and all(chosen.get(part.name) in range(len(part.choices)) for part in self.parts)
        )

"""Search spaces: named parts, each with a list of choices.

A template (or a rule of the derived space) defines parts and applies what was chosen. It is run twice: once to learn the
parts, with each at its first choice, and then once for every configuration:

    cfg.define_split("tile_x", x, num_outputs=2)         # [-1, 1], [-1, 2], [-1, 4] ...
    x_outer, x_inner = cfg["tile_x"].apply(s, C, x)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import permutations
from typing import Any, cast

import numpy as np

from ...errors import user_source
from ...ir.expr import IntImm, IterVar
from ...schedule import Schedule
from ...te import Tensor
from ..errors import BadDefinition, UnknownPart

__all__ = ["Annotate", "Choice", "Config", "Configurator", "Knob", "Part", "Rejected", "Reorder", "Sketch", "Split", "split_sizes"]

MAX_CHOICES = 200_000
"""The most choices that one part may have."""


class Rejected(Exception):
    """Raised by a rule for a combination of choices that its space leaves out. Nobody sees it: another is drawn."""


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
    """What is done to each of the loops: "none", "unroll" or "vec"."""

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
    """A point of a space: for each part by name the number of its choice."""

    sketch: str
    choices: tuple[tuple[str, int], ...]

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"sketch": self.sketch, "choices": dict(self.choices)}

    @classmethod
    def of(cls, plain: Any) -> Config | None:
        """The configuration that `plain` gave; None for anything else."""
        if not isinstance(plain, dict):
            return None
        fields = cast("dict[str, Any]", plain)
        sketch, choices = fields.get("sketch"), fields.get("choices")
        if not isinstance(sketch, str) or not isinstance(choices, dict):
            return None
        pairs = cast("dict[str, Any]", choices)
        if not all(type(number) is int for number in pairs.values()):
            return None
        return cls(sketch, tuple(pairs.items()))


class _Drawn:
    """Any choice of each part, the same one each time."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.numbers = rng, dict[str, int]()

    def number(self, name: str, choices: int) -> int:
        return self.numbers.setdefault(name, int(self.rng.integers(choices)))


class Configurator:
    """What a template defines its parts on, and reads its choices from.

    chosen: the number of each part's choice; None for the first of each, _Drawn for any, while the parts are being learnt.
    """

    def __init__(self, chosen: Mapping[str, int] | _Drawn | None = None) -> None:
        self.parts: dict[str, Part] = {}
        self.chosen = chosen

    def define_split(
        self, name: str, axis: IterVar | int, policy: str = "factors", *, num_outputs: int = 2,
        filter: Callable[[Split], bool] | None = None, max_factor: int | None = None,
        candidate: Iterable[Sequence[int]] | None = None,
    ) -> None:
        """Ways to split an axis (or an extent) into `num_outputs` loops.

        policy: "factors" (every factorisation of the extent), "power2" (inner extents are powers of two, up to the
        extent), "verbose" (both), or "candidate" (those listed in `candidate`, outermost first, -1 for what is left).
        filter: keeps the choices for which it is true. max_factor: the greatest inner extent.
        Raises BadDefinition (TW0605).
        """
        if self._known(name):
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
        if not self._known(name):
            self._define(name, (Knob(value) for value in candidate))

    def share_knob(self, name: str, candidate: Iterable[Any]) -> None:
        """A knob that several rules ask for: whoever comes first defines it."""
        if name not in self.parts:
            self.define_knob(name, candidate)

    def define_reorder(
        self, name: str, axes: Sequence[IterVar], policy: str = "all", *, candidate: Iterable[Sequence[int]] | None = None,
    ) -> None:
        """Orders of loops. policy: "all" permutations, or "candidate": those listed, each as places in `axes`.

        Raises BadDefinition (TW0605).
        """
        if self._known(name):
            return
        if policy == "all":
            orders: Iterable[Sequence[int]] = permutations(range(len(axes)))
        elif policy == "candidate":
            orders = candidate or ()
        else:
            raise self._bad(name, f"policy is {policy!r}", "all, candidate")
        self._define(name, (Reorder(tuple(order)) for order in orders))

    def define_annotate(self, name: str, axes: Sequence[IterVar], policy: str = "try_unroll_vec") -> None:
        """What is done to loops. policy: "none", "unroll" (all of them), "vec" (the last), "try_unroll" (the last ones
        or none), "try_vec" (the last or not), "try_unroll_vec" (both kinds). Raises BadDefinition (TW0605)."""
        if self._known(name):
            return
        if policy not in _ANNOTATIONS:
            raise self._bad(name, f"policy is {policy!r}", ", ".join(_ANNOTATIONS))
        self._define(name, (Annotate(annotation) for annotation in dict.fromkeys(_ANNOTATIONS[policy](len(axes)))))

    def __getitem__(self, name: str) -> Any:
        """What was chosen for a part: a Split, a Knob, a Reorder or an Annotate. Raises UnknownPart (TW0606)."""
        part = self.parts.get(name)
        if part is None:
            raise UnknownPart(f"the space has no part {name!r}", called=user_source(), allowed=", ".join(self.parts),
                              fix=f"define it first: cfg.define_knob({name!r}, [...])")
        if isinstance(self.chosen, _Drawn):
            number = self.chosen.number(name, len(part.choices))
        else:
            number = 0 if self.chosen is None else self.chosen.get(name, 0)
        if not 0 <= number < len(part.choices):
            raise UnknownPart(f"part {name!r} has no choice number {number}", called=user_source(),
                              allowed=f"0 to {len(part.choices) - 1}", fix="tune again: the template has changed since")
        return part.choices[number]

    def _known(self, name: str) -> bool:
        """Whether this run has defined it; a second definition in one run would hide the first."""
        if name in self.parts:
            raise self._bad(name, "it is defined already", "one definition a name")
        return False

    def _define(self, name: str, choices: Iterable[Choice]) -> None:
        options: list[Choice] = []
        for choice in choices:
            options.append(choice)
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
            f"cannot define the part {name!r}", reason=f"the extent of {axis.name} is not known here", called=user_source(),
            fix=f"give it: cfg.define_split({name!r}, 64, ...); loops that a split made are counted by their factors",
        )
    return axis.dom.extent.value


def factors_of(extent: int) -> list[int]:
    """The factors of a number, least first."""
    return [number for number in range(1, extent + 1) if extent % number == 0]


def _powers(extent: int) -> list[int]:
    return [1 << bit for bit in range(max(extent, 1).bit_length()) if 1 << bit <= max(extent, 1)]


_SPLITTERS: dict[str, tuple[Callable[[int], list[int]], ...]] = {
    "factors": (factors_of,), "power2": (_powers,), "verbose": (factors_of, _powers),
}


def split_sizes(extent: int, loops: int, policy: str, max_factor: int) -> Iterator[tuple[int, ...]]:
    """Every way to split `extent` into `loops` by a policy, each once, with -1 for the outermost."""
    sizes: dict[tuple[int, ...], None] = {}
    for sizes_of in _SPLITTERS[policy]:
        ways: list[tuple[tuple[int, ...], int]] = [((), extent)]
        for _ in range(loops - 1):
            ways = [((size, *inner), -(-left // size))
                    for inner, left in ways for size in sizes_of(left) if size <= max_factor]
        sizes.update(dict.fromkeys((-1, *inner) for inner, _ in ways))
    return iter(sizes)


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


@dataclass(frozen=True)
class Sketch:
    """A way to build schedules: `build` reads its choices from a Configurator; `parts` are what it defines."""

    name: str
    build: Callable[[Configurator], tuple[Schedule, Sequence[Tensor]]]
    parts: tuple[Part, ...]

    @classmethod
    def learn(
        cls, name: str, build: Callable[[Configurator], tuple[Schedule, Sequence[Tensor]]], runs: int = 1,
    ) -> Sketch:
        """The sketch, its parts found by running `build` with the first choice of every part; where parts are defined
        under conditions, `runs` times more or less, with choices drawn from a fixed seed."""
        parts: dict[str, Part] = {}
        rng = np.random.default_rng(0)
        for run in range(runs):
            cfg = Configurator(_Drawn(rng) if run else None)
            with suppress(Rejected):
                build(cfg)
            parts.update(cfg.parts)
        return cls(name, build, tuple(parts.values()))

    @property
    def size(self) -> int:
        """How many configurations it has."""
        size = 1
        for part in self.parts:
            size *= len(part.choices)
        return size

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
        return Config(self.name, tuple((name, theirs[name] if rng.random() < 0.5 else number) for name, number in one.choices))

    def fits(self, config: Config) -> bool:
        """Whether the configuration is one of this sketch."""
        chosen = dict(config.choices)
        return config.sketch == self.name and len(chosen) == len(self.parts) and all(
            0 <= chosen.get(part.name, -1) < len(part.choices) for part in self.parts)

    def schedule(self, config: Config) -> tuple[Schedule, Sequence[Tensor]]:
        """The schedule that a configuration stands for, and its tensors. Raises what the primitives raise."""
        return self.build(Configurator(dict(config.choices)))

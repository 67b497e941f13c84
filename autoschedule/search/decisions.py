"""The space of schedules that the rules choose from. A point of it is what was decided, by the names of the decisions:

    {"sums of C": "2 vectors of j x i 4", "injective of D": "4 vectors at a time"}

It begins at the rules' own choice. A decision that a point does not name takes what the rules would, and so does one whose
candidates are not those that the point speaks of: a point that others wrote, of rules that have changed since, leads to a schedule
all the same, whose own point is another one. What follows from a decision is learnt by taking it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple, TypeAlias

import numpy as np

from ...codegen.target import Target
from ...ir.lazy_values import cached_property
from ...te import Tensor
from ..cost.doubts import ALIKE
from ..cost.estimate import Estimate
from ..plan import Candidate, cheapest
from ..registry import registered_rules
from ..scheduler import schedule
from .fingerprint import code_text, fingerprint
from .space import Config, Made

__all__ = ["DecisionSpace"]

_Path: TypeAlias = tuple[tuple[str, int | str], ...]


class _Menu(NamedTuple):
    """A decision: its name, its candidates and how much slower than the usual one each is said to be, and the usual one."""

    name: str
    slower: dict[str, float]
    usual: str


class _Walk:
    """A chooser that takes what a point names. steps: what there was to decide, and what was taken."""

    def __init__(self, wanted: Mapping[str, int | str]) -> None:
        self.wanted = wanted
        self.steps: list[tuple[_Menu, str]] = []
        self.names: dict[str, int] = {}

    def __call__(self, name: str, candidates: Sequence[Candidate]) -> int:
        usual = cheapest(name, candidates)
        if len(candidates) == 1:
            return usual
        # after the test for one candidate: what is no decision takes no number
        name = _number_text(name, self.names)
        told: dict[str, int] = {}
        texts = [_number_text(candidate.description, told) for candidate in candidates]
        at = texts.index(wanted) if (wanted := self.wanted.get(name)) in texts else usual
        self.steps.append(
            (_Menu(name, dict(zip(texts, _slower(candidates, usual), strict=True)), texts[usual]), texts[at])
        )
        return at


def _number_text(text: str, times: dict[str, int]) -> str:
    """The text; from its second time on with a number, so that operations of one name are told apart."""
    times[text] = times.get(text, 0) + 1
    return text if times[text] == 1 else f"{text} ({times[text]})"


def _slower(candidates: Sequence[Candidate], usual: int) -> list[float]:
    """Return the factor by which each candidate is estimated to be slower than the usual one."""
    estimates = [candidate.estimate.seconds if candidate.estimate is not None else None for candidate in candidates]
    known = estimates[usual]
    return [
        seconds / known if known and seconds is not None else ALIKE ** (at + 1)  # rules list the best first
        for at, seconds in enumerate(estimates)
    ]


class DecisionSpace:
    """The space of a function. args: its tensors, in call order, of which `outputs` are computed. exact: sums keep their order."""

    name = "rules"

    def __init__(self, args: Sequence[Tensor], outputs: Sequence[Tensor], target: Target, exact: bool = False) -> None:
        self.args, self.outputs, self.target, self.exact = tuple(args), list(outputs), target, exact
        self._known: dict[Hashable, Sequence[Estimate]] = {}
        """The estimates that its points have in common."""
        self._menus: dict[str, dict[str, float]] = {}
        """Of every decision that some point has led to, by its name."""
        self._tree: dict[_Path, _Menu | None] = {}
        """By what was taken, the decision that comes next, as far as points have led; None at the end."""

    @property
    def identity(self) -> str:
        """The name; with rules of one's own, theirs and a fingerprint of their code."""
        own = registered_rules()
        if not own:
            return self.name
        code = [code_text(method) for rule in own for method in vars(type(rule)).values() if callable(method)]
        return f"{self.name} and {', '.join(rule.name for rule in own)} #{fingerprint(*code)}"

    def make(self, config: Config) -> Made:
        """The schedule of a point, the tensors, and the point as it is decided. Raises what the primitives raise."""
        walk = _Walk(dict(config.choices))
        made = schedule(self.outputs, self.target, exact=self.exact, chooser=walk, known=self._known)
        path: _Path = ()
        for menu, taken in walk.steps:
            self._menus.setdefault(menu.name, {}).update(menu.slower)
            self._tree[path] = menu
            path = (*path, (menu.name, taken))
        self._tree[path] = None
        return Made(made, self.args, Config(self.name, path))

    def _follow_decisions(self, config: Config) -> Config:
        """Follow the decisions of a point, as far as they are known without making it."""
        path: _Path = ()
        wanted = dict(config.choices)
        while (menu := self._tree.get(path)) is not None:
            text = wanted.pop(menu.name, None)
            path = (*path, (menu.name, text if isinstance(text, str) and text in menu.slower else menu.usual))
        # what is left names decisions of other paths: without it points of one schedule are equal
        return Config(self.name, path if path in self._tree else (*path, *wanted.items()))

    @cached_property
    def usual(self) -> Config:
        """The point that the rules choose."""
        return self.make(Config(self.name, ())).config

    def begin(self) -> Iterator[Config]:
        """The rules' choice, and then what differs from it in one decision, what is said to be fastest first."""
        usual = self.usual
        yield usual
        near = [
            (slower, name, text)
            for name, taken in usual.choices
            for text, slower in self._menus[name].items()
            if text != taken
        ]
        for _, name, text in sorted(near, key=lambda one: one[0]):
            yield self._follow_decisions(_replace_choice(usual, name, text))

    def sample(self, rng: np.random.Generator) -> Config:
        """Every decision that is known drawn anew."""
        if not self._tree:
            self.make(Config(self.name, ()))
        path: _Path = ()
        while (menu := self._tree.get(path)) is not None:
            path = (*path, (menu.name, _draw_candidate(menu.slower, rng)))
        return Config(self.name, path)

    def mutate(self, config: Config, rng: np.random.Generator) -> Config:
        """The point with one or two decisions drawn anew."""
        names = [name for name, _ in config.choices if name in self._menus]
        for _ in range(1 + int(rng.random() < 0.3)) if names else ():
            name = names[int(rng.integers(len(names)))]
            config = _replace_choice(config, name, _draw_candidate(self._menus[name], rng))
        return self._follow_decisions(config)

    def cross(self, one: Config, other: Config, rng: np.random.Generator) -> Config:
        """Each decision from one or the other."""
        theirs = dict(other.choices)
        return self._follow_decisions(
            Config(
                self.name,
                tuple((name, theirs.get(name, text) if rng.random() < 0.5 else text) for name, text in one.choices),
            )
        )

    def fits(self, config: Config) -> bool:
        """Return whether the point is one of such a space; where it leads is seen when it is made."""
        return config.space == self.name and all(isinstance(text, str) for _, text in config.choices)


def _replace_choice(config: Config, name: str, text: str) -> Config:
    return Config(config.space, tuple((each, text if each == name else taken) for each, taken in config.choices))


def _draw_candidate(menu: Mapping[str, float], rng: np.random.Generator) -> str:
    """A candidate, the rather the faster it is said to be: estimates are trusted a little."""
    texts = sorted(menu, key=lambda text: menu.get(text, inf))
    weights = np.array([1 / (2 + at) for at in range(len(texts))])
    return texts[int(rng.choice(len(texts), p=weights / weights.sum()))]

"""Search: the choice of the candidates to measure next.

A search begins where its space does: at the rules' own choice and what differs from it in one decision. RandomSearch draws evenly
from then on, the baseline. EvolutionarySearch lets what was fast have children, by mutation and crossover, and measures those
that the model expects to be fastest; of each batch a share epsilon goes to those that it is least sure of, so that it learns
where it does not know. Both measure nothing twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..autoschedule.search.space import Config, Rejected
from ..base import dataclass, field, replace
from ..codegen.machine import Machine, find_machine
from ..ir import Function, deep_recursion
from ..schedule import Schedule, to_json
from ..schedule.lowering.lower import lower
from .features import features
from .model import Measurements, Model, make_model
from .outcome import SCHEDULE_FAULTS
from .task import Task

__all__ = [
    "Candidate",
    "CandidateFactory",
    "EvolutionarySearch",
    "Measured",
    "RandomSearch",
    "Search",
    "loops_text",
    "make_search",
]

POOL = 2
"""Candidates that are looked at for each one that is measured."""
EPSILON = 0.2
PARENTS = 16
_ATTEMPTS = 64
"""How often a candidate is drawn for each one wanted, before the space counts as exhausted."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A schedule as its records, the loops that it stands for, or more, as text, and their features."""

    config: Config
    records: str
    text: str
    features: npt.NDArray[np.float32]

    @property
    def is_parallel(self) -> bool:
        """Return whether threads share any of its loops."""
        return " in parallel(" in self.text


@dataclass(frozen=True, slots=True)
class Measured:
    """A candidate and its time in seconds, None where it failed."""

    candidate: Candidate
    seconds: float | None


def loops_text(schedule: Schedule, function: Function) -> str:
    """Return what most of those that measure are told of a candidate: its loops."""
    del schedule
    return str(function)


@dataclass
class CandidateFactory:
    """Factory of candidates from configurations, each once. text: what those that measure are told of a schedule and its loops. dropped:
    what was no candidate, by class, with the first message."""

    task: Task
    text: Callable[[Schedule, Function], str] = loops_text
    made: dict[Config, Candidate | None] = field(default_factory=dict[Config, "Candidate | None"])
    dropped: Counter[str] = field(default_factory=Counter[str])
    first_message: dict[str, str] = field(default_factory=dict[str, str])

    def make(self, config: Config) -> Candidate | None:
        """The candidate; None where the configuration is left out of its space, or does not hold together."""
        if config not in self.made:
            self.made[config] = self._make(config)
        return self.made[config]

    @property
    def machine(self) -> Machine:
        """Return what candidates run on."""
        return find_machine(self.task.target)

    def _make(self, config: Config) -> Candidate | None:
        try:
            schedule, args, decided = self.task.space.make(config)
            if decided != config and decided in self.made:
                return self.made[decided]
            if self.task.exact and not schedule.is_exact:
                return None
            with deep_recursion():
                function = lower(schedule, list(args), "main")
                row, text = features(function, self.machine), self.text(schedule, function)
        except Rejected:
            return None
        except SCHEDULE_FAULTS as error:
            kind = type(error).__name__
            self.dropped[kind] += 1
            self.first_message.setdefault(kind, str(error).partition("\n")[0][:300])
            return None
        kept = replace(decided, features=tuple(round(float(number), 3) for number in row))
        self.made[decided] = candidate = Candidate(kept, to_json(schedule.records), text, row)
        return candidate


class Search(Protocol):
    """A strategy. name: as the user gives it."""

    name: str

    def prepare(self) -> None:
        """Called where there is time, before the first candidates."""

    def propose(self, count: int, measured: list[Measured], seen: set[str]) -> list[Candidate]:
        """Up to `count` candidates whose records are not in `seen`; fewer where there are no more."""
        ...


class RandomSearch:
    """Evenly drawn candidates."""

    name = "random"

    def __init__(self, task: Task, factory: CandidateFactory, rng: np.random.Generator) -> None:
        self.space, self.factory, self.rng = task.space, factory, rng

    def prepare(self) -> None:
        """There is nothing to prepare."""

    def propose(self, count: int, measured: list[Measured], seen: set[str]) -> list[Candidate]:
        return _distinct((self.draw() for _ in range(_ATTEMPTS * count)), count, seen)

    def draw(self) -> Candidate | None:
        """Any candidate."""
        return self.factory.make(self.space.sample(self.rng))


class EvolutionarySearch:
    """Mutation and crossover of what was fast, scored by a model that is trained again for each batch. others: what was measured
    of other functions, which the model learns from too."""

    name = "evolution"

    def __init__(
        self,
        task: Task,
        factory: CandidateFactory,
        rng: np.random.Generator,
        model: Model | None = None,
        epsilon: float = EPSILON,
        others: Sequence[Measurements] = (),
    ) -> None:
        self.space, self.factory, self.rng, self.epsilon, self.others = task.space, factory, rng, epsilon, others
        self.model = model if model is not None else make_model()
        self.random = RandomSearch(task, factory, rng)

    def prepare(self) -> None:
        """The model's."""
        self.model.prepare()

    def propose(self, count: int, measured: list[Measured], seen: set[str]) -> list[Candidate]:
        if not measured and not self.others:
            first = _distinct(map(self.factory.make, self.space.begin()), count, seen)
            return first + self.random.propose(
                count - len(first), measured, seen | {candidate.records for candidate in first}
            )
        self._train(measured)
        pool = _distinct(self._pool(measured, count), POOL * count, seen)
        return self._choose_best(pool, count)

    def _train(self, measured: list[Measured]) -> None:
        own = Measurements.of((trial.candidate.features, trial.seconds) for trial in measured)
        self.model.fit([*self.others, *([own] if own is not None else [])])

    def _pool(self, measured: list[Measured], count: int) -> Iterator[Candidate | None]:
        """Return what may be worth measuring: children of what was fast, what the space begins with, and a few that are drawn."""
        fastest = sorted(
            (trial for trial in measured if trial.seconds is not None), key=lambda trial: trial.seconds or 0.0
        )
        parents = [trial.candidate.config for trial in fastest[:PARENTS]]
        beginning = self.space.begin()
        for _ in range(_ATTEMPTS * count):
            kind = self.rng.random()
            if kind < 0.25 and (config := next(beginning, None)) is not None:
                yield self.factory.make(config)
            elif kind < 0.85 and parents:
                yield self._child(parents)
            else:
                yield self.random.draw()

    def _child(self, parents: Sequence[Config]) -> Candidate | None:
        """A mutation of one parent, or a cross of two. Better parents (which stand first) come oftener."""
        parent, other = (parents[int(len(parents) * self.rng.random() ** 2)] for _ in range(2))
        if parent != other and self.rng.random() < 0.3:
            return self.factory.make(self.space.cross(parent, other, self.rng))
        return self.factory.make(self.space.mutate(parent, self.rng))

    def _choose_best(self, pool: Sequence[Candidate], count: int) -> list[Candidate]:
        """Choose those with the best scores, and some of those whose scores are least sure."""
        if len(pool) <= count:
            return list(pool)
        scores, doubts = self.model.score(np.stack([candidate.features for candidate in pool]))
        unsure = int(self.rng.binomial(count, self.epsilon))
        ranked = sorted(range(len(pool)), key=lambda at: -scores[at])
        rest = sorted(ranked[count - unsure :], key=lambda at: -doubts[at])
        return [pool[at] for at in (*ranked[: count - unsure], *rest[:unsure])]


def _distinct(drawn: Iterable[Candidate | None], count: int, seen: set[str]) -> list[Candidate]:
    """The first `count` that are not in `seen`, each once."""
    found: dict[str, Candidate] = {}
    for candidate in drawn if count else ():
        if candidate is not None and candidate.records not in seen:
            found.setdefault(candidate.records, candidate)
            if len(found) == count:
                break
    return list(found.values())


def make_search(
    name: str, task: Task, factory: CandidateFactory, seed: int, others: Sequence[Measurements] = ()
) -> Search:
    """The strategy of a name, one of STRATEGIES."""
    rng = np.random.default_rng(seed)
    return (
        RandomSearch(task, factory, rng) if name == "random" else EvolutionarySearch(task, factory, rng, others=others)
    )


STRATEGIES = ("evolution", "random")

"""Which candidates to measure next.

RandomSearch draws evenly, the baseline. EvolutionarySearch keeps a population that begins with the best measured so far
and grows by mutation and crossover, scored by the model; of each batch a share epsilon is drawn at random all the same,
so that the model keeps learning about what it does not believe in. Both measure nothing twice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..autoschedule.search.space import Config, Rejected
from ..errors import InternalError, TilewrightError
from ..ir.visit import deep_recursion
from ..schedule import to_json
from ..schedule.lowering.lower import lower
from .features import features
from .model import Model, make_model
from .task import Task

__all__ = ["Candidate", "CandidateFactory", "EvolutionarySearch", "Measured", "RandomSearch", "Search", "make_search"]

POPULATION = 64
GENERATIONS = 3
EPSILON = 0.15
PARENTS = 24
_ATTEMPTS = 64
"""How often a candidate is drawn for each one wanted, before the space counts as exhausted."""

_BUILD_FAULTS = (TilewrightError, InternalError, AssertionError, ArithmeticError, LookupError, TypeError, ValueError,
                 AttributeError)
"""What a schedule that does not hold together may raise, ours or a template's."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A schedule as its records, the loops that it stands for as text, and their features."""

    config: Config
    records: str
    text: str
    features: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Measured:
    """A candidate and its time in seconds, None where it failed."""

    candidate: Candidate
    seconds: float | None


@dataclass
class CandidateFactory:
    """Makes candidates of configurations, each once. dropped: what was no candidate, by class, with the first message."""

    task: Task
    made: dict[Config, Candidate | None] = field(default_factory=dict[Config, "Candidate | None"])
    dropped: Counter[str] = field(default_factory=Counter[str])
    first_message: dict[str, str] = field(default_factory=dict[str, str])

    def make(self, config: Config) -> Candidate | None:
        """The candidate; None where the configuration is left out of its space, or does not hold together."""
        if config not in self.made:
            self.made[config] = self._make(config)
        return self.made[config]

    def _make(self, config: Config) -> Candidate | None:
        sketch = next(sketch for sketch in self.task.sketches if sketch.name == config.sketch)
        try:
            schedule, args = sketch.schedule(config)
            if self.task.exact and not schedule.is_exact:
                return None
            with deep_recursion():
                function = lower(schedule, list(args), "main")
        except Rejected:
            return None
        except _BUILD_FAULTS as error:
            kind = type(error).__name__
            self.dropped[kind] += 1
            self.first_message.setdefault(kind, str(error).partition("\n")[0][:300])
            return None
        return Candidate(config, to_json(schedule.records), str(function), features(function))


class Search(Protocol):
    """A strategy. name: as the user gives it."""

    name: str

    def propose(self, count: int, measured: list[Measured], seen: set[str]) -> list[Candidate]:
        """Up to `count` candidates whose records are not in `seen`; fewer where there are no more."""
        ...


class RandomSearch:
    """Evenly drawn candidates."""

    name = "random"

    def __init__(self, task: Task, factory: CandidateFactory, rng: np.random.Generator) -> None:
        self.task, self.factory, self.rng = task, factory, rng

    def propose(self, count: int, measured: list[Measured], seen: set[str]) -> list[Candidate]:
        proposed: dict[str, Candidate] = {}
        for _ in range(_ATTEMPTS * count):
            if len(proposed) == count:
                break
            candidate = self.draw()
            if candidate is not None and candidate.records not in seen:
                proposed.setdefault(candidate.records, candidate)
        return list(proposed.values())

    def draw(self) -> Candidate | None:
        """Any candidate, each sketch as likely as the others."""
        sketches = self.task.sketches
        return self.factory.make(sketches[int(self.rng.integers(len(sketches)))].sample(self.rng))


class EvolutionarySearch:
    """Mutation and crossover of what was fast, scored by a model that is trained again for each batch."""

    name = "evolution"

    def __init__(
        self, task: Task, factory: CandidateFactory, rng: np.random.Generator, model: Model | None = None,
        epsilon: float = EPSILON,
    ) -> None:
        self.task, self.factory, self.rng, self.epsilon = task, factory, rng, epsilon
        self.model = model if model is not None else make_model()
        self.random = RandomSearch(task, factory, rng)

    def propose(self, count: int, measured: list[Measured], seen: set[str]) -> list[Candidate]:
        if not any(trial.seconds is not None for trial in measured):
            return self.random.propose(count, measured, seen)
        self._train(measured)
        greedy = count - int(self.rng.binomial(count, self.epsilon))
        chosen = self._evolved(greedy, measured, seen)
        rest = self.random.propose(count - len(chosen), measured, seen | {candidate.records for candidate in chosen})
        return chosen + rest

    def _train(self, measured: list[Measured]) -> None:
        rows = np.stack([trial.candidate.features for trial in measured])
        self.model.fit(rows, np.array([np.inf if trial.seconds is None else trial.seconds for trial in measured]))

    def _evolved(self, count: int, measured: list[Measured], seen: set[str]) -> list[Candidate]:
        """The best new candidates of some generations, by their scores."""
        fastest = sorted((trial for trial in measured if trial.seconds is not None), key=lambda trial: trial.seconds or 0.0)
        parents = [trial.candidate for trial in fastest[:PARENTS]]
        pool: dict[str, tuple[float, Candidate]] = {}
        fresh = [candidate for candidate in (self.random.draw() for _ in range(POPULATION // 3)) if candidate is not None]
        for _ in range(GENERATIONS):
            while len(fresh) < POPULATION:
                child = self._child(parents)
                if child is not None:
                    fresh.append(child)
                elif self.rng.random() < 0.02:   # where most children are no candidates, smaller generations do
                    break
            new = list({candidate.records: candidate for candidate in fresh if candidate.records not in pool}.values())
            if new:
                scores = self.model.score(np.stack([candidate.features for candidate in new]))
                pool.update((candidate.records, (float(score), candidate)) for score, candidate in zip(scores, new, strict=True))
            ranked = sorted(pool.values(), key=lambda pair: -pair[0])
            parents = [candidate for _, candidate in ranked[:PARENTS]] + [trial.candidate for trial in fastest[: PARENTS // 3]]
            fresh = []
        ranked = sorted(pool.values(), key=lambda pair: -pair[0])
        return [candidate for _, candidate in ranked if candidate.records not in seen][:count]

    def _child(self, parents: list[Candidate]) -> Candidate | None:
        """A mutation of one parent, or a cross of two of one sketch. Better parents (which stand first) come oftener."""
        place = int(len(parents) * self.rng.random() ** 1.5)
        parent = parents[place].config
        sketch = next(sketch for sketch in self.task.sketches if sketch.name == parent.sketch)
        mates = [other.config for other in parents if other.config.sketch == parent.sketch and other.config != parent]
        if mates and self.rng.random() < 0.3:
            return self.factory.make(sketch.cross(parent, mates[int(self.rng.integers(len(mates)))], self.rng))
        return self.factory.make(sketch.mutate(parent, self.rng))


def make_search(name: str, task: Task, factory: CandidateFactory, seed: int) -> Search | None:
    """The strategy of a name; None for an unknown one."""
    rng = np.random.default_rng(seed)
    return {"evolution": EvolutionarySearch, "random": RandomSearch}[name](task, factory, rng) if name in STRATEGIES else None


STRATEGIES = ("evolution", "random")

"""tvm.autotvm.tuner: loops of choosing and measuring, over autotune's searches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ....autotune.search import CandidateFactory, EvolutionarySearch, Measured, RandomSearch, Search
from ....base.errors import user_source, warn_user
from .measure import MeasureInput, MeasureResult, Measuring, limits_of
from .measure import measure_option as usual_option
from .task.space import ConfigEntity
from .task.task import Task

__all__ = ["GATuner", "GridSearchTuner", "IndexBaseTuner", "RandomTuner", "Tuner", "XGBTuner"]

logger = logging.getLogger("autotvm")
_AHEAD = 16
"""Candidates that a search chooses at once."""


class Tuner:
    """Chooses configurations of a task's space and has them measured. Other ways to choose define has_next, next_batch
    and, to learn, update.

    best_config: the fastest so far, or None. best_flops: its operations a second.
    """

    def __init__(self, task: Task, **_: object) -> None:
        self.task = task
        self.best_config: ConfigEntity | None = None
        self.best_flops = 0.0
        self.best_measure_pair: tuple[MeasureInput, MeasureResult] | None = None
        self.best_iter = 0
        self.n_trial = self.ttl = 0
        self.early_stopping: int | None = None
        self._measuring: Measuring | None = None
        self._seconds = float("inf")
        self._done = 0

    def has_next(self) -> bool:
        """Return whether there is anything left to measure."""
        return True

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Return at most `batch_size` configurations to measure now."""
        raise TypeError(f"{type(self).__name__} does not say what to measure: it has to define next_batch")

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learns from what was measured."""

    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 0) -> None:
        """Learns from what a log holds, of this task."""

    def reset(self) -> None:
        """Forgets the best."""
        self.best_config, self.best_measure_pair, self.best_flops, self._seconds = None, None, 0.0, float("inf")

    def tune(
        self,
        n_trial: int,
        measure_option: dict[str, Any] | None = None,
        early_stopping: int | None = None,
        callbacks: Sequence[Callable[..., None]] = (),
        si_prefix: str = "G",
    ) -> None:
        """Measures `n_trial` configurations, or as many as there are. early_stopping: ends after so many without a better
        one. callbacks: called after each batch with (tuner, inputs, results).

        Every candidate is compared with the unscheduled program before its time counts. Raises TuningError.
        """
        del si_prefix
        option = measure_option or usual_option()
        self.n_trial, self.early_stopping = n_trial, early_stopping
        n_parallel = limits_of(option).workers
        done = self._done = 0
        first = ""
        with Measuring(self.task, option) as measuring:
            self._measuring = measuring
            while done < n_trial and self.has_next():
                configs = self.next_batch(min(n_parallel, n_trial - done))
                if not configs:
                    break
                inputs = [MeasureInput(self.task.target, self.task, config) for config in configs]
                results = measuring(inputs)
                first = first or next((str(result.costs[0]) for result in results if result.error_no), "")
                for at, (inp, result) in enumerate(zip(inputs, results, strict=True), done):
                    self._note(at, inp, result)
                done = self._done = done + len(results)
                self.ttl = min((early_stopping or n_trial) + self.best_iter, n_trial) - done
                self.update(inputs, results)
                for callback in callbacks:
                    callback(self, inputs, results)
                if early_stopping is not None and done >= self.best_iter + early_stopping:
                    logger.debug("Early stopped. Best iter: %d.", self.best_iter)
                    break
            first = first or next(iter(measuring.factory.first_message.values()), "")
        self._measuring = None
        if self.best_config is None:
            warn_user(
                user_source(),
                f"no configuration of {self.task.name} could be built, run and verified: {first or 'none was tried'}",
            )

    def _note(self, at: int, inp: MeasureInput, result: MeasureResult) -> None:
        """Keep the fastest, and tell the logger."""
        if result.seconds < self._seconds:
            self.best_config, self.best_measure_pair, self.best_iter = inp.config, (inp, result), at
            self._seconds, self.best_flops = result.seconds, inp.task.flop / result.seconds
        logger.debug(
            "No: %d\tGFLOPS: %.2f/%.2f\tresult: %s\t%s",
            at + 1,
            inp.task.flop / result.seconds / 1e9,
            self.best_flops / 1e9,
            result,
            inp.config,
        )


class IndexBaseTuner(Tuner):
    """Goes through the indices of the space. range_idx: the first and the last of them."""

    def __init__(self, task: Task, range_idx: tuple[int, int] | None = None) -> None:
        super().__init__(task)
        self._next, last = range_idx or (0, task.config_space.range_length - 1)
        self._end = min(last, task.config_space.range_length - 1) + 1

    def has_next(self) -> bool:
        """Return whether there is anything left to measure."""
        return self._next < self._end

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Return at most `batch_size` configurations, in the order of their indices."""
        configs: list[ConfigEntity] = []
        while self._next < self._end and len(configs) < batch_size:
            if self.task.config_space.is_index_valid(self._next):
                configs.append(self.task.config_space.get(self._next))
            self._next += 1
        return configs


class GridSearchTuner(IndexBaseTuner):
    """Every configuration, in the order of the indices."""


class _SearchTuner(Tuner):
    """Ask one of autotune's searches."""

    search_type: type[RandomSearch] | type[EvolutionarySearch] = RandomSearch

    def __init__(self, task: Task, *_: object, **__: object) -> None:
        super().__init__(task)
        self._ahead: list[ConfigEntity] = []
        self._search: Search | None = None
        self._search_of: CandidateFactory | None = None
        self._measured: list[Measured] = []
        self._seen: set[str] = set()
        self._known: list[tuple[MeasureInput, MeasureResult]] = []
        self._visited: set[int] = set()

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Return at most `batch_size` configurations that were not measured before."""
        assert self._measuring is not None
        if not self._ahead:
            factory = self._measuring.factory
            if self._search is None or self._search_of is not factory:
                rng = np.random.default_rng(len(self._visited))
                self._search, self._search_of = self.search_type(factory.task, factory, rng), factory
                self._learn()
            wanted = min(_AHEAD, max(batch_size, self.n_trial - self._done))
            chosen = self._search.propose(wanted, self._measured, self._seen)
            self._seen.update(candidate.records for candidate in chosen)
            self._ahead = [self.task.config_of(candidate.config.choices) for candidate in chosen]
        batch, self._ahead = self._ahead[:batch_size], self._ahead[batch_size:]
        return batch

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learns from what was measured."""
        self._known += zip(inputs, results, strict=True)
        self._visited.update(measure_input.config.index for measure_input in inputs)
        self._learn()

    def _learn(self) -> None:
        """Return the known results in the form of the search."""
        assert self._measuring is not None
        for inp, result in self._known:
            candidate = self._measuring.candidate(inp.config)
            if candidate is not None:
                self._measured.append(Measured(candidate, result.seconds if result.error_no == 0 else None))
        self._known = []

    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 0) -> None:
        """Learns from what a log holds, of this task: at least `min_seed_records` results, or it is left."""
        pairs = [pair for pair in data_set if pair[0].task.workload == self.task.workload]
        if len(pairs) >= min_seed_records:
            self._known += pairs


class RandomTuner(_SearchTuner):
    """Configurations drawn evenly, none twice."""


class XGBTuner(_SearchTuner):
    """Configurations that a cost model, trained on what was measured, expects to be fast: autotune's search. plan_size,
    feature_type, loss_type and the like chose among TVM's models and are taken, without effect."""

    search_type = EvolutionarySearch


class GATuner(_SearchTuner):
    """Mutations and crosses of the fastest configurations: autotune's search too, which also asks its cost model.
    pop_size, elite_num and mutation_prob are taken, without effect."""

    search_type = EvolutionarySearch

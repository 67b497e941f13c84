"""tvm.autotvm.measure: options of measuring, and what measuring gives, over autotune's worker processes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from ....autoschedule.search.space import Config
from ....autotune.errors import BadTuningOption
from ....autotune.measure import Measurer
from ....autotune.outcome import Limits, Outcome
from ....autotune.search import Candidate, CandidateFactory
from ....base import dataclass, user_source
from ..target import Target
from .task.space import ConfigEntity
from .task.task import Task

__all__ = [
    "LocalBuilder",
    "LocalRunner",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "Measuring",
    "RPCRunner",
    "create_measure_batch",
    "measure_option",
]


class MeasureErrorNo:
    """Outcomes of a measurement."""

    NO_ERROR, INSTANTIATION_ERROR, COMPILE_HOST, COMPILE_DEVICE, RUNTIME_DEVICE = 0, 1, 2, 3, 4
    WRONG_ANSWER, BUILD_TIMEOUT, RUN_TIMEOUT, UNKNOWN_ERROR = 5, 6, 7, 8


class MeasureInput(NamedTuple):
    """A candidate to measure."""

    target: Target
    task: Task
    config: ConfigEntity


class MeasureResult(NamedTuple):
    """Result of measuring a candidate. costs: seconds of a call, or of a failure its message; all_cost: seconds that it all took."""

    costs: tuple[Any, ...]
    error_no: int
    all_cost: float
    timestamp: float

    @property
    def seconds(self) -> float:
        """Seconds of a call; infinite for a failure."""
        return sum(self.costs) / len(self.costs) if self.error_no == 0 else float("inf")


@dataclass(frozen=True)
class LocalBuilder:
    """Candidates are built on this machine: `n_parallel` at the same time, each within `timeout` seconds. build_func:
    "default"; other ways to build are not taken."""

    timeout: float = 10.0
    n_parallel: int | None = None
    build_func: str = "default"
    build_kwargs: object = None
    do_fork: bool = False
    runtime: object = None

    def __post_init__(self) -> None:
        if self.build_func != "default":
            raise BadTuningOption(
                f"cannot build by {self.build_func!r}",
                called=user_source(),
                allowed='"default"',
                fix="leave build_func out: candidates are built for the task's target",
            )


@dataclass(frozen=True)
class LocalRunner:
    """Candidates run on this machine, one at a time, in processes of their own, within `timeout` seconds.

    A candidate is timed for `repeat` times `min_repeat_ms` (and at least 50 ms) in groups of calls; the lower quartile
    counts, so that `number` says nothing. Each is compared with the unscheduled program, whatever check_correctness says.
    """

    timeout: float = 10.0
    number: int = 4
    repeat: int = 3
    min_repeat_ms: float = 0
    cooldown_interval: float = 0.1
    enable_cpu_cache_flush: bool = False
    check_correctness: bool = True
    module_loader: object = None


def RPCRunner(*_: object, **__: object) -> LocalRunner:
    """Measuring on another machine is not here."""
    raise BadTuningOption(
        "cannot measure on another machine",
        called=user_source(),
        allowed="autotvm.LocalRunner(...)",
        fix='tilewright.autotune.tune(args, target=..., runner="ssh://board"), or run the program there',
    )


def measure_option(builder: Any = "local", runner: Any = "local") -> dict[str, Any]:
    """Options for measuring candidates. builder: "local" or a LocalBuilder. runner: "local" or a LocalRunner.

    Raises BadTuningOption.
    """
    option = {
        "builder": LocalBuilder() if builder == "local" else builder,
        "runner": LocalRunner() if runner == "local" else runner,
    }
    for (name, part), kind in zip(option.items(), (LocalBuilder, LocalRunner), strict=True):
        if not isinstance(part, kind):
            raise BadTuningOption(
                f"{part!r} is not a {name}", called=user_source(), allowed=f'"local", or autotvm.{kind.__name__}(...)'
            )
    return option


def limits_of(option: dict[str, Any]) -> Limits:
    """The limits that options stand for."""
    builder, runner = option["builder"], option["runner"]
    usual = Limits()
    return Limits(
        timeout=max(builder.timeout, runner.timeout),
        workers=builder.n_parallel or usual.workers,
        budget=max(usual.budget, runner.repeat * runner.min_repeat_ms / 1000),
    )


class Measuring:
    """The workers of one task, while it is tuned."""

    def __init__(self, task: Task, option: dict[str, Any]) -> None:
        self.task = task
        self.factory = CandidateFactory(task.house())
        self.limits = limits_of(option)
        self._measurer: Measurer | None = None
        self.best: float | None = None

    def __enter__(self) -> Measuring:
        self._measurer = Measurer(self.factory.task, self.limits)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._measurer is not None
        self._measurer.close()

    def candidate(self, config: ConfigEntity) -> Candidate | None:
        """The candidate of a configuration; None where it cannot be scheduled, or is none of the space."""
        space = self.task.config_space
        index = space.find(config)
        if index is None:
            return None
        numbers = space.knobs_of(index)
        choices = tuple((part.name, number) for part, number in zip(space.parts, numbers, strict=True))
        return self.factory.make(Config(self.factory.task.space.name, choices))

    def __call__(self, inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        """The results of some configurations."""
        assert self._measurer is not None
        begin = time.time()
        candidates = [self.candidate(measure_input.config) for measure_input in inputs]
        texts = [candidate.text for candidate in candidates if candidate is not None]
        outcomes = iter(self._measurer.measure(texts, self.best))
        results = [
            self._refusal(measure_input.config) if candidate is None else _result(next(outcomes), begin)
            for measure_input, candidate in zip(inputs, candidates, strict=True)
        ]
        self.best = min((result.seconds for result in results if result.error_no == 0), default=self.best)
        return results

    def _refusal(self, config: ConfigEntity) -> MeasureResult:
        messages = config.errors or list(self.factory.first_message.values())[-1:] or ["it is left out of the space"]
        return MeasureResult((messages[0],), MeasureErrorNo.INSTANTIATION_ERROR, 0.0, time.time())


_ERRORS = {
    "wrong output": MeasureErrorNo.WRONG_ANSWER,
    "refused": MeasureErrorNo.COMPILE_HOST,
    "fault": MeasureErrorNo.COMPILE_HOST,
}


def _result(outcome: Outcome, begin: float) -> MeasureResult:
    now = time.time()
    if outcome.seconds is not None:
        return MeasureResult((outcome.seconds,), MeasureErrorNo.NO_ERROR, now - begin, now)
    assert outcome.failure is not None
    kind, message = outcome.failure.kind, outcome.failure.message
    late = MeasureErrorNo.BUILD_TIMEOUT if message.startswith("building") else MeasureErrorNo.RUN_TIMEOUT
    number = late if kind == "timeout" else _ERRORS.get(kind, MeasureErrorNo.RUNTIME_DEVICE)
    return MeasureResult((f"{kind}: {message}",), number, now - begin, now)


def create_measure_batch(task: Task, option: dict[str, Any]) -> Any:
    """A function from inputs to results, for programs with a tuner of their own; its workers end with each call."""

    def measure_batch(inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        with Measuring(task, option) as measuring:
            return measuring(inputs)

    measure_batch.n_parallel = limits_of(option).workers  # pyright: ignore[reportFunctionMemberAccess]
    return measure_batch

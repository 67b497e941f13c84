"""tvm.auto_scheduler.search_task: tasks that autotune tunes; their spaces are derived from the tensors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from typing import Any

from ....autotune.errors import BadTuningOption, NothingToTune
from ....autotune.record_lookup import best_schedule
from ....autotune.records import Database
from ....autotune.task import Task
from ....autotune.tuner import tune
from ....base import dataclass, field, replace, user_source
from ....base.arguments import is_a
from ....driver import build as driver
from ....schedule import Schedule
from ....te import Tensor
from ..autotvm.measure import LocalRunner as _LocalRunner
from ..autotvm.measure import limits_of, measure_option
from ..target import Target
from .dag import ComputeDAG
from .measure_record import EarlyStop, Recording, RecordToFile, read_log
from .search_policy import PreloadMeasuredStates, SketchPolicy
from .workload_registry import make_workload_key, workload_key_to_tensors

__all__ = [
    "HardwareParams",
    "LayoutRewriteOption",
    "LocalRunner",
    "SearchTask",
    "TaskScheduler",
    "TuningOptions",
    "auto_schedule",
    "create_task",
]


@dataclass(frozen=True)
class LocalRunner(_LocalRunner):
    """Runner like autotvm's, with the defaults that TVM has here."""

    number: int = 3
    repeat: int = 1
    min_repeat_ms: float = 100
    device: int = 0


@dataclass(frozen=True)
class HardwareParams:
    """Properties of a machine, as TVM's search was told them. Taken, without effect: candidates are measured."""

    num_cores: int | None = None
    vector_unit_bytes: int | None = None
    cache_line_bytes: int | None = None
    max_shared_memory_per_block: int | None = None
    max_local_memory_per_block: int | None = None
    max_threads_per_block: int | None = None
    max_vthread_extent: int | None = None
    warp_size: int | None = None
    target: Any = None
    target_host: Any = None


class LayoutRewriteOption:
    """Layouts of constants in TVM's search. Taken, without effect: weights are packed by the schedules here."""

    NO_REWRITE, INSERT_TRANSFORM_STAGE, REWRITE_FOR_PRE_TRANSFORMED = 0, 1, 2

    @staticmethod
    def get_target_default(target: Any, in_relay_integration: bool = False) -> int:
        """None."""
        del target, in_relay_integration
        return LayoutRewriteOption.NO_REWRITE


@dataclass(frozen=True)
class TuningOptions:
    """Options of a tuning run.

    num_measure_trials: how many candidates are measured. early_stopping: ends after so many without a better one.
    verbose: 0 shows no progress. builder, runner: "local", or a LocalBuilder and a LocalRunner. measure_callbacks: of
    RecordToFile(...). num_measures_per_round is taken, without effect.

    Raises BadTuningOption.
    """

    num_measure_trials: int = 0
    early_stopping: int | None = None
    num_measures_per_round: int = 64
    verbose: int = 1
    builder: Any = "local"
    runner: Any = "local"
    measure_callbacks: Sequence[RecordToFile] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        for callback in self.measure_callbacks or ():
            if not is_a(callback, RecordToFile):
                raise BadTuningOption(
                    f"{callback!r} cannot be called with what was measured",
                    called=user_source(),
                    allowed="auto_scheduler.RecordToFile(...)",
                    fix="autotune.tune(args).history holds every trial",
                )

    @property
    def limits(self) -> Any:
        """Return the limits as autotune takes them."""
        return limits_of(measure_option(self.builder, LocalRunner() if self.runner == "local" else self.runner))


class SearchTask:
    """A workload on a target: func with args, or a workload_key, or a compute_dag (or the tensors themselves).

    hardware_params, layout_rewrite_option and desc are taken, without effect: candidates are measured, and keep the layouts
    of their arguments. task_inputs: arrays to measure on, by the names of the placeholders. Raises NothingToTune, BadTemplate.
    """

    def __init__(
        self,
        func: str | Callable[..., Any] | None = None,
        args: Sequence[Any] | None = None,
        compute_dag: Any = None,
        workload_key: str | None = None,
        target: Any = None,
        target_host: Any = None,
        hardware_params: object = None,
        layout_rewrite_option: object = None,
        task_inputs: Mapping[str, Any] | Sequence[str] | None = None,
        desc: str = "",
        **_: object,
    ) -> None:
        del hardware_params, layout_rewrite_option
        if func is None and workload_key is None and compute_dag is None:
            raise NothingToTune(
                "there is nothing to tune", called=user_source(), fix="SearchTask(func=..., args=(...), target=...)"
            )
        if func is not None:
            workload_key = make_workload_key(func, args or ())
        if compute_dag is None:
            assert workload_key is not None
            compute_dag = ComputeDAG(workload_key_to_tensors(workload_key))
        self.compute_dag = compute_dag if isinstance(compute_dag, ComputeDAG) else ComputeDAG(compute_dag)
        self.workload_key = workload_key or json.dumps([str(self.compute_dag)])
        self.target = target if isinstance(target, Target) else Target(target or Target.current() or "llvm")
        self.target_host = Target(target_host) if target_host is not None else None
        self.task_inputs = dict(task_inputs) if isinstance(task_inputs, Mapping) else {}
        self.desc = desc
        self._house: Task | None = None

    @property
    def house(self) -> Task:
        """The task as autotune takes it. Raises SymbolicShape, TargetCannotBeTuned."""
        if self._house is None:
            self._house = Task.of(self.compute_dag.tensors, self.target.ours)
        return self._house

    def tune(
        self,
        tuning_options: TuningOptions,
        search_policy: SketchPolicy | None = None,
        adaptive_training: bool = False,
    ) -> None:
        """Measures candidates and writes each to the logs of tuning_options.measure_callbacks. search_policy:
        SketchPolicy(task, ...), for its cost model and the trials that are known. Raises TuningError, NoRecord."""
        del adaptive_training
        policy = search_policy if search_policy is not None else SketchPolicy(self)
        if tuning_options.num_measure_trials < 1:
            raise BadTuningOption(
                f"cannot tune for {tuning_options.num_measure_trials} trials",
                called=user_source(),
                allowed="a positive number",
                fix="TuningOptions(num_measure_trials=64, ...)",
            )

        def write(line: str) -> None:
            for callback in tuning_options.measure_callbacks or ():
                callback.write(line)

        with Recording(write, tuning_options.early_stopping) as records:
            for file in policy.files:
                read_log(file, records)
            trials = len(records.trials(self.house.key)) + tuning_options.num_measure_trials
            with suppress(EarlyStop):
                tune(
                    self.house,
                    trials=trials,
                    database=records,
                    search=policy.cost_model.search,
                    seed=policy.seed,
                    inputs=self._inputs(),
                    limits=tuning_options.limits,
                    progress=None if tuning_options.verbose else False,
                )

    def _inputs(self) -> list[Any] | None:
        """The arrays that were given, in the order of the placeholders."""
        if not self.task_inputs:
            return None
        given = {name: value.numpy() if hasattr(value, "numpy") else value for name, value in self.task_inputs.items()}
        names = [tensor.name for tensor in self.house.args if tensor not in self.house.outputs]
        if sorted(given) != sorted(names):
            raise BadTuningOption(
                f"the arrays of task_inputs are {', '.join(given)}",
                called=user_source(),
                allowed=f"one for each of {', '.join(names)}",
            )
        return [given[name] for name in names]

    def apply_best(
        self,
        log_file: str | PathLike[str],
        include_blocklist: bool = False,
        layout_rewrite_option: object = None,
    ) -> tuple[Schedule, list[Tensor]]:
        """The fastest schedule of a log, and the tensors. Raises NoRecord where it holds none for this workload, target and
        machine, RecordDoesNotFit."""
        del include_blocklist, layout_rewrite_option
        with Database(":memory:") as records:
            read_log(log_file, records)
            return best_schedule(self.house, records)[0], list(self.compute_dag.tensors)

    def print_best(self, log_file: str | PathLike[str], print_mode: str = "schedule") -> str:
        """The fastest schedule of a log: as Python ("schedule"), or the code generated for it ("code"). Raises as
        apply_best."""
        sch, args = self.apply_best(log_file)
        if print_mode == "schedule":
            return sch.as_python()
        if print_mode != "code":
            raise BadTuningOption(f"cannot print as {print_mode!r}", called=user_source(), allowed='"schedule", "code"')
        return driver.build(sch, args, self.target.ours).source("llvm")


def create_task(
    func: str | Callable[..., Any],
    args: Sequence[Any],
    target: Any,
    target_host: Any = None,
    **_: object,
) -> SearchTask:
    """The task of a function with arguments, as TVM 0.7 spelled it."""
    return SearchTask(func, args, target=target, target_host=target_host)


def auto_schedule(
    task: SearchTask,
    search_policy: SketchPolicy | None = None,
    tuning_options: TuningOptions | None = None,
) -> tuple[Schedule, list[Tensor]]:
    """Tunes a task; the schedule of the fastest candidate, and the tensors, as TVM 0.7 spelled it. Raises TuningError."""
    options = tuning_options or TuningOptions(num_measure_trials=64)
    policy = search_policy if search_policy is not None else SketchPolicy(task)
    with Database(":memory:") as records:
        result = tune(
            task.house,
            trials=max(1, options.num_measure_trials),
            database=records,
            search=policy.cost_model.search,
            seed=policy.seed,
            limits=options.limits,
            progress=None if options.verbose else False,
        )
        for line in records.export_lines():
            for callback in options.measure_callbacks or ():
                callback.write(line)
    return result.schedule, list(task.compute_dag.tensors)


class TaskScheduler:
    """Tunes several tasks: the trials are shared evenly, or in proportion to task_weights. load_log_file: a log, or several,
    of trials that are known."""

    def __init__(
        self,
        tasks: Sequence[SearchTask],
        task_weights: Sequence[float] | None = None,
        load_log_file: str | PathLike[str] | None = None,
        **_: object,
    ) -> None:
        self.tasks = list(tasks)
        self.weights = list(task_weights) if task_weights is not None else [1.0] * len(self.tasks)
        self.load_log_file = load_log_file

    def tune(self, tune_option: TuningOptions, **_: object) -> None:
        """Tunes the tasks one after the other. Raises TuningError, NoRecord."""
        known = [PreloadMeasuredStates(self.load_log_file)] if self.load_log_file is not None else []
        for task, weight in zip(self.tasks, self.weights, strict=True):
            trials = max(1, round(tune_option.num_measure_trials * weight / sum(self.weights)))
            task.tune(replace(tune_option, num_measure_trials=trials), SketchPolicy(task, init_search_callbacks=known))

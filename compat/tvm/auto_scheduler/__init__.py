"""tvm.auto_scheduler: tasks, options and logs by TVM's names, over tilewright.autotune, which derives the search space."""

from __future__ import annotations

from ..autotvm.measure import LocalBuilder
from . import measure_record, search_policy, search_task, workload_registry
from .dag import ComputeDAG
from .measure_record import RecordToFile
from .search_policy import PreloadMeasuredStates, RandomModel, SketchPolicy, XGBModel
from .search_task import LocalRunner, SearchTask, TaskScheduler, TuningOptions, auto_schedule, create_task
from .workload_registry import make_workload_key, register_workload, workload_key_to_tensors

_ELSEWHERE = {
    "ApplyHistoryBest": "task.apply_best(log_file) gives the schedule of a log; tw.build(args, tuned=database) looks for it itself",
    "LocalRPCMeasureContext": "candidates are measured on this machine's CPU: runner=auto_scheduler.LocalRunner(...)",
    "RPCRunner": "run the program on that machine: auto_scheduler.LocalRunner(...)",
    "RecordReader": "tilewright.autotune.Database(...).import_lines reads the lines of a log, and trials(key) gives them",
    "extract_tasks": "networks are compositions of te and topi here: each has its own SearchTask",
    "load_best_record": "task.apply_best(log_file) gives its schedule",
}


def __getattr__(name: str) -> object:
    hint = f"; {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


__all__ = [
    "ComputeDAG", "LocalBuilder", "LocalRunner", "PreloadMeasuredStates", "RandomModel", "RecordToFile", "SearchTask",
    "SketchPolicy", "TaskScheduler", "TuningOptions", "XGBModel", "auto_schedule", "create_task", "make_workload_key",
    "measure_record", "register_workload", "search_policy", "search_task", "workload_key_to_tensors", "workload_registry",
]

"""tvm.auto_scheduler: tasks, options and logs by TVM's names, over tilewright.autotune, which derives the search space."""

from __future__ import annotations

from ..autotvm.measure import LocalBuilder
from . import measure_record, search_policy, search_task, workload_registry
from .dag import ComputeDAG
from .measure_record import RecordToFile
from .search_policy import PreloadMeasuredStates, RandomModel, SketchPolicy, XGBModel
from .search_task import LocalRunner, SearchTask, TaskScheduler, TuningOptions, auto_schedule, create_task
from .workload_registry import make_workload_key, register_workload, workload_key_to_tensors

__all__ = [
    "ComputeDAG", "LocalBuilder", "LocalRunner", "PreloadMeasuredStates", "RandomModel", "RecordToFile", "SearchTask",
    "SketchPolicy", "TaskScheduler", "TuningOptions", "XGBModel", "auto_schedule", "create_task", "make_workload_key",
    "measure_record", "register_workload", "search_policy", "search_task", "workload_key_to_tensors", "workload_registry",
]

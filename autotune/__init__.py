"""Choosing schedules by measuring them: `autotune.tune(args)`.

    result = autotune.tune([A, B, C], trials=128, database="tune.sqlite")
    f = tw.build([A, B, C], tuned="tune.sqlite")

The space is derived from the tensors, or defined by a template. Names are imported when they are first used: the workers
that measure start faster so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..topi.lazy import lazy_attributes

if TYPE_CHECKING:
    from .outcome import Failure
    from .records import Database
    from .task import Key, Task
    from .templates import Template, get_config, template
    from .trial import Trial
    from .tuner import Best, PartedResult, Result, best, tune

__all__ = [
    "Best",
    "Database",
    "Failure",
    "Key",
    "PartedResult",
    "Result",
    "Task",
    "Template",
    "Trial",
    "best",
    "get_config",
    "template",
    "tune",
]

_HOMES = {
    "Best": "tuner",
    "PartedResult": "tuner",
    "Result": "tuner",
    "best": "tuner",
    "tune": "tuner",
    "Database": "records",
    "Trial": "trial",
    "Key": "task",
    "Task": "task",
    "Template": "templates",
    "get_config": "templates",
    "template": "templates",
    "Failure": "outcome",
}


__getattr__, __dir__ = lazy_attributes(__name__, _HOMES)

"""Choosing schedules by measuring them: `autotune.tune(args)`.

    result = autotune.tune([A, B, C], trials=128, database="tune.sqlite")
    f = tw.build([A, B, C], tuned="tune.sqlite")

The space is derived from the tensors, or defined by a template. Names are imported when they are first used: the workers
that measure start faster so.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .measure import Failure
    from .records import Database, Trial
    from .task import Key, Task
    from .template import Template, get_config, template
    from .tune import Best, Result, best, tune

__all__ = ["Best", "Database", "Failure", "Key", "Result", "Task", "Template", "Trial", "best", "get_config", "template", "tune"]

_HOMES = {
    "Best": "tune", "Result": "tune", "best": "tune", "tune": "tune", "Database": "records", "Trial": "records", "Key": "task",
    "Task": "task", "Template": "template", "get_config": "template", "template": "template", "Failure": "measure",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f".{home}", __name__)
    for own in (own for own, where in _HOMES.items() if where == home):
        globals()[own] = getattr(module, own)   # importing a submodule sets its name here, which ours must win over
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Everything that a refused primitive must leave as it was."""

from __future__ import annotations

from typing import Any

from ...arguments import is_a, is_sequence

__all__ = ["exact"]


def exact(schedule: Any) -> Any:
    """The schedule as plain data, in which objects stand for themselves: equal before and after where nothing changed."""
    schedule.refresh()
    stages = [(id(stage), _ids(stage.saved())) for stage in schedule.stages]
    return stages, {id(op): id(stage) for op, stage in schedule.stage_map.items()}, _ids(schedule.records)


def _ids(value: Any) -> Any:
    if is_sequence(value):
        return [_ids(item) for item in value]
    if is_a(value, dict):
        return {id(key): id(item) for key, item in value.items()}
    return value if isinstance(value, (str, bool)) else id(value)

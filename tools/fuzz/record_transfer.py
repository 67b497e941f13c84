"""Transfer of schedule records to a program that has fewer operations.

Records name stages by their place, and a smaller program has other places. Both schedules are built side by side: a record is
applied to the original, its stage references are translated by the pairs of stages that correspond, and it is applied to the
smaller schedule. A record that speaks of a stage without a counterpart, or that is refused, is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ... import te
from ...base.arguments import is_sequence, to_items
from ...base.errors import TilewrightError
from ...schedule import Record, Schedule
from ...schedule.model.records import AxisRef, ExprRef, IndexMapRef, StageRef, SymbolRef, TensorRef
from ...schedule.model.replay import Replay

__all__ = ["transfer_records"]


class _NoCounterpart(Exception):
    """A record speaks of what the smaller program does not have."""


def transfer_records(
    records: Sequence[Record], original: Sequence[Any], smaller: Sequence[Any], twins: Mapping[Any, Any]
) -> Schedule:
    """Return a schedule of the operations `smaller` with those of the records that apply to it. twins: operation of the original
    program to its counterpart, for those that have one."""
    old, new = te.create_schedule(list(original)), te.create_schedule(list(smaller))
    old_replay, new_replay = Replay(old), Replay(new)
    pairs: dict[int, Any] = {
        id(stage): new[twins[stage.op]] for stage in old.stages if twins.get(stage.op) in {s.op for s in new.stages}
    }
    kept = [*old.stages]  # their ids are keys
    for record in records:
        try:
            translated: Record | None = _translate(record, old, new, pairs)
        except _NoCounterpart:
            translated = None
        before, new_before = set(map(id, old.stages)), set(map(id, new.stages))
        old_replay.apply(record)
        made = [stage for stage in old.stages if id(stage) not in before]
        kept += made
        if translated is None:
            continue
        trial = new.copy()
        try:
            Replay(trial).apply(translated)
        except TilewrightError:
            continue
        new_replay.apply(translated)
        fresh = [stage for stage in new.stages if id(stage) not in new_before]
        pairs |= {id(stage): twin for stage, twin in zip(made, fresh, strict=False)}
    return new


def _translate(record: Record, old: Schedule, new: Schedule, pairs: Mapping[int, Any]) -> Record:
    """Return the record with places of the new schedule. Raises _NoCounterpart."""

    def place(at: int) -> int:
        twin = pairs.get(id(old.stages[at]))
        if twin is None:
            raise _NoCounterpart
        return list(map(id, new.stages)).index(id(twin))

    def value(each: Any) -> Any:
        if isinstance(each, (StageRef, AxisRef, TensorRef)):
            return replace(each, stage=place(each.stage))
        if isinstance(each, SymbolRef):
            symbol = old.symbols[each.place]
            names = [other.name for other in new.symbols]
            if symbol.name not in names:
                raise _NoCounterpart
            return replace(each, place=names.index(symbol.name))
        if isinstance(each, ExprRef):
            return replace(each, variables=tuple((var, value(stands)) for var, stands in each.variables))
        if isinstance(each, IndexMapRef):
            return replace(each, indices=tuple(value(index) for index in each.indices))
        return tuple(value(item) for item in to_items(each)) if is_sequence(each) else each

    arguments = {name: value(argument) for name, argument in record.arguments.items()}
    return replace(record, stage=None if record.stage is None else place(record.stage), arguments=arguments)

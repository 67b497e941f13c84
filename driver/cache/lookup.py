"""Building by way of the store: what it has is linked, what it lacks is built and kept."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from ...codegen.kernel import Compiled
from ...codegen.target import Target
from ...errors import InternalError
from ...ir.constant import Constant
from ...ir.passes.common.options import PassOptions
from ...ir.passes.common.runner import is_watched
from ...runtime.module import Module
from ...schedule import Schedule
from .constants import constants_of
from .kernels import entry_of, module_of
from .key import Program, build_key
from .store import Store, open_store

__all__ = ["Build", "kept_or_built"]


class Build(Protocol):
    """Builds programs; `made` is told of what was compiled."""

    def __call__(self, programs: Sequence[Program], made: Callable[[Compiled], None] | None = None) -> Module: ...


def kept_or_built(programs: Sequence[Program], target: Target, choices: tuple[bool, bool, PassOptions], build: Build) -> Module:
    """The kernels of `programs`, from the store where it has them. choices: bounds_check, fast_math, pass options.

    Where somebody watches the passes, or the store is off, everything is built."""
    store = open_store()
    key = None if store is None or is_watched() else build_key(programs, target, *choices)
    if store is None or key is None:
        return build(programs)
    given = constants_of(programs)
    found = _kept(store, key, programs, target, build, given)
    if found is not None:
        return found

    def keep(compiled: Compiled) -> None:
        entry = entry_of(compiled, given)
        if entry is not None:
            store.save(key, entry)

    return build(programs, keep)


def _kept(
    store: Store, key: str, programs: Sequence[Program], target: Target, build: Build, given: Sequence[Constant],
) -> Module | None:
    entry = store.load(key)
    if entry is None:
        return None
    snapshots = [_snapshot(program) for program in programs]
    with contextlib.suppress(InternalError):     # an object that this process cannot link is built again
        return module_of(entry, target, lambda: build(snapshots), given)
    return None


def _snapshot(program: Program) -> Program:
    """The program as it is now: the user may go on scheduling."""
    name, what, args = program
    if isinstance(what, Schedule):
        return name, what.copy(), list(cast("Sequence[Any]", args))
    parts = list(cast("Sequence[Any]", what))
    return name, [part.copy() if isinstance(part, Schedule) else part for part in parts], args

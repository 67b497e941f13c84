"""The place of a build among the kernels that are kept: what it has is linked, what was built is written there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ...base.dataclass import dataclass
from ...base.errors import InternalError, is_interruption
from ...codegen.result import NativeCode
from ...ir.constant import Constant
from ...ir.passes.common.runner import is_watched
from ...runtime.module import Module
from ..compile import Request
from .constants import collect_constants
from .kernels import make_entry, read_module
from .key import build_key, code_version
from .store import Entry, Store, open_store

__all__ = ["Place", "find_place", "keep_value", "linked_entry"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """Cache entry of a request. given: the constants of its programs."""

    store: Store
    key: str
    request: Request
    given: list[Constant]

    def load(self) -> Module | None:
        """The kernels; None where they are not kept, or not in a form that this process can link."""
        return self.load_linked(lambda entry: read_module(entry, self.request.snapshot(), self.given))

    def load_linked(self, link: Callable[[Entry], T]) -> T | None:
        """Return what `link` makes of the entry; None where there is none, or none that this process can link."""
        entry = self.store.load(self.key)
        return None if entry is None else linked_entry(link, entry)

    def save(self, code: NativeCode) -> None:
        """Keep the kernels, if that can be done, and if all that was loaded to build them is what their key says."""
        # what was loaded meanwhile may have another version
        entry = make_entry(code, self.given) if code_version() else None
        if entry is not None:
            self.store.save(self.key, entry)


def linked_entry(link: Callable[[Entry], T], entry: Entry) -> T | None:
    """Link an entry; None of an object that this process cannot link, or a description of something else."""
    try:
        return link(entry)
    # an entry of an older version, or a damaged one, is as good as none
    except (InternalError, LookupError, TypeError, ValueError, AttributeError) as error:
        if is_interruption(error):
            raise
        return None


def find_place(request: Request) -> Place | None:
    """None where the kernels are not kept: the store is off, somebody watches the passes, or not everything that they depend on
    can be written down."""
    store = open_store()
    # somebody who watches the passes wants to see them run
    key = None if store is None or is_watched() else build_key(request)
    return None if store is None or key is None else Place(store, key, request, collect_constants(request.programs))


def keep_value(key: str | None, compute: Callable[[], T], is_sound: Callable[[Any], bool]) -> T:
    """Return the value, plain as JSON has it, that the store has under a key, else what is computed, which it has from then on.
    is_sound: tells such values from what else may lie there."""
    store = open_store() if key is not None else None
    if store is None or key is None:
        return compute()
    entry = store.load(key)
    if entry is None or not is_sound(entry.about.get("value")):
        entry = Entry({"value": compute()}, b"")
        store.save(key, entry)
    return entry.about["value"]

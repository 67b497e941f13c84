"""Archives: the kernels of one program in one entry of the store, read and linked at once.

Each kernel has an entry of its own, which other programs share; but to know it by its key it has to be declared, and a program of
a hundred kernels waits for a hundred keys, files and linkers. An archive is known by the texts that its kernels are declared from,
and holds copies of their entries, one behind the other. A kernel that reads constants of its program is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...base.dataclass import dataclass
from ...codegen.llvm.jit import CompiledModule, load_together
from ...codegen.result import Opening
from ...codegen.target import Target
from ...runtime.signature import Signature
from .kernels import Place, linked_entry, read_code, read_opening
from .store import Entry, Store

__all__ = ["Archive", "Archived"]


@dataclass(frozen=True, slots=True)
class Archived:
    """A kernel of an archive. passed: how many tensors and numbers it was declared with."""

    module: CompiledModule
    signatures: list[Signature]
    opening: Opening
    passed: int


@dataclass(frozen=True, slots=True)
class Archive:
    """The place of a program's kernels in the store."""

    store: Store
    key: str
    target: Target

    def load(self) -> dict[str, Archived] | None:
        """The kernels by name; None where they are not kept, or cannot be linked here."""
        entry = self.store.load(self.key)
        return None if entry is None else linked_entry(self._link, entry)

    def _link(self, entry: Entry) -> dict[str, Archived]:
        kernels: dict[str, Archived] = {}
        begin = 0  # entries lie one behind the other
        for kept in entry.about["kernels"]:
            inner = Entry(kept["about"], entry.code[begin : begin + kept["size"]])
            begin += kept["size"]
            module, signatures, _ = read_code(inner, self.target)
            kernels[kept["name"]] = Archived(module, signatures, read_opening(inner), kept["passed"])
        load_together([kernel.module for kernel in kernels.values()])
        return kernels

    def save(self, kernels: Mapping[str, tuple[Place, int]]) -> None:
        """Keep what the store has of these kernels, by name: the place of each, and how many arguments it was declared with."""
        kept = {name: (place.store.load(place.key), passed) for name, (place, passed) in kernels.items()}
        whole = {
            name: (entry, passed)
            for name, (entry, passed) in kept.items()
            # constants would tie the archive to one program's weights
            if entry is not None and not entry.about["constants"] and "evaluation" not in entry.about
        }
        about = [
            {"name": name, "passed": passed, "size": len(entry.code), "about": entry.about}
            for name, (entry, passed) in whole.items()
        ]
        if about:
            code = b"".join(entry.code for entry, _ in whole.values())
            self.store.save(self.key, Entry({"kernels": about}, code))

"""Tensors of a program that share memory, made functional: a tensor is a way of looking at a storage, and writing to one makes the
storage another value, at which every other tensor of it looks from then on."""

from __future__ import annotations

from collections.abc import Callable

from ...base.dataclass import dataclass
from ..conversion import Refused

__all__ = ["Alias", "Step", "Storage"]


@dataclass(eq=False)
class Storage:
    """Memory that torch's tensors share.

    value: ours, of the whole of it, now. version: how often it was written.
    """

    value: str
    version: int = 0


@dataclass(frozen=True)
class Step:
    """Step from a tensor to a view of it.

    forward: the part, from the whole. backward: the whole with another part, None where it is not known.
    """

    name: str
    forward: Callable[[str], str]
    backward: Callable[[str, str], str] | None


@dataclass(eq=False)
class Alias:
    """A tensor. steps: how it looks at its storage. value: ours, when the storage had this version."""

    storage: Storage
    steps: tuple[Step, ...]
    value: str
    version: int

    @staticmethod
    def fresh(value: str) -> Alias:
        """A tensor with a storage of its own."""
        return Alias(Storage(value), (), value, 0)

    def part(self, step: Step, value: str) -> Alias:
        """A tensor that looks at this one; value: ours, now."""
        return Alias(self.storage, (*self.steps, step), value, self.storage.version)

    def current(self) -> str:
        """Our value of it, now."""
        if self.version != self.storage.version:
            self.value = self.storage.value
            for step in self.steps:
                self.value = step.forward(self.value)
            self.version = self.storage.version
        return self.value

    def write(self, value: str) -> None:
        """Make it another value. Raises Refused."""
        wholes = [self.storage.value]
        for step in self.steps[:-1]:
            wholes.append(step.forward(wholes[-1]))
        new = value
        for step, whole in zip(reversed(self.steps), reversed(wholes), strict=False):
            if step.backward is None:
                raise Refused(f"it writes through a view made by {step.name}")
            new = step.backward(whole, new)
        self.storage.value, self.storage.version = new, self.storage.version + 1
        self.value, self.version = value, self.storage.version

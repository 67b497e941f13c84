"""The texts of a kernel, by kind: made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..base import dataclass, user_source
from ..base.arguments import is_a
from ..runtime.errors import NoSuchSource

__all__ = ["Sources"]


@dataclass(frozen=True, slots=True)
class Sources:
    """Texts of a kernel, by kind.

    kernel: what has them, "a CPU kernel". texts: what makes each. fix: what to ask for instead of a text that there is not.
    """

    kernel: str
    texts: Mapping[str, Callable[[], str]]
    fix: str

    def __call__(self, kind: str) -> str:
        """The text of this kind. Raises NoSuchSource."""
        if not is_a(kind, str) or kind not in self.texts:
            raise NoSuchSource(
                f"{self.kernel} has no source {kind!r}",
                called=user_source(),
                allowed=", ".join(self.texts),
                fix=self.fix,
            )
        return self.texts[kind]()

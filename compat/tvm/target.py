"""tvm.target."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, ClassVar

__all__ = ["Target", "create"]


class Target:
    """A target by TVM's notation: a string, or a dict with "kind" and options. `with target:` makes it the default."""

    _entered: ClassVar[list[Target]] = []

    def __init__(self, target: str | Mapping[str, Any] | Target = "llvm", host: Any = None) -> None:
        if isinstance(target, Mapping):
            named = {key: value for key, value in target.items() if key not in ("kind", "host", "keys", "tag")}
            target = " ".join([target["kind"], *(f"-{key}={_option(value)}" for key, value in named.items())])
        self.text = str(target)
        self.host = host
        self.kind = SimpleNamespace(name=self.text.split()[0])

    @property
    def keys(self) -> list[str]:
        return ["cpu"] if self.kind.name in ("llvm", "c") else [self.kind.name, "gpu"]

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The innermost target entered by `with`."""
        if not Target._entered and not allow_none:
            raise ValueError("no target: enter one with `with tvm.target.Target(...)`")
        return Target._entered[-1] if Target._entered else None

    def __enter__(self) -> Target:
        Target._entered.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        Target._entered.pop()

    def __str__(self) -> str:
        return self.text


def _option(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


create = Target

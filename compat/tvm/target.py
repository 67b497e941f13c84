"""tvm.target."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, ClassVar

from ...base.arguments import is_sequence
from .nd import is_emulated

__all__ = ["Target", "create", "cuda", "current_target", "llvm"]

_TELLS_US_NOTHING = (
    "keys",
    "libs",
    "device",
    "model",
    "tag",
    "runtime",
    "executor",
    "link-params",
    "system-lib",
    "opt-level",
    "num-cores",
    "jit",
    "vector-width",
    "max_num_threads",
    "thread_warp_size",
    "max_threads_per_block",
    "max_shared_memory_per_block",
    "registers_per_block",
    "host",
)


class Target:
    """A target by TVM's notation: a string, or a dict with "kind" and options. `with target:` makes it the default.

    Options that choose among TVM's own schedules and run-times (-keys, -libs, -device, -model ...) are kept in the text
    and not handed on; -target is today's -mtriple.
    """

    _entered: ClassVar[list[Target]] = []

    def __init__(self, target: str | Mapping[str, Any] | Target = "llvm", host: Any = None) -> None:
        if isinstance(target, Mapping):
            named = {key: value for key, value in target.items() if key not in ("kind", "host", "keys", "tag")}
            target = " ".join([target["kind"], *(f"-{key}={_option(value)}" for key, value in named.items())])
        self.text = str(target)
        self.host = Target(host) if host is not None else None
        self.kind = SimpleNamespace(name=self.text.split()[0])
        self.attrs = dict(_key_and_value(word) for word in self.text.split()[1:])

    @property
    def keys(self) -> list[str]:
        return ["cpu"] if self.kind.name in ("llvm", "c") else [self.kind.name, "gpu"]

    @property
    def max_num_threads(self) -> int:
        """The most threads of one block."""
        told = self.attrs.get("max_num_threads") or self.attrs.get("max_threads_per_block")
        return int(told or (1024 if "gpu" in self.keys else 1))

    @property
    def thread_warp_size(self) -> int:
        """The threads that run in step."""
        return int(self.attrs.get("thread_warp_size") or (32 if "gpu" in self.keys else 1))

    @property
    def mcpu(self) -> str:
        return self.attrs.get("mcpu", "")

    @property
    def mattr(self) -> list[str]:
        return [feature for feature in self.attrs.get("mattr", "").split(",") if feature]

    @property
    def ours(self) -> str:
        """The target as our driver takes it."""
        given = {{"target": "mtriple"}.get(key, key): value for key, value in self.attrs.items()}
        words = [
            f"-{key}={value}" if value else f"-{key}" for key, value in given.items() if key not in _TELLS_US_NOTHING
        ]
        emulated = ["-emulate"] if self.kind.name == "cuda" and is_emulated() and "emulate" not in self.attrs else []
        return " ".join([self.kind.name, *words, *emulated])

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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def _option(value: Any) -> str:
    return ",".join(map(str, value)) if is_sequence(value) else str(value)


def _key_and_value(word: str) -> tuple[str, str]:
    key, _, value = word.lstrip("-").partition("=")
    return key, value


def cuda(model: str = "unknown", arch: str | None = None, options: str | list[str] | None = None) -> Target:
    """A CUDA target."""
    del model
    more = options if isinstance(options, list) else (options or "").split()
    return Target(" ".join(["cuda", *([f"-arch={arch}"] if arch else []), *more]))


def llvm(options: str = "") -> Target:
    """A CPU target."""
    return Target(f"llvm {options}".strip())


create = Target


def current_target(allow_none: bool = True) -> Target | None:
    """The innermost target entered by `with`, as Target.current."""
    return Target.current(allow_none)

"""LLVM IR as text under construction: a module, and functions of basic blocks.

Text rather than llvmlite's IR builder: it is several times faster to make and says exactly what is meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from ...base.dataclass import dataclass

__all__ = ["Conversions", "FunctionText", "ModuleText"]


@dataclass(frozen=True)
class Conversions:
    """Instructions of the target for 16-bit floats: conversions of float32 to and from them, and arithmetic of float16."""

    float16: bool = True
    bfloat16: bool = False
    arithmetic: bool = False


_BASELINE = Conversions()

_DEFINED = re.compile(r"define [^@]*@([^(]+)\(")
"""The name of the function that a text defines: others of the module may call it as one from outside."""


class ModuleText:
    """Functions, the outside functions they call, and loop metadata."""

    def __init__(self, conversions: Conversions = _BASELINE) -> None:
        self.conversions = conversions
        self._functions: list[str] = []
        self._declared: dict[str, str] = {}
        self._metadata: list[str] = []
        self._named: list[str] = []
        self._strings: dict[str, str] = {}
        self._own: set[str] = set()
        self._kept: dict[str, None] = {}

    def add(self, function: str) -> None:
        """A finished function."""
        self._functions.append(function)

    def define_once(self, name: str, write: Callable[[], None]) -> None:
        """A helping function, which `write` adds unless it is there already."""
        if name not in self._own:
            self._own.add(name)
            write()

    def keep(self, name: str) -> None:
        """Own function `name` stays, though nothing may be seen to call it yet."""
        self._kept[name] = None

    def declare(self, name: str, result: str, operands: Sequence[str], attributes: str = "nounwind") -> str:
        """An outside function, declared once; its name with @. LLVM's own intrinsics need no declaration."""
        self._declared.setdefault(name, f"declare {result} @{name}({', '.join(operands)}) {attributes}")
        return f"@{name}"

    def string(self, text: str) -> str:
        """The pointer to a constant string that ends with a 0."""
        name = self._strings.get(text)
        if name is None:
            name = self._strings[text] = f"@tw_string_{len(self._strings)}"
            data = [*text.encode(), 0]
            content = "".join(f"\\{byte:02X}" for byte in data)
            self._functions.append(f'{name} = private unnamed_addr constant [{len(data)} x i8] c"{content}"')
        return name

    @property
    def declared(self) -> tuple[str, ...]:
        """The names of the outside functions."""
        return tuple(self._declared)

    def loop_metadata(self, *properties: str) -> str:
        """A fresh loop identifier with the given properties, as the suffix of the branch that closes the loop."""
        number = len(self._metadata)
        self._metadata.append(f"!{number} = distinct !{{!{number}, {', '.join(properties)}}}")
        return f", !llvm.loop !{number}"

    def access_group(self) -> str:
        """A new group of accesses; its name, !n."""
        self._metadata.append(f"!{len(self._metadata)} = distinct !{{}}")
        return f"!{len(self._metadata) - 1}"

    def metadata(self, text: str) -> str:
        """A piece of metadata; its name, !n."""
        self._metadata.append(f"!{len(self._metadata)} = {text}")
        return f"!{len(self._metadata) - 1}"

    def named_metadata(self, name: str, *parts: str) -> None:
        """Return the metadata that LLVM finds by its name."""
        self._named.append(f"!{name} = !{{{', '.join(parts)}}}")

    def text(self, header: str = "") -> str:
        """The whole module. header: target lines."""
        kept = ", ".join(f"ptr @{name}" for name in self._kept)
        defined = {match[1] for function in self._functions if (match := _DEFINED.match(function))}
        outside = [text for name, text in self._declared.items() if name not in defined]
        used = [f'@llvm.compiler.used = appending global [{len(self._kept)} x ptr] [{kept}], section "llvm.metadata"']
        return "\n".join(
            [header, *(used if kept else []), *self._functions, *outside, *self._named, *self._metadata, ""]
        )


_ACCESS = re.compile(r"  (%\S+ = load|store) ")
"""Instructions that read or write memory; calls are in no loop that LLVM is told of."""


class FunctionText:
    """One function: named values, basic blocks, and value numbering, so that an address that many statements share is
    written once."""

    def __init__(self, module: ModuleText, head: str) -> None:
        self.module = module
        self._head = head
        self._entry: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self._known: dict[str, str] = {}
        self._scopes: list[list[str]] = []
        self.label = "entry"
        """The block that is being written: what a phi names."""
        self.described = ""
        self.symbol = head.partition("@")[2].partition("(")[0].strip('"')
        """The metadata that describes the function, as it follows the function's attributes."""
        self.location = ""
        """Where what is being written came from, as it follows an instruction."""

    def fresh(self, stem: str) -> str:
        """An unused name."""
        self._count += 1
        return f"{stem}{self._count}"

    def op(self, text: str) -> str:
        """The value of an operation without effects, computed once in the scope."""
        value = self._known.get(text)
        if value is None:
            self._count += 1
            self._known[text] = value = f"%v{self._count}"
            self._lines.append(f"  {value} = {text}{self.location}")
            if self._scopes:
                self._scopes[-1].append(text)
        return value

    def read(self, text: str) -> str:
        """The value of an operation that depends on memory or on where it stands (a load, a call, a phi)."""
        self._count += 1
        value = f"%v{self._count}"
        self._lines.append(f"  {value} = {text}{self.location}")
        return value

    def do(self, text: str) -> None:
        """An instruction without a value."""
        self._lines.append(f"  {text}{self.location}")

    def define(self, name: str, text: str) -> None:
        """An instruction whose value has a name made before."""
        self._lines.append(f"  {name} = {text}{self.location}")

    def emit_at_entry(self, text: str) -> str:
        """The value of an instruction that stands in the entry block, before all others."""
        value = "%" + self.fresh("s")
        self._entry.append(f"  {value} = {text}")
        return value

    def do_at_entry(self, text: str) -> None:
        """An instruction without a value in the entry block, in the order of the calls."""
        self._entry.append(f"  {text}")

    def begin(self, label: str) -> None:
        """Start a block."""
        self._lines.append(f"{label}:")
        self.label = label

    def jump(self, label: str) -> None:
        self._lines.append(f"  br label %{label}{self.location}")

    def branch(self, condition: str, then: str, otherwise: str, metadata: str = "") -> None:
        self._lines.append(f"  br i1 {condition}, label %{then}, label %{otherwise}{metadata}{self.location}")

    @contextmanager
    def scope(self) -> Generator[None]:
        """Values computed within are forgotten at the end: they need not dominate what follows."""
        self._scopes.append([])
        yield
        for text in self._scopes.pop():
            del self._known[text]

    @contextmanager
    def group_accesses(self) -> Generator[str]:
        """Let the loads and stores that are written within be of one group, whose name it gives: what LLVM is told of them in a loop."""
        group, begun = self.module.access_group(), len(self._lines)
        yield group
        for at in range(begun, len(self._lines)):
            if _ACCESS.match(self._lines[at]):
                self._lines[at] += f", !llvm.access.group {group}"

    def finish(self) -> None:
        """Hands the function, complete, to the module."""
        self.module.add("\n".join([f"{self._head}{self.described} {{", "entry:", *self._entry, *self._lines, "}"]))

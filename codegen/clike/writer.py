"""Lines of text in braces, and names that nothing around has."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager

from ...ir import Buffer, Var
from .emit_expr import ExprEmitter

__all__ = ["Writer"]

_RESERVED = frozenset(
    "alignas alignof asm auto bool break case catch char class const constexpr continue default delete do double else enum "
    "explicit extern false float for friend goto if inline int long namespace new operator private protected public register "
    "return short signed sizeof static struct switch template this throw true try typedef union unsigned using virtual void "
    "volatile while warpSize threadIdx blockIdx blockDim gridDim exp log sin cos tan sqrt pow min max abs y0 y1 j0 j1 jn yn "
    "gamma half main NAN INFINITY HUGE_VAL HUGE_VALF errno stdin stdout stderr assert".split()
)


class Writer:
    """Output of the emitters of statements: lines, blocks, names."""

    def __init__(self, exprs: ExprEmitter) -> None:
        self.exprs = exprs
        self.lines: list[str] = []
        self.indent: int = 1
        self.taken: set[str] = set(_RESERVED)

    def bind(self, item: Var | Buffer, wanted: str = "") -> str:
        """A fresh C name for a variable or a buffer."""
        stem = re.sub(r"[^A-Za-z0-9_]", "_", wanted or item.name) or "v"
        # figures cannot begin a name, and tw_ names are the prelude's
        stem = f"v{stem}" if stem[0].isdigit() or stem.startswith("tw_") else stem
        self.exprs.names[item] = self.fresh(stem)
        return self.exprs.names[item]

    def fresh(self, stem: str) -> str:
        """A C name that nothing around has."""
        name, number = stem, 0
        while name in self.taken:
            number += 1
            name = f"{stem}_{number}"
        self.taken.add(name)
        return name

    def line(self, text: str) -> None:
        self.lines.append("  " * self.indent + text)

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """A statement with a body in braces."""
        self.line(f"{head} {{".lstrip())
        self.indent += 1
        taken = set(self.taken)
        yield
        self.taken = taken  # names of a block end with it
        self.indent -= 1
        self.line("}")

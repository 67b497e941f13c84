"""The source of a hybrid script: its syntax tree, and errors that point into it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from ...base import SourceLine, TensorExpressionError, TilewrightError, dataclass, user_source
from .errors import NotAHybridFunction

__all__ = ["Source", "read_source"]


@dataclass(frozen=True, eq=False)
class Source:
    """A function as it was written.

    tree: its definition. lines: its text without the indentation that all of it has; the tree counts lines from 1 in
    them. first: the number of the first of these lines in `file`.
    """

    name: str
    file: str
    first: int
    lines: tuple[str, ...]
    tree: ast.FunctionDef

    def line(self, node: ast.AST) -> SourceLine:
        """The line of the user's file where `node` begins."""
        return SourceLine(self.file, self.first + _lineno(node) - 1)

    def shown(self, node: ast.AST) -> str:
        """The line where `node` begins, with carets under the node."""
        text = self.lines[_lineno(node) - 1]
        begin, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", None)
        if isinstance(node, (ast.For, ast.While, ast.If, ast.With, ast.FunctionDef, ast.Try)):
            end = begin + len(text[begin:].split(" ")[0].rstrip(":"))  # the keyword alone
        elif end is None or getattr(node, "end_lineno", _lineno(node)) != _lineno(node):
            end = len(text.rstrip())
        stripped = text.lstrip()
        margin = len(text) - len(stripped)
        return f"{stripped.rstrip()}\n{' ' * (begin - margin)}{'^' * max(end - begin, 1)}"

    def error(
        self,
        kind: type[TensorExpressionError],
        headline: str,
        node: ast.AST,
        reason: str = "",
        allowed: str = "",
        fix: str = "",
    ) -> TensorExpressionError:
        """An error of `kind` about `node`."""
        return kind(headline, reason=reason, called=self.line(node), loops=self.shown(node), allowed=allowed, fix=fix)

    @contextmanager
    def at(self, node: ast.AST) -> Generator[None]:
        """Errors raised within, by expressions that are being built, speak of `node` where they point nowhere else yet."""
        try:
            yield
        except TilewrightError as error:
            if not error.loops:
                error.fix = _FIXES.get(error.code, error.fix)
                error.called, error.loops = self.line(node), self.shown(node)
                error.args = (error.render(),)
            raise


_FIXES = {
    "TW0103": "a // b rounds towards minus infinity, truncdiv(a, b) towards zero as C does; float32(a) / b is a float"
}
"""What to write in a script, where an error of expressions names what te has."""


def _lineno(node: ast.AST) -> int:
    return getattr(node, "lineno", 1)


def read_source(function: Callable[..., Any]) -> Source:
    """The source of a function that `def` made. Raises NotAHybridFunction (TW0150)."""
    name = getattr(function, "__name__", repr(function))

    def refused(reason: str, fix: str) -> NotAHybridFunction:
        return NotAHybridFunction(
            f"cannot make a hybrid script of {name}"[:200], reason=reason, called=user_source(), fix=fix
        )

    if not inspect.isfunction(function):
        raise refused(
            f"it is a {type(function).__name__}, no Python function", "decorate a function: @te.hybrid.script"
        )
    if function.__name__ == "<lambda>":
        raise refused("a lambda has no statements", "write it as a function, with def")
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise refused(
            "its source cannot be read: it was typed into an interpreter or made by exec",
            "write the function in a file or a notebook's cell",
        ) from None
    text = textwrap.dedent("".join(lines))
    tree = ast.parse(text).body[0]
    if not isinstance(tree, ast.FunctionDef):
        raise refused("it is not a plain function", "write it with def, and without async")
    return Source(name, inspect.getsourcefile(function) or "?", first, tuple(text.splitlines()), tree)

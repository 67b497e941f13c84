"""Liveness of the scalars of a script: each lives in the innermost block that holds all uses of a value.

Python's names live as long as the call. Here every name gets a place of its own in the smallest block that its values do
not leave, so that the iterations of a loop have scalars of their own wherever they can.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ...base.dataclass import dataclass

__all__ = ["Declaration", "Liveness", "written_elements"]


@dataclass(frozen=True, slots=True)
class Declaration:
    """A name that lives in one block. once: it is assigned by one statement, which stands in the block itself."""

    name: str
    once: bool


class Liveness:
    """The declarations of one function, by the block (a list of statements) that they belong to."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self._occurring: dict[int, frozenset[str]] = {}
        self.assigned = sorted({name for statement in _statements(function.body) for name in stored_names(statement)})
        self._of: dict[int, list[Declaration]] = {}
        for name in self.assigned:
            self._place(function.body, name)

    def declared(self, block: Sequence[ast.stmt]) -> list[Declaration]:
        """The names that live in `block`."""
        return self._of.get(id(block), [])

    def occurs(self, statement: ast.AST, name: str) -> bool:
        """Return whether `name` occurs in `statement`."""
        names = self._occurring.get(id(statement))
        if names is None:
            names = frozenset(node.id for node in ast.walk(statement) if isinstance(node, ast.Name))
            self._occurring[id(statement)] = names
        return name in names

    def _place(self, block: list[ast.stmt], name: str) -> None:
        """Declare `name` in `block`, or further inside where no value goes from one statement to the next."""
        holding = [statement for statement in block if self.occurs(statement, name)]
        inside = all(
            isinstance(holder, (ast.For, ast.While, ast.If)) and not self._reads_header(holder, name)
            for holder in holding
        )
        if holding and inside and (len(holding) == 1 or not any(self._effect(holder, name)[0] for holder in holding)):
            for statement in holding:
                for inner in _blocks(statement):
                    self._place(inner, name)
        elif any(name in stored_names(inner) for inner in _statements(block)):
            sites = [inner for inner in _statements(block) if name in stored_names(inner)]
            once = len(sites) == 1 and sites[0] in block and isinstance(sites[0], ast.Assign)
            self._of.setdefault(id(block), []).append(Declaration(name, once))

    def _reads_header(self, statement: ast.stmt, name: str) -> bool:
        return any(self.occurs(part, name) for part in _header(statement))

    def _effect(self, statement: ast.stmt, name: str) -> tuple[bool, bool]:
        """Return whether the statement may read a value that `name` had before it, and whether it surely assigns one."""
        if not self.occurs(statement, name):
            return False, False
        if isinstance(statement, (ast.For, ast.While)):
            exposed = self._reads_header(statement, name) or self._effect_of_block(statement.body, name)[0]
            return exposed, False
        if isinstance(statement, ast.If):
            (first, defines), (second, defines_too) = (
                self._effect_of_block(block, name) for block in _blocks(statement)
            )
            return self._reads_header(statement, name) or first or second, defines and defines_too
        stores = name in stored_names(statement)
        reads = (
            any(
                isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
                for node in ast.walk(statement)
            )
            or isinstance(statement, ast.AugAssign)
            and stores
        )
        return reads, stores

    def _effect_of_block(self, block: Sequence[ast.stmt], name: str) -> tuple[bool, bool]:
        """Return the effect, as `_effect` does, of statements in order."""
        for statement in block:
            exposed, defines = self._effect(statement, name)
            if exposed or defines:
                return exposed, defines
        return False, False


def _blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The blocks within a compound statement."""
    if isinstance(statement, ast.If):
        return [statement.body, statement.orelse]
    return [statement.body] if isinstance(statement, (ast.For, ast.While)) else []


def _header(statement: ast.stmt) -> list[ast.AST]:
    if isinstance(statement, ast.For):
        return [statement.iter, statement.target]
    return [statement.test] if isinstance(statement, (ast.While, ast.If)) else [statement]


def _statements(block: Sequence[ast.stmt]) -> list[ast.stmt]:
    """All statements of a block and of the blocks within."""
    statements: list[ast.stmt] = []
    stack = list(reversed(block))
    while stack:
        statement = stack.pop()
        statements.append(statement)
        for inner in reversed(_blocks(statement)):
            stack.extend(reversed(inner))
    return statements


def written_elements(function: ast.FunctionDef) -> frozenset[str]:
    """The names of which elements are assigned."""
    names: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            base: ast.expr = node
            while isinstance(base, ast.Subscript):
                base = base.value
            if isinstance(base, ast.Name):
                names.add(base.id)
    return frozenset(names)


def stored_names(statement: ast.stmt) -> list[str]:
    """The names that a simple statement assigns as a whole."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = list(statement.targets)
    elif isinstance(statement, ast.AugAssign):
        targets = [statement.target]
    names: list[str] = []
    while targets:
        target = targets.pop()
        if isinstance(target, (ast.Tuple, ast.List)):
            targets.extend(target.elts)
        elif isinstance(target, ast.Name):
            names.append(target.id)
    return names

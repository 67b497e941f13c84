"""Scripts without jumps: what `break`, `continue` and an early `return` leave out stands under an `if`.

    for i in range(n):                    left.1 = False
        if a[i] < 0:                      for i in range(n):
            break                    →        if not left.1:
        b[i] = a[i]                               if a[i] < 0:
                                                      left.1 = True
                                                  else:
                                                      b[i] = a[i]

So a loop that may be left is a loop over all of its range, which says where its indices lie, and passes leave it where nothing is
left to do (ir/passes/common/early_exit.py). A `while` looks at a flag alone, and at its condition within:

    while x < 1.0:                        left.2 = False
        x += step                    →    while not left.2:
                                              if x < 1.0: x += step
                                              else: left.2 = True
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from copy import deepcopy

from ...base import dataclass, replace
from .errors import BadHybridReturn, NotInHybridScripts
from .source import Source

__all__ = ["LeftFor", "remove_jumps"]

_RETURNED = "returned"


class LeftFor(ast.For):
    """A `for` that may be over before its last iteration."""


def remove_jumps(source: Source) -> Source:
    """The source of a script with loops and ifs alone; itself where it has no jumps. Raises BadHybridReturn (TW0156) where it
    returns other things early than at its end, and NotInHybridScripts (TW0151)."""
    body = source.tree.body
    early = [node for node in ast.walk(source.tree) if isinstance(node, ast.Return) and node is not body[-1]]
    if not early and not any(isinstance(node, (ast.While, ast.Break, ast.Continue)) for node in ast.walk(source.tree)):
        return source
    for node in early:
        last = body[-1]
        if not isinstance(last, ast.Return) or ast.dump(node) != ast.dump(last):
            raise source.error(
                BadHybridReturn,
                "this `return` gives something else than the one at the end of the script",
                node,
                reason="a script always gives the same output tensors, whatever was stored in them by then",
                fix=f"{ast.unparse(last)}" if isinstance(last, ast.Return) else "end the script with this return",
            )
    tree = deepcopy(source.tree)
    last = tree.body[-1:] if isinstance(tree.body[-1], ast.Return) else []
    done = _Structure(source).block(tree.body[: len(tree.body) - len(last)], None)
    begun = [_assign(_RETURNED, False, tree.body[0])] if "return" in done.jumps else []
    tree.body = [*begun, *done.statements, *last]
    return replace(source, tree=tree)


@dataclass(slots=True)
class _Loop:
    """The flags of a loop. skip is only set where something asks for it."""

    left: str
    skip: str
    asks_skip: bool = False


@dataclass(frozen=True, slots=True)
class _Block:
    """Statements without jumps. jumps: which there were out of the block. surely: whether its end is never reached."""

    statements: list[ast.stmt]
    jumps: frozenset[str] = frozenset()
    surely: bool = False


class _Structure:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.loops = 0

    def block(self, body: Sequence[ast.stmt], loop: _Loop | None) -> _Block:
        """A block of a loop's body, or of the function where `loop` is None."""
        done: list[ast.stmt] = []
        for at, node in enumerate(body):
            if isinstance(node, (ast.Break, ast.Continue, ast.Return)):
                kind = type(node).__name__.lower()
                return _Block([*done, _assign(_flag(kind, loop), True, node)], frozenset({kind}), True)
            if isinstance(node, ast.If):
                inside = self._if(node, body[at + 1 :], loop)
            elif isinstance(node, (ast.For, ast.While)):
                inside = self._loop(node)
                if inside.jumps:
                    inside = self._guard_rest(inside, body[at + 1 :], loop, node)
            else:
                done.append(node)
                continue
            done += inside.statements
            if inside.jumps:
                return _Block(done, inside.jumps, inside.surely)
        return _Block(done)

    def _if(self, node: ast.If, rest: Sequence[ast.stmt], loop: _Loop | None) -> _Block:
        """An `if`; where it jumps, with the rest of its block, which goes where it is reached from."""
        then, other = self.block(node.body, loop), self.block(node.orelse, loop)
        node.body, node.orelse = then.statements, other.statements
        jumps = then.jumps | other.jumps
        if not jumps or then.surely and other.surely:
            return _Block([node], jumps, bool(jumps))
        if then.surely and not other.jumps:
            after = self.block(rest, loop)
            node.orelse = [*node.orelse, *after.statements]
        elif other.surely and not then.jumps:
            after = self.block(rest, loop)
            node.body = [*node.body, *after.statements]
        else:
            return self._guard_rest(_Block([node], jumps), rest, loop, node)
        return _Block([node], jumps | after.jumps, after.surely)

    def _guard_rest(self, before: _Block, rest: Sequence[ast.stmt], loop: _Loop | None, node: ast.stmt) -> _Block:
        """Guard the statements after one that may jump: the rest of its block where it did not."""
        after = self.block(rest, loop)
        if not after.statements:
            return before
        if loop is not None and "continue" in before.jumps:
            loop.asks_skip = True
        flags = sorted(_flag(kind, loop) for kind in before.jumps)
        return _Block([*before.statements, _unless(flags, after.statements, node)], before.jumps | after.jumps)

    def _loop(self, node: ast.For | ast.While) -> _Block:
        """A loop, after what its flags begin with; of its jumps those out of the function are left."""
        self.loops += 1
        loop = _Loop(f"left.{self.loops}", f"skip.{self.loops}")
        inside = self.block(node.body, loop)
        body = inside.statements
        if "continue" in inside.jumps:
            body = (
                [_assign(loop.skip, False, node), *body] if loop.asks_skip else _drop_assignments(loop.skip, body, node)
            )
        returns = inside.jumps & {"return"}
        flags = [_RETURNED] if returns else []
        if isinstance(node, ast.While):
            if node.orelse:
                raise self.source.error(
                    NotInHybridScripts,
                    "a loop with `else` cannot stand in a hybrid script",
                    node.orelse[0],
                    reason="the statements after a loop run however it ended",
                    fix="write what follows the loop after it",
                )
            tested = ast.copy_location(ast.If(node.test, body, [_assign(loop.left, True, node)]), node)
            made: ast.stmt = ast.While(_none([loop.left, *flags]), [tested], [])
        elif flags or "break" in inside.jumps:
            flags += [loop.left] if "break" in inside.jumps else []
            made = LeftFor(node.target, node.iter, [_unless(flags, body, node)], node.orelse)
        else:
            made = ast.For(node.target, node.iter, body, node.orelse)
        ast.fix_missing_locations(ast.copy_location(made, node))
        begun = [_assign(loop.left, False, node)] if isinstance(node, ast.While) or "break" in inside.jumps else []
        return _Block([*begun, made], returns)


def _flag(kind: str, loop: _Loop | None) -> str:
    if kind == "return" or loop is None:
        return _RETURNED
    return loop.left if kind == "break" else loop.skip


def _assign(name: str, value: bool, where: ast.stmt) -> ast.stmt:
    assign = ast.Assign([ast.Name(name, ast.Store())], ast.Constant(value))
    return ast.fix_missing_locations(ast.copy_location(assign, where))


def _none(flags: Sequence[str]) -> ast.expr:
    terms: list[ast.expr] = [ast.UnaryOp(ast.Not(), ast.Name(flag, ast.Load())) for flag in flags]
    return terms[0] if len(terms) == 1 else ast.BoolOp(ast.And(), terms)


def _unless(flags: Sequence[str], body: list[ast.stmt], where: ast.stmt) -> ast.stmt:
    return ast.fix_missing_locations(ast.copy_location(ast.If(_none(flags), body, []), where))


def _drop_assignments(name: str, body: list[ast.stmt], where: ast.stmt) -> list[ast.stmt]:
    """A block whose assignments of a flag, which nothing asks for, are left out."""
    kept: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            continue
        if isinstance(node, ast.If):
            node.body, node.orelse = (
                _drop_assignments(name, node.body, where),
                _drop_assignments(name, node.orelse, where) if node.orelse else [],
            )
        kept.append(node)
    return kept or [ast.copy_location(ast.Pass(), where)]

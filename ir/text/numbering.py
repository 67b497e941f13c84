"""Statements that remember the line of the program's text that they are, whatever passes make of them."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

from ...base.environment import dump_folder, dumps
from ..stmt import BufferStore, Evaluate, For, Function, Stmt
from ..visit import Rewriter, deep_recursion
from .printer import write_lines

__all__ = ["dump_lines", "lines_file", "number_lines"]


def number_lines(function: Function) -> Function:
    """`function` with the line of its text, counted from 1, noted in every loop, store and call."""
    _, begins = write_lines(function)
    with deep_recursion():
        return function.with_body(_Numbering(begins).visit(function.body))


def lines_file(name: str, target: str) -> Path | None:
    """The file that the lines of a function's machine code for a target count, in the folder that TILEWRIGHT_DUMP names; None
    where it names none."""
    folder = dump_folder()
    # a library may hold a function for several processors, each of other loops
    return None if folder is None else folder.absolute() / name / f"loops.{zlib.crc32(target.encode()):08x}.ir"


def dump_lines(function: Function, target: str) -> Function:
    """`function` with its lines noted, after its text was written where TILEWRIGHT_DUMP says; itself where it says nothing."""
    path = lines_file(function.name, target)
    if path is None:
        return function
    with dumps():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([*write_lines(function)[0], ""]))
    return number_lines(function)


class _Numbering(Rewriter):
    def __init__(self, begins: dict[Stmt, int]) -> None:
        self.begins = begins

    def _number(self, node: For | BufferStore | Evaluate) -> Stmt:
        return replace(self.generic(node), line=self.begins[node] + 1)

    For = BufferStore = Evaluate = _number

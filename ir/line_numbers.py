"""Statements that remember which line of the program's text they are, whatever passes make of them."""

from __future__ import annotations

from dataclasses import replace

from .stmt import BufferStore, Evaluate, For, Function, Stmt
from .text.printer import lines_of
from .visit import Rewriter, deep_recursion

__all__ = ["number_lines"]


def number_lines(function: Function) -> Function:
    """`function` with the line of its text, counted from 1, noted in every loop, store and call."""
    _, begins = lines_of(function)
    with deep_recursion():
        return function.with_body(_Numbering(begins).visit(function.body))


class _Numbering(Rewriter):
    def __init__(self, begins: dict[Stmt, int]) -> None:
        self.begins = begins

    def _number(self, node: For | BufferStore | Evaluate) -> Stmt:
        return replace(self.generic(node), line=self.begins[node] + 1)

    For = BufferStore = Evaluate = _number

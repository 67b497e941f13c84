"""Operators of a program that have no row here, taken apart by torch into others; and results that torch writes to no file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

from ...errors import FAULTS, is_interruption

__all__ = ["taken_apart", "with_plain_results"]

_MOST_LEVELS = 4
"""An operator may be made of others that are not known either."""


def taken_apart(program: Any, is_known: Callable[[str], bool]) -> Any:
    """A torch.export.ExportedProgram in which torch has decomposed the operators that are not known, until all are; itself where
    that does not come to be. is_known: whether an operator, "torch.ops.aten.relu.default", has a row. What is known stays as the
    user wrote it."""
    torch, made = sys.modules["torch"], program
    for _ in range(_MOST_LEVELS):
        others = {
            node.target
            for node in made.graph.nodes
            if isinstance(node.target, torch._ops.OpOverload) and not is_known(f"torch.ops.{node.target!s}")
        }
        if not others:
            return made
        table = torch.export.default_decompositions()
        if any(operator not in table for operator in others):
            break
        try:
            made = made.run_decompositions({operator: table[operator] for operator in others})
        except FAULTS as error:
            if is_interruption(error):
                raise
            break  # it is refused for what the user wrote then
    return program


def with_plain_results(program: Any) -> Any:
    """A torch.export.ExportedProgram that gives its results as a list: torch writes no tuples with names, as topk returns them."""
    tree = sys.modules["torch.utils._pytree"]
    whole, *inner = program.module_call_graph
    leaves = tree.tree_structure([0] * whole.signature.out_spec.num_leaves)
    plain = copy(program)
    plain._module_call_graph = [replace(whole, signature=replace(whole.signature, out_spec=leaves)), *inner]
    return plain

"""`likely(c)` to `c`: the hint has served once loops are partitioned and vectorized.

It stands last, because everything before may read the hint.
"""

from __future__ import annotations

from typing import Any

from ...contents import require_any
from ...expr import Call, Expr
from ...stmt import Function
from ...visit import rewrite

__all__ = ["remove_likely"]


@require_any("likely")
def remove_likely(function: Function) -> Function:
    """`function` without `likely` calls."""

    def rule(node: Any) -> Expr | None:
        return node.args[0] if isinstance(node, Call) and node.name == "likely" else None

    return function.with_body(rewrite(function.body, rule))

"""Prefetches left out, for targets whose caches are not asked to fetch ahead.

prefetch(&A[i + 16])      →      nothing
"""

from __future__ import annotations

from typing import Any

from ...expr import Call
from ...stmt import Evaluate, Function, Seq
from ...visit import rewrite

__all__ = ["PREFETCH", "remove_prefetches"]

PREFETCH = "prefetch"
"""The intrinsic: prefetch(a pointer), a hint that the element will be read soon."""


def remove_prefetches(function: Function) -> Function:
    """`function` without prefetches."""

    def rule(node: Any) -> Seq | None:
        is_prefetch = isinstance(node, Evaluate) and isinstance(node.value, Call) and node.value.name == PREFETCH
        return Seq(()) if is_prefetch else None

    return function.with_body(rewrite(function.body, rule))

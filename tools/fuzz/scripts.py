# ruff: noqa: F821
"""Hybrid scripts that are fuzzed. As Python on numpy arrays they say themselves what is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...te import hybrid

output_tensor: Callable[..., Any]
"""A name that hybrid scripts have."""

__all__ = ["SCRIPTS", "row_sums"]


@hybrid.script
def outer(a: Any, b: Any) -> Any:
    c = output_tensor((a.shape[0], b.shape[0]), a.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            c[i, j] = max(a[i], b[j])
    return c


@hybrid.script
def running(a: Any, b: Any) -> Any:
    c = output_tensor((a.shape[0], b.shape[0]), a.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            c[i, j] = a[i]
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            for k in range(j + 1):
                c[i, j] = max(c[i, j], b[k])
    return c


@hybrid.script
def sorted_rows(a: Any, b: Any) -> Any:
    c = output_tensor((a.shape[0], b.shape[0]), a.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            c[i, j] = min(a[i], b[j])
        for _ in range(b.shape[0]):
            for j in range(b.shape[0] - 1):
                if c[i, j] > c[i, j + 1]:
                    t = c[i, j]
                    c[i, j] = c[i, j + 1]
                    c[i, j + 1] = t
    return c


@hybrid.script
def row_sums(a: Any, b: Any) -> Any:
    c = output_tensor((a.shape[0], b.shape[0]), a.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            c[i, j] = a[i]
            for k in range(j):
                c[i, j] = c[i, j] + min(max(c[i, k], b[k]), b[j])
    return c


SCRIPTS = (outer, running, sorted_rows, row_sums)

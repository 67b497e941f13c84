"""Symbols and axes: what users make before, and beside, tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ..base.arguments import is_a
from ..base.errors import user_source
from ..ir import Expr, IntImm, IterVar, Range, SizeVar, Var, ops
from ..ir.dtype import INT32, INT64
from .errors import BadExtent, BadThreadAxis, WrongParameters
from .shape import Extent, axis_dtype, integer_expr, scalar_dtype, wide_enough

__all__ = ["THREAD_TAGS", "reduce_axis", "size_var", "thread_axis", "var"]

THREAD_TAGS = (
    "blockIdx.x",
    "blockIdx.y",
    "blockIdx.z",
    "threadIdx.x",
    "threadIdx.y",
    "threadIdx.z",
    "vthread",
    "vthread.x",
    "vthread.y",
    "vthread.z",
    "cthread",
)
"""What te.thread_axis takes; cthread is TVM's other name for a virtual thread."""


def var(name: str = "tindex", dtype: object = "int32") -> Var:
    """A symbol: an extent that is known when the kernel runs, or a scalar argument of it.

    dtype: any scalar type; extents and what is added to indices are int32 or int64. Raises UnknownDType (TW0101) for vectors and
    pointers, WrongParameters (TW0111) for a name that is not a text.
    """
    return Var(_checked_name(name), scalar_dtype(dtype))


def _checked_name(name: Any) -> str:
    """A name of a symbol or an axis. Raises WrongParameters (TW0111) for what is not a text."""
    if not isinstance(name, str):
        raise WrongParameters(
            f"no symbol or axis can be called {name!r}"[:200],
            reason=f"a name is a text; got {type(name).__name__}",
            called=user_source(),
            fix='te.var("n"), te.reduce_axis((0, 8), "k")',
        )
    return name


def size_var(name: str = "size", dtype: object = "int32") -> SizeVar:
    """A symbol for an extent: an integer that is never negative, of which bounds are proved with that.

    dtype: an integer type. Raises BadExtent (TW0110) for others, UnknownDType (TW0101) for anything else,
    WrongParameters (TW0111) for a name that is not a text.
    """
    kind = scalar_dtype(dtype)
    if not kind.is_integer:
        raise BadExtent(
            f"the size '{name}' is not an integer",
            reason=f"its dtype is {kind}",
            called=user_source(),
            fix=f'te.size_var("{name}", "int32"), or te.var for a scalar of another type',
        )
    return SizeVar(_checked_name(name), kind)


def reduce_axis(dom: Range | Sequence[Extent], name: str = "rv") -> IterVar:
    """An axis to reduce over, from `dom[0]` up to, and without, `dom[1]`.

    dom: (begin, end), ints or integer expressions, also over the axes and the tensors of the compute that it is used in. The axis
    is int32, or int64 where an end is. Raises BadExtent (TW0110) where an end is not an integer, or the end lies before the begin.
    """
    domain = _domain(dom, name)
    return IterVar(name, domain.begin.dtype, domain, "reduce")


def _domain(dom: Any, name: str) -> Range:
    if isinstance(dom, Range):
        return dom
    if not isinstance(dom, (tuple, list)) or len(cast("list[Any]", dom)) != 2:
        raise BadExtent(
            f"the domain of axis '{name}' is not a pair (begin, end)",
            reason=f"got {dom!r}"[:200],
            called=user_source(),
            fix=f'te.reduce_axis((0, {dom}), "{name}")'
            if isinstance(dom, (int, Expr))
            else f'te.reduce_axis((0, n), "{name}")',
        )
    # at least int32, so that bounds of int8 do not wrap
    begin = wide_enough(integer_expr(dom[0], f"the begin of axis '{name}'"))
    end = wide_enough(integer_expr(dom[1], f"the end of axis '{name}'"))
    extent = ops.subtract(end, begin)
    if isinstance(extent, IntImm) and extent.value < 0:
        raise BadExtent(
            f"the domain of axis '{name}' has a negative extent",
            reason=f"it begins at {begin} and ends at {end}",
            called=user_source(),
            fix="the end is exclusive and not below the begin: (begin, end)",
        )
    # int64 as soon as any bound is
    dtype = INT64 if INT64 in (begin.dtype, axis_dtype(extent), axis_dtype(end)) else INT32
    return Range(ops.cast(begin, dtype), ops.cast(extent, dtype))


def thread_axis(
    dom: str | Range | Extent | tuple[Extent, Extent] | None = None, tag: str = "", name: str = ""
) -> IterVar:
    """A thread axis: te.thread_axis("threadIdx.x"), te.thread_axis((0, n), "threadIdx.x") or te.thread_axis(n, "...").

    Parameters
    ----------
    dom : int, Expr, pair of these, Range or None, default None
        (begin, end), or an extent; without one it takes the extent of what is bound to it.
    tag : str, default ""
        blockIdx.x, threadIdx.x and their like, or vthread (see THREAD_TAGS).
    name : str, default ""
        Of the axis; the tag where it is empty.

    Raises
    ------
    BadThreadAxis (TW0123)
        There is no such tag.
    BadExtent (TW0110)
        The domain is none.
    """
    if isinstance(dom, str):
        dom, tag = None, dom if is_a(tag, str) and not tag else tag  # TVM's order: the tag may come first
    if not is_a(tag, str) or tag not in THREAD_TAGS:
        raise BadThreadAxis(
            "a thread axis needs a tag" if is_a(tag, str) and not tag else f"unknown thread tag {tag!r}"[:200],
            called=user_source(),
            allowed=", ".join(THREAD_TAGS),
            fix='te.thread_axis("threadIdx.x") or te.thread_axis((0, 32), "threadIdx.x")',
        )
    if dom is None:
        # an axis without a domain takes that of what is bound to it
        return IterVar(name or tag, INT32, None, "thread", tag)
    domain = _domain(dom if isinstance(dom, (tuple, list, Range)) else (0, dom), name or tag)
    return IterVar(name or tag, domain.begin.dtype, domain, "thread", tag)

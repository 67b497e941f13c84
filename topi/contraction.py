"""Products of tensors summed over the dimensions that they share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .. import te
from ..base.arguments import is_a, is_sequence, to_list
from ..base.errors import user_source
from ..ir.expr import Expr
from ..ir.ops import common_dtype, is_const
from ..te.shape import same_extent
from ..te.tensor import Tensor, tensor_text
from .checks import BadOperand, BadParameter, integers, normalize_axis, tensor
from .matmul import convert_elements, product, sum_dtype

__all__ = ["einsum", "tensordot"]


def tensordot(a: Tensor, b: Tensor, axes: Any = 2) -> Tensor:
    """The sum of products over dimensions that two tensors share, as numpy's tensordot. Error bounds are those of
    topi.matmul.

    Parameters
    ----------
    a : Tensor
        Of any shape.
    b : Tensor
        Of any shape.
    axes : int or pair of sequences, default 2
        How many of the last dimensions of a, and the first of b, or the dimensions of each, (of a, of b).

    Returns
    -------
    Tensor
        The other dimensions of a, then those of b.

    Raises
    ------
    BadAxis (TW0180)
        An axis that the tensor does not have.
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    BadParameter (TW0182)
        A parameter of another kind, or out of range.
    """
    left, right = tensor(a, "tensordot"), tensor(b, "tensordot")
    if is_sequence(axes):
        # one list serves for both tensors
        named = [to_list(dims) for dims in (axes if len(axes) == 2 else (axes, axes))]
    else:
        (count,) = integers(axes, "axes of tensordot", 1)
        if not 0 <= count <= min(left.ndim, right.ndim):
            raise BadParameter(
                f"tensordot sums over no {count} dimensions of {tensor_text(left)} and {tensor_text(right)}",
                called=user_source(),
                fix="axes=1 for the product of matrices",
            )
        named = [list(range(left.ndim - count, left.ndim)), list(range(count))]
    ours, theirs = (
        [normalize_axis(left, at, "tensordot") for at in named[0]],
        [normalize_axis(right, at, "tensordot") for at in named[1]],
    )
    if len(ours) != len(theirs) or not all(
        same_extent(left.shape[x], right.shape[y]) for x, y in zip(ours, theirs, strict=True)
    ):
        raise BadOperand(
            f"tensordot cannot multiply {tensor_text(left)} by {tensor_text(right)}",
            declared=left.source,
            reason=f"axes {ours} of the first and {theirs} of the second differ",
            called=user_source(),
            fix="name dimensions of the same extents in the same order",
        )
    sums = [f"k{at}" for at in range(len(ours))]  # a letter for each dimension that is summed over
    rows = [f"i{at}" for at in range(left.ndim) if at not in ours]
    columns = [f"j{at}" for at in range(right.ndim) if at not in theirs]
    first = [sums[ours.index(at)] if at in ours else f"i{at}" for at in range(left.ndim)]
    second = [sums[theirs.index(at)] if at in theirs else f"j{at}" for at in range(right.ndim)]
    return _contract([left, right], [first, second], [*rows, *columns], "tensordot")


def einsum(subscripts: str, *operand: Any) -> Tensor:
    """The sum of products that numpy's einsum writes as "ij,jk->ik": a letter for each dimension, those that are not on the
    right summed over; "..." stands for the dimensions that have none. Without "->" the right side has the letters that occur
    once, in order. Raises BadParameter (TW0182), BadOperand (TW0181)."""
    if not is_a(subscripts, str):
        raise BadParameter(
            "einsum takes subscripts first",
            reason=f"got {subscripts!r}"[:200],
            called=user_source(),
            fix='topi.einsum("ij,jk->ik", A, B)',
        )
    given = to_list(operand[0] if len(operand) == 1 else operand)
    tensors = [tensor(factor, "einsum") for factor in given]
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    # at most one ellipsis in a term
    legal = all(re.fullmatch(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*", term) for term in (*terms, right))
    if not legal or len(terms) != len(tensors):
        raise BadParameter(
            f"einsum cannot read {subscripts!r}",
            reason=f"there are {len(tensors)} tensors",
            called=user_source(),
            fix='topi.einsum("ij,jk->ik", A, B)',
        )
    free = max(
        (
            factor.ndim - len(term.replace("...", ""))
            for factor, term in zip(tensors, terms, strict=True)
            if "..." in term
        ),
        default=0,
    )
    labels = [_labels(term, factor) for factor, term in zip(tensors, terms, strict=True)]
    # ".1" is the last of an ellipsis, as shapes are aligned at their ends
    broad = [f".{at}" for at in range(free, 0, -1)]
    if arrow:
        before, dots, after = right.partition("...")
        out = [*before, *(broad if dots else ()), *after]
    else:
        letters = sorted({letter for letter in left if letter.isalpha()})
        # numpy's rule without an arrow: letters that occur once, in alphabetical order
        out = [*broad, *(letter for letter in letters if left.count(letter) == 1)]
    known = {label for term in labels for label in term}
    if len(set(out)) < len(out) or not set(out) <= known:
        raise BadParameter(
            f"einsum cannot read {subscripts!r}",
            reason="a letter on the right is new, or stands there twice",
            called=user_source(),
            fix='topi.einsum("ij,jk->ik", A, B)',
        )
    return _contract(tensors, labels, out, "einsum")


def _labels(term: str, factor: Tensor) -> list[str]:
    """A name for each dimension; those under "..." are named by their distance from its end."""
    before, dots, after = term.partition("...")
    count = factor.ndim - len(before) - len(after)
    if count < 0 or (count and not dots):
        raise BadParameter(
            f"einsum: {term!r} does not name the dimensions of {tensor_text(factor)}",
            declared=factor.source,
            called=user_source(),
            fix='a letter for each dimension, "..." for those that have none',
        )
    return [*before, *(f".{at}" for at in range(count, 0, -1)), *after]


def _contract(tensors: Sequence[Tensor], labels: Sequence[Sequence[str]], out: Sequence[str], name: str) -> Tensor:
    extents: dict[str, Any] = {}
    for factor, names in zip(tensors, labels, strict=True):
        own: dict[str, Any] = {}
        for label, extent in zip(names, factor.shape, strict=True):
            diagonal = own.setdefault(label, extent)
            fits = same_extent(extent, diagonal)  # one letter twice in a term is a diagonal
            # an extent of 1 broadcasts, and gives way to another
            if fits and (label not in extents or is_const(extents[label], 1)):
                extents[label] = extent
            elif not fits or not is_const(extent, 1) and not same_extent(extent, extents[label]):
                raise BadOperand(
                    f"{name} cannot sum over {tensor_text(factor)}",
                    declared=factor.source,
                    called=user_source(),
                    reason=f"a dimension of {extent} meets one of {extents[label] if fits else diagonal}",
                    fix="dimensions of one letter have one extent, or 1; those of one tensor have one extent",
                )
    kind = tensors[0].dtype
    for factor in tensors[1:]:
        kind = common_dtype(kind, factor.dtype)
    wide = sum_dtype(kind)  # 16-bit floats are added up in float32
    axes = {
        label: te.reduce_axis((0, extent), f"k{at}")
        for at, (label, extent) in enumerate(extents.items())
        if label not in out
    }

    def element(*i: Any) -> Expr:
        at = {**dict(zip(out, i, strict=True)), **axes}
        values = [
            factor[
                tuple(
                    # what has extent 1 is read at 0
                    0 if is_const(extent, 1) else at[label]
                    for label, extent in zip(names, factor.shape, strict=True)
                )
            ]
            for factor, names in zip(tensors, labels, strict=True)
        ]
        value = values[0].astype(wide)  # converted before the product, which would round otherwise
        for other in values[1:]:
            value = product(value, other, wide)
        return te.sum(value, axis=list(axes.values())) if axes else value

    sums: Tensor = te.compute(
        tuple(extents[label] for label in out), element, name=f"T_{name}", tag="" if axes else "injective"
    )
    return convert_elements(sums, kind)

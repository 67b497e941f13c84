"""Boundaries: a tensor continued beyond its shape, so that a stencil reads at any index.

    index:               -4 -3 -2 -1 |  0  1  2 | 3  4  5  6
    A:                               |  a  b  c |
    clamped(A):           a  a  a  a |  a  b  c | c  c  c  c
    mirrored(A):          c  c  b  a |  a  b  c | c  b  a  a
    wrapped(A):           c  a  b  c |  a  b  c | a  b  c  a
    padded(A, 0):         0  0  0  0 |  a  b  c | 0  0  0  0

Each is an expression of reads of A within its shape, so nothing outside is ever read, and the loops over the interior are cut
from those at the boundary, where vectors would have to be gathered. A dimension that is read must have an element
(but for padded).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ..base.errors import user_source
from ..ir import DType, Expr, IterVar, ops
from ..ir.ops import is_const
from .errors import NotExtendable
from .shape import same_extent
from .tensor import Tensor, checked_index, wrong_number

__all__ = ["Extended", "clamped", "mirrored", "padded", "wrapped"]

_Element: TypeAlias = Callable[[Tensor, list[Expr]], Expr]


class Extended:
    """A tensor continued beyond its shape: `E[i, j]`, or `E(i, j)`, is its element at any integer indices. It has the `shape`,
    `dtype`, `ndim` and `name` of the `tensor` itself. Made by te.clamped, te.mirrored, te.wrapped and te.padded."""

    __slots__ = ("_element", "tensor")

    def __init__(self, tensor: Tensor, element: _Element) -> None:
        self.tensor, self._element = tensor, element

    @property
    def shape(self) -> tuple[Expr, ...]:
        """The extents of the tensor itself."""
        return self.tensor.shape

    @property
    def dtype(self) -> DType:
        """The dtype of an element."""
        return self.tensor.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.tensor.ndim

    @property
    def name(self) -> str:
        """The tensor's name."""
        return self.tensor.name

    def __getitem__(self, indices: Any) -> Expr:
        """The element at one index for each dimension. Raises WrongNumberOfIndices (TW0112), BadIndex (TW0113)."""
        return self(*(indices if isinstance(indices, tuple) else (indices,)))

    def __call__(self, *indices: Any) -> Expr:
        """The element at one index for each dimension. Raises WrongNumberOfIndices (TW0112), BadIndex (TW0113)."""
        if len(indices) != self.tensor.ndim:
            raise wrong_number(self.tensor, len(indices))
        # checked here, as the tensor would see indices within its shape
        return self._element(self.tensor, [_index(self.tensor, at, index) for at, index in enumerate(indices)])

    def __repr__(self) -> str:
        return f"Extended({self.tensor!r})"


def clamped(A: Tensor) -> Extended:
    """A continued by its edges, as numpy.pad(mode="edge"): an index beyond an end reads the element at that end.

    A: of any rank and dtype; extents may be symbolic. Where a stage is computed at a loop, the region of A is the window
    that is read with its ends clamped, as a box exactly what is needed. Raises NotExtendable (TW0127).
    """
    # two comparisons are cheaper than a condition and a choice
    return _extend("clamped", A, _clamp_indices(lambda i, n: ops.maximum(ops.minimum(i, n - 1), 0), is_choice=False))


def mirrored(A: Tensor) -> Extended:
    """A continued by its mirror images, edges repeated, as numpy.pad(mode="symmetric"): ... b a | a b c | c b ...

    A: of any rank and dtype; extents may be symbolic. Where a stage is computed at a loop, the region of A is the window that
    is read, moved into the dimension where it leaves that: exact where the window lies in the interior; the image of one that
    is folded at an edge is shorter. It is the whole dimension where all of the window may lie farther outside than it is long.
    Raises NotExtendable (TW0127).
    """

    def index(i: Expr, n: Expr) -> Expr:
        within = ops.floormod(i, n * 2)  # period 2 n: forwards, then backwards
        return ops.minimum(within, n * 2 - 1 - within)

    return _extend("mirrored", A, _clamp_indices(index))


def wrapped(A: Tensor) -> Extended:
    """A continued by itself, again and again, as numpy.pad(mode="wrap"): ... b c | a b c | a b ...

    A: of any rank and dtype; extents may be symbolic. Where a stage is computed at a loop, the region of A is the window that is
    read, also where it goes around: what is stored of A then are positions on a line of copies of A. Raises NotExtendable
    (TW0127).
    """
    return _extend("wrapped", A, _clamp_indices(ops.floormod))


def padded(A: Tensor, value: Any) -> Extended:
    """A continued by one value, as numpy.pad(mode="constant").

    A: of any rank and dtype; extents may be symbolic, and 0. value: a number, or a scalar expression, converted to A's dtype.
    Where a stage is computed at a loop, the region of A is the part of the window that lies in A. Raises NotExtendable (TW0127),
    NotAnExpression (TW0106), LiteralOutOfRange (TW0105).
    """

    def element(tensor: Tensor, indices: list[Expr]) -> Expr:
        # axes over the dimension itself need no condition
        inside = [_is_in_bounds(i, n) for i, n in zip(indices, tensor.shape, strict=True) if not _never_leaves(i, n)]
        if any(is_const(part, 0) for part in inside):  # surely outside: the tensor is not read
            return outside
        return ops.if_then_else(ops.conjunction(*inside), tensor(*indices), outside) if inside else tensor(*indices)

    extended = _extend("padded", A, element)
    # converted once, when the extension is declared
    outside = ops.cast(value, A.dtype) if isinstance(value, Expr) else ops.const(value, A.dtype)
    return extended


def _extend(name: str, A: object, element: _Element) -> Extended:
    if not isinstance(A, Tensor):
        raise NotExtendable(
            f"te.{name} continues a tensor beyond its shape",
            reason=f"got {A!r}"[:200],
            called=user_source(),
            allowed="what te.placeholder and te.compute give",
            fix=f"te.{name}(A), and then read it: [i - 1, j]",
        )
    return Extended(A, element)


def _index(tensor: Tensor, at: int, index: Any) -> Expr:
    """An index, checked; an uint64 as it is: what lies beyond int64 lies beyond the end, not before the beginning."""
    checked = checked_index(tensor, at, index)
    return index if isinstance(index, Expr) and index.dtype == "uint64" else checked


def _clamp_indices(index: Callable[[Expr, Expr], Expr], is_choice: bool = True) -> _Element:
    """Elements at indices that are brought into their dimensions. is_choice: `index` is of use outside alone, and dear."""

    def brought(i: Expr, n: Expr) -> Expr:
        if _never_leaves(i, n):
            return i
        # interior first: loops are cut there, and vectors read in order
        return ops.if_then_else(_is_in_bounds(i, n), i, index(i, n)) if is_choice else index(i, n)

    return lambda tensor, indices: tensor(*map(brought, indices, tensor.shape))


def _is_in_bounds(i: Expr, n: Expr) -> Expr:
    return ops.conjunction(i >= 0, i < n)


def _never_leaves(i: Expr, n: Expr) -> bool:
    """Return whether an index is an axis over the dimension itself."""
    return isinstance(i, IterVar) and i.dom is not None and is_const(i.dom.begin, 0) and same_extent(i.dom.extent, n)

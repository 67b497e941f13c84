"""Rows of a tensor, for operators on rows: a row is all the elements that differ in some axes only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import te
from ...base.errors import user_source
from ...ir.dtype import FLOAT32, DType
from ...ir.expr import Expr
from ...te.shape import same_extent
from ...te.tag import AlgorithmTag
from ...te.tensor import Tensor, tensor_text
from ..checks import BadAxis, BadOperand, normalize_axes, tensor


def wide_dtype(dtype: DType) -> DType:
    """Return the dtype in which an operator on elements of `dtype` computes: float64 stays, all else is float32."""
    return dtype if dtype == "float64" else FLOAT32  # float64 is not narrowed


class Rows:
    """The rows of a tensor along some axes, for an operator of this name. Raises BadOperand (TW0181), BadAxis (TW0180).

    axes: those of a row, in order; kept: the others. wide: the type in which sums are taken; dtype: that of the result,
    the tensor's own if it is one of floats. tag: of the last operation, and the beginning of those of the others.
    """

    def __init__(self, name: str, x: Tensor, axis: Any) -> None:
        self.name, self.tag, self.x = name, AlgorithmTag(name), tensor(x, f"topi.nn.{name}")
        self.axes = normalize_axes(self.x, axis, f"topi.nn.{name}")
        if not self.axes:
            raise BadAxis(
                f"topi.nn.{name} has no axis to run over",
                reason=f"got {axis!r} for {tensor_text(self.x)}",
                declared=self.x.source,
                called=user_source(),
                fix="axis=-1 runs over the last of its dimensions",
            )
        self.kept = tuple(at for at in range(x.ndim) if at not in self.axes)
        self.wide = wide_dtype(x.dtype)
        self.dtype = x.dtype if x.dtype.is_float else FLOAT32  # integers have no quotients of their own type

    def check_weights(self, what: str, weights: Tensor | None, axes: Sequence[int]) -> None:
        """Raise BadOperand (TW0181) unless the weights, where there are any, have the extents of these axes."""
        if weights is None:
            return
        tensor(weights, f"{what} of topi.nn.{self.name}", len(axes))
        wanted = [self.x.shape[at] for at in axes]
        if not all(map(same_extent, weights.shape, wanted)):
            raise BadOperand(
                f"topi.nn.{self.name} cannot take {tensor_text(weights)} as {what}",
                reason=f"along {what} of {tensor_text(self.x)} there are {' x '.join(map(str, wanted))} elements",
                declared=weights.source,
                called=user_source(),
                fix=f"te.placeholder(({', '.join(map(str, wanted))},), name={what!r})",
            )

    # Parts of the declaration

    @property
    def count(self) -> Expr:
        """The number of elements of a row."""
        length: Expr | None = None
        for at in self.axes:
            length = self.x.shape[at] if length is None else length * self.x.shape[at]
        assert length is not None  # a row has at least one axis, as the constructor has refused others
        return length

    def at(self, kept: Sequence[Any], inside: Sequence[Any]) -> tuple[Any, ...]:
        """Indices of the tensor, from those of the row and those within it."""
        places = dict(zip((*self.kept, *self.axes), (*kept, *inside), strict=True))  # the tensor's own order of axes
        return tuple(places[at] for at in range(self.x.ndim))

    def row_of(self, indices: Sequence[Any]) -> tuple[Any, ...]:
        """Return the indices that name the row."""
        return tuple(indices[at] for at in self.kept)

    def within(self, indices: Sequence[Any]) -> tuple[Any, ...]:
        """Return the indices within the row."""
        return tuple(indices[at] for at in self.axes)

    def value(self, indices: Sequence[Any]) -> Expr:
        """An element, as wide as sums are."""
        return self.x[tuple(indices)].astype(self.wide)

    def reduce(
        self,
        part: str,
        reduce: Any,
        element: Callable[[Sequence[Any]], Expr],
        attrs: Mapping[str, Any] | None = None,
    ) -> Tensor:
        """A number for each row: `reduce` (te.sum) of `element(indices)` over the row. It may have rank 0."""
        axes = [te.reduce_axis((0, self.x.shape[at]), name=f"k{at}") for at in self.axes]
        reduction: Tensor = te.compute(
            tuple(self.x.shape[at] for at in self.kept),
            lambda *kept: reduce(element(self.at(kept, axes)), axis=axes),
            name=f"{self.name}.{part}",
            tag=self.tag.part(part),
            attrs=attrs,
        )
        return reduction

    def declare_row(self, part: str, element: Callable[[Sequence[Any]], Expr]) -> Tensor:
        """A number for each row: `element(which row)`."""
        per_row: Tensor = te.compute(
            tuple(self.x.shape[at] for at in self.kept),
            lambda *kept: element(kept),
            name=f"{self.name}.{part}",
            tag=self.tag.part(part),
        )
        return per_row

    def result(self, element: Callable[[Sequence[Any]], Expr]) -> Tensor:
        """The operator's last operation: `element(indices)`, in the result's type."""
        # rounded once, at the end
        y: Tensor = te.compute(self.x.shape, lambda *i: _cast(element(i), self.dtype), name=self.name, tag=self.tag)
        return y


def _cast(value: Expr, dtype: DType) -> Expr:
    return value if value.dtype == dtype else value.astype(dtype)

"""Images in any layout as rows of numbers, in which a pixel's channels lie side by side.

Operators that move along rows read `image.at(lead, y, f, dx)`: of the image `lead`, the number f of row y, dx pixels further
on. What lies outside is made by the border:

    "edge"     a a | a b c d | d d            "reflect"  c b | a b c d | c b
    "zero"     0 0 | a b c d | 0 0            "valid"    there is nothing, and the result is smaller

Where nothing is outside the index is a sum, so that loops over the inside of a row read vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base import dataclass, user_source
from ...ir.expr import Expr, IntImm
from ...ir.ops import integer_value
from ...te import polymorphic as te
from ...te.shape import shape_text
from ...te.tensor import Tensor
from ..checks import tensor
from .errors import BadImage

BORDERS = ("edge", "reflect", "zero", "valid")
LAYOUTS = {2: "HW", 3: "HWC", 4: "NCHW"}
"""What a tensor of each rank is taken for."""


@dataclass(frozen=True)
class Plane:
    """A tensor that holds images. lead: how many dimensions come before height; pitch: the channels of a pixel that lie
    side by side."""

    data: Tensor
    lead: int
    pitch: Any
    border: str

    @staticmethod
    def of(data: Tensor, layout: str | None = None, border: str = "edge") -> Plane:
        """Planes of an image in a layout.

        layout: a letter a dimension, W right after H and at most one after it; None for the usual one of the rank.
        Raises BadImage (TW0195).
        """
        tensor(data, "an image's operator")
        named = layout or LAYOUTS.get(data.ndim, "")
        at = named.find("HW")
        if len(named) != data.ndim or at < 0 or data.ndim - at > 3:  # channels may follow W, nothing else
            raise BadImage(
                f"{data.name} is not {named or 'an image'!r}",
                declared=data.source,
                called=user_source(),
                reason=f"its shape is {shape_text(data.shape)}; a layout names each dimension, W right after H",
                fix='layout="HW", "HWC", "CHW", "NCHW" or "NHWC"',
            )
        if border not in BORDERS:
            raise BadImage(
                f"there is no border {border!r}",
                called=user_source(),
                reason="it says what lies outside of an image",
                allowed=", ".join(map(repr, BORDERS)),
                fix='border="edge"',
            )
        # without channels behind, a pixel is one number
        return Plane(data, at, data.shape[at + 2] if data.ndim == at + 3 else 1, border)

    @property
    def high(self) -> Any:
        return self.data.shape[self.lead]

    @property
    def wide(self) -> Any:
        return self.data.shape[self.lead + 1]

    def result_size(self, before: int, after: int) -> tuple[Any, Any]:
        """Height and width of what windows that reach so far from their pixel give."""
        if self.border != "valid":
            return self.high, self.wide
        lost = before + after  # windows of before + 1 + after pixels
        for extent, what in ((self.high, "height"), (self.wide, "width")):
            if isinstance(extent, IntImm) and extent.value < lost:  # symbolic extents are checked when the kernel runs
                raise BadImage(
                    f"a window of {lost + 1} does not fit into the {what} {extent}",
                    declared=self.data.source,
                    called=user_source(),
                    reason='with the border "valid" windows lie within the image',
                    fix='border="edge", or a smaller window',
                )
        return self.high - lost, self.wide - lost

    def margin(self, reach: int) -> int:
        """The number of rows outside of the image, on either side, that windows read which reach so far: none with the border
        "valid", nor of an image without rows, which has nothing to repeat."""
        # nothing to repeat of an image without rows
        return 0 if self.border == "valid" or integer_value(self.high) == 0 else reach

    def rows(self, high: Any, wide: Any, fcompute: Callable[..., Expr], name: str, tag: str = "") -> Tensor:
        """A tensor of rows of numbers: fcompute(lead, y, f)."""
        shape = (*self.data.shape[: self.lead], high, wide * self.pitch)
        return te.compute(shape, lambda *at: fcompute(at[: self.lead], at[-2], at[-1]), name=name, tag=tag)

    def pixels(
        self,
        high: Any,
        wide: Any,
        fcompute: Callable[..., Expr],
        name: str,
        tag: str = "",
        attrs: dict[str, Any] | None = None,
    ) -> Tensor:
        """A tensor of the image's own layout: fcompute(lead, y, f)."""
        shape = (*self.data.shape[: self.lead], high, wide, *self.data.shape[self.lead + 2 :])

        def element(*at: Any) -> Expr:
            flat = at[self.lead + 1] if self._one else at[self.lead + 1] * self.pitch + at[self.lead + 2]
            return fcompute(at[: self.lead], at[self.lead], flat)

        # the schedule has to know which dimensions are rows
        return te.compute(shape, element, name=name, tag=tag, attrs={**(attrs or {}), "lead": self.lead})

    def at(self, lead: tuple[Any, ...], y: Any, f: Any, dx: int = 0, rows_outside: bool = False) -> Expr:
        """An element of the image, or of what lies around it. rows_outside: whether y may be no row of it."""
        row, in_rows = self._row(y) if rows_outside and self.border != "valid" else (y, [])
        column, in_columns = self._column(f, dx)
        value = self.data[(*lead, row, *column)]
        if not in_rows + in_columns:  # without conditions loops read vectors
            return value
        # most pixels are inside: likely() lets LLVM split the loops
        return te.if_then_else(te.likely(te.all(*in_rows, *in_columns)), value, te.const(0, self.data.dtype))

    @property
    def _one(self) -> bool:
        return self.data.ndim == self.lead + 2

    def _row(self, y: Any) -> tuple[Any, list[Any]]:
        if self.border == "zero":  # zeros need a condition, other borders another index
            return y, [y >= 0, y < self.high]
        # mirrored at both ends, then clipped, since windows may be larger than the image
        mirrored = te.min(te.max(y, -y), 2 * self.high - 2 - te.max(y, -y)) if self.border == "reflect" else y
        return te.max(te.min(mirrored, self.high - 1), 0), []

    def _column(self, f: Any, dx: int) -> tuple[tuple[Any, ...], list[Any]]:
        """The indices of width and channel, and what must hold for them to be within the image."""
        # f counts numbers, of which a pixel has `pitch`
        pixel, channel = (f, ()) if self._one else (te.indexdiv(f, self.pitch), (te.indexmod(f, self.pitch),))
        place = pixel + dx if dx else pixel
        if not dx or self.border == "valid":
            return (place, *channel), []  # sums alone: lanes side by side read what lies side by side
        moved = f + dx * self.pitch
        # only on the side it is moved to can it be outside
        inside = moved >= 0 if dx < 0 else moved < self.wide * self.pitch
        if self.border == "zero":
            return (place, *channel), [inside]
        return (te.if_then_else(te.likely(inside), place, self._border_position(place, self.wide, dx)), *channel), []

    def _border_position(self, place: Any, extent: Any, moved: int) -> Any:
        """The place that stands for one which is outside on the side it was moved to."""
        if self.border == "edge":
            return te.const(0, "int32") if moved < 0 else extent - 1
        # clipped, as a window may reach beyond the mirror image
        return te.max(te.min(-place if moved < 0 else 2 * extent - 2 - place, extent - 1), 0)

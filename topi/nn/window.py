"""Windows that slide over images: strides, dilations and paddings as users write them, and the sizes that follow; the errors of
networks' operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base import TensorExpressionError, dataclass, user_source
from ...base.arguments import to_list
from ...ir.expr import Expr, IntImm
from ...te import polymorphic as te
from ...te.shape import integer_expr
from ...te.tensor import Tensor


class BadWindow(TensorExpressionError):
    """A stride, a dilation, a padding or a size that no window over an image has."""

    code = "TW0190"


class BadConvolution(TensorExpressionError):
    """Data and kernel of a convolution whose dimensions, channels or layouts do not fit each other."""

    code = "TW0191"


class BadAttention(TensorExpressionError):
    """Queries, keys and values whose dimensions, sizes or types do not fit each other."""

    code = "TW0197"


class BadQuantised(TensorExpressionError):
    """Quantised data, weights, scales or zero points whose types or sizes do not fit each other."""

    code = "TW0198"


Sizes = int | Sequence[int]
"""An annotation: one number for all dimensions, or one for each."""
Padding = int | Sequence[int] | str
"""An annotation: one number for all sides, one for each dimension or side, "SAME" or "VALID"."""


def pair(value: Sizes, what: str, least: int = 1) -> tuple[int, int]:
    """One number for height and width, or one for each. Raises BadWindow (TW0190) for numbers below `least`."""
    high, wide = expand_numbers(value, 2, what, least)
    return high, wide


def pad_amounts(padding: Padding, reach: tuple[int, int]) -> tuple[int, int, int, int]:
    """Padding as (top, left, bottom, right): of the forms that each_side takes. reach: the height and width of the window, dilation
    included. Raises BadWindow (TW0190)."""
    (top, left), (bottom, right) = each_side(padding, reach)
    return top, left, bottom, right


def expand_numbers(value: Sizes, dims: int, what: str, least: int = 1) -> list[int]:
    """One number for all of so many dimensions, or one for each. Raises BadWindow (TW0190) for numbers below `least`."""
    numbers = _numbers(value, what)
    numbers = numbers * dims if len(numbers) == 1 else numbers
    if len(numbers) != dims or min(numbers) < least:
        several = {1: "a number", 2: "a number, or a pair for height and width"}.get(dims, f"a number, or {dims}")
        raise _bad(what, value, f"{several}, from {least} on")
    return numbers


def each_side(padding: Padding, reach: Sequence[int]) -> tuple[list[int], list[int]]:
    """Padding before and after each dimension: a number, one for each dimension, those before all dimensions and those after,
    "VALID" for none, or "SAME" for as many as keep the size at stride 1, the odd one before, as TVM has it. reach: of the windows,
    dilation included. Raises BadWindow (TW0190)."""
    dims = len(reach)
    if isinstance(padding, str) and padding in ("SAME", "VALID"):
        more = [max(extent - 1, 0) if padding == "SAME" else 0 for extent in reach]
        return [-(-total // 2) for total in more], [total // 2 for total in more]
    numbers = [] if isinstance(padding, str) else _numbers(padding, "padding")
    numbers *= {1: 2 * dims, dims: 2}.get(len(numbers), 1)
    if len(numbers) != 2 * dims or min(numbers) < 0:
        sides = "(top, left, bottom, right)" if dims == 2 else "those before and those after"
        raise _bad("padding", padding, f'a number, one for each dimension, {sides}, "SAME" or "VALID"')
    return numbers[:dims], numbers[dims:]


def window_count(size: Any, before: int, after: int, reach: int, stride: int, what: str) -> Any:
    """Return the number of windows that fit. Raises BadWindow (TW0190) where a known size is too small for one."""
    room = size + (before + after - reach)
    if isinstance(room, IntImm):
        room = room.value
    if isinstance(room, int):
        if room < 0:
            raise BadWindow(
                f"a window of {reach} does not fit into {what}",
                called=user_source(),
                reason=f"{what} is {room + reach} with its padding",
                fix="pad more, or use a smaller kernel or dilation",
            )
        return room // stride + 1
    return te.indexdiv(room, stride) + 1


@dataclass(frozen=True)
class Slides:
    """Windows along any number of dimensions: for each their taps, how far windows and taps lie apart, the padding before and after,
    and how many windows there are. beyond: how far the last windows reach beyond the padding."""

    taps: list[int]
    steps: list[int]
    far: list[int]
    low: list[int]
    high: list[int]
    out: list[Any]
    beyond: list[int]

    def axes(self) -> list[te.IterVar]:
        """Reduce axes over the taps."""
        names = (
            ("rz", "ry", "rx")[-len(self.taps) :] if len(self.taps) <= 3 else [f"r{at}" for at in range(len(self.taps))]
        )
        return [te.reduce_axis((0, extent), name) for extent, name in zip(self.taps, names, strict=True)]

    def places(self, index: Sequence[Any], taps: Sequence[Any]) -> list[Any]:
        """Return the place in the padded image that a tap of a window reads."""
        return [at * step + tap * by for at, step, tap, by in zip(index, self.steps, taps, self.far, strict=True)]

    def sources(self, place: Sequence[Any]) -> list[Any]:
        """Return the place in the image that lies at one in the padded image."""
        return [at - before if before else at for at, before in zip(place, self.low, strict=True)]

    def guards(self, place: Sequence[Any], size: Sequence[Any]) -> list[Any]:
        """The conditions under which a place lies in the image, as far as padding may be met."""
        return [
            guard
            for at, extent, before, after in zip(place, size, self.low, self.high, strict=True)
            for guard in ([at >= 0] if before else []) + ([at < extent] if after else [])
        ]

    def attributes(self, groups: int = 1) -> dict[str, Any]:
        """The attributes of a sum over windows, for the rules that schedule it."""
        pads = (*self.low, *self.high)
        return {"stride": tuple(self.steps), "dilation": tuple(self.far), "padding": pads, "groups": groups}


def slide_windows(
    size: Sequence[Any],
    kernel: Sizes,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    names: Sequence[str] = (),
    ceil_mode: bool = False,
) -> Slides:
    """Return the windows over dimensions of these sizes. names: of the dimensions. ceil_mode: a last window may reach beyond the
    padding, as long as it begins before it ends. Raises BadWindow (TW0190)."""
    rank = len(size)
    taps, steps, far = (
        expand_numbers(value, rank, what)
        for value, what in ((kernel, "kernel"), (stride, "stride"), (dilation, "dilation"))
    )
    reach = [(extent - 1) * by + 1 for extent, by in zip(taps, far, strict=True)]
    low, high = each_side(padding, reach)
    named = names or (("depth", "height", "width")[-rank:] if rank <= 3 else [f"dimension {at}" for at in range(rank)])
    out = list(map(window_count, size, low, high, reach, steps, named))
    if not ceil_mode:
        return Slides(taps, steps, far, low, high, out, [0] * rank)
    more = list(map(_count_open, size, low, high, reach, steps, named))
    return Slides(taps, steps, far, low, high, [count for count, _ in more], [beyond for _, beyond in more])


def _count_open(size: Any, before: int, after: int, reach: int, step: int, what: str) -> tuple[int, int]:
    """Count in ceil mode: the number of windows, and how far the last one reaches beyond the padding."""
    if not isinstance(size, IntImm):
        raise BadWindow(
            f"the {what} {size} is not a constant",
            called=user_source(),
            fix="ceil_mode=False, or a size that is known",
            reason="in ceil mode the number of windows depends on it in a way that shapes do not express",
        )
    count = -(-(size.value + before + after - reach) // step) + 1  # rounded up
    # a last window that would begin behind the padding is left out, as torch does
    if (count - 1) * step >= size.value + before:
        count -= 1
    return count, max((count - 1) * step + reach - (size.value + before + after), 0)


def padded(
    data: Tensor, pads: Sequence[int], at: Sequence[int], value: Any = 0, name: str = "pad_temp", peeled: bool = False
) -> Tensor:
    """`data` with `pads` around its dimensions `at` (those before each, then those after), or itself where nothing is added. peeled:
    loops that read it are cut where the padding ends."""
    if not any(pads):
        return data
    amounts = dict(zip(at, zip(pads[: len(at)], pads[len(at) :], strict=True), strict=True))
    shape = [extent + sum(amounts[dim]) if dim in amounts else extent for dim, extent in enumerate(data.shape)]
    outside = te.const(value, data.dtype)

    def element(*indices: Any) -> Expr:
        conditions: list[Any] = []
        there = list(indices)
        for dim, (before, after) in amounts.items():
            there[dim] = indices[dim] - before if before else indices[dim]
            conditions += [indices[dim] >= before] if before else []
            conditions += [indices[dim] < data.shape[dim] + before] if after else []
        inside = te.all(*conditions)
        return te.if_then_else(te.likely(inside) if peeled else inside, data[tuple(there)], outside)

    return te.compute(tuple(shape), element, name=name, tag="injective,pad")


def _numbers(value: Any, what: str) -> list[int]:
    numbers: list[int] = []
    for extent in to_list(value):
        number = integer_expr(extent, what)
        if not isinstance(number, IntImm):
            raise _bad(what, value, "constants: how far a window moves is part of the program")
        numbers.append(number.value)
    return numbers


def _bad(what: str, value: Any, allowed: str) -> BadWindow:
    return BadWindow(
        f"{what} is {value!r}"[:200],
        called=user_source(),
        reason="it does not describe a window",
        allowed=allowed,
        fix=f"{what}=1" if what != "padding" else "padding=0, or padding=(1, 1)",
    )

"""Windows that slide over images: strides, dilations and paddings as users write them, and the sizes that follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...arguments import to_list
from ...errors import user_source
from ...ir.expr import Expr, IntImm
from ...te import either as te
from ...te.shape import integer_expr
from ...te.tensor import Tensor
from .errors import BadWindow

Pads = tuple[int, int, int, int]
"""Elements added above, left, below and right of an image."""
Sizes = int | Sequence[int]
"""An annotation: one number for all dimensions, or one for each."""
Padding = int | Sequence[int] | str
"""An annotation: one number for all sides, one for each dimension or side, "SAME" or "VALID"."""


def pair(value: Any, what: str, least: int = 1) -> tuple[int, int]:
    """One number for height and width, or one for each. Raises BadWindow (TW0190) for numbers below `least`."""
    numbers = _numbers(value, what)
    if len(numbers) == 1:
        numbers *= 2
    if len(numbers) != 2:
        raise _bad(what, value, "a number, or a pair for height and width")
    if min(numbers) < least:
        raise _bad(what, value, f"numbers from {least} on")
    return numbers[0], numbers[1]


def pad_amounts(padding: Any, reach: tuple[int, int]) -> Pads:
    """Padding as (top, left, bottom, right): a number, a pair for height and width, all four, "VALID" for none, or "SAME"
    for as many as keep the size at stride 1, the odd one above and to the left, as TVM has it. reach: the height and width
    of the window, dilation included. Raises BadWindow (TW0190)."""
    if isinstance(padding, str):
        if padding == "VALID":
            return 0, 0, 0, 0
        if padding == "SAME":
            high, wide = (max(extent - 1, 0) for extent in reach)
            return -(-high // 2), -(-wide // 2), high // 2, wide // 2
        raise _bad("padding", padding, 'a number, a pair, (top, left, bottom, right), "SAME" or "VALID"')
    numbers = _numbers(padding, "padding")
    if len(numbers) == 1:
        numbers *= 4
    elif len(numbers) == 2:
        numbers *= 2
    if len(numbers) != 4 or min(numbers) < 0:
        raise _bad("padding", padding, "a number from 0 on, a pair for height and width, or (top, left, bottom, right)")
    return numbers[0], numbers[1], numbers[2], numbers[3]


def expand_numbers(value: Any, dims: int, what: str, least: int = 1) -> list[int]:
    """One number for all of so many dimensions, or one for each. Raises BadWindow (TW0190) for numbers below `least`."""
    numbers = _numbers(value, what)
    numbers = numbers * dims if len(numbers) == 1 else numbers
    if len(numbers) != dims or min(numbers) < least:
        raise _bad(what, value, f"{'a number' if dims == 1 else f'a number, or {dims}'}, from {least} on")
    return numbers


def each_side(padding: Any, reach: Sequence[int]) -> tuple[list[int], list[int]]:
    """Padding before and after each dimension, as pad_amounts has it for two of them: a number, one for each dimension, those
    before all dimensions and those after, "SAME" or "VALID". reach: of the windows, dilation included. Raises BadWindow
    (TW0190)."""
    dims = len(reach)
    if isinstance(padding, str) and padding in ("SAME", "VALID"):
        more = [max(extent - 1, 0) if padding == "SAME" else 0 for extent in reach]
        return [-(-total // 2) for total in more], [total // 2 for total in more]
    numbers = [] if isinstance(padding, str) else _numbers(padding, "padding")
    numbers *= {1: 2 * dims, dims: 2}.get(len(numbers), 1)
    if len(numbers) != 2 * dims or min(numbers) < 0:
        raise _bad(
            "padding", padding, 'a number, one for each dimension, those before and those after, "SAME" or "VALID"'
        )
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
    and how many windows there are."""

    taps: list[int]
    steps: list[int]
    far: list[int]
    low: list[int]
    high: list[int]
    out: list[Any]


def slide_windows(
    size: Sequence[Any], kernel: Any, stride: Any, padding: Any, dilation: Any, names: Sequence[str] = ()
) -> Slides:
    """Return the windows over dimensions of these sizes. names: of the dimensions. Raises BadWindow (TW0190)."""
    rank = len(size)
    taps, steps, far = (
        expand_numbers(value, rank, what)
        for value, what in ((kernel, "kernel"), (stride, "stride"), (dilation, "dilation"))
    )
    reach = [(extent - 1) * by + 1 for extent, by in zip(taps, far, strict=True)]
    low, high = each_side(padding, reach)
    named = names or [f"dimension {at}" for at in range(rank)]
    out = list(map(window_count, size, low, high, reach, steps, named))
    return Slides(taps, steps, far, low, high, out)


def padded(
    data: Tensor, pads: Pads, at: tuple[int, int], value: Any = 0, name: str = "pad_temp", peeled: bool = False
) -> Tensor:
    """`data` with `pads` around its dimensions `at` (height, width), or itself where nothing is added. peeled: loops that
    read it are cut where the padding ends."""
    if not any(pads):
        return data
    top, left, bottom, right = pads
    amounts = {at[0]: (top, bottom), at[1]: (left, right)}
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

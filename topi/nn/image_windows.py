"""Windows of convolutions over images: strides, dilations, paddings, and the number of windows that fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .convolutions import tap_count
from .window import Pads, pad_amounts, pair, window_count


@dataclass(frozen=True)
class Windows:
    """Windows on an image, height before width: their strides and dilations, the padding, and how many fit."""

    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: Pads
    out: tuple[Any, Any]

    @staticmethod
    def of(size: Sequence[Any], kernel: Sequence[Any], stride: Any, padding: Any, dilation: Any) -> Windows:
        steps, spread = pair(stride, "stride"), pair(dilation, "dilation")
        reach = ((tap_count(kernel[0]) - 1) * spread[0] + 1, (tap_count(kernel[1]) - 1) * spread[1] + 1)
        pads = pad_amounts(padding, reach)
        out = tuple(
            window_count(size[dim], pads[dim], pads[dim + 2], reach[dim], steps[dim], ("height", "width")[dim])
            for dim in (0, 1)
        )
        return Windows(steps, spread, pads, (out[0], out[1]))

    def at(self, i: Any, j: Any, p: Any, q: Any) -> tuple[Any, Any]:
        """The place in the padded image that tap (p, q) of window (i, j) reads."""
        return i * self.stride[0] + p * self.dilation[0], j * self.stride[1] + q * self.dilation[1]

    def attrs(self, groups: int = 1) -> dict[str, Any]:
        """The attributes of the sum, for the rules that schedule it."""
        return {"stride": self.stride, "dilation": self.dilation, "padding": self.pads, "groups": groups}

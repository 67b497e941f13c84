"""Channels in blocks of a cache line, a layout that rows offer: (N, C, H, W) as (N, C / 16, H, W, 16).

    y: float32[1, 16, 2, 1] = conv(x, w, ...)        →      v: float32[1, 1, 2, 1, 16] = conv_in_blocks(x in blocks, w in blocks, ...)

The last block is filled up where that costs little; what is in it is read by nobody who sums over channels. Convolutions read what is
not in blocks too, as blocks of one channel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from ..base.dataclass import dataclass

BLOCK = 16
"""Channels of a block: a cache line of float32."""
PART = 8
"""The part of a block by which channels are summed where the last block is filled up; their number is a multiple of it."""
MOST = 1.34
"""The most times its channels that a value has once its last block is filled up."""
_IMAGE = (2, 3)

Shape = tuple[Any, ...]


class Examined(Protocol):
    """A node of a graph, as a layout of its operator sees it; "" is an input that is absent."""

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The node's."""
        ...

    @property
    def inputs(self) -> Sequence[str]:
        """The names of the values that it reads."""
        ...

    @property
    def result(self) -> Shape:
        """The shape of its result in the usual order."""
        ...

    def shape(self, name: str) -> Shape:
        """Return the shape of a value in the usual order."""
        ...

    def is_known(self, value: str) -> bool:
        """Return whether a value is a parameter whose numbers are there."""
        ...

    def is_laid(self, value: str) -> bool:
        """Return whether a value lies in the layout."""
        ...


class Call(Examined, Protocol):
    """One that is to be in the layout."""

    def known(self, value: str) -> NDArray[Any]:
        """Return the numbers of a parameter."""
        ...

    def blocked_value(self, value: str) -> str:
        """Return the value that is another one in the layout."""
        ...

    def constant(self, value: Any) -> str:
        """Return a value that is known."""
        ...

    def laid_weights(self, shape: Sequence[int], function: Callable[..., NDArray[Any]], name: str, *more: int) -> str:
        """Return a value of this shape that a function makes of a parameter and of `more`, when it is first read."""
        ...

    def make(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Return the value of a new node; without a name of an operator it is one like this node."""
        ...


@dataclass(frozen=True, slots=True)
class Layout:
    """The form in which an operator computes on blocks.

    fits: whether it can give such a result. declare: its nodes, the value of which lies in blocks. heavy: the operators of these nodes,
    where blocks gain time by them: a part of a graph is laid so for their sake. flat: the nodes of one that reads blocks and gives no
    image, (N, C / 16, 16); None where it does not."""

    fits: Callable[[Examined], bool]
    declare: Callable[[Call], str]
    heavy: tuple[str, ...] = ()
    flat: Callable[[Call], str | None] = lambda _: None


def is_blockable(shape: Shape, dtype: str) -> bool:
    """Return whether a value can lie in blocks, the last of which may be filled up where that makes few channels more."""
    if dtype != "float32" or len(shape) != 4 or not all(isinstance(extent, int) for extent in shape):
        return False
    channels = shape[1]
    return channels % PART == 0 and 0 < -(-channels // BLOCK) * BLOCK <= MOST * channels


def _pad_channels(array: NDArray[Any], axis: int) -> NDArray[Any]:
    """An array whose channels, along an axis, are filled up with zeros to whole blocks."""
    more = [(0, -extent % BLOCK if at == axis else 0) for at, extent in enumerate(array.shape)]
    return np.pad(array, more) if any(after for _, after in more) else array


def _block_parameters(array: NDArray[Any]) -> NDArray[Any]:
    """Numbers for each channel, in blocks."""
    return _pad_channels(array.reshape(-1), 0).reshape(1, -1, 1, 1, BLOCK)


# Convolutions


def _knows_weights(node: Examined) -> bool:
    # weights that are arguments would have to be laid out in each call
    return all(node.is_known(name) for name in node.inputs[1:] if name)


def _fits_convolution(node: Examined) -> bool:
    groups, weights = node.attributes["groups"], node.shape(node.inputs[1])
    depthwise = groups == weights[0] == node.result[1] and weights[1] == 1
    # a depthwise one reads one block, which has to lie so already
    return _knows_weights(node) and (groups == 1 or depthwise and node.is_laid(node.inputs[0]))


def _declare_convolution(call: Call) -> str:
    x, weights = call.inputs[:2]
    attributes = {name: call.attributes[name] for name in ("stride", "padding", "dilation")}
    if call.attributes["groups"] == 1:
        return _add_bias(call, _convolve(call, call.shape(weights), _turn_weights, attributes), 1)
    outputs, _, high, wide = call.shape(weights)
    laid = call.laid_weights((-(-outputs // BLOCK), high, wide, BLOCK), _turn_depthwise, weights)
    return _add_bias(call, call.make("depthwise_in_blocks", call.blocked_value(x), laid, **attributes), 1)


def _convolve(
    call: Call, shape: Shape, turn: Callable[[NDArray[Any], int], NDArray[Any]], attributes: Mapping[str, Any]
) -> str:
    """The convolution with weights (O, C, KH, KW), which `turn` lays in blocks."""
    x = call.inputs[0]
    outputs, inputs, high, wide = shape
    # without blocks of its own the image is read as blocks of one channel
    block = (BLOCK if inputs % BLOCK == 0 else PART) if call.is_laid(x) else 1
    image = call.blocked_value(x) if call.is_laid(x) else call.make("reshape", x, shape=(*call.shape(x), 1))
    laid_shape = (-(-outputs // BLOCK), inputs // block, high, wide, block, BLOCK)
    laid = call.laid_weights(laid_shape, turn, call.inputs[1], block)
    return call.make("conv_in_blocks", image, laid, **attributes)


def _turn_weights(weights: NDArray[Any], block: int) -> NDArray[Any]:
    """Weights (O, C, KH, KW) as blocks of both channels."""
    whole = _pad_channels(weights, 0)
    outputs, inputs, high, wide = whole.shape
    parts = whole.reshape(outputs // BLOCK, BLOCK, inputs // block, block, high, wide)
    return parts.transpose(0, 2, 4, 5, 3, 1)


def _turn_depthwise(weights: NDArray[Any]) -> NDArray[Any]:
    """Weights (channels, 1, KH, KW) as blocks of windows."""
    return _pad_channels(weights[:, 0], 0).reshape(-1, BLOCK, *weights.shape[2:]).transpose(0, 2, 3, 1)


def _turn_disjoint(weights: NDArray[Any], block: int) -> NDArray[Any]:
    """Weights (C, O, KH, KW) of a transposed convolution as those of one output for each place of a window."""
    whole = _pad_channels(weights, 1)
    inputs, outputs, high, wide = whole.shape
    parts = whole.reshape(inputs, outputs // BLOCK, BLOCK, high, wide).transpose(1, 3, 4, 2, 0)
    return _turn_weights(parts.reshape(-1, inputs, 1, 1), block)


def _add_bias(call: Call, value: str, times: int) -> str:
    """Add the bias, each block of which serves so many of the value's."""
    if len(call.inputs) < 3 or not call.inputs[2]:
        return value
    # each place's results have the bias of their channel
    return call.make("add", value, call.constant(np.repeat(_block_parameters(call.known(call.inputs[2])), times, 1)))


def _fits_disjoint(node: Examined) -> bool:
    """Return whether each element of a transposed convolution's image makes results of its own, side by side."""
    asked, reach = node.attributes, node.shape(node.inputs[1])[2:]
    return (
        _knows_weights(node)
        and asked["groups"] == 1
        and (asked["stride"] or (1, 1)) == reach
        and set(asked["dilation"]) <= {1}
        # neither padding nor overlap: results of a place are its own
        and not any(any(asked[name]) for name in ("padding", "output_padding"))
    )


def _declare_disjoint(call: Call) -> str:
    """A transposed convolution whose results do not overlap: the convolution of each place, and its results side by side."""
    inputs, outputs, high, wide = call.shape(call.inputs[1])
    batch, _, rows, columns = call.shape(call.inputs[0])
    outputs += -outputs % BLOCK
    value = _convolve(call, (outputs * high * wide, inputs, 1, 1), _turn_disjoint, {})
    value = _add_bias(call, value, high * wide)
    value = call.make("reshape", value, shape=(batch, outputs // BLOCK, high, wide, rows, columns, BLOCK))
    # places and their results are interleaved along each side
    value = call.make("transpose", value, axes=(0, 1, 4, 2, 5, 3, 6))
    return call.make("reshape", value, shape=(batch, outputs // BLOCK, rows * high, columns * wide, BLOCK))


# Operators that keep the layout


def _fits_pool(node: Examined) -> bool:
    return node.is_laid(node.inputs[0]) and len(node.attributes["kernel"]) == 2


def _declare_pool(call: Call) -> str:
    """Pool over three dimensions, the last of which is the block, along which windows have the extent 1."""
    kernel, stride, dilation = (call.attributes[name] or (1, 1) for name in ("kernel", "stride", "dilation"))
    padding = call.attributes["padding"] or (0,) * 4  # an empty tuple is the default, no padding
    return call.make(
        "",
        call.blocked_value(call.inputs[0]),
        kernel=(*kernel, 1),
        stride=(*stride, 1),
        dilation=(*dilation, 1),
        padding=(*padding[:2], 0, *padding[2:], 0),
    )


def _is_image_mean(node: Examined, keepdims: bool) -> bool:
    over_image = tuple(sorted(node.attributes["axes"] or ())) == _IMAGE
    return node.is_laid(node.inputs[0]) and over_image and node.attributes["keepdims"] is keepdims


def _declare_mean(call: Call) -> str:
    return call.make("", call.blocked_value(call.inputs[0]), axes=_IMAGE)


def _flatten_mean(call: Call) -> str | None:
    return _declare_mean(call) if _is_image_mean(call, False) else None


def _fits_join(node: Examined) -> bool:
    # only the last part may end within a block
    whole = all(node.shape(name)[1] % BLOCK == 0 for name in node.inputs[:-1])
    return node.attributes["axis"] % 4 == 1 and all(map(node.is_laid, node.inputs)) and whole


def _declare_join(call: Call) -> str:
    return call.make("", *map(call.blocked_value, call.inputs), axis=1)


def _is_channel_shape(shape: Shape) -> bool:
    """Return whether an array of this shape is one number for all, or one for each channel of an image."""
    whole = (*([1] * (4 - len(shape))), *shape)  # numpy's broadcasting, from the last dimension on
    return len(shape) <= 4 and whole[0] == 1 and whole[2:] == (1, 1)


def _fits_pointwise(node: Examined) -> bool:
    moved = [name for name in node.inputs if name and not node.is_known(name)]
    return (
        any(node.shape(name) == node.result and node.is_laid(name) for name in moved)
        and all(_is_channel_shape(node.shape(name)) for name in node.inputs if name and node.is_known(name))
        # one number for each channel may be brought into blocks
        and all(node.is_laid(name) or node.shape(name) == (*node.result[:2], 1, 1) for name in moved)
    )


def _declare_pointwise(call: Call) -> str:
    return call.make("", *(_pack(call, name) if name else "" for name in call.inputs))


def _pack(call: Call, name: str) -> str:
    """A value in blocks: one that lies so, a number for all, or one for each channel."""
    if call.is_laid(name):
        return call.blocked_value(name)
    if call.is_known(name):
        array = call.known(name)
        # one number for all needs no blocks
        return call.constant(array.reshape(()) if array.size == 1 else _block_parameters(array))
    batch, channels, *_ = cast("tuple[int, ...]", call.shape(name))
    more = -channels % BLOCK
    # zeros: what is added to or multiplied with them stays finite
    filled = call.make("pad", name, before=(0, 0, 0, 0), after=(0, more, 0, 0), value=0.0) if more else name
    return call.make("reshape", filled, shape=(batch, -(-channels // BLOCK), 1, 1, BLOCK))


IMAGE_CONVOLUTION = Layout(_fits_convolution, _declare_convolution, ("conv_in_blocks", "depthwise_in_blocks"))
TRANSPOSED = Layout(_fits_disjoint, _declare_disjoint, ("conv_in_blocks",))
IMAGE_POOL = Layout(_fits_pool, _declare_pool)
IMAGE_MEAN = Layout(lambda node: _is_image_mean(node, True), _declare_mean, flat=_flatten_mean)
JOIN = Layout(_fits_join, _declare_join)
POINTWISE = Layout(_fits_pointwise, _declare_pointwise)

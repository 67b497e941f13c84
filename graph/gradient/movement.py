"""Rules of operators that move elements: the gradient is moved back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, cast

from .rule import Pullback, differentiate_declaration, rule

__all__: list[str] = []


@rule("reshape", "broadcast_to")
def _reshape(p: Pullback) -> list[str | None]:
    x = p.inputs[0]
    return [p.reshape(p.head, p.shape(x)) if p.node.operator == "reshape" else p.head]


@rule("transpose")
def _transpose(p: Pullback) -> list[str | None]:
    axes = cast("tuple[int, ...]", p["axes"])
    order = [axis % len(axes) for axis in axes]
    return [p.transpose(p.head, [order.index(axis) for axis in range(len(order))])]


def _part(p: Pullback, value: str, begin: int, size: int, axis: int) -> str:
    return p.emit("slice", value, begin=(begin,), end=(begin + size,), step=(1,), axes=(axis,))


@rule("concat")
def _differentiate_concat(p: Pullback) -> list[str | None]:
    axis = int(p["axis"]) % len(p.shape(p.result))
    sizes = [p.shape(name)[axis] for name in p.inputs]
    if not all(isinstance(size, int) for size in sizes):
        return differentiate_declaration(p)
    numbers = cast("list[int]", sizes)
    ends = list(accumulate(numbers))
    return [_part(p, p.head, end - size, size, axis) for end, size in zip(ends, numbers, strict=True)]


@rule("stack")
def _stack(p: Pullback) -> list[str | None]:
    axis = int(p["axis"]) % len(p.shape(p.result))
    return [p.reshape(_part(p, p.head, at, 1, axis), p.shape(name)) for at, name in enumerate(p.inputs)]


@rule("split")
def _split(p: Pullback) -> list[str | None]:
    parts = [p.fill_like(0, name) if head is None else head for head, name in zip(p.heads, p.node.outputs, strict=True)]
    return [p.emit("concat", *parts, axis=p["axis"])]


@rule("slice")
def _slice(p: Pullback) -> list[str | None]:
    """Zeros around it; between its elements where there are steps, te.gradient puts them."""
    shape = p.shape(p.inputs[0])
    spans: dict[int, tuple[int, int]] = {}
    spoken = (cast("tuple[Any, ...]", p[name]) for name in ("begin", "end", "step", "axes"))
    for begin, end, step, axis in zip(*spoken, strict=True):
        if step != 1 or isinstance(begin, str) or isinstance(end, str) or isinstance(shape[axis], str):
            return differentiate_declaration(p)
        size = int(shape[int(axis)])
        low, high, _ = slice(begin, end).indices(size)
        spans[axis % len(shape)] = (low, size - max(low, high))
    pads = [spans.get(at, (0, 0)) for at in range(len(shape))]
    return [p.emit("pad", p.head, before=tuple(low for low, _ in pads), after=tuple(high for _, high in pads), value=0)]


@rule("pad")
def _pad(p: Pullback) -> list[str | None]:
    before, after, shape = p["before"], p["after"], p.shape(p.inputs[0])
    if not all(isinstance(extent, int) for extent in shape) or min(*before, *after, 0) < 0:
        return differentiate_declaration(p)
    ends = tuple(low + extent for low, extent in zip(before, cast("tuple[int, ...]", shape), strict=True))
    return [
        p.emit("slice", p.head, begin=tuple(before), end=ends, step=(1,) * len(shape), axes=tuple(range(len(shape))))
    ]


@rule("trilu", "reverse_sequence")
def _differentiate_like_itself(p: Pullback) -> Sequence[str | None]:
    """A linear operator that is its own transpose."""
    return [p.emit(p.node.operator, p.head, *p.inputs[1:], **p.node.attributes), *[None] * (len(p.inputs) - 1)]


@rule("space_to_depth")
def _differentiate_space_to_depth(p: Pullback) -> list[str | None]:
    return [p.emit("depth_to_space", p.head, block=p["block"])]


@rule("depth_to_space")
def _differentiate_depth_to_space(p: Pullback) -> list[str | None]:
    return [p.emit("space_to_depth", p.head, block=p["block"])] if p["mode"] == "DCR" else differentiate_declaration(p)

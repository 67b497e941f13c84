"""Drawn programs of torch: one or two operators over tensors whose sizes are numbers or symbols.

program = draw(random)                       # a module, example arguments, the sizes that are open
exported = torch.export.export(program.module, program.example, dynamic_shapes=program.open)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import nn
from torch.nn import functional as F

__all__ = ["Program", "draw"]

_SIZES = (0, 1, 2, 3, 5, 7)


class Module(nn.Module):  # type: ignore[misc]
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


@dataclass
class Program:
    """text: what it computes, for a message. shapes: of its arguments, with negative numbers for the symbols -1 and -2."""

    text: str
    module: Module
    shapes: list[tuple[int, ...]]
    dtypes: list[str]
    sizes: tuple[int, int]

    def arguments(self, random: Generator, sizes: tuple[int, int]) -> tuple[Any, ...]:
        result: list[Any] = []
        for shape, dtype in zip(self.shapes, self.dtypes, strict=True):
            whole = [sizes[-1 - extent] if extent < 0 else extent for extent in shape]
            values = random.uniform(-3, 3, whole) if "float" in dtype else random.integers(-5, 6, whole)
            result.append(torch.tensor(np.asarray(values).astype(dtype)))
        return tuple(result)

    @property
    def open(self) -> tuple[tuple[dict[int, Any], ...]] | None:
        """As torch.export takes them, for a module of any number of arguments."""
        found = tuple(
            {at: torch.export.Dim.AUTO for at, extent in enumerate(shape) if extent < 0} for shape in self.shapes
        )
        return (found,) if any(found) else None

    def other_sizes(self, random: Generator) -> Iterator[tuple[int, int]]:
        yield self.sizes
        if self.open:
            for _ in range(3):
                yield int(random.choice(_SIZES)), int(random.choice(_SIZES))


def draw(random: Generator) -> Program:
    """A program of one of the tables below."""

    def pick(*of: Any) -> Any:
        return of[int(random.integers(len(of)))]

    rank = int(random.integers(1, 4))
    shape = [int(size) for size in random.integers(2, 7, rank)]
    axis = int(random.integers(-rank, rank))
    dtype = pick("float32", "float32", "float32", "float64", "int64", "int32")
    places = [axis % rank, int(random.integers(rank))] if random.random() < 0.5 else []
    sizes = shape[axis], 5
    opened = tuple(-1 if at in places[:1] else extent for at, extent in enumerate(shape))
    k, other, step = (int(random.integers(low, high)) for low, high in ((-7, 8), (-7, 8), (1, 4)))
    keep = bool(random.integers(2))
    one: dict[str, Callable[..., Any]] = {
        f"slice [{k}:{other}:{step}] of {axis}": lambda x: torch.ops.aten.slice.Tensor(x, axis, k, other, step),
        f"slice [{k}:] of {axis}": lambda x: torch.ops.aten.slice.Tensor(x, axis, k),
        f"sum {axis} {keep}": lambda x: x.sum(axis, keepdim=keep),
        f"amax {axis} {keep}": lambda x: x.amax(axis, keepdim=keep),
        f"argmin {axis} {keep}": lambda x: x.argmin(axis, keepdim=keep),
        f"mean of floats {axis} {keep}": lambda x: x.float().mean(axis, keepdim=keep),
        f"var {keep}": lambda x: x.float().var(axis, correction=0, keepdim=keep),
        f"cumsum {axis}": lambda x: x.cumsum(axis),
        f"flip {axis}": lambda x: x.flip(axis),
        f"roll {k} of {axis}": lambda x: x.roll(k, axis),
        f"softmax {axis}": lambda x: x.float().softmax(axis),
        f"unsqueeze {axis}": lambda x: x.unsqueeze(axis) * 2,
        f"transpose {axis} 0": lambda x: x.transpose(axis, 0).contiguous(),
        "flatten": lambda x: x.flatten() + 1,
        "reshape": lambda x: x.reshape(-1, 1),
        f"sort {axis}": lambda x: x.sort(axis, stable=True),
        f"floor divide by {step}": lambda x: torch.div(x, step, rounding_mode="floor"),
        f"trunc divide by {step}": lambda x: torch.div(x, step, rounding_mode="trunc"),
        f"remainder by {step}": lambda x: torch.remainder(x, step),
        f"fmod by {-step}": lambda x: torch.fmod(x, -step),
        f"clamp {k} {other}": lambda x: x.clamp(k, other),
        f"pow {step}": lambda x: x**step,
        "where": lambda x: torch.where(x > 0, x, -x),
        f"tril {k}": lambda x: (x if x.dim() > 1 else x[None]).tril(k),
        f"pad {step}": lambda x: F.pad(x, (step, 0)),
        f"repeat_interleave {step}": lambda x: x.repeat_interleave(step, axis),
        f"stack of {axis}": lambda x: torch.stack([x, x + 1], axis),
        f"cat of {axis}": lambda x: torch.cat([x, x * 2, x], axis),
        f"select {k % 2} of {axis}": lambda x: x.select(axis, -(k % 2)),
        f"logsumexp {axis}": lambda x: x.float().logsumexp(axis, keepdim=keep),
        "any": lambda x: (x > 1).any(axis, keepdim=keep),
        "prod": lambda x: x.prod(axis, keepdim=keep),
        "norm": lambda x: torch.linalg.vector_norm(x.float(), 2, axis, keepdim=keep),
        f"diff {axis}": lambda x: x.diff(dim=axis),
        "shape as a number": lambda x: x * x.shape[axis] + x.numel(),
        "arange of a shape": lambda x: torch.arange(x.shape[axis]) * 2,
        "ones like, expanded": lambda x: torch.ones_like(x).unsqueeze(0).expand(3, *x.shape),
        f"unfold {axis}": lambda x: x.unfold(axis, 2, step),
        f"topk 1 {axis}": lambda x: x.topk(1, axis)[0],
        f"chunk {step} {axis}": lambda x: x.chunk(step, axis)[0] + 0,
        f"tensor_split {step} {axis}": lambda x: x.tensor_split(step, axis)[-1] + 0,
    }
    two: dict[str, Callable[..., Any]] = {
        "slice from the end by another's size": lambda x, y: x[..., -y.shape[0] :],
        "slice up to another's size": lambda x, y: x[..., : y.shape[0]],
        "slice without another's size at the end": lambda x, y: x[..., : -y.shape[0]],
        "narrow from the end": lambda x, y: x.narrow(-1, -y.shape[0], y.shape[0]),
        "outer": lambda x, y: x[..., None] * y,
        "sum of both": lambda x, y: x.sum() + y.max(),
        "expanded": lambda x, y: y[:, None].expand(y.shape[0], 3) + x.sum(),
    }
    if random.random() < 0.25:
        text = pick(*two)
        shape[-1] = 6
        opened = (*shape[:-1], -1 if random.random() < 0.7 else 6)
        return Program(text, Module(two[text]), [opened, (-2,)], [dtype, dtype], (6, 5))
    text = pick(*one)
    return Program(text, Module(one[text]), [opened], [dtype], sizes)

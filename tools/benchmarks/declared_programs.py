"""Programs of the group "declared": programs in te as a stranger writes them, without tags and without a
schedule, at shapes that a seed draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from math import prod
from random import Random
from typing import Any

import numpy as np
import tilewright as tw
from tilewright import te

from .cases import Builder, Case, Inputs, align, kernel
from .peers import jax_peer, numpy_peer, torch_peer

__all__ = ["Draw", "everywhere", "program"]

Tensors = te.Tensor | Sequence[te.Tensor]


class Draw(Random):
    """Extents that nobody chose for a machine. Each program draws for itself, so that none changes another's."""

    def __init__(self, seed: int, name: str) -> None:
        super().__init__(f"{seed} {name}")

    def near(self, size: int) -> int:
        """An extent within a fifth of `size`: a prime, an odd number, or one beside a power of two where there is one."""
        least, most = max(int(size * 0.8), 2), max(int(size * 1.2), 3)
        power = 1 << (
            size.bit_length() - 1
            if size - (1 << size.bit_length() - 1) < (1 << size.bit_length()) - size
            else size.bit_length()
        )
        beside = [each for each in (power - 1, power + 1) if least <= each <= most]
        odd = [each for each in range(least, most + 1) if each % 2] or [size]
        whole = np.ones(most + 1, np.bool_)  # Eratosthenes' sieve
        for factor in range(3, int(most**0.5) + 1, 2):
            whole[factor * factor :: factor] = False
        primes = [each for each in odd if whole[each]] or odd
        return self.choice(self.choice([choices for choices in (odd, primes, beside) if choices]))


def program(
    name: str,
    declare: Callable[..., Tensors],
    shapes: Sequence[tuple[int, ...]],
    peers: Mapping[str, Builder],
    *,
    dtypes: Sequence[str] = (),
    inputs: Inputs | None = None,
    flops: float = 0.0,
    tolerance: tuple[float, float] = (1e-3, 1e-3),
) -> Case:
    """A row: `declare` takes placeholders of these shapes and returns what is computed. dtypes: of the inputs, float32 where there
    are none; inputs: what draws them, normally distributed by default, whole numbers for integers."""
    kinds = list(dtypes) or ["float32"] * len(shapes)

    def tensors() -> tuple[list[te.Tensor], list[te.Tensor]]:
        given = [
            te.placeholder(shape, kind, name=f"x{at}")
            for at, (shape, kind) in enumerate(zip(shapes, kinds, strict=True))
        ]
        computed = declare(*given)
        return given, [computed] if isinstance(computed, te.Tensor) else list(computed)

    def build(exact: bool) -> Builder:
        return kernel(lambda: tw.build(list(chain(*tensors())), name="declared", exact=exact))

    results = [(tuple(int(str(extent)) for extent in tensor.shape), str(tensor.dtype)) for tensor in tensors()[1]]
    moved = sum(prod(shape) * np.dtype(kind).itemsize for shape, kind in (*zip(shapes, kinds, strict=True), *results))
    return Case(
        group="declared",
        name=name,
        inputs=inputs or _draw_normal(shapes, kinds),
        outputs=results,
        ours=build(False),
        exact=build(True),
        peers=dict(peers),
        flops=flops,
        bytes=moved,
        tolerance=tolerance,
    )


def everywhere(function: Callable[..., Any], without: Sequence[str] = ()) -> dict[str, Builder]:
    """The peers for which one text serves: `function(library, *inputs)`, the library being numpy, torch or jax.numpy. All give what
    was declared, in C's order: numpy's einsum and torch's give views of what their products left, which nobody has moved yet."""

    def in_order(results: Any, moved: Callable[[Any], Any]) -> Any:
        return tuple(map(moved, results)) if isinstance(results, (tuple, list)) else moved(results)

    peers = {
        "numpy": numpy_peer.call(
            lambda *arrays: in_order(function(np, *arrays), lambda result: np.asarray(result, order="C"))
        ),
        "torch": torch_peer.call(
            lambda torch, *arrays: in_order(function(torch, *arrays), lambda result: result.contiguous())
        ),
        "jax": jax_peer.call(lambda jax, *arrays: function(jax.numpy, *arrays)),
    }
    return {name: peer for name, peer in peers.items() if name not in without}


def _draw_normal(shapes: Sequence[tuple[int, ...]], kinds: Sequence[str]) -> Inputs:
    def draw(rng: np.random.Generator) -> Sequence[np.ndarray]:
        return [
            align(
                rng.standard_normal(shape, np.float32).astype(kind)
                if np.dtype(kind).kind == "f"
                else rng.integers(-100 if kind.startswith("i") else 0, 100, shape).astype(kind)
            )
            for shape, kind in zip(shapes, kinds, strict=True)
        ]

    return draw

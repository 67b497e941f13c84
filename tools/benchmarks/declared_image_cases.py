"""Chains of stencils, pooling and resizing, and operations that only move elements, written by hand in te."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from tilewright import te

from .cases import Arrays, Case, align
from .declared_programs import Draw, everywhere, program
from .peers import jax_peer, numba_peer, numpy_peer, onnx_peers, torch_peer
from .peers.onnx_model import Node

__all__ = ["draw_cases"]

prange: Any = range
"""numba's, once it is imported."""
TAPS = (0.0625, 0.25, 0.375, 0.25, 0.0625)


def blur(draw: Draw) -> Case:
    """Five taps along rows, then along columns."""
    high, wide = draw.near(1000), draw.near(1500)

    def declare(x: te.Tensor) -> te.Tensor:
        across = te.compute(
            (high, wide - 4),
            lambda i, j: sum((x[i, j + d] * TAPS[d] for d in range(1, 5)), x[i, j] * TAPS[0]),
            name="across",
        )
        return te.compute(
            (high - 4, wide - 4),
            lambda i, j: sum((across[i + d, j] * TAPS[d] for d in range(1, 5)), across[i, j] * TAPS[0]),
            name="down",
        )

    def chain(_: Any, x: Any) -> Any:
        across = sum(x[:, d : wide - 4 + d] * TAPS[d] for d in range(5))
        return sum(across[d : high - 4 + d] * TAPS[d] for d in range(5))

    def loops(x: Any, out: Any) -> None:
        for i in prange(high - 4):
            row = np.empty(wide, np.float32)
            for j in range(wide):
                row[j] = (
                    (x[i, j] + x[i + 4, j]) * np.float32(0.0625)
                    + (x[i + 1, j] + x[i + 3, j]) * np.float32(0.25)
                    + (x[i + 2, j] * np.float32(0.375))
                )
            for j in range(wide - 4):
                out[i, j] = (
                    (row[j] + row[j + 4]) * np.float32(0.0625)
                    + (row[j + 1] + row[j + 3]) * np.float32(0.25)
                    + (row[j + 2] * np.float32(0.375))
                )

    return program(
        f"blur 5x5 {high}x{wide}",
        declare,
        [(high, wide)],
        everywhere(chain) | {"numba": numba_peer.call(loops)},
        flops=18 * high * wide,
    )


def jacobi(draw: Draw) -> Case:
    """Three steps of five points each; the borders shrink."""
    high, wide = draw.near(1000), draw.near(1400)

    def declare(x: te.Tensor) -> te.Tensor:
        now = x
        for step in range(3):
            shape = (high - 2 * step - 2, wide - 2 * step - 2)
            now = te.compute(
                shape,
                lambda i, j, before=now: (
                    (
                        before[i, j + 1]
                        + before[i + 1, j]
                        + before[i + 1, j + 1]
                        + before[i + 1, j + 2]
                        + before[i + 2, j + 1]
                    )
                    * 0.2
                ),
                name=f"step{step}",
            )
        return now

    def chain(_: Any, x: Any) -> Any:
        for _step in range(3):
            x = (x[:-2, 1:-1] + x[1:-1, :-2] + x[1:-1, 1:-1] + x[1:-1, 2:] + x[2:, 1:-1]) * 0.2
        return x

    return program(f"3 x 5 points {high}x{wide}", declare, [(high, wide)], everywhere(chain), flops=15 * high * wide)


def heat(draw: Draw) -> Case:
    """Seven points in three dimensions."""
    a, b, c = draw.near(90), draw.near(110), draw.near(130)

    def declare(x: te.Tensor) -> te.Tensor:
        return te.compute(
            (a, b, c),
            lambda i, j, k: (
                x[i + 1, j + 1, k + 1] * 0.4
                + (
                    x[i, j + 1, k + 1]
                    + x[i + 2, j + 1, k + 1]
                    + x[i + 1, j, k + 1]
                    + x[i + 1, j + 2, k + 1]
                    + x[i + 1, j + 1, k]
                    + x[i + 1, j + 1, k + 2]
                )
                * 0.1
            ),
            name="heat",
        )

    def chain(_: Any, x: Any) -> Any:
        mid = slice(1, -1)
        return (
            x[mid, mid, mid] * 0.4
            + (
                x[:-2, mid, mid]
                + x[2:, mid, mid]
                + x[mid, :-2, mid]
                + x[mid, 2:, mid]
                + x[mid, mid, :-2]
                + x[mid, mid, 2:]
            )
            * 0.1
        )

    return program(f"7 points {a}x{b}x{c}", declare, [(a + 2, b + 2, c + 2)], everywhere(chain), flops=8 * a * b * c)


def unsharp(draw: Draw) -> Case:
    high, wide = draw.near(900), draw.near(1300)

    def declare(x: te.Tensor) -> te.Tensor:
        across = te.compute(
            (high, wide - 2), lambda i, j: (x[i, j] + x[i, j + 1] * 2 + x[i, j + 2]) * 0.25, name="across"
        )
        soft = te.compute(
            (high - 2, wide - 2),
            lambda i, j: (across[i, j] + across[i + 1, j] * 2 + across[i + 2, j]) * 0.25,
            name="soft",
        )
        return te.compute(soft.shape, lambda i, j: x[i + 1, j + 1] * 2.5 - soft[i, j] * 1.5, name="sharp")

    def chain(_: Any, x: Any) -> Any:
        across = (x[:, :-2] + x[:, 1:-1] * 2 + x[:, 2:]) * 0.25
        return x[1:-1, 1:-1] * 2.5 - (across[:-2] + across[1:-1] * 2 + across[2:]) * (0.25 * 1.5)

    return program(f"unsharp {high}x{wide}", declare, [(high, wide)], everywhere(chain), flops=12 * high * wide)


def _differences(x: te.Tensor, shape: tuple[int, int]) -> tuple[te.Tensor, te.Tensor]:
    """Sobel's, across and down."""
    dx = te.compute(
        shape,
        lambda i, j: (x[i, j + 2] - x[i, j]) + (x[i + 1, j + 2] - x[i + 1, j]) * 2 + (x[i + 2, j + 2] - x[i + 2, j]),
        name="dx",
    )
    dy = te.compute(
        shape,
        lambda i, j: (x[i + 2, j] - x[i, j]) + (x[i + 2, j + 1] - x[i, j + 1]) * 2 + (x[i + 2, j + 2] - x[i, j + 2]),
        name="dy",
    )
    return dx, dy


def harris(draw: Draw) -> Case:
    high, wide = draw.near(700), draw.near(1100)

    def declare(x: te.Tensor) -> te.Tensor:
        dx, dy = _differences(x, shape := (high - 2, wide - 2))
        pairs = (dx, dx), (dx, dy), (dy, dy)
        products = [te.compute(shape, lambda i, j, a=a, b=b: a[i, j] * b[i, j], name="p") for a, b in pairs]
        smaller = (high - 4, wide - 4)

        def summed(p: te.Tensor) -> te.Tensor:
            u, v = te.reduce_axis((0, 3), "u"), te.reduce_axis((0, 3), "v")
            return te.compute(smaller, lambda i, j: te.sum(p[i + u, j + v], [u, v]), name="sum")

        xx, xy, yy = map(summed, products)
        return te.compute(
            smaller,
            lambda i, j: (
                xx[i, j] * yy[i, j] - xy[i, j] * xy[i, j] - (xx[i, j] + yy[i, j]) * (xx[i, j] + yy[i, j]) * 0.04
            ),
            name="harris",
        )

    def chain(_: Any, x: Any) -> Any:
        dx = (x[:-2, 2:] - x[:-2, :-2]) + (x[1:-1, 2:] - x[1:-1, :-2]) * 2 + (x[2:, 2:] - x[2:, :-2])
        dy = (x[2:, :-2] - x[:-2, :-2]) + (x[2:, 1:-1] - x[:-2, 1:-1]) * 2 + (x[2:, 2:] - x[:-2, 2:])

        def summed(p: Any) -> Any:
            rows = p[:, :-2] + p[:, 1:-1] + p[:, 2:]
            return rows[:-2] + rows[1:-1] + rows[2:]

        xx, xy, yy = summed(dx * dx), summed(dx * dy), summed(dy * dy)
        return xx * yy - xy * xy - (xx + yy) * (xx + yy) * 0.04

    return program(
        f"harris {high}x{wide}",
        declare,
        [(high, wide)],
        everywhere(chain),
        flops=60 * high * wide,
        tolerance=(1e-1, 1e-3),
    )


def sobel(draw: Draw) -> Case:
    high, wide = draw.near(900), draw.near(1300)

    def declare(x: te.Tensor) -> te.Tensor:
        dx, dy = _differences(x, shape := (high - 2, wide - 2))
        return te.compute(shape, lambda i, j: te.sqrt(dx[i, j] * dx[i, j] + dy[i, j] * dy[i, j]), name="edge")

    def chain(library: Any, x: Any) -> Any:
        dx = (x[:-2, 2:] - x[:-2, :-2]) + (x[1:-1, 2:] - x[1:-1, :-2]) * 2 + (x[2:, 2:] - x[2:, :-2])
        dy = (x[2:, :-2] - x[:-2, :-2]) + (x[2:, 1:-1] - x[:-2, 1:-1]) * 2 + (x[2:, 2:] - x[:-2, 2:])
        return library.sqrt(dx * dx + dy * dy)

    return program(f"sobel {high}x{wide}", declare, [(high, wide)], everywhere(chain), flops=18 * high * wide)


def pool(draw: Draw, kind: str) -> Case:
    c, size = draw.near(40), draw.near(150)
    out = (size - 3) // 2 + 1

    def declare(x: te.Tensor) -> te.Tensor:
        u, v = te.reduce_axis((0, 3), "u"), te.reduce_axis((0, 3), "v")
        how = te.max if kind == "max" else te.sum
        pooled = te.compute((c, out, out), lambda k, i, j: how(x[k, 2 * i + u, 2 * j + v], [u, v]), name="pool")
        return pooled if kind == "max" else te.compute(pooled.shape, lambda *at: pooled(*at) * (1 / 9), name="mean")

    def in_jax(jax: Any, x: Any) -> Any:
        start, how = (-jax.numpy.inf, jax.lax.max) if kind == "max" else (0.0, jax.lax.add)
        pooled = jax.lax.reduce_window(x, start, how, (1, 3, 3), (1, 2, 2), "VALID")
        return pooled if kind == "max" else pooled * (1 / 9)

    onnx = onnx_peers.call(
        [
            Node("Unsqueeze", ["x0", "first"], ["x"]),
            Node(
                "MaxPool" if kind == "max" else "AveragePool", ["x"], ["y"], {"kernel_shape": [3, 3], "strides": [2, 2]}
            ),
            Node("Squeeze", ["y", "first"]),
        ],
        extra={"first": np.array([0], np.int64)},
    )
    return program(
        f"{kind} pool {c}x{size}x{size}",
        declare,
        [(c, size, size)],
        {
            "torch": torch_peer.call(
                lambda torch, x: (torch.nn.functional.max_pool2d if kind == "max" else torch.nn.functional.avg_pool2d)(
                    x[None], 3, 2
                )[0]
            ),
            "jax": jax_peer.call(in_jax),
            **onnx,
        },
        flops=9 * c * out * out,
    )


def resize(draw: Draw) -> Case:
    """Bilinear, with half a pixel's offset, clamped at the borders."""
    c, high, wide = 3, draw.near(230), draw.near(310)
    tall, broad = draw.near(500), draw.near(700)

    def declare(x: te.Tensor) -> te.Tensor:
        def element(k: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
            def place(at: te.Expr, size: int, out: int) -> tuple[te.Expr, te.Expr, te.Expr]:
                real = te.min(te.max((at.astype("float32") + 0.5) * (size / out) - 0.5, 0.0), float(size - 1))
                low = te.floor(real).astype("int32")
                return low, te.min(low + 1, size - 1), real - te.floor(real)

            y, below, v = place(i, high, tall)
            z, right, u = place(j, wide, broad)
            top = x[k, y, z] * (1 - u) + x[k, y, right] * u
            return top * (1 - v) + (x[k, below, z] * (1 - u) + x[k, below, right] * u) * v

        return te.compute((c, tall, broad), element, name="resized")

    return program(
        f"resize {high}x{wide} to {tall}x{broad}",
        declare,
        [(c, high, wide)],
        {
            "torch": torch_peer.call(
                lambda torch, x: torch.nn.functional.interpolate(
                    x[None], (tall, broad), mode="bilinear", align_corners=False
                )[0]
            )
        },
        flops=12 * c * tall * broad,
        tolerance=(1e-2, 1e-3),
    )


def permutation_case(draw: Draw, order: Sequence[int]) -> Case:
    size = 1_500_000 ** (1 / len(order))
    shape = tuple(draw.near(int(size * draw.uniform(0.7, 1.4))) for _ in order)

    def declare(x: te.Tensor) -> te.Tensor:
        def element(*at: te.Expr) -> te.Expr:
            return x(*(at[order.index(axis)] for axis in range(len(order))))

        return te.compute(tuple(shape[axis] for axis in order), element, name="turned")

    peers = {
        "numpy": numpy_peer.call(lambda x: np.ascontiguousarray(x.transpose(order))),
        "torch": torch_peer.call(lambda _, x: x.permute(*order).contiguous()),
        "jax": jax_peer.call(lambda _, x: x.transpose(order)),
        **onnx_peers.call([Node("Transpose", ["x0"], attributes={"perm": list(order)})]),
    }
    return program(f"permute {''.join(map(str, order))} {'x'.join(map(str, shape))}", declare, [shape], peers)


def concatenation_case(draw: Draw, axis: int) -> Case:
    shapes = [[draw.near(120), draw.near(100), draw.near(60)] for _ in range(3)]
    for shape in shapes[1:]:
        shape[:] = [extent if at == axis else shapes[0][at] for at, extent in enumerate(shape)]
    first, second = shapes[0][axis], shapes[0][axis] + shapes[1][axis]
    whole = tuple(sum(shape[at] for shape in shapes) if at == axis else extent for at, extent in enumerate(shapes[0]))

    def declare(a: te.Tensor, b: te.Tensor, c: te.Tensor) -> te.Tensor:
        def element(*at: te.Expr) -> te.Expr:
            def moved(by: int) -> list[te.Expr]:
                return [index - by if place == axis else index for place, index in enumerate(at)]

            later = te.if_then_else(at[axis] < second, b(*moved(first)), c(*moved(second)))
            return te.if_then_else(at[axis] < first, a(*at), later)

        return te.compute(whole, element, name="joined")

    peers = {
        "numpy": numpy_peer.call(lambda *x: np.concatenate(x, axis)),
        "torch": torch_peer.call(lambda torch, *x: torch.cat(x, axis)),
        "jax": jax_peer.call(lambda jax, *x: jax.numpy.concatenate(x, axis)),
    }
    return program(
        f"concatenate along {axis} {'x'.join(map(str, whole))}", declare, [tuple(shape) for shape in shapes], peers
    )


def gather_case(draw: Draw) -> Case:
    table, wide, count = draw.near(3000), draw.near(250), draw.near(4000)

    def declare(x: te.Tensor, at: te.Tensor) -> te.Tensor:
        return te.compute((count, wide), lambda i, j: x[at[i], j], name="taken")

    def inputs(rng: np.random.Generator) -> Arrays:
        return [
            align(rng.standard_normal((table, wide), np.float32)),
            align(rng.integers(0, table, count).astype(np.int32)),
        ]

    return program(
        f"take {count} of {table}x{wide}",
        declare,
        [(table, wide), (count,)],
        everywhere(lambda library, x, at: x[at]),
        dtypes=["float32", "int32"],
        inputs=inputs,
    )


def pixel_shuffle_case(draw: Draw) -> Case:
    """Channels in blocks of 2 x 2 become pixels."""
    c, high, wide = draw.near(16), draw.near(120), draw.near(130)

    def declare(x: te.Tensor) -> te.Tensor:
        return te.compute(
            (c, 2 * high, 2 * wide), lambda k, i, j: x[k * 4 + i % 2 * 2 + j % 2, i // 2, j // 2], name="shuffled"
        )

    return program(
        f"pixel shuffle {c}x{high}x{wide}",
        declare,
        [(4 * c, high, wide)],
        {
            "torch": torch_peer.call(lambda torch, x: torch.nn.functional.pixel_shuffle(x, 2)),
            "numpy": numpy_peer.call(
                lambda x: x.reshape(c, 2, 2, high, wide).transpose(0, 3, 1, 4, 2).reshape(c, 2 * high, 2 * wide)
            ),
            "jax": jax_peer.call(
                lambda _, x: x.reshape(c, 2, 2, high, wide).transpose(0, 3, 1, 4, 2).reshape(c, 2 * high, 2 * wide)
            ),
        },
    )


def broadcast(draw: Draw) -> Case:
    shape = draw.near(60), draw.near(130), draw.near(150)

    def declare(x: te.Tensor, scale: te.Tensor, shift: te.Tensor) -> te.Tensor:
        moved = te.compute(shape, lambda i, j, k: x[i, j, k] * scale[j] + shift[i, k], name="moved")
        return te.compute(shape, lambda *at: moved(*at) / (1 + te.exp(-moved(*at))), name="swish")

    def in_library(library: Any, x: Any, scale: Any, shift: Any) -> Any:
        moved = x * scale[:, None] + shift[:, None, :]
        return moved / (1 + library.exp(-moved))

    return program(
        f"swish of broadcasts {'x'.join(map(str, shape))}",
        declare,
        [shape, (shape[1],), (shape[0], shape[2])],
        everywhere(in_library),
        flops=20 * prod(shape),
    )


def draw_cases(seed: int) -> Sequence[Case]:
    """The cases at the shapes of a seed."""
    makers: list[tuple[Any, ...]] = [
        (blur,),
        (jacobi,),
        (heat,),
        (unsharp,),
        (harris,),
        (sobel,),
        (pool, "max"),
        (pool, "mean"),
        (resize,),
        (permutation_case, (1, 0)),
        (permutation_case, (2, 0, 1)),
        (permutation_case, (0, 2, 1, 3)),
        (permutation_case, (3, 2, 1, 0)),
        (concatenation_case, 1),
        (concatenation_case, 2),
        (gather_case,),
        (pixel_shuffle_case,),
        (broadcast,),
    ]
    return [maker(Draw(seed, f"{maker.__name__} {further}"), *further) for maker, *further in makers]

"""Programs of public suites, declared by hand: PolyBench's kernels, further contractions of TCCG, sums that opt_einsum's papers give,
programs of NPBench and Rodinia, and stages of Halide's applications."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from tilewright import te, topi

from .cases import Case
from .declared_programs import Draw, everywhere, program

__all__ = ["draw_cases"]

FURTHER_CONTRACTIONS = (
    "abc-ad-bdc",
    "abc-adc-db",
    "abcd-aecf-bfde",
    "abcd-aecf-fbed",
    "abcd-aedf-bfce",
    "abcd-aedf-fbec",
    "abcd-aefb-fced",
    "abcd-aefc-fbed",
    "abcd-aefd-fbec",
    "abcdef-gdab-efgc",
    "abcdef-gdbc-efga",
    "abcdef-geac-dfgb",
    "abcdef-gfab-degc",
    "abcdef-gfbc-dega",
)
"""Of TCCG: axes of the result, and of what is multiplied."""
EINSUMS = {
    "2mm": ("ij,jk,kl->il", 180),
    "3mm": ("ij,jk,kl,lm->im", 150),
    "atax": ("ij,ik,k->j", 900),
    "doitgen": ("rqs,sp->rqp", 110),
    "mvt": ("ij,j->i", 1900),
    "Tucker": ("abc,ia,jb,kc->ijk", 14),
    "tensor train": ("ia,ajb,bkc,cl->ijkl", 14),
    "PEPS corner": ("abcd,aef,bgh,ei->cdfghi", 7),
    "matrix chain": ("ij,jk,kl,lm->im", 90),
    "quadratic forms": ("ij,nj,ni->n", 90),
    "weighted product": ("ik,k,kj->ij", 220),
    "bilinear layer": ("bi,oij,bj->bo", 70),
    "two transforms": ("xp,yq,bpq->bxy", 50),
    "Khatri-Rao": ("ijk,jr,kr->ir", 60),
    "Hadamard and sum": ("ij,ij,jk->ik", 200),
}
"""Subscripts, and about how long an axis is."""
MULTIPLY_ADDS = 40_000_000

Declare = Callable[..., Any]


def contraction(draw: Draw, text: str) -> Case:
    """A contraction of TCCG, of about as many multiply-adds as all of them."""
    result, left, right = text.split("-")
    letters = sorted({*result, *left, *right})
    size = MULTIPLY_ADDS ** (1 / len(letters))
    extents = {letter: draw.near(max(int(size), 3)) for letter in letters}
    return _einsum_case(f"contraction {text}", f"{left},{right}->{result}", extents)


def einsum(draw: Draw, name: str) -> Case:
    """A sum of products."""
    subscripts, size = EINSUMS[name]
    letters = sorted({*subscripts} - {*",->"})
    return _einsum_case(name, subscripts, {letter: draw.near(size) for letter in letters})


def _einsum_case(name: str, subscripts: str, extents: dict[str, int]) -> Case:
    shapes = [tuple(extents[letter] for letter in each) for each in subscripts.partition("->")[0].split(",")]

    def in_library(library: Any, *arrays: Any) -> Any:
        return library.einsum(subscripts, *arrays, **({"optimize": True} if library is np else {}))

    return program(
        f"{name} {'x'.join(map(str, extents.values()))}",
        lambda *tensors: topi.einsum(subscripts, *tensors),
        shapes,
        everywhere(in_library),
        flops=2 * prod(extents.values()),
    )


# PolyBench


def syrk(n: int, m: int) -> tuple[Declare, Declare, list[tuple[int, ...]]]:
    def declare(a: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, m), "k")
        return te.compute((n, n), lambda i, j: te.sum(a[i, k] * a[j, k], k))

    return declare, lambda lib, a: a @ a.T, [(n, m)]


def syr2k(n: int, m: int) -> tuple[Declare, Declare, list[tuple[int, ...]]]:
    def declare(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, m), "k")
        return te.compute((n, n), lambda i, j: te.sum(a[j, k] * b[i, k] + b[j, k] * a[i, k], k))

    return declare, lambda lib, a, b: b @ a.T + a @ b.T, [(n, m)] * 2


def gesummv(n: int, m: int) -> tuple[Declare, Declare, list[tuple[int, ...]]]:
    def declare(a: te.Tensor, b: te.Tensor, x: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, m), "k")
        return te.compute((n,), lambda i: te.sum((a[i, k] * 1.5 + b[i, k] * 1.2) * x[k], k))

    return declare, lambda lib, a, b, x: 1.5 * (a @ x) + 1.2 * (b @ x), [(n, m), (n, m), (m,)]


def trmm(n: int, m: int) -> tuple[Declare, Declare, list[tuple[int, ...]]]:
    def declare(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, n), "k")
        below = te.compute((n, m), lambda i, j: te.sum(te.if_then_else(k > i, a[k, i] * b[k, j], 0.0), k), "below")
        return te.compute((n, m), lambda i, j: below[i, j] + b[i, j])

    return declare, lambda lib, a, b: lib.tril(a, -1).T @ b + b, [(n, n), (n, m)]


def covariance(n: int, m: int) -> tuple[Declare, Declare, list[tuple[int, ...]]]:
    def declare(x: te.Tensor) -> te.Tensor:
        r, k = te.reduce_axis((0, n), "r"), te.reduce_axis((0, n), "k")
        mean = te.compute((m,), lambda j: te.sum(x[r, j], r), "sums")
        apart = te.compute((n, m), lambda i, j: x[i, j] - mean[j] / float(n), "apart")
        return te.compute((m, m), lambda i, j: te.sum(apart[k, i] * apart[k, j], k), "products")

    def in_library(_lib: Any, x: Any) -> Any:
        apart = x - x.mean(0)
        return apart.T @ apart

    return declare, in_library, [(n, m)]


def jacobi(n: int, m: int) -> tuple[Declare, Declare, list[tuple[int, ...]]]:
    def declare(a: te.Tensor) -> te.Tensor:
        return te.compute(
            (n - 2, m - 2),
            lambda i, j: (a[i + 1, j + 1] + a[i + 1, j] + a[i + 1, j + 2] + a[i, j + 1] + a[i + 2, j + 1]) * 0.2,
        )

    def in_library(_lib: Any, a: Any) -> Any:
        return (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[:-2, 1:-1] + a[2:, 1:-1]) * 0.2

    return declare, in_library, [(n, m)]


def heat3d(n: int, m: int) -> tuple[Declare, Declare, list[tuple[int, ...]]]:
    def declare(a: te.Tensor) -> te.Tensor:
        def element(z: Any, y: Any, x: Any) -> Any:
            middle = a[z + 1, y + 1, x + 1]
            around = a[z, y + 1, x + 1] + a[z + 2, y + 1, x + 1] + a[z + 1, y, x + 1]
            return middle * 0.25 + 0.125 * (
                around + a[z + 1, y + 2, x + 1] + a[z + 1, y + 1, x] + a[z + 1, y + 1, x + 2]
            )

        return te.compute((n - 2, m - 2, m - 2), element)

    def in_library(_lib: Any, a: Any) -> Any:
        near = a[:-2, 1:-1, 1:-1] + a[2:, 1:-1, 1:-1] + a[1:-1, :-2, 1:-1] + a[1:-1, 2:, 1:-1]
        return a[1:-1, 1:-1, 1:-1] * 0.25 + 0.125 * (near + a[1:-1, 1:-1, :-2] + a[1:-1, 1:-1, 2:])

    return declare, in_library, [(n, m, m)]


# NPBench and Rodinia


def softmax(n: int, m: int) -> tuple[Declare, Declare, list[tuple[int, ...]]]:
    def declare(x: te.Tensor) -> te.Tensor:
        j, k = te.reduce_axis((0, m), "j"), te.reduce_axis((0, m), "k")
        most = te.compute((n,), lambda i: te.max(x[i, j], j), "most")
        raised = te.compute((n, m), lambda i, c: te.exp(x[i, c] - most[i]), "raised")
        total = te.compute((n,), lambda i: te.sum(raised[i, k], k), "total")
        return te.compute((n, m), lambda i, c: raised[i, c] / total[i], "share")

    def in_library(lib: Any, x: Any) -> Any:
        if lib.__name__ == "torch":
            return lib.softmax(x, 1)
        raised = lib.exp(x - x.max(1, keepdims=True))
        return raised / raised.sum(1, keepdims=True)

    return declare, in_library, [(n, m)]


def arc_distance(n: int, m: int) -> tuple[Declare, Declare, list[tuple[int, ...]]]:
    def declare(a: te.Tensor, b: te.Tensor, c: te.Tensor, d: te.Tensor) -> te.Tensor:
        def element(i: Any, j: Any) -> Any:
            h = te.sin((c[i, j] - a[i, j]) * 0.5)
            w = te.sin((d[i, j] - b[i, j]) * 0.5)
            return h * h + te.cos(a[i, j]) * te.cos(c[i, j]) * w * w

        return te.compute((n, m), element)

    def in_library(lib: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        return lib.sin((c - a) / 2) ** 2 + lib.cos(a) * lib.cos(c) * lib.sin((d - b) / 2) ** 2

    return declare, in_library, [(n, m)] * 4


def go_fast(n: int, _: int) -> tuple[Declare, Declare, list[tuple[int, ...]]]:
    def declare(a: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, n), "k")
        trace = te.compute((1,), lambda _: te.sum(te.tanh(a[k, k]), k), "trace")
        return te.compute((n, n), lambda i, j: a[i, j] + trace[0])

    return declare, lambda lib, a: a + lib.tanh(lib.diagonal(a)).sum(), [(n, n)]


def nbody(n: int, _: int) -> tuple[Declare, Declare, list[tuple[int, ...]]]:
    def declare(p: te.Tensor, mass: te.Tensor) -> te.Tensor:
        j = te.reduce_axis((0, n), "j")

        def element(c: Any, i: Any) -> Any:
            square = sum(((p[a, j] - p[a, i]) * (p[a, j] - p[a, i]) for a in range(3)), te.const(0.01, "float32"))
            return te.sum(mass[j] * (p[c, j] - p[c, i]) / (square * te.sqrt(square)), j)

        return te.compute((3, n), element)

    def in_library(_lib: Any, p: Any, mass: Any) -> Any:
        apart = p[:, None, :] - p[:, :, None]
        return (apart * (mass / ((apart**2).sum(0) + 0.01) ** 1.5)).sum(-1)

    return declare, in_library, [(3, n), (n,)]


def kmeans(n: int, m: int) -> tuple[Declare, Declare, list[tuple[int, ...]]]:
    def nearer(x: Any, y: Any) -> Any:
        left = te.any(x[1] < y[1], te.all(x[1].equal(y[1]), x[0] < y[0]))
        return te.if_then_else(left, x[0], y[0]), te.min(x[1], y[1])

    def declare(p: te.Tensor, q: te.Tensor) -> te.Tensor:
        j = te.reduce_axis((0, m), "j")
        least = te.comm_reducer(nearer, lambda a, b: (te.max_value(a), te.max_value(b)), "nearest")
        return te.compute(
            (n,), lambda i: least((j, sum((p[i, c] - q[j, c]) * (p[i, c] - q[j, c]) for c in range(4))), axis=j)
        )[1]

    return declare, lambda lib, p, q: lib.amin(((p[:, None] - q[None]) ** 2).sum(-1), 1), [(n, 4), (m, 4)]


def hotspot(n: int, m: int) -> tuple[Declare, Declare, list[tuple[int, ...]]]:
    def declare(t: te.Tensor, power: te.Tensor) -> te.Tensor:
        at = te.clamped(t)

        def element(i: Any, j: Any) -> Any:
            across = (at[i, j + 1] + at[i, j - 1] - t[i, j] * 2.0) * 0.1
            down = (at[i + 1, j] + at[i - 1, j] - t[i, j] * 2.0) * 0.1
            return t[i, j] + 0.5 * (power[i, j] + across + down + (80.0 - t[i, j]) * 0.05)

        return te.compute((n, m), element)

    def in_numpy(_lib: Any, t: Any, power: Any) -> Any:
        p = np.pad(t, 1, mode="edge")
        across = (p[1:-1, 2:] + p[1:-1, :-2] - t * 2) * np.float32(0.1)
        down = (p[2:, 1:-1] + p[:-2, 1:-1] - t * 2) * np.float32(0.1)
        return t + np.float32(0.5) * (power + across + down + (80 - t) * np.float32(0.05))

    return declare, in_numpy, [(n, m)] * 2


# Halide's applications


def unsharp(n: int, m: int) -> tuple[Declare, Declare, list[tuple[int, ...]]]:
    taps = (0.06, 0.24, 0.4, 0.24, 0.06)

    def declare(a: te.Tensor) -> te.Tensor:
        down = te.compute((n - 4, m), lambda i, j: sum(a[i + k, j] * w for k, w in enumerate(taps)), "down")
        soft = te.compute((n - 4, m - 4), lambda i, j: sum(down[i, j + k] * w for k, w in enumerate(taps)), "soft")
        return te.compute(soft.shape, lambda i, j: a[i + 2, j + 2] * 2.0 - soft[i, j])

    def in_library(_lib: Any, a: Any) -> Any:
        down = sum(a[k : k + n - 4] * w for k, w in enumerate(taps))
        return a[2:-2, 2:-2] * 2 - sum(down[:, k : k + m - 4] * w for k, w in enumerate(taps))

    return declare, in_library, [(n, m)]


def max_filter(n: int, m: int) -> tuple[Declare, Declare, list[tuple[int, ...]]]:
    def declare(a: te.Tensor) -> te.Tensor:
        at, k = te.clamped(a), te.reduce_axis((0, 11), "k")
        return te.compute((n, m), lambda i, j: te.max(at[i, j + k - 5], k))

    def in_numpy(_lib: Any, a: Any) -> Any:
        from scipy.ndimage import maximum_filter1d

        return maximum_filter1d(a, 11, mode="nearest")

    return declare, in_numpy, [(n, m)]


def harris(n: int, m: int) -> tuple[Declare, Declare, list[tuple[int, ...]]]:
    def declare(a: te.Tensor) -> te.Tensor:
        size = (n - 2, m - 2)
        dx = te.compute(
            size, lambda i, j: sum((a[i + r, j + 2] - a[i + r, j]) * w for r, w in enumerate((1.0, 2.0, 1.0)))
        )
        dy = te.compute(
            size, lambda i, j: sum((a[i + 2, j + c] - a[i, j + c]) * w for c, w in enumerate((1.0, 2.0, 1.0)))
        )

        def box(f: Callable[[Any, Any], Any]) -> te.Tensor:
            return te.compute((n - 4, m - 4), lambda i, j: sum(f(i + r, j + c) for r in range(3) for c in range(3)))

        xx, yy, xy = (
            box(lambda i, j: dx[i, j] * dx[i, j]),
            box(lambda i, j: dy[i, j] * dy[i, j]),
            box(lambda i, j: dx[i, j] * dy[i, j]),
        )
        return te.compute(
            xx.shape,
            lambda i, j: (
                xx[i, j] * yy[i, j] - xy[i, j] * xy[i, j] - 0.04 * (xx[i, j] + yy[i, j]) * (xx[i, j] + yy[i, j])
            ),
        )

    def in_library(_lib: Any, a: Any) -> Any:
        dx = sum((a[r : r + n - 2, 2:] - a[r : r + n - 2, :-2]) * w for r, w in enumerate((1, 2, 1)))
        dy = sum((a[2:, c : c + m - 2] - a[:-2, c : c + m - 2]) * w for c, w in enumerate((1, 2, 1)))

        def box(x: Any) -> Any:
            return sum(x[r : r + n - 4, c : c + m - 4] for r in range(3) for c in range(3))

        xx, yy, xy = box(dx * dx), box(dy * dy), box(dx * dy)
        return xx * yy - xy * xy - 0.04 * (xx + yy) ** 2

    return declare, in_library, [(n, m)]


def resample(n: int, m: int) -> tuple[Declare, Declare, list[tuple[int, ...]]]:
    def declare(a: te.Tensor) -> te.Tensor:
        r, c = te.reduce_axis((0, 2), "r"), te.reduce_axis((0, 2), "c")
        return te.compute((n // 2, m // 2), lambda i, j: te.sum(a[i * 2 + r, j * 2 + c] * 0.25, [r, c]))

    def in_library(_lib: Any, a: Any) -> Any:
        b = a[: n // 2 * 2, : m // 2 * 2]
        return (b[::2, ::2] + b[1::2, ::2] + b[::2, 1::2] + b[1::2, 1::2]) * 0.25

    return declare, in_library, [(n, m)]


ROWS: dict[
    str, tuple[Callable[[int, int], tuple[Declare, Declare, list[tuple[int, ...]]]], int, int, tuple[str, ...]]
] = {
    "syrk": (syrk, 250, 260, ()),
    "syr2k": (syr2k, 250, 260, ()),
    "gesummv": (gesummv, 1400, 1500, ()),
    "trmm": (trmm, 250, 270, ()),
    "covariance": (covariance, 300, 260, ()),
    "jacobi-2d": (jacobi, 900, 1000, ()),
    "heat-3d": (heat3d, 90, 100, ()),
    "softmax by hand": (softmax, 700, 900, ()),
    "softmax of short rows": (softmax, 9000, 40, ()),
    "arc distance": (arc_distance, 500, 600, ()),
    "go fast": (go_fast, 900, 900, ()),
    "n bodies": (nbody, 700, 0, ()),
    "k-means": (kmeans, 3000, 60, ()),
    "hotspot": (hotspot, 900, 1000, ("torch", "jax")),
    "unsharp mask": (unsharp, 700, 900, ()),
    "max filter": (max_filter, 500, 900, ("torch", "jax")),
    "Harris corners": (harris, 500, 700, ()),
    "down by two": (resample, 1000, 1200, ()),
}
"""What declares it, its peers and shapes, at about these extents; and peers that have no such function."""


def draw_row(draw: Draw, name: str) -> Case:
    """A program of the table."""
    make, n, m, without = ROWS[name]
    declare, in_library, shapes = make(draw.near(n), draw.near(m) if m else 0)
    return program(f"{name} {'x'.join(map(str, shapes[0]))}", declare, shapes, everywhere(in_library, without))


def draw_cases(seed: int) -> Sequence[Case]:
    """The cases at the shapes of a seed."""
    return [
        *(contraction(Draw(seed, text), text) for text in FURTHER_CONTRACTIONS),
        *(einsum(Draw(seed, name), name) for name in EINSUMS),
        *(draw_row(Draw(seed, name), name) for name in ROWS),
    ]

"""Reductions, normalisations and scans along the first, a middle and the last axis, written by hand in te."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from tilewright import te

from .cases import Arrays, Case, align
from .declared_programs import Draw, everywhere, program
from .peers import jax_peer, numba_peer, numpy_peer, torch_peer

__all__ = ["draw_cases"]

prange: Any = range
"""numba's, once it is imported."""
PLACES = ("first", "middle", "last")


def _shape(draw: Draw, place: str) -> tuple[int, ...]:
    """About a million elements, with the axis that is reduced over in this place."""
    if place == "first":
        return draw.near(500), draw.near(2000)
    return (draw.near(12), draw.near(250), draw.near(330)) if place == "middle" else (draw.near(900), draw.near(1100))


def _reduce_rows(
    shape: Sequence[int], axis: int, tensor: te.Tensor, how: Callable[..., te.Expr], name: str
) -> te.Tensor:
    k = te.reduce_axis((0, shape[axis]), "k")
    rest = tuple(extent for at, extent in enumerate(shape) if at != axis)
    return te.compute(rest, lambda *others: how(tensor(*others[:axis], k, *others[axis:]), k), name=name)


def row(draw: Draw, kind: str, place: str) -> Case:
    """Declare an operation over rows.

    kind: as draw_cases lists them.
    """
    shape = _shape(draw, place)
    axis = PLACES.index(place) if place != "last" else len(shape) - 1
    count = shape[axis]

    def without(at: Sequence[te.Expr]) -> list[te.Expr]:
        return [index for place, index in enumerate(at) if place != axis]

    def exponentials(x: te.Tensor) -> te.Tensor:
        most = _reduce_rows(shape, axis, x, te.max, "most")
        raised = te.compute(shape, lambda *at: te.exp(x(*at) - most(*without(at))), name="raised")
        total = _reduce_rows(shape, axis, raised, te.sum, "total")
        if kind == "log-sum-exp":
            return te.compute(total.shape, lambda *at: te.log(total(*at)) + most(*at), name="lse")
        return te.compute(shape, lambda *at: raised(*at) / total(*without(at)), name="softmax")

    def moments(x: te.Tensor) -> te.Tensor:
        total = _reduce_rows(shape, axis, x, te.sum, "total")
        mean = te.compute(total.shape, lambda *at: total(*at) * (1 / count), name="mean")
        apart = te.compute(
            shape, lambda *at: (x(*at) - mean(*without(at))) * (x(*at) - mean(*without(at))), name="apart"
        )
        squares = _reduce_rows(shape, axis, apart, te.sum, "squares")
        if kind == "variance":
            return te.compute(squares.shape, lambda *at: squares(*at) * (1 / count), name="variance")
        return te.compute(
            shape,
            lambda *at: (x(*at) - mean(*without(at))) * te.rsqrt(squares(*without(at)) * (1 / count) + 1e-5),
            name="norm",
        )

    def l2_norm(x: te.Tensor) -> te.Tensor:
        total = _reduce_rows(
            shape, axis, te.compute(shape, lambda *at: x(*at) * x(*at), name="square"), te.sum, "total"
        )
        return te.compute(shape, lambda *at: x(*at) * te.rsqrt(total(*without(at)) + 1e-6), name="unit")

    def place_of(x: te.Tensor, lowest: bool) -> te.Tensor:
        def first(a: Any, b: Any) -> Any:
            left = te.any(a[1] < b[1] if lowest else a[1] > b[1], te.all(a[1] == b[1], a[0] < b[0]))
            return te.select(left, a[0], b[0]), te.select(left, a[1], b[1])

        best = te.comm_reducer(
            first,
            lambda places, values: (te.max_value("int32"), te.max_value(values) if lowest else te.min_value(values)),
        )
        k = te.reduce_axis((0, count), "k")
        rest = tuple(extent for at, extent in enumerate(shape) if at != axis)
        return te.compute(rest, lambda *others: best((k, x(*others[:axis], k, *others[axis:])), axis=k), name="best")[0]

    def cumsum(x: te.Tensor) -> te.Tensor:
        state = te.placeholder((count, *(shape[:axis] + shape[axis + 1 :])), name="state")
        turned = lambda t, *others: x(*others[:axis], t, *others[axis:])
        first = te.compute((1, *state.shape[1:]), lambda _, *others: turned(0, *others), name="first")
        step = te.compute(state.shape, lambda t, *others: state(t - 1, *others) + turned(t, *others), name="step")
        summed = te.scan(first, step, state, [x], name="summed")
        return summed if axis == 0 else te.compute(shape, lambda *at: summed(at[axis], *without(at)), name="turned")

    declared: dict[str, Callable[[te.Tensor], te.Tensor]] = {
        "softmax": exponentials,
        "log-sum-exp": exponentials,
        "variance": moments,
        "layer norm": moments,
        "l2 norm": l2_norm,
        "argmax": lambda x: place_of(x, False),
        "argmin": lambda x: place_of(x, True),
        "cumsum": cumsum,
        "sum": lambda x: _reduce_rows(shape, axis, x, te.sum, "sum"),
        "max": lambda x: _reduce_rows(shape, axis, x, te.max, "max"),
    }

    peers = {
        "numpy": numpy_peer.call(lambda x: _numpy_rows(kind, axis, x)),
        "torch": torch_peer.call(lambda torch, x: _torch_rows(kind, axis, torch, x)),
        "jax": jax_peer.call(lambda jax, x: _jax_rows(kind, axis, jax, x)),
    }
    return program(f"{kind} {place} {'x'.join(map(str, shape))}", declared[kind], [shape], peers, flops=prod(shape))


def _numpy_rows(kind: str, axis: int, x: Any) -> Any:
    apart = x - x.mean(axis, keepdims=True) if "norm" in kind or kind == "variance" else x
    raised = np.exp(x - x.max(axis, keepdims=True)) if "exp" in kind or kind == "softmax" else x
    return {
        "softmax": lambda: raised / raised.sum(axis, keepdims=True),
        "variance": lambda: (apart * apart).mean(axis),
        "log-sum-exp": lambda: np.log(raised.sum(axis)) + x.max(axis),
        "layer norm": lambda: apart / np.sqrt((apart * apart).mean(axis, keepdims=True) + 1e-5),
        "l2 norm": lambda: x / np.sqrt((x * x).sum(axis, keepdims=True) + 1e-6),
        "argmax": lambda: x.argmax(axis),
        "argmin": lambda: x.argmin(axis),
        "cumsum": lambda: x.cumsum(axis),
        "sum": lambda: x.sum(axis),
        "max": lambda: x.max(axis),
    }[kind]()


def _torch_rows(kind: str, axis: int, torch: Any, x: Any) -> Any:
    def layer_norm() -> Any:
        if axis == x.ndim - 1:
            return torch.nn.functional.layer_norm(x, (x.shape[-1],), eps=1e-5)
        spread, mean = torch.var_mean(x, axis, correction=0, keepdim=True)
        return (x - mean) * torch.rsqrt(spread + 1e-5)

    return {
        "softmax": lambda: torch.softmax(x, axis),
        "variance": lambda: torch.var(x, axis, correction=0),
        "log-sum-exp": lambda: torch.logsumexp(x, axis),
        "layer norm": layer_norm,
        "l2 norm": lambda: x * torch.rsqrt((x * x).sum(axis, keepdim=True) + 1e-6),
        "argmax": lambda: x.argmax(axis),
        "argmin": lambda: x.argmin(axis),
        "cumsum": lambda: x.cumsum(axis),
        "sum": lambda: x.sum(axis),
        "max": lambda: x.amax(axis),
    }[kind]()


def _jax_rows(kind: str, axis: int, jax: Any, x: Any) -> Any:
    apart = x - x.mean(axis, keepdims=True)
    return {
        "softmax": lambda: jax.nn.softmax(x, axis),
        "variance": lambda: x.var(axis),
        "log-sum-exp": lambda: jax.nn.logsumexp(x, axis),
        "layer norm": lambda: apart * jax.lax.rsqrt((apart * apart).mean(axis, keepdims=True) + 1e-5),
        "l2 norm": lambda: x * jax.lax.rsqrt((x * x).sum(axis, keepdims=True) + 1e-6),
        "argmax": lambda: x.argmax(axis),
        "argmin": lambda: x.argmin(axis),
        "cumsum": lambda: jax.numpy.cumsum(x, axis),
        "sum": lambda: x.sum(axis),
        "max": lambda: x.max(axis),
    }[kind]()


def recurrence(draw: Draw) -> Case:
    """h[t] = a[t] h[t-1] + b[t], for many at once."""
    steps, wide = draw.near(800), draw.near(1000)

    def declare(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        state = te.placeholder((steps, wide), name="state")
        first = te.compute((1, wide), lambda _, i: b[0, i], name="first")
        step = te.compute((steps, wide), lambda t, i: state[t - 1, i] * a[t, i] + b[t, i], name="step")
        return te.scan(first, step, state, [a, b], name="h")

    def loops(a: Any, b: Any, out: Any) -> None:
        out[0, :] = b[0, :]
        for t in range(1, steps):
            for i in range(wide):
                out[t, i] = out[t - 1, i] * a[t, i] + b[t, i]

    def in_jax(jax: Any, a: Any, b: Any) -> Any:
        def step(h: Any, now: Any) -> Any:
            h = h * now[0] + now[1]
            return h, h

        return jax.lax.scan(step, jax.numpy.zeros(wide), (a, b))[1]

    def in_numpy(a: Any, b: Any) -> Any:
        out = b.copy()
        for t in range(1, steps):
            out[t] += out[t - 1] * a[t]
        return out

    def inputs(rng: np.random.Generator) -> Arrays:
        return [align(rng.random((steps, wide), np.float32)) for _ in range(2)]

    return program(
        f"recurrence {steps}x{wide}",
        declare,
        [(steps, wide)] * 2,
        {"numpy": numpy_peer.call(in_numpy), "numba": numba_peer.call(loops), "jax": jax_peer.call(in_jax)},
        inputs=inputs,
        flops=2 * steps * wide,
    )


def histogram(draw: Draw) -> Case:
    count, bins = draw.near(1_000_000), draw.near(255)

    def declare(x: te.Tensor) -> te.Tensor:
        i = te.reduce_axis((0, count), "i")
        one, none = te.const(1, "int32"), te.const(0, "int32")
        return te.compute((bins,), lambda b: te.sum(te.if_then_else(x[i] == b, one, none), i), name="H")

    def loops(x: Any, out: Any) -> None:
        out[:] = 0
        for i in range(count):
            out[x[i]] += 1

    def inputs(rng: np.random.Generator) -> Arrays:
        return [align(rng.integers(0, bins, count).astype(np.int32))]

    return program(
        f"histogram {count} in {bins}",
        declare,
        [(count,)],
        {
            "numpy": numpy_peer.call(lambda x: np.bincount(x, minlength=bins)),
            "numba": numba_peer.call(loops),
            "torch": torch_peer.call(lambda _, x: x.bincount(minlength=bins)),
        },
        dtypes=["int32"],
        inputs=inputs,
        flops=count,
        tolerance=(0, 0),
    )


def mean_and_variance(draw: Draw) -> Case:
    """Two results of one reading."""
    rows, count = draw.near(1000), draw.near(1000)

    def declare(x: te.Tensor) -> list[te.Tensor]:
        j, k = te.reduce_axis((0, count), "j"), te.reduce_axis((0, count), "k")
        return [
            te.compute((rows,), lambda i: te.sum(x[i, j], j), name="total"),
            te.compute((rows,), lambda i: te.sum(x[i, k] * x[i, k], k), name="squares"),
        ]

    return program(
        f"sum and squares {rows}x{count}",
        declare,
        [(rows, count)],
        everywhere(lambda library, x: (x.sum(1), (x * x).sum(1))),
        flops=3 * rows * count,
    )


def draw_cases(seed: int) -> Sequence[Case]:
    """The cases at the shapes of a seed."""
    kinds = {
        "softmax": PLACES,
        "variance": PLACES,
        "layer norm": ("middle", "last"),
        "log-sum-exp": PLACES,
        "l2 norm": ("first",),
        "argmax": PLACES,
        "argmin": ("first", "last"),
        "cumsum": PLACES,
        "sum": PLACES,
        "max": ("middle",),
    }
    rows = [row(Draw(seed, f"{kind} {place}"), kind, place) for kind, places in kinds.items() for place in places]
    return [*rows, *(maker(Draw(seed, maker.__name__)) for maker in (recurrence, histogram, mean_and_variance))]

"""Sums of products and their like, declared by hand: tensor contractions as the benchmark TCCG has them (Springer and Bientinesi
2018), in the order of C's arrays, and what else is a reduction with reuse."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from tilewright import te

from .cases import Case
from .declared_programs import Draw, everywhere, program
from .peers import jax_peer, numba_peer, onnx_peers, torch_peer
from .peers.onnx_model import Node

__all__ = ["draw_cases"]

prange: Any = range
"""numba's, once it is imported."""

CONTRACTIONS = (
    "abcde-efbad-cf",
    "abcde-efcad-bf",
    "abcd-dbea-ec",
    "abcde-ecbfa-fd",
    "abcd-deca-be",
    "abc-bda-dc",
    "abcd-ebad-ce",
    "abcdef-dega-gfbc",
    "abcdef-dfgb-geac",
    "abcdef-degb-gfac",
    "abc-dca-bd",
    "abcd-ea-ebcd",
    "abcd-eb-aecd",
    "abcd-ec-abed",
    "abc-adec-ebd",
    "ab-cad-dcb",
    "ab-acd-dbc",
    "abc-acd-db",
    "abc-adc-bd",
    "ab-ca-bc",
    "abcd-aebf-fdec",
    "abcd-eafd-fbec",
    "abcd-aebf-dfce",
    "abcd-dfce-aebf",
    "abcd-aefb-fecd",
    "abcd-eafb-cedf",
)
MULTIPLY_ADDS = 120_000_000


def contraction(draw: Draw, text: str) -> Case:
    """Declare a contraction.

    text: axes of the result, and of what is multiplied.
    """
    result, left, right = text.split("-")
    letters = sorted({*result, *left, *right})
    size = MULTIPLY_ADDS ** (1 / len(letters))
    extents = {letter: draw.near(max(int(size * draw.uniform(0.7, 1.4)), 3)) for letter in letters}
    scale = (MULTIPLY_ADDS / prod(extents.values())) ** (1 / len(letters))
    extents = {letter: max(int(extent * scale) | 1, 3) for letter, extent in extents.items()}

    def declare(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        reduced = {letter: te.reduce_axis((0, extents[letter]), letter) for letter in letters if letter not in result}

        def element(*at: te.Expr) -> te.Expr:
            index = dict(zip(result, at, strict=True)) | reduced
            return te.sum(
                a(*(index[letter] for letter in left)) * b(*(index[letter] for letter in right)), list(reduced.values())
            )

        return te.compute(tuple(extents[letter] for letter in result), element, name="C")

    subscripts = f"{left},{right}->{result}"
    shapes = [tuple(extents[letter] for letter in operand) for operand in (left, right)]
    peers = everywhere(
        lambda library, a, b: (
            library.einsum(subscripts, a, b, optimize=True)
            if library.__name__ == "numpy"
            else library.einsum(subscripts, a, b)
        )
    )
    return program(f"{text} {_size(*extents.values())}", declare, shapes, peers, flops=2 * prod(extents.values()))


def _size(*extents: int) -> str:
    return "x".join(map(str, extents))


def mttkrp(draw: Draw) -> Case:
    i, j, k, r = draw.near(150), draw.near(130), draw.near(120), draw.near(33)

    def declare(x: te.Tensor, b: te.Tensor, c: te.Tensor) -> te.Tensor:
        jj, kk = te.reduce_axis((0, j), "j"), te.reduce_axis((0, k), "k")
        return te.compute((i, r), lambda a, s: te.sum(x[a, jj, kk] * b[jj, s] * c[kk, s], [jj, kk]), name="M")

    peers = everywhere(
        lambda library, x, b, c: library.einsum(
            "ijk,jr,kr->ir", x, b, c, **({"optimize": True} if library.__name__ == "numpy" else {})
        )
    )
    return program(f"mttkrp {_size(i, j, k, r)}", declare, [(i, j, k), (j, r), (k, r)], peers, flops=3 * i * j * k * r)


def gram(draw: Draw, transposed: bool) -> Case:
    n, k = draw.near(420), draw.near(700)
    shape = (k, n) if transposed else (n, k)

    def declare(a: te.Tensor) -> te.Tensor:
        kk = te.reduce_axis((0, k), "k")
        return te.compute(
            (n, n),
            (lambda i, j: te.sum(a[kk, i] * a[kk, j], kk))
            if transposed
            else (lambda i, j: te.sum(a[i, kk] * a[j, kk], kk)),
            name="G",
        )

    return program(
        f"{'AtA' if transposed else 'AAt'} {_size(*shape)}",
        declare,
        [shape],
        everywhere(lambda library, a: a.T @ a if transposed else a @ a.T),
        flops=2 * n * n * k,
    )


def batched_case(draw: Draw) -> Case:
    b, m, n, k = draw.near(500), draw.near(17), draw.near(31), draw.near(23)

    def declare(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        kk = te.reduce_axis((0, k), "k")
        return te.compute((b, m, n), lambda a, i, j: te.sum(x[a, i, kk] * y[a, kk, j], kk), name="C")

    return program(
        f"batched {_size(b, m, n, k)}",
        declare,
        [(b, m, k), (b, k, n)],
        everywhere(lambda library, x, y: library.matmul(x, y)),
        flops=2 * b * m * n * k,
    )


def batch_last(draw: Draw) -> Case:
    """Small products beside each other: the batch is the contiguous axis."""
    b, m, n, k = draw.near(2000), draw.near(7), draw.near(5), draw.near(9)

    def declare(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        kk = te.reduce_axis((0, k), "k")
        return te.compute((m, n, b), lambda i, j, a: te.sum(x[i, kk, a] * y[kk, j, a], kk), name="C")

    return program(
        f"batch last {_size(b, m, n, k)}",
        declare,
        [(m, k, b), (k, n, b)],
        everywhere(lambda library, x, y: library.einsum("ikb,kjb->ijb", x, y)),
        flops=2 * b * m * n * k,
    )


def diagonal(draw: Draw) -> Case:
    m, n, k = draw.near(380), draw.near(390), draw.near(500)

    def declare(a: te.Tensor, d: te.Tensor, b: te.Tensor) -> te.Tensor:
        kk = te.reduce_axis((0, k), "k")
        return te.compute((m, n), lambda i, j: te.sum(a[i, kk] * d[kk] * b[kk, j], kk), name="C")

    return program(
        f"A diag(d) B {_size(m, n, k)}",
        declare,
        [(m, k), (k,), (k, n)],
        everywhere(lambda library, a, d, b: (a * d) @ b),
        flops=2 * m * n * k,
    )


def bilinear_form(draw: Draw) -> Case:
    b, o, i, j = draw.near(50), draw.near(30), draw.near(130), draw.near(120)

    def declare(x: te.Tensor, w: te.Tensor, z: te.Tensor) -> te.Tensor:
        ii, jj = te.reduce_axis((0, i), "i"), te.reduce_axis((0, j), "j")
        return te.compute((b, o), lambda a, c: te.sum(x[a, ii] * w[c, ii, jj] * z[a, jj], [ii, jj]), name="y")

    peers = everywhere(
        lambda library, x, w, z: library.einsum(
            "bi,oij,bj->bo", x, w, z, **({"optimize": True} if library.__name__ == "numpy" else {})
        )
    )
    return program(
        f"x W z {_size(b, o, i, j)}",
        declare,
        [(b, i), (o, i, j), (b, j)],
        peers,
        flops=3 * b * o * i * j,
        tolerance=(1e-2, 1e-3),
    )


def max_plus(draw: Draw) -> Case:
    n = draw.near(256)

    def declare(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, n), "k")
        return te.compute((n, n), lambda i, j: te.max(a[i, k] + b[k, j], k), name="C")

    def loops(a: Any, b: Any, out: Any) -> None:
        for i in prange(n):
            out[i, :] = a[i, 0] + b[0, :]
            for k in range(1, n):
                for j in range(n):
                    out[i, j] = max(out[i, j], a[i, k] + b[k, j])

    peers = everywhere(lambda library, a, b: (a[:, :, None] + b[None]).max(1))
    peers["torch"] = torch_peer.call(lambda _, a, b: (a[:, :, None] + b[None]).amax(1))
    return program(f"max-plus {n}", declare, [(n, n)] * 2, peers | {"numba": numba_peer.call(loops)}, flops=2 * n**3)


def distance(draw: Draw, power: int) -> Case:
    m, n, k = draw.near(500), draw.near(400), draw.near(65)

    def declare(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        kk = te.reduce_axis((0, k), "k")

        def term(i: te.Expr, j: te.Expr) -> te.Expr:
            apart = a[i, kk] - b[j, kk]
            return te.sum(te.abs(apart) if power == 1 else apart * apart, kk)

        return te.compute((m, n), term, name="D")

    def loops(a: Any, b: Any, out: Any) -> None:
        for i in prange(m):
            for j in range(n):
                total = a.dtype.type(0)
                for q in range(k):
                    apart = a[i, q] - b[j, q]
                    total += abs(apart) if power == 1 else apart * apart
                out[i, j] = total

    peers = everywhere(lambda library, a, b: (abs(a[:, None] - b[None]) ** power).sum(-1), ["torch"])
    peers["torch"] = torch_peer.call(lambda torch, a, b: torch.cdist(a, b, power) ** power)
    return program(
        f"L{power} distances {_size(m, n, k)}",
        declare,
        [(m, k), (n, k)],
        peers | {"numba": numba_peer.call(loops)},
        flops=3 * m * n * k,
    )


def density(draw: Draw) -> Case:
    m, n = draw.near(1500), draw.near(1400)

    def declare(x: te.Tensor, y: te.Tensor, w: te.Tensor) -> te.Tensor:
        j = te.reduce_axis((0, n), "j")
        return te.compute((m,), lambda i: te.sum(te.exp((x[i] - y[j]) * (y[j] - x[i])) * w[j], j), name="p")

    def loops(x: Any, y: Any, w: Any, out: Any) -> None:
        for i in prange(m):
            total = x.dtype.type(0)
            for j in range(n):
                total += np.exp((x[i] - y[j]) * (y[j] - x[i])) * w[j]
            out[i] = total

    peers = everywhere(lambda library, x, y, w: library.exp(-((x[:, None] - y) ** 2)) @ w)
    return program(
        f"exp in a sum {_size(m, n)}",
        declare,
        [(m,), (n,), (n,)],
        peers | {"numba": numba_peer.call(loops)},
        flops=20 * m * n,
    )


def int8(draw: Draw) -> Case:
    m, n, k = draw.near(250), draw.near(260), draw.near(510)

    def declare(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        kk = te.reduce_axis((0, k), "k")
        return te.compute(
            (m, n), lambda i, j: te.sum(a[i, kk].astype("int32") * b[j, kk].astype("int32"), kk), name="C"
        )

    def loops(a: Any, b: Any, out: Any) -> None:
        for i in prange(m):
            for j in range(n):
                total = out.dtype.type(0)
                for q in range(k):
                    total += out.dtype.type(a[i, q]) * out.dtype.type(b[j, q])
                out[i, j] = total

    peers = {
        "numba": numba_peer.call(loops),
        "jax": jax_peer.call(
            lambda jax, a, b: jax.lax.dot_general(a, b, (((1,), (1,)), ((), ())), preferred_element_type="int32")
        ),
        "torch": torch_peer.call(lambda torch, a, b: torch._int_mm(a, b.T)),
        **onnx_peers.call(
            [Node("Transpose", ["x1"], ["t"], {"perm": [1, 0]}), Node("MatMulInteger", ["x0", "t"])], [1]
        ),
    }
    return program(
        f"int8 {_size(m, n, k)}",
        declare,
        [(m, k), (n, k)],
        peers,
        dtypes=["int8"] * 2,
        flops=2 * m * n * k,
        tolerance=(0, 0),
    )


def matmul(draw: Draw, kind: str) -> Case:
    m, n, k = draw.near(310), draw.near(300), draw.near(330)

    def declare(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        kk = te.reduce_axis((0, k), "k")
        return te.compute((m, n), lambda i, j: te.sum(a[i, kk] * b[kk, j], kk), name="C")

    without = ["jax"] if kind == "float64" else []  # whose numbers have 32 bits
    return program(
        f"{kind} {_size(m, n, k)}",
        declare,
        [(m, k), (k, n)],
        everywhere(lambda library, a, b: a @ b, without),
        dtypes=[kind] * 2,
        flops=2 * m * n * k,
    )


def epilogue_case(draw: Draw) -> Case:
    m, n, k = draw.near(130), draw.near(700), draw.near(500)

    def declare(a: te.Tensor, w: te.Tensor, bias: te.Tensor) -> te.Tensor:
        kk = te.reduce_axis((0, k), "k")
        c = te.compute((m, n), lambda i, j: te.sum(a[i, kk] * w[j, kk], kk), name="C")
        return te.compute((m, n), lambda i, j: te.tanh(c[i, j] + bias[j]), name="T")

    return program(
        f"tanh(x Wt + b) {_size(m, n, k)}",
        declare,
        [(m, k), (n, k), (n,)],
        everywhere(lambda library, a, w, bias: library.tanh(a @ w.T + bias)),
        flops=2 * m * n * k,
    )


def vector(draw: Draw, transposed: bool) -> Case:
    m, k = draw.near(1800), draw.near(2000)

    def declare(a: te.Tensor, x: te.Tensor) -> te.Tensor:
        kk = te.reduce_axis((0, m if transposed else k), "k")
        return te.compute(
            (k if transposed else m,), lambda i: te.sum((a[kk, i] if transposed else a[i, kk]) * x[kk], kk), name="y"
        )

    return program(
        f"{'Atx' if transposed else 'Ax'} {_size(m, k)}",
        declare,
        [(m, k), (m if transposed else k,)],
        everywhere(lambda library, a, x: (a.T if transposed else a) @ x),
        flops=2 * m * k,
    )


def cost_volume(draw: Draw) -> Case:
    c, high, wide, far = draw.near(17), draw.near(120), draw.near(200), draw.near(33)

    def declare(left: te.Tensor, right: te.Tensor) -> te.Tensor:
        cc = te.reduce_axis((0, c), "c")
        return te.compute(
            (far, high, wide), lambda d, y, x: te.sum(left[cc, y, x + far] * right[cc, y, x + far - d], cc), name="V"
        )

    def in_library(library: Any, left: Any, right: Any) -> Any:
        return library.stack([(left[:, :, far:] * right[:, :, far - d : far - d + wide]).sum(0) for d in range(far)])

    return program(
        f"cost volume {_size(far, c, high, wide)}",
        declare,
        [(c, high, wide + far)] * 2,
        everywhere(in_library),
        flops=2 * far * c * high * wide,
    )


def attention(draw: Draw) -> Case:
    heads, rows, keys, size = draw.near(8), draw.near(190), draw.near(200), draw.choice((48, 63, 65, 80))

    def declare(q: te.Tensor, k: te.Tensor, v: te.Tensor) -> te.Tensor:
        d, j, n, p = (
            te.reduce_axis((0, extent), name) for extent, name in ((size, "d"), (keys, "j"), (keys, "n"), (keys, "p"))
        )
        scores = te.compute((heads, rows, keys), lambda h, i, c: te.sum(q[h, i, d] * k[h, c, d], d), name="S")
        scaled = te.compute(scores.shape, lambda *at: scores(*at) * size**-0.5, name="scaled")
        most = te.compute((heads, rows), lambda h, i: te.max(scaled[h, i, j], j), name="most")
        raised = te.compute(scores.shape, lambda h, i, c: te.exp(scaled[h, i, c] - most[h, i]), name="raised")
        total = te.compute((heads, rows), lambda h, i: te.sum(raised[h, i, n], n), name="total")
        share = te.compute(scores.shape, lambda h, i, c: raised[h, i, c] / total[h, i], name="share")
        return te.compute((heads, rows, size), lambda h, i, c: te.sum(share[h, i, p] * v[h, p, c], p), name="O")

    return program(
        f"attention {_size(heads, rows, keys, size)}",
        declare,
        [(heads, rows, size), *[(heads, keys, size)] * 2],
        {
            "torch": torch_peer.call(lambda torch, q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v)),
            "jax": jax_peer.call(lambda jax, q, k, v: jax.nn.softmax(q @ k.transpose(0, 2, 1) * size**-0.5) @ v),
        },
        flops=4 * heads * rows * keys * size,
    )


def draw_cases(seed: int) -> Sequence[Case]:
    """The cases at the shapes of a seed."""
    rows = [contraction(Draw(seed, text), text) for text in CONTRACTIONS]
    makers: list[tuple[Any, ...]] = [
        (mttkrp,),
        (gram, True),
        (gram, False),
        (batched_case,),
        (batch_last,),
        (diagonal,),
        (bilinear_form,),
        (max_plus,),
        (distance, 1),
        (distance, 2),
        (density,),
        (int8,),
        (matmul, "float64"),
        (matmul, "float32"),
        (epilogue_case,),
        (vector, False),
        (vector, True),
        (cost_volume,),
        (attention,),
    ]
    return [*rows, *(maker(Draw(seed, f"{maker.__name__} {further}"), *further) for maker, *further in makers)]

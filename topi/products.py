"""Products summed over dimensions: matrices in any batches, and einsum."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from .. import topi
from ..ir import ops
from ..ir.ops import common_dtype, is_const
from ..te import polymorphic as te
from ..te.shape import same_extent
from .matmul import convert_elements, product, sum_dtype
from .references import wide
from .row import floating, operator, sample

if TYPE_CHECKING:
    from ..ir.expr import Expr


def _product(a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    a, b = (np.swapaxes(x, -1, -2) if swapped else x for x, swapped in ((a, transpose_a), (b, transpose_b)))
    return np.matmul(a, b)


@operator(
    "matmul",
    reference=wide(_product),
    samples=[
        sample(floating(3, 5), floating(5, 7)),
        sample(floating(5), floating(2, 5, 7)),
        sample(floating(2, 3, 5), floating(5)),
        sample(floating(5), floating(5, 5), transpose_b=True),
        sample(floating(2, 5, 5), floating(5), transpose_a=True),
        sample(floating(5), floating(5)),
        sample(floating(2, 3, 5), floating(5, 7)),
        sample(floating(2, 1, 3, 5), floating(4, 5, 7)),
        sample(floating(2, 4, 3, 5), floating(2, 4, 7, 5), transpose_b=True),
        sample(floating(5, 3), floating(5, 7), transpose_a=True),
    ],
)
def _matmul(a: Any, b: Any, *, transpose_a: bool = False, transpose_b: bool = False) -> Any:
    """numpy's matmul: of vectors, matrices, and batches of matrices that broadcast. transpose: the last two dimensions."""
    if a.ndim == b.ndim == 2:
        return topi.matmul(a, b, transpose_a, transpose_b)
    if a.ndim < 2 or b.ndim < 2:
        return _vector_product(a, b, transpose_a, transpose_b)
    if a.ndim == b.ndim == 3 and same_extent(a.shape[0], b.shape[0]):
        return topi.batch_matmul(a, b, None, transpose_a, transpose_b)
    if b.ndim == 2 and not transpose_a:
        rows = topi.reshape(a, (cast("Expr", math.prod(a.shape[:-1])), a.shape[-1]))
        return topi.reshape(
            topi.matmul(rows, b, False, transpose_b), (*a.shape[:-1], b.shape[-2 if transpose_b else -1])
        )
    if a.ndim == b.ndim and all(map(same_extent, a.shape[:-2], b.shape[:-2])):
        batch = math.prod(a.shape[:-2])
        one, other = (topi.reshape(x, (batch, *x.shape[-2:])) for x in (a, b))
        products = topi.batch_matmul(one, other, None, transpose_a, transpose_b)
        return topi.reshape(products, (*a.shape[:-2], *products.shape[1:]))
    return _broadcast(a, b, transpose_a, transpose_b)


def _vector_product(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Any:
    if not a.ndim or not b.ndim:
        raise ValueError("a number is not a vector: multiply takes one")
    if a.ndim == 1 and transpose_a or b.ndim == 1 and transpose_b:
        raise ValueError("a vector has no last two dimensions that could be exchanged")
    left = topi.expand_dims(a, 0) if a.ndim == 1 else a
    right = topi.expand_dims(b, 1) if b.ndim == 1 else b
    products = _matmul(left, right, transpose_a=transpose_a, transpose_b=transpose_b)
    dropped = [products.ndim - 2] * (a.ndim == 1) + [products.ndim - 1] * (b.ndim == 1)
    return topi.reshape(products, [extent for at, extent in enumerate(products.shape) if at not in dropped])


def _broadcast(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Any:
    rank = max(a.ndim, b.ndim) - 2
    kind = common_dtype(a.dtype, b.dtype)
    depth, deep = a.shape[-2 if transpose_a else -1], b.shape[-1 if transpose_b else -2]
    if not same_extent(depth, deep):
        raise ValueError(f"the sum would run over {depth} elements of one and {deep} of the other")
    k = te.reduce_axis((0, depth), "k")

    def batch(x: Any, i: Any) -> tuple[Any, ...]:
        own = i[rank - (x.ndim - 2) :]
        return tuple(0 if is_const(extent, 1) else index for index, extent in zip(own, x.shape[:-2], strict=True))

    shape = [
        _broadcast_extent(*(x.shape[at - rank + x.ndim - 2] if at - rank + x.ndim - 2 >= 0 else 1 for x in (a, b)))
        for at in range(rank)
    ]

    def element(*i: Any) -> Any:
        left = a[(*batch(a, i[:rank]), *((k, i[-2]) if transpose_a else (i[-2], k)))]
        right = b[(*batch(b, i[:rank]), *((i[-1], k) if transpose_b else (k, i[-1])))]
        return te.sum(product(left, right, sum_dtype(kind)), axis=k)

    return convert_elements(
        te.compute(
            (*shape, a.shape[-1 if transpose_a else -2], b.shape[-2 if transpose_b else -1]), element, name="matmul"
        ),
        kind,
    )


def _broadcast_extent(x: Any, y: Any) -> Any:
    """The extent of two that broadcast."""
    if is_const(x, 1) or isinstance(x, int):
        return y
    if not (is_const(y, 1) or isinstance(y, int) or same_extent(x, y)):
        raise ValueError(f"batches of {x} and {y} do not broadcast")
    return x


def _numpy_einsum(*xs: Any, equation: str) -> Any:
    return np.einsum(equation, *xs)


@operator(
    "einsum", reference=wide(_numpy_einsum), samples=[sample(floating(2, 3, 5), floating(5, 7), equation="bij,jk->bki")]
)
def _einsum(*xs: Any, equation: str) -> Any:
    return topi.einsum(equation, *xs)


def _numpy_grouped(x: NDArray[Any], w: NDArray[Any], groups: NDArray[Any]) -> Any:
    return np.einsum("sk,skn->sn", x, w[np.clip(groups, 0, len(w) - 1)])


@operator(
    "grouped_matmul",
    reference=wide(_numpy_grouped),
    samples=[sample(floating(5, 3), floating(2, 3, 7), np.asarray([1, 0, 0, 1, 1], "int64"))],
)
def _grouped_matmul(x: Any, w: Any, groups: Any) -> Any:
    """Each row of x (S, K) times the matrix of its group (S,) among w (G, K, N): (S, N), as mixtures of experts have it."""
    if (
        x.ndim != 2
        or w.ndim != 3
        or groups.ndim != 1
        or not same_extent(x.shape[1], w.shape[1])
        or not same_extent(x.shape[0], groups.shape[0])
    ):
        raise ValueError("rows, matrices for as many columns, and a group for each row")
    k, kind = te.reduce_axis((0, x.shape[1]), "k"), common_dtype(x.dtype, w.dtype)

    def element(s: Any, n: Any) -> Any:
        group = te.max(te.min(groups[s], ops.cast(w.shape[0], groups.dtype) - 1), 0)
        return te.sum(product(x[s, k], w[group, k, n], sum_dtype(kind)), axis=k)

    return convert_elements(te.compute((x.shape[0], w.shape[2]), element, name="grouped_matmul"), kind)

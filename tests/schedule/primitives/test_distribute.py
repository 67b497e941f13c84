"""distribute: a sum of several terms as one sum for each term, what does not depend on its axes outside of it."""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.schedule.errors import BadTerms

SIZES = (1, 2, 3, 5, 7, 8, 9)


def computed(s: Any, tensors: list[te.Tensor], out: te.Tensor, arrays: list[np.ndarray]) -> np.ndarray:
    result = np.empty([int(str(extent)) for extent in out.shape], str(out.dtype))
    tw.build(s, [*tensors, out], target="interpret")(*arrays, result)
    return result


def drawn_sum(rng: np.random.Generator, dtype: str) -> tuple[list[te.Tensor], te.Tensor, list[np.ndarray], np.ndarray]:
    """A sum over two axes of one to four terms, each a product of matrices of drawn axes, and its values."""
    n, extents = int(rng.choice(SIZES)), [int(rng.choice(SIZES)) for _ in range(2)]
    sizes = {"i": n, "j": n, "k": extents[0], "l": extents[1]}
    tensors, arrays = list[te.Tensor](), list[np.ndarray]()
    terms = list[tuple[int, list[tuple[int, str]]]]()
    for _ in range(int(rng.integers(1, 5))):
        factors = list[tuple[int, str]]()
        for _ in range(int(rng.integers(1, 4))):
            axes = "".join(rng.permutation(list("ijkl"))[: int(rng.integers(0, 4))])
            known = [at for at, array in enumerate(arrays) if array.shape == tuple(sizes[axis] for axis in axes)]
            if not known or rng.random() < 0.4:
                shape = tuple(sizes[axis] for axis in axes)
                tensors.append(te.placeholder(shape, dtype, f"A{len(tensors)}"))
                arrays.append(rng.integers(-3, 4, shape).astype(dtype))
                known = [len(arrays) - 1]
            factors.append((int(rng.choice(known)), axes))
        terms.append((int(rng.choice([1, -1])), factors))
    k, m = te.reduce_axis((0, sizes["k"]), "k"), te.reduce_axis((0, sizes["l"]), "l")

    def element(i: Any, j: Any) -> Any:
        at = {"i": i, "j": j, "k": k, "l": m}
        products = [
            (sign, reduce(mul, (tensors[t][tuple(at[a] for a in axes)] for t, axes in fs))) for sign, fs in terms
        ]
        value = products[0][1]
        for sign, product in products[1:]:
            value = value + product if sign > 0 else value - product
        return te.sum(value, axis=[k, m])

    values = [
        np.einsum(
            f"{','.join(axes for _, axes in fs)},ijkl->ij",
            *(arrays[t] for t, _ in fs),
            np.ones((n, n, *extents), dtype),
        )
        for _, fs in terms
    ]
    signs = [1, *(sign for sign, _ in terms[1:])]
    want = sum((sign * value for sign, value in zip(signs, values, strict=True)), np.zeros((n, n), dtype))
    return tensors, te.compute((n, n), element, "C"), arrays, want


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_drawn_sums_have_the_declared_values(dtype: str) -> None:
    for case in range(drawn.count(12, 400)):
        rng = drawn.rng(f"distribute {dtype}", case)
        tensors, out, arrays, want = drawn_sum(rng, dtype)
        s = te.create_schedule(out.op)
        try:
            s.distribute(out)
        except BadTerms:
            continue  # one term from which nothing leaves
        assert bool(s.is_exact) == (dtype == "int32")
        assert np.array_equal(computed(s, tensors, out, arrays), want)
        assert str(te.Schedule.replay(s.trace, [out])) == str(s)


def two_products(n: int = 6, m: int = 5) -> tuple[list[te.Tensor], te.Tensor]:
    a, b = te.placeholder((n, m), name="A"), te.placeholder((n, m), name="B")
    k = te.reduce_axis((0, m), "k")
    return [a, b], te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[j, k] + b[i, k] * a[j, k], k), "C")


def test_terms_that_differ_by_the_order_of_two_axes_have_one_sum() -> None:
    _, out = two_products()
    s = te.create_schedule(out.op)
    assert len(s.distribute(out)) == 1 and s[out].op.reduction is None
    assert "added up each by itself" in str(s.is_exact) and s.verify()
    scope = {"s": te.create_schedule(out.op), "te": te, "ops": [out.op]}
    exec(s.as_python(), scope)
    assert str(scope["s"]) == str(s)


def test_factors_and_divisors_leave_the_sum() -> None:
    a, d = te.placeholder((4, 6), name="a"), te.placeholder((4,), name="d")
    k = te.reduce_axis((0, 6), "k")
    out = te.compute((4,), lambda i: te.sum(d[i] * a[i, k] / (d[i] + 9.0), k), "C")
    s = te.create_schedule(out.op)
    (total,) = s.distribute(out)
    assert str(total.op.values[0]).startswith("sum(a[") and s.verify()
    x, y = np.arange(24, dtype="float32").reshape(4, 6), np.arange(4, dtype="float32")
    np.testing.assert_allclose(computed(s, [a, d], out, [x, y]), y * x.sum(1) / (y + 9), rtol=1e-6)


@pytest.mark.parametrize("kind", ["one product", "where", "scheduled"])
def test_other_sums_are_refused(kind: str) -> None:
    _, out = two_products()
    a = te.placeholder((6, 5), name="A")
    k = te.reduce_axis((0, 5), "k")
    if kind == "one product":
        out = te.compute((6,), lambda i: te.sum(a[i, k] * a[i, k], k), "C")
    elif kind == "where":
        out = te.compute((6,), lambda i: te.sum(a[i, k] * 2.0 + a[i, k], k, where=k > i), "C")
    s = te.create_schedule(out.op)
    if kind == "scheduled":
        s[out].split(out.op.axis[0], 2)
    before = str(s)
    with pytest.raises(BadTerms, match="cannot distribute C"):
        s.distribute(out)
    assert str(s) == before

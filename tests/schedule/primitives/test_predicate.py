"""predicate: the condition of the terms of a sum as the condition under which a term is added."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.schedule.errors import BadTerms

DTYPES = ("float32", "float64", "int32", "uint8", "float16")
SIZES = (1, 2, 3, 7, 8, 17, 33, 64)


def drawn_condition(rng: np.random.Generator, i: Any, k: Any, data: te.Tensor) -> Any:
    """A comparison of the axes, or two, or one on data."""
    by, off = int(rng.integers(1, 3)), int(rng.integers(-3, 4))
    kinds = (k > i * by + off, k <= i + off, k * by < i + off, te.all(k >= i - 2, k < i + 3), data[k] > 0, k.equal(i))
    return kinds[int(rng.integers(len(kinds)))]


def built(s: Any, args: list[te.Tensor], arrays: list[np.ndarray]) -> bytes:
    out = np.full([int(str(extent)) for extent in args[-1].shape], 7, str(args[-1].dtype))
    tw.build(s, args)(*arrays, out)
    return out.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_bit_changes(dtype: str) -> None:
    for case in range(drawn.count(6, 200)):
        rng = drawn.rng(f"predicate {dtype}", case)
        n, m = (int(rng.choice(SIZES)) for _ in range(2))
        a, b = te.placeholder((n, m), dtype, "A"), te.placeholder((m,), dtype, "B")
        k = te.reduce_axis((0, m), "k")
        zero, chosen = te.const(0, dtype), (te.if_then_else, te.select)[int(rng.integers(2))]
        out = te.compute(
            (n,), lambda i: te.sum(chosen(drawn_condition(rng, i, k, b), a[i, k] * b[k], zero), k), "C"
        )  # fmt: skip
        arrays = [np.asarray(rng.standard_normal(shape) * 3).astype(dtype) for shape in ((n, m), (m,))]
        if dtype.startswith("float") and rng.random() < 0.5:
            arrays[0][rng.random((n, m)) < 0.2] = rng.choice([np.inf, -np.inf, np.nan, -0.0])
        plain, s = te.create_schedule(out.op), te.create_schedule(out.op)
        s.predicate(out)
        assert s.is_exact
        if m > 3 and rng.random() < 0.5:
            for each in (plain, s):
                each[out].split(each[out].op.axis[0], factor=4)
        want, got = (np.frombuffer(built(each, [a, b, out], arrays), dtype) for each in (plain, s))
        both = np.isnan(want) & np.isnan(got) if dtype.startswith("float") else np.zeros(n, bool)
        assert (both | (want.view(f"u{want.itemsize}") == got.view(f"u{got.itemsize}"))).all()
        assert str(te.Schedule.replay(s.trace, [out])) == str(s)


def triangle(n: int = 6) -> tuple[te.Tensor, te.Tensor]:
    a = te.placeholder((n, n), name="A")
    k = te.reduce_axis((0, n), "k")
    return a, te.compute((n,), lambda i: te.sum(te.if_then_else(k > i, a[i, k] * a[k, i], 0.0), k), "C")


def test_a_fused_product_is_said_to_be_rounded_once() -> None:
    _, out = triangle()
    s = te.create_schedule(out.op)
    s.predicate(out, fused=True)
    assert "rounded once" in str(s.is_exact) and "mul_add" in str(s) and s.verify()


def test_loops_leave_out_what_the_condition_does() -> None:
    _, out = triangle()
    s = te.create_schedule(out.op)
    s.predicate(out)
    assert "if i < k" in str(s) and "if_then_else" not in str(s)


@pytest.mark.parametrize("kind", ["no zero", "init", "scheduled", "flag"])
def test_other_sums_are_refused(kind: str) -> None:
    a, out = triangle()
    k = te.reduce_axis((0, 6), "k")
    if kind == "no zero":
        out = te.compute((6,), lambda i: te.sum(te.if_then_else(k > i, a[i, k], 1.0), k), "C")
    elif kind == "init":
        out = te.compute((6,), lambda i: te.sum(te.if_then_else(k > i, a[i, k], 0.0), k, init=-0.0), "C")
    s = te.create_schedule(out.op)
    if kind == "scheduled":
        s[out].split(out.op.axis[0], 2)
    with pytest.raises(BadTerms, match="cannot predicate C"):
        s.predicate(out, **({"fused": 1} if kind == "flag" else {}))

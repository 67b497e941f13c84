"""polyphase: the elements of a tensor by the remainders of an index, each remainder in a stage of its own."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te


def transposed(n: int, taps: int, step: int, form: str) -> tuple[list[te.Tensor], te.Tensor]:
    """A transposed convolution with the condition of divisibility on the sum, around its terms, or around a factor of them."""
    x, w = te.placeholder((n,), name="x"), te.placeholder((3, taps), name="w")
    k = te.reduce_axis((0, taps), "k")

    def there(y: te.Expr) -> te.Expr:
        return te.all(y >= k, te.indexmod(y - k, step).equal(0), te.indexdiv(y - k, step) < n)

    def element(f: te.Expr, y: te.Expr) -> Any:
        at = te.max(te.min(te.indexdiv(y - k, step), n - 1), 0)
        if form == "sum":
            return te.sum(x[at] * w[f, k], k, where=there(y))
        if form == "terms":
            return te.sum(te.if_then_else(there(y), x[at] * w[f, k], 0.0), k)
        return te.sum(te.select(there(y), x[at], 0.0) * w[f, k], k)

    return [x, w], te.compute((3, (n - 1) * step + taps), element, name="C")


def results(s: Any, arguments: list[te.Tensor], out: te.Tensor, arrays: list[np.ndarray]) -> np.ndarray:
    result = np.empty([int(str(extent)) for extent in out.shape], str(out.dtype))
    tw.build(s, [*arguments, out], target="interpret")(*arrays, result)
    return result


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a, b, equal_nan=True) and bool((np.signbit(a) == np.signbit(b))[~np.isnan(a)].all())


@pytest.mark.parametrize("form", ["sum", "terms", "factor"])
@pytest.mark.parametrize(("n", "taps", "step"), drawn.part([(5, 3, 2), (1, 1, 3), (4, 5, 3), (3, 2, 5), (2, 7, 2)], 2))
def test_no_bit_changes_whatever_the_weights_are(form: str, n: int, taps: int, step: int) -> None:
    arguments, C = transposed(n, taps, step, form)
    rng = np.random.default_rng(n)
    arrays = [rng.integers(-4, 5, [int(str(e)) for e in each.shape]).astype(np.float32) for each in arguments]
    arrays[1][0, 0], arrays[1][1, -1], arrays[0][0] = np.inf, np.nan, -0.0
    s = te.create_schedule(C.op)
    phases = s.polyphase(C, C.op.axis[1], step)
    assert [each.op.name for each in phases[:step]] == [f"C.phase{at}" for at in range(step)]
    assert bool(s.is_exact) == (form != "factor"), s.is_exact
    expected = results(te.create_schedule(C.op), arguments, C, arrays)
    assert same_bits(results(s, arguments, C, arrays), expected)


def test_the_reduce_axis_takes_steps_and_no_term_is_asked() -> None:
    C = transposed(6, 5, 2, "terms")[1]
    s = te.create_schedule(C.op)
    even, odd = s.polyphase(C, C.op.axis[1], 2)
    assert [int(str(s[each].op.reduce_axis[0].dom.extent)) for each in (even, odd)] == [3, 2]
    assert "%" not in str(s[even].op.values[0]) + str(s[odd].op.values[0])
    assert str(te.Schedule.replay(s.trace, [C])) == str(s)
    assert "s.polyphase(C.output(0), y, 2)" in s.as_python()
    assert s.verify()


def test_zeros_between_elements_are_no_stage() -> None:
    x = te.placeholder((4,), name="x")
    apart = te.compute(
        (9,), lambda y: te.if_then_else(te.all(y >= 1, (y - 1) % 2 == 0), x[(y - 1) // 2], 0.0), name="apart"
    )
    s = te.create_schedule(apart.op)
    assert [each.op.name for each in s.polyphase(apart, apart.op.axis[0], 2)] == ["apart.phase1"]
    got = results(s, [x], apart, [np.arange(1, 5, dtype=np.float32)])
    assert got.tolist() == [0, 1, 0, 2, 0, 3, 0, 4, 0]


def test_what_is_inlined_becomes_part_of_the_phases_and_whole_numbers_lose_nothing() -> None:
    x, w = te.placeholder((5,), "int32", name="x"), te.placeholder((3,), "int32", name="w")
    apart = te.compute((11,), lambda y: te.if_then_else(y % 2 == 0, x[te.min(y // 2, 4)], 0), name="apart")
    k = te.reduce_axis((0, 3), "k")
    C = te.compute((9,), lambda y: te.sum(apart[y + k] * w[k], k), name="C")
    s = te.create_schedule(C.op)
    s[apart].compute_inline()
    assert len(s.polyphase(C, C.op.axis[0], 2)) == 2 and s.is_exact
    arrays = [np.arange(5, dtype=np.int32) - 2, np.array([3, -1, 7], np.int32)]
    assert results(s, [x, w], C, arrays).tolist() == results(te.create_schedule(C.op), [x, w], C, arrays).tolist()

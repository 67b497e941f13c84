"""What the interpreter finds: accesses out of bounds, reads of unwritten memory, races, assertions."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright.ir.errors import AssertionFailed, OutOfBounds, ParallelRace, UninitializedRead
from tilewright.ir.interpret.interpreter import run
from tilewright.ir.text.parser import parse

HEADER = "def f[n](A: float32[n, 4], I: int32[4], B: out float32[n, 4]):\n"


def call(body: str, check: bool = True, n: int = 6) -> np.ndarray:
    text = HEADER + "".join(f"    {line}\n" for line in body.splitlines())
    result = np.zeros((n, 4), "float32")
    run(parse(text), [np.ones((n, 4), "float32"), np.array([0, 3, 1, 7], "int32"), result], check=check)
    return result


OUT_OF_BOUNDS = {
    "for i in n:\n    for j in 4:\n        B[i, j + 1] = 1.0": (
        r"accesses B\[0, 4\], out of bounds",
        "index 1 is 4, and the extent there is 4, at i = 0, j = 3",
    ),
    "for i in range(-1, extent=n):\n    B[i, 0] = 1.0": (
        r"accesses B\[-1, 0\]",
        "index 0 is -1, and the extent there is 6, at i = -1",
    ),
    "for i in n + 1:\n    B[0, 0] = A[i, 0]": (r"accesses A\[6, 0\]", "at i = 6"),
    "for i in 4:\n    B[0, 0] = A[0, I[i]]": (r"accesses A\[0, 7\]", "at i = 3"),
    "for i in 4:\n    T: float32[i]\n    T[i] = 1.0": (r"accesses T\[0\]", "the extent there is 0"),
    "B[0, ramp(1, 1, 4)] = broadcast(1.0, 4)": (r"accesses B\[0, 4\]", "index 1 is 4"),
    "B[0, ramp(0, 1, 4)] = A[0, ramp(2, 1, 4), where=ramp(0, 1, 4) < broadcast(3, 4)]": (
        r"accesses A\[0, 4\]",
        "index 1 is 4",
    ),
    "for i in n:\n    if i < n and A[i + 1, 0] > 0.0:\n        B[i, 0] = 1.0": (r"accesses A\[6, 0\]", "at i = 5"),
    "for i in n:\n    B[i, 0] = select(i < 5, A[i + 1, 0], 0.0)": (r"accesses A\[6, 0\]", "at i = 5"),
}


@pytest.mark.parametrize("body", OUT_OF_BOUNDS)
@pytest.mark.parametrize("check", [True, False])
def test_accesses_out_of_bounds(body: str, check: bool) -> None:
    headline, reason = OUT_OF_BOUNDS[body]
    with pytest.raises(OutOfBounds, match=f"(?s){headline}.*{reason}") as caught:
        call(body, check)
    assert caught.value.code == "TW0303"


def test_an_index_that_wraps_is_judged_by_its_value() -> None:
    function = parse("def f(I: int8[1], A: int32[8], B: out int32[1]):\n    B[0] = A[I[0] * 2 + 8]")
    b = np.zeros(1, "int32")
    run(function, [np.array([126], "int8"), np.arange(8, dtype="int32"), b])  # 126 * 2 + 8 is 4 in int8
    assert b.tolist() == [4]


UNWRITTEN = {
    "B[0, 0] = B[2, 1]": r"reads B\[2, 1\]",
    "T: float32[4, 4]\nfor i in 3:\n    T[i, 1] = 1.0\nfor i in 4:\n"
    "    B[i, 0] = T[i, 1]": r"reads T\[3, 1\], .*(?s:.*)at i = 3",
    "for i in 2:\n    T: float32[2]\n    if i == 0:\n        T[0] = 1.0\n    B[i, 0] = T[0]": r"reads T\[0\].*(?s:.*)at i = 1",
    "T: float32[8]\nT[ramp(0, 1, 4)] = broadcast(1.0, 4)\nB[0, ramp(0, 1, 4)] = T[ramp(1, 1, 4)]": r"reads T\[4\]",
    "T: float32[2, 4, strides=[5, 1]]\nB[0, 0] = T[1, 2]": r"reads T\[1, 2\]",
    "for i in 4:\n    T: float32[i + 1]\n    B[i, 0] = T[i]": r"reads T\[\(element 0 in memory\)\]|reads T\[0\]",
    "T: float32[2]\nT[0] = 1.0\nB[0, 0] = select(I[0] == 0, T[1], T[0])": r"reads T\[1\]",
}


@pytest.mark.parametrize("body", UNWRITTEN)
def test_reads_of_unwritten_memory(body: str) -> None:
    with pytest.raises(UninitializedRead, match=UNWRITTEN[body]) as caught:
        call(body)
    assert caught.value.code == "TW0304"
    call(body, check=False)


def test_unwritten_memory_spoils_what_is_computed_from_it_where_it_is_not_looked_for() -> None:
    assert np.isnan(call("T: float32[3]\nT[0] = 1.0\nB[0, 0] = T[0] + T[2]", check=False)[0, 0])
    assert call("T: int32[3]\nT[0] = 1\nB[0, 0] = float32(T[0] + T[2])", check=False)[0, 0] != 1


def test_the_side_that_select_does_not_choose_may_be_unwritten() -> None:
    body = (
        "T: float32[4]\nfor i in 4:\n    if i < 2:\n        T[i] = 1.0\n"
        "for i in 4:\n    B[i, 0] = select(i < 2, T[i] + 1.0, -1.0)"
    )
    assert call(body)[:4, 0].tolist() == [2, 2, -1, -1]
    vector = (
        "T: float32[4]\nT[ramp(0, 1, 2)] = broadcast(1.0, 2)\n"
        "B[0, ramp(0, 1, 4)] = select(ramp(0, 1, 4) < broadcast(2, 4), T[ramp(0, 1, 4)], broadcast(-1.0, 4))"
    )
    assert call(vector)[0].tolist() == [1, 1, -1, -1]


RACES = {
    "for i in parallel(n):\n"
    "    B[0, 0] = A[i, 0]": r"race on B(?s:.*)B\[0, 0\] is touched by iteration 0 and by iteration 1, which writes it too, at i = 1",
    "for i in parallel(n):\n    for j in 4:\n"
    "        B[i // 2, j] = 1.0": r"B\[0, 0\] is touched by iteration 0 and by iteration 1",
    "B[0, 0] = 0.0\nfor i in parallel(n):\n    B[0, 0] = B[0, 0] + A[i, 0]": "race on B",
    "B[0, 0] = 0.0\nB[1, 0] = 0.0\nfor i in parallel(2):\n    if i == 0:\n        B[0, 0] = B[1, 0]\n    else:\n"
    "        B[1, 0] = 1.0": "which writes what the former reads",
    "for i in 6:\n    B[i, 0] = 0.0\nfor i in parallel(5):\n    B[i + 1, 0] = B[i, 0]": "which reads what the former writes",
    "for i in 6:\n    B[i, 0] = 0.0\nfor i in parallel(6):\n    B[i, 1] = B[3, 0] + B[5, 0]\n    if i == 5:\n"
    "        B[3, 0] = 1.0": "several iterations and by iteration 5",
    "T: float32[4]\nfor i in parallel(n):\n    T[ramp(0, 1, 4)] = broadcast(1.0, 4)\n"
    "    B[i, ramp(0, 1, 4)] = T[ramp(0, 1, 4)]": "race on T",
    "for i in 2:\n    for j in parallel(4):\n        for k in parallel(2):\n"
    "            B[i, j] = 1.0": "by iteration 1, which writes it too, at i = 0, j = 0, k = 1",
}


@pytest.mark.parametrize("body", RACES)
def test_races_between_parallel_iterations(body: str) -> None:
    with pytest.raises(ParallelRace, match=RACES[body]) as caught:
        call(body)
    assert caught.value.code == "TW0305"
    call(body, check=False)


NO_RACES = [
    "for i in parallel(n):\n    for j in 4:\n        B[i, j] = A[i, j]",
    "for i in parallel(n):\n    T: float32[4]\n    for j in 4:\n        T[j] = A[i, j]\n        B[i, j] = T[j]",
    "for i in parallel(n):\n    for j in 4:\n        B[i, j] = A[0, 0]\n        B[i, j] = B[i, j] + 1.0",
    "for k in 3:\n    for i in parallel(n):\n        B[i, 0] = 1.0",
    "B[0, 0] = 2.0\nfor i in parallel(5):\n    B[i + 1, 0] = B[0, 0]",
    "for i in n:\n    B[0, 0] = A[i, 0]",
    "for i in vectorized(4):\n    B[0, i] = 1.0",
    "for i in parallel(n):\n    B[0, 0, where=i == 3] = A[i, 0]",
]


@pytest.mark.parametrize("body", NO_RACES)
def test_what_is_no_race(body: str) -> None:
    call(body)


def test_assertions() -> None:
    with pytest.raises(AssertionFailed, match=r"f: i is too big\n  the assertion does not hold, at i = 3") as caught:
        call('for i in n:\n    assert i < 3, "i is too big"\n    B[i, 0] = 1.0')
    assert caught.value.code == "TW0306"
    call('assert n > 3, "n is small"')


def test_nothing_is_written_where_a_check_fails() -> None:
    b = np.full((6, 4), 5, "float32")
    with pytest.raises(OutOfBounds, match="accesses B"):
        run(parse(HEADER + "    B[0, 0] = 1.0\n    B[9, 0] = 1.0"), [b, np.zeros(4, "int32"), b])
    assert (b == 5).all()


def test_checks_inside_deep_nests() -> None:
    """Loops beyond what one Python function may nest run in functions of their own."""
    loops = "\n".join("    " * (at + 1) + f"for i{at} in {3 if at == 20 else 1}:" for at in range(40))
    with pytest.raises(OutOfBounds, match=r"accesses B\[2\](?s:.*)i0 = 0.*i20 = 2.*i39 = 0"):
        run(parse(f"def f(B: out int32[2]):\n{loops}\n{'    ' * 41}B[i20] = 1"), [np.zeros(2, "int32")])
    parallel = loops.replace("i20 in 3", "i20 in parallel(3)")
    with pytest.raises(ParallelRace, match=r"B\[0\] is touched by iteration 0 and by iteration 1"):
        run(parse(f"def f(B: out int32[2]):\n{parallel}\n{'    ' * 41}B[0] = 1"), [np.zeros(2, "int32")])

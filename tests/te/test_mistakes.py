"""What newcomers write first, from numpy's habits: each is a typed error that says what to write."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.te.numpy_functions import WRITTEN

A, B = te.placeholder((4, 5), name="A"), te.placeholder((4, 5), name="B")
k = te.reduce_axis((0, 5), "k")
TABLE = np.ones(4, "float32")


def assign() -> None:
    A[0, 0] = 1.0


def scheduled() -> tuple[te.Schedule, te.Tensor]:
    C = te.compute((4, 5), lambda i, j: A[i, j] + 1, name="C")
    return te.create_schedule(C.op), C


def placed_at_a_tensor() -> None:
    C = te.compute((4, 5), lambda i, j: A[i, j] + 1, name="C")
    D = te.compute((4, 5), lambda i, j: C[i, j] + 1, name="D")
    te.create_schedule(D.op)[C].compute_at(D, D.op.axis[0])


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "sum(A[i, k])": (
        lambda: te.compute((4,), lambda i: sum(A[i, k])),
        r"TW0107: `A\[i, k\]` cannot be iterated.*te\.sum\(",
    ),
    "round(x)": (
        lambda: te.compute((4,), lambda i: round(A[i, 0])),
        r"TW0107: the value of `A\[i, 0\]`.*te's functions",
    ),
    "a table": (
        lambda: te.compute((4,), lambda i: TABLE[i]),
        r"TW0107: compute reads an array of numpy.*te\.placeholder",
    ),
    "A[0, 0] = 1": (assign, r"TW0125: tensor A cannot be assigned to.*te\.compute\(A\.shape"),
    "len(A)": (lambda: len(A), r"TW0125: tensor A has no length.*A\.shape"),
    "np.dot": (lambda: np.dot(A, B), r"TW0128: np\.dot.*write topi\.matmul"),
    "np.stack": (lambda: np.stack([A, B]), r"TW0128: np\.stack.*write topi\.stack"),
    "np.fft": (lambda: np.fft.fft(A), r"TW0128: np\.fft.*write topi\.dft"),
    "A.T": (lambda: A.T, r"TW0136: Tensor has no T.*write topi\.transpose"),
    "A.sum()": (lambda: A.sum(), r"TW0136: Tensor has no sum.*write topi\.sum"),
    "te.array": (lambda: te.array([1]), r"TW0136: te has no array.*write te\.placeholder"),
    "tw.compile": (lambda: tw.compile([A]), r"TW0136: tw has no compile.*write tw\.build"),
    "a dtype as tag": (
        lambda: te.compute((4,), lambda i: A[i, 0], "C", "int8"),
        r"TW0111: .* the tag 'int8'.*astype\(\"int8\"\)",
    ),
    "a wrong keyword": (
        lambda: (s := scheduled())[0][s[1]].split(axis=s[1].op.axis[0], factor=2),
        r"TW0222: cannot call split of C.*'axis'.*split\(parent, factor=None",
    ),
    "too few arguments": (
        lambda: (s := scheduled())[0][s[1]].tile(*s[1].op.axis, 8),
        r"TW0222: cannot call tile.*x_factor, y_factor\)",
    ),
    "a list of axes": (
        lambda: (s := scheduled())[0][s[1]].reorder(s[1].op.axis),
        r"TW0222.*one by one: \*s\[C\]\.op\.axis",
    ),
    "a tensor as a stage": (placed_at_a_tensor, r"TW0222.*pass s\[D\]"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_it_is_said_what_to_write(mistake: str) -> None:
    call, match = MISTAKES[mistake]
    with pytest.raises(tw.TilewrightError, match=f"(?s){match}"):
        call()


def test_what_is_named_instead_of_numpy_is_there() -> None:
    for written in WRITTEN.values():
        owner: Any = topi
        for name in written.split("(")[0].split(".")[1:] if written.startswith("topi.") else ():
            owner = getattr(owner, name)


def test_numpy_still_holds_tensors_as_objects() -> None:
    held = np.empty(2, object)
    held[:] = [A, B]
    assert held[1] is B and np.array(A, object).shape == () and bool(A)


def test_an_error_from_within_a_primitive_is_its_own() -> None:
    s, C = scheduled()
    with pytest.raises(tw.ScheduleError, match="TW0206"):
        s[C].split(C.op.axis[0], factor="2")


def test_the_truth_of_an_index_is_warned_of() -> None:
    with pytest.warns(tw.TilewrightWarning, match=r"the truth of `i == 0` .*te\.if_then_else chooses by value"):
        te.compute((4,), lambda i: A[i, 0] if i == 0 else A[i, 1])
    n = te.size_var("n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (n, 4) != (4, 4) and k in [k] and te.compute((4,), lambda i: A[i, 0] if i == i else A[i, 1]) is not None

"""Stages that know who reads them: operations are written anew when they are asked for, and a compound primitive that fails leaves
everything as it was, wherever it fails."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import drawn
import numpy as np
import pytest
from te_evaluate import evaluate
from tilewright import lower, te
from tilewright.schedule import Schedule, Stage
from tilewright.schedule.model.exactness import stays_exact
from tilewright.tools.fuzz.schedules import exact


def chain(length: int) -> list[te.Tensor]:
    """Row sums, each of the one before."""
    tensors = [te.placeholder((5, 3), name="A")]
    for at in range(length):
        k = te.reduce_axis((0, 3), "k")
        before = tensors[-1]
        tensors.append(
            te.compute((5, 3), lambda i, j, before=before, k=k: te.sum(before[i, k] * (j + 1), axis=k), name=f"T{at}")
        )
    return tensors


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called."""
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_the_stages_that_a_stage_is_read_by_follow_what_primitives_do() -> None:
    A, B, C = chain(2)
    s = te.create_schedule(C)
    assert list(s[A].readers) == [s[B]]
    cache = s.cache_read(A, "local", [B])
    assert list(s[A].readers) == [s[cache]]
    assert list(s[cache].readers) == [s[B]]
    written = s.cache_write(B, "local")
    assert list(s[cache].readers) == [s[written]]
    assert list(s[B].readers) == [s[C]]
    s[written].compute_at(s[B], B.op.axis[0])
    assert list(s[B].placed) == [s[written]]
    s[written].compute_root()
    assert not s[B].placed


def test_operations_downstream_read_what_is_computed_now_whenever_they_are_asked_for() -> None:
    tensors = chain(6)
    s = te.create_schedule(tensors[-1])
    for tensor in tensors[1:4]:
        s.cache_write(tensor, "local")
    for before, after in pairwise(tensors):
        (source,) = s[after].producers
        assert s[after].op.input_tensors == (source.op.output(0),)
        assert source in (s[before], *s[before].readers), f"{after.name} reads {before.name}, or is a copy of what does"
    values = np.arange(15, dtype="float32").reshape(5, 3)
    now = s[tensors[-1]].op.output(0)
    np.testing.assert_array_equal(evaluate(now, {tensors[0]: values}), evaluate(tensors[-1], {tensors[0]: values}))


def test_a_reader_of_two_stages_that_were_changed_reads_both_as_they_are() -> None:
    A = te.placeholder((6, 4), name="A")
    B = te.compute((6, 4), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((6, 4), lambda i, j: B[i, j] * 2, name="C")
    D = te.compute((6, 4), lambda i, j: B[i, j] + C[i, j] * A[i, j], name="D")
    s = te.create_schedule(D)
    s[B].transform_layout(lambda i, j: [j, i])
    s.cache_read(B, "local", [C, D])
    s.cache_write(C, "local")
    values = np.arange(24, dtype="float32").reshape(6, 4)
    now = s[D].op.output(0)
    np.testing.assert_array_equal(evaluate(now, {A: values}), evaluate(D, {A: values}))


def test_a_primitive_costs_the_same_however_many_stages_follow() -> None:
    def cost(length: int) -> int:
        tensors = chain(length)
        s = te.create_schedule(tensors[-1])
        s.cache_write(tensors[1], "local")  # what follows is marked, once
        return calls_of(lambda: s.cache_read(tensors[1], "local", [s.cache_write(tensors[2], "local")]))

    assert cost(81) <= cost(9) * 1.05


def test_where_one_stage_reads_another_is_found_between_the_two() -> None:
    tensors = chain(40)
    s = te.create_schedule(tensors[-1])
    assert s[tensors[-1]].reads(s[tensors[0]])
    assert not s[tensors[20]].reads(s[tensors[21]])
    assert not s[tensors[20]].reads(s[tensors[20]])
    assert calls_of(lambda: s[tensors[30]].reads(s[tensors[29]])) < 20


def ragged() -> tuple[te.Tensor, te.Tensor]:
    """Sums of rows of lengths that are computed, of a tensor that is computed."""
    A = te.placeholder((4, 6), name="A")
    L = te.compute((4,), lambda i: i + 2, name="L")
    B = te.compute((4, 6), lambda i, j: A[i, j] * 2, name="B")
    length = te.compute((1,), lambda i: L[i] + 1, name="length")
    k = te.reduce_axis((0, length[0]), "k")
    C = te.compute((4,), lambda i: te.sum(B[i, k], axis=k), name="C")
    return L, C


def test_axes_that_depend_on_what_is_read_are_made_anew_at_once() -> None:
    L, C = ragged()
    s = te.create_schedule(C)
    (k,) = C.op.reduce_axis
    outer, _ = s[C].split(k, 2)
    s.cache_write(L, "local")
    (renewed,) = s[C].op.reduce_axis
    assert renewed is not k
    assert s[C].relations[0].parents == (renewed,)
    assert s[C].all_iter_vars[1] is renewed
    assert outer in s[C].leaf_iter_vars


PRIMITIVES: dict[str, Callable[[Schedule, list[Stage]], object]] = {
    "cache_write": lambda s, at: s.cache_write(at[2].op.output(0), "local"),
    "cache_read": lambda s, at: s.cache_read(at[1].op.output(0), "local", [at[2]]),
    "clone_in": lambda s, at: s.clone_in(at[1].op.output(0), [at[2]]),
    "rfactor": lambda s, at: s.rfactor(at[2].op.output(0), at[2].op.reduce_axis[0]),
    "transform_layout": lambda s, at: at[1].transform_layout(lambda i, j: [j, i]),
    "tile": lambda s, at: at[3].tile(*at[3].op.axis, 2, 2),
}


class Struck(BaseException):
    """What no line of the program expects."""


def struck_at(line: int, s: Schedule, work: Callable[[], object]) -> bool:
    """Whether `work` came to its end; if not, it was struck before the line of this number, of those that run, below the primitive
    itself, while the primitive changes the schedule."""
    left = line

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal left
        code = frame.f_code
        if code.co_name in ("__enter__", "__exit__", "undo"):
            return None
        if event == "line" and s.compounds and "/schedule/" in code.co_filename and code.co_name not in PRIMITIVES:
            left -= 1
            if left == 0:
                raise Struck
        return trace

    sys.settrace(trace)
    try:
        work()
    except Struck:
        return False
    finally:
        sys.settrace(None)
    return True


@pytest.mark.parametrize("name", drawn.part(PRIMITIVES, 3))
def test_a_compound_primitive_struck_anywhere_leaves_everything_as_it_was(name: str) -> None:
    A = te.placeholder((5, 3), name="A")
    B = te.compute((5, 3), lambda i, j: A[i, j] + 1, name="B")
    k = te.reduce_axis((0, 3), "k")
    C = te.compute((5, 3), lambda i, j: te.sum(B[i, k] * (j + 1), axis=k), name="C")
    D = te.compute((5, 3), lambda i, j: C[i, j] + B[i, j], name="D")
    s = te.create_schedule(D)
    s[A].transform_layout(lambda i, j: [j, i])
    line = 0
    while True:
        before = exact(s)
        links = [(list(stage.readers), list(stage.placed)) for stage in s.stages]
        line += 1
        if struck_at(line, s, lambda: PRIMITIVES[name](s, [s[tensor] for tensor in (A, B, C, D)])):
            break
        assert exact(s) == before, f"struck at line {line}"
        assert [(set(stage.readers), set(stage.placed)) for stage in s.stages] == [
            (set(readers), set(placed)) for readers, placed in links
        ], f"struck at line {line}"
    assert line > 20
    assert exact(s) != before


def test_attempts_within_an_attempt_leave_nothing_to_go_back_to() -> None:
    A, B, C = chain(2)
    s = te.create_schedule(C)
    before = exact(s)

    def copies() -> None:
        first = s.cache_read(B.op.output(0), "global", [C])
        second = s.cache_read(first, "local", [C])
        for copy in (first, second):
            s[copy].split(s[copy].op.axis[0], 2)

    with s.attempt() as outer:
        s[B].split(B.op.axis[0], 2)
        for _ in range(2):
            with s.attempt() as inner:
                copies()
                s.undo(inner)
        with s.attempt() as inner:
            copies()
            s[B].compute_at(s[C], C.op.axis[0])
            s.undo(inner)
            copies()
        s.undo(outer)
        assert exact(s) == before
        copies()
    assert [record.primitive for record in s.trace] == ["cache_read", "cache_read", "split", "split"]
    lower(s, [A, C])


def test_an_attempt_is_noted_as_ever_and_can_be_taken_back() -> None:
    A, B, C = chain(2)
    s = te.create_schedule(C)
    s[B].split(B.op.axis[0], 2)
    before = exact(s)
    with s.attempt() as attempt:
        s.rfactor(C, C.op.reduce_axis[0])
        s[B].unroll(B.op.axis[1])
        assert [record.primitive for record in s.trace] == ["split", "rfactor", "unroll"]
        assert not stays_exact(attempt)
        s.undo(attempt)
        assert exact(s) == before
        s.cache_read(A, "local", [B])
        assert stays_exact(attempt)
    assert [record.primitive for record in s.trace] == ["split", "cache_read"]
    assert s.is_exact

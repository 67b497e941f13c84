"""Every primitive either holds or raises at the call, with the reason and a fix, and leaves the schedule as it was."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import tilewright as tw
from schedule_state import exact
from tilewright import te
from tilewright.base.errors import CATALOGUE
from tilewright.schedule import errors
from tilewright.topi.fourier import fourier


def program(**given: Any) -> SimpleNamespace:
    """A matmul C between a stage B before it and D after it, which is the output; T has two outputs."""
    n = 64
    A, W = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="W")
    B = te.compute((n, n), lambda i, j: A[i, j] * 2, name="B")
    k = te.reduce_axis((0, n), "k")
    C = te.compute((n, n), lambda i, j: te.sum(B[i, k] * W[k, j], axis=k), name="C")
    T = te.compute((n, n), lambda i, j: (C[i, j] + 1, C[i, j] - 1), name="T")
    D = te.compute((n, n), lambda i, j: T[0][i, j] + T[1][i, j] + A[j, i], name="D")
    s = te.create_schedule(D)
    (i, j), (x, y) = C.op.axis, D.op.axis
    return SimpleNamespace(**locals(), **given)


def tx(extent: Any = None) -> te.IterVar:
    return te.thread_axis("threadIdx.x") if extent is None else te.thread_axis(extent, "threadIdx.x")


def other_program() -> te.Tensor:
    A = te.placeholder((4,), name="A")
    return te.compute((4,), lambda i: A[i], name="B")


def difference() -> tuple[te.Schedule, te.Tensor]:
    """A reduction whose combiner is not associative."""
    A, k = te.placeholder((4, 8), name="A"), te.reduce_axis((0, 8), "k")
    minus = te.comm_reducer(lambda a, b: a - b, lambda dtype: te.const(0, dtype), name="minus")
    B = te.compute((4,), lambda i: minus(A[i, k], axis=k), name="B")
    return te.create_schedule(B), B


# The error, its headline and reason, and what is done. Steps that hold come first, in `before`.
REFUSALS: list[
    tuple[type[tw.TilewrightError], str, Callable[[SimpleNamespace], Any], Callable[[SimpleNamespace], Any]]
] = []


def refused(
    error: type[tw.TilewrightError],
    match: str,
    act: Callable[[Any], Any],
    before: Callable[[Any], Any] = id,
) -> None:
    REFUSALS.append((error, match, act, before))


# Finding stages and axes
refused(errors.UnknownStage, "no stage for B.*another operation", lambda p: p.s[other_program()])
refused(errors.UnknownStage, "no stage for a str.*allowed: tensors and operations: A, B", lambda p: p.s["C"])
refused(errors.NotAnAxisOfStage, "i is an axis of stage D, not of C", lambda p: p.s[p.C].split(p.x, 4))
refused(errors.NotAnAxisOfStage, "k is an axis of stage C, not of D", lambda p: p.s[p.D].reorder(p.x, p.k))
refused(errors.NotAnAxisOfStage, "is a thread axis.*bind a loop to it", lambda p: p.s[p.D].split(tx(), 4))
refused(errors.NotAnAxisOfStage, "not an axis of any stage", lambda p: p.s[p.D].split(te.reduce_axis((0, 4), "r"), 4))
refused(errors.NotAnAxisOfStage, "A has no loops of its own", lambda p: p.s[p.A].vectorize(p.x))
refused(errors.WrongArgument, "expected an axis, got int", lambda p: p.s[p.D].split(0, 4))
refused(errors.WrongArgument, "expected a stage, got Tensor", lambda p: p.s[p.C].compute_at(p.D, p.x))
refused(
    errors.AxisIsNoLoop,
    r"i was split into i.outer, i.inner at .*\.py:\d+",
    lambda p: p.s[p.C].vectorize(p.i),
    lambda p: p.s[p.C].split(p.i, 8),
)
refused(
    errors.AxisIsNoLoop,
    "i was split into i.outer, i.inner at .*, then i.inner was fused into i.inner.j.fused",
    lambda p: p.s[p.C].split(p.i, 8),
    lambda p: p.s[p.C].fuse(p.s[p.C].split(p.i, 8)[1], p.j),
)
refused(errors.NothingToSchedule, "no operation was given", lambda _: te.create_schedule([]))
refused(errors.NothingToSchedule, "int is neither tensor nor operation", lambda _: te.create_schedule([3]))

# Loops
refused(errors.BadSplit, "both factor and nparts", lambda p: p.s[p.C].split(p.i, factor=4, nparts=4))
refused(errors.BadSplit, "neither factor nor nparts", lambda p: p.s[p.C].split(p.i))
refused(errors.BadSplit, "factor is 0", lambda p: p.s[p.C].split(p.i, 0))
refused(errors.BadSplit, "nparts is -2", lambda p: p.s[p.C].split(p.i, nparts=-2))
refused(errors.BadSplit, "factor is 2.5, not an integer", lambda p: p.s[p.C].split(p.i, 2.5))
refused(errors.BadSplit, "factor is True, not an integer", lambda p: p.s[p.C].split(p.i, True))
refused(errors.BadSplit, "cannot count to", lambda p: p.s[p.C].split(p.i, 2**40))
refused(errors.BadSplit, "changes with the axis j", lambda p: p.s[p.C].split(p.i, p.j))
refused(errors.BadSplit, "y_factor is 0|factor is 0", lambda p: p.s[p.C].tile(p.i, p.j, 4, 0))
refused(errors.BadSkew, "both are the same loop", lambda p: p.s[p.C].rotate(p.i, p.i))
refused(errors.BadSkew, "k is a loop over a reduce axis", lambda p: p.s[p.C].rotate(p.i, p.k))
refused(
    errors.BadSkew,
    "runs over data and reduce axes at once",
    lambda p: p.s[p.C].rotate(p.s[p.C].leaf_iter_vars[1], p.i),
    lambda p: p.s[p.C].fuse(p.j, p.k),
)
refused(errors.BadSkew, "the factor is 0: no integer other than 0", lambda p: p.s[p.C].rotate(p.j, p.i, 0))
refused(errors.BadSkew, "the factor is 1.5", lambda p: p.s[p.C].rotate(p.j, p.i, factor=1.5))
refused(errors.BadSkew, "the factor is 2147483648", lambda p: p.s[p.C].rotate(p.j, p.i, 2**31))
refused(
    errors.AxisIsNoLoop,
    "j was rotated into j.rotated at .*use j.rotated",
    lambda p: p.s[p.C].vectorize(p.j),
    lambda p: p.s[p.C].rotate(p.j, p.i),
)
refused(errors.BadSkew, "both are the same loop", lambda p: p.s[p.C].skew(p.i, p.i))
refused(errors.BadSkew, "k runs over a reduce axis", lambda p: p.s[p.C].skew(p.i, p.k))
refused(errors.BadSkew, "the slope is 0: no integer other than 0", lambda p: p.s[p.C].skew(p.j, p.i, 0))
refused(errors.BadSkew, "of which 32 bits are enough", lambda p: p.s[p.C].skew(p.j, p.i, 2**30))
refused(
    errors.AnnotationWouldBeLost,
    "skew first, then annotate j.skewed",
    lambda p: p.s[p.C].skew(p.j, p.i),
    lambda p: p.s[p.C].vectorize(p.j),
)
refused(errors.NotAnAxisOfStage, "cannot rotate by 'x' of stage C", lambda p: p.s[p.C].rotate(p.i, p.x))
refused(
    errors.AnnotationWouldBeLost,
    "rotate first, then annotate j.rotated",
    lambda p: p.s[p.C].rotate(p.j, p.i),
    lambda p: p.s[p.C].vectorize(p.j),
)
refused(
    errors.BadCacheWrite,
    "k was rotated into k.rotated by i",
    lambda p: p.s.cache_write(p.C, "local"),
    lambda p: p.s[p.C].rotate(p.k, p.i),
)
refused(
    errors.BadRfactor,
    "call rfactor first",
    lambda p: p.s.rfactor(p.C, p.s[p.C].leaf_iter_vars[-1]),
    lambda p: p.s[p.C].rotate(p.k, p.i),
)
refused(errors.BadSplit, "both axes of the tile are the same", lambda p: p.s[p.C].tile(p.i, p.i, 4, 4))
refused(
    errors.AnnotationWouldBeLost,
    "i is parallel, which would be lost",
    lambda p: p.s[p.C].split(p.i, 4),
    lambda p: p.s[p.C].parallel(p.i),
)
refused(
    errors.AnnotationWouldBeLost,
    "i is bound to threadIdx.x",
    lambda p: p.s[p.C].fuse(p.i, p.j),
    lambda p: p.s[p.C].bind(p.i, tx()),
)
refused(
    errors.AnnotationWouldBeLost,
    "has the pragma auto_unroll_max_step",
    lambda p: p.s[p.C].tile(p.i, p.j, 4, 4),
    lambda p: p.s[p.C].pragma(p.j, "auto_unroll_max_step", 8),
)
refused(errors.BadReorder, "j is listed twice", lambda p: p.s[p.C].reorder(p.j, p.i, p.j))
refused(errors.FuseApart, "j stands between them", lambda p: p.s[p.C].fuse(p.i, p.k))
refused(errors.FuseApart, "the loops stand in the order i, j, k", lambda p: p.s[p.C].fuse(p.k, p.i, p.j))
refused(errors.FuseApart, "i is listed twice", lambda p: p.s[p.C].fuse(p.i, p.i))

# Kinds
refused(errors.VectorizeReduction, r"vector lanes would race on C\[i, j\]", lambda p: p.s[p.C].vectorize(p.k))
refused(errors.ParallelReduction, r"threads would race on C\[i, j\]", lambda p: p.s[p.C].parallel(p.k))
refused(
    errors.ParallelReduction,
    "holds a reduce axis",
    lambda p: p.s[p.C].parallel(p.f),
    lambda p: setattr(p, "f", p.s[p.C].fuse(p.j, p.k)),
)
refused(
    errors.VectorizeReduction,
    "holds a reduce axis",
    lambda p: p.s[p.C].vectorize(p.f),
    lambda p: setattr(p, "f", p.s[p.C].fuse(p.j, p.k)),
)
refused(
    errors.BadThreadBinding,
    "data and reduce axes at once",
    lambda p: p.s[p.C].bind(p.f, tx()),
    lambda p: setattr(p, "f", p.s[p.C].fuse(p.j, p.k)),
)
refused(
    errors.NestedParallel, "i is parallel already", lambda p: p.s[p.C].parallel(p.j), lambda p: p.s[p.C].parallel(p.i)
)
refused(
    errors.NestedParallel,
    "i of stage D is parallel already",
    lambda p: p.s[p.C].parallel(p.i),
    lambda p: (p.s[p.C].compute_at(p.s[p.D], p.x), p.s[p.D].parallel(p.x)),
)
refused(
    errors.NestedParallel,
    "would surround it",
    lambda p: p.s[p.C].compute_at(p.s[p.D], p.y),
    lambda p: (p.s[p.C].parallel(p.i), p.s[p.D].parallel(p.x)),
)
refused(
    errors.ThreadBoundTwice,
    "i is bound to threadIdx.x already",
    lambda p: p.s[p.C].bind(p.j, tx()),
    lambda p: p.s[p.C].bind(p.i, tx()),
)
refused(
    errors.BadThreadBinding, "begins at 1, and threads are counted from 0", lambda p: p.s[p.C].bind(p.i, tx((1, 9)))
)
refused(errors.BadThreadBinding, "symbolic extent n", lambda p: p.s[p.C].bind(p.i, tx((0, te.var("n")))))
refused(errors.BadThreadBinding, "j is not a thread axis", lambda p: p.s[p.C].bind(p.i, p.j))
refused(errors.BadThreadBinding, "joined within a block", lambda p: p.s[p.C].bind(p.k, te.thread_axis("blockIdx.x")))
refused(errors.BadThreadBinding, "joined within a block", lambda p: p.s[p.C].bind(p.k, te.thread_axis("vthread")))
refused(
    errors.UnknownPragma,
    "allowed: auto_unroll_max_step, unroll_explicit, parallel_",
    lambda p: p.s[p.C].pragma(p.i, "unroll_everything", 1),
)
refused(errors.UnknownPragma, "its value is 'many'", lambda p: p.s[p.C].pragma(p.i, "auto_unroll_max_step", "many"))
refused(errors.UnknownPragma, "not a constant", lambda p: p.s[p.C].pragma(p.i, "parallel_launch_point", te.var("n")))

# Placement
refused(
    errors.NotAnAxisOfStage,
    "cannot compute B at 'i' of stage C.*i is an axis of stage D, not of C",
    lambda p: p.s[p.B].compute_at(p.s[p.C], p.x),
)
refused(
    errors.AxisIsNoLoop,
    "i was split into",
    lambda p: p.s[p.B].compute_at(p.s[p.C], p.i),
    lambda p: p.s[p.C].split(p.i, 8),
)
refused(
    errors.CannotAttach,
    r"D reads C, so it cannot be computed before|D is an output",
    lambda p: p.s[p.D].compute_at(p.s[p.C], p.i),
)
refused(
    errors.CannotAttach,
    r"C reads B, so it cannot be computed before B is done \(a cycle\)",
    lambda p: p.s[p.C].compute_at(p.s[p.B], p.B.op.axis[0]),
)
refused(errors.CannotAttach, "within its own loops", lambda p: p.s[p.C].compute_at(p.s[p.C], p.i))
refused(errors.CannotComputeWith, "it is one stage", lambda p: p.s[p.C].compute_with(p.s[p.C], p.i))
refused(errors.CannotAttach, "A is a placeholder", lambda p: p.s[p.A].compute_at(p.s[p.C], p.i))
refused(
    errors.CannotAttach,
    "B is inlined and has no loops",
    lambda p: p.s[p.AA].compute_at(p.s[p.B], p.B.op.axis[0]),
    lambda p: (setattr(p, "AA", p.s.cache_read(p.A, "local", p.B)), p.s[p.B].compute_inline()),
)
refused(errors.CannotAttach, "another schedule", lambda p: p.s[p.B].compute_at(te.create_schedule(p.D)[p.C], p.i))
refused(errors.CannotInline, "C is a reduction over k", lambda p: p.s[p.C].compute_inline())
refused(errors.CannotInline, "D is an output", lambda p: p.s[p.D].compute_inline())
refused(errors.CannotInline, "T has 2 outputs", lambda p: p.s[p.T[0]].compute_inline())
refused(errors.CannotInline, "A is a placeholder", lambda p: p.s[p.A].compute_inline())
refused(
    errors.CannotInline,
    "computed at a loop of B",
    lambda p: p.s[p.B].compute_inline(),
    lambda p: p.s[p.s.cache_read(p.A, "local", p.B)].compute_at(p.s[p.B], p.B.op.axis[0]),
)

# Caches
refused(
    errors.BadCacheRead, "stage D does not read B.*B is read by C", lambda p: p.s.cache_read(p.B, "local", [p.C, p.D])
)
refused(
    errors.BadCacheRead,
    "stage C does not read B any more: B.local, W",
    lambda p: p.s.cache_read(p.B, "shared", p.C),
    lambda p: p.s.cache_read(p.B, "local", p.C),
)
refused(errors.BadCacheRead, "expected a tensor", lambda p: p.s.cache_read(p.s[p.B], "local", p.C))
refused(errors.BadCacheRead, "expected a tensor", lambda p: p.s.cache_read([p.B], "local", p.C))
refused(errors.BadClone, "D does not read B.*B is read by C", lambda p: p.s.clone_in(p.B, [p.D]))
refused(errors.BadClone, "nobody else reads B", lambda p: p.s.clone_in(p.B, p.C))
refused(errors.BadClone, "no readers were given", lambda p: p.s.clone_in(p.B, []))
refused(errors.BadClone, "A is a placeholder", lambda p: p.s.clone_in(p.A, p.B))
refused(errors.BadPhases, "k is not a data axis", lambda p: p.s.polyphase(p.C, p.k, 2))
refused(errors.BadPhases, "A is not the one tensor of a te.compute", lambda p: p.s.polyphase(p.A, p.i, 2))
refused(errors.BadPhases, "there would be 17 phases", lambda p: p.s.polyphase(p.C, p.i, 17))
refused(
    errors.BadPhases,
    "its loops are scheduled already",
    lambda p: p.s.polyphase(p.C, p.i, 2),
    lambda p: p.s[p.C].split(p.i, 4),
)
refused(errors.BadFactors, "A is not a te.sum of products", lambda p: p.s.factor(p.A, [(0, 1)]))
refused(
    errors.BadFactors,
    "2 factors are multiplied in 1 steps, and the path has 2",
    lambda p: p.s.factor(p.C, [(0, 1)] * 2),
)
refused(errors.BadFactors, "not a pair of different places in a list of 2", lambda p: p.s.factor(p.C, [(0, 2)]))
refused(errors.BadFactors, "not a pair of different places in a list of 2", lambda p: p.s.factor(p.C, [(1, 1)]))
refused(
    errors.BadFactors,
    "its loops are scheduled already",
    lambda p: p.s.factor(p.C, [(0, 1)]),
    lambda p: p.s[p.C].split(p.i, 4),
)
refused(
    errors.BadFourier, "it is not a result of a discrete Fourier transform", lambda p: p.s.fast_fourier(p.C, [[2], [2]])
)


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([[4, 4]], r"its steps are \[\[4, 4\]\]"),
        ([[], [16]], "its steps are"),
        ([[1, 16], [2]], "1 is not a factor from 2 to 31"),
        ([[8], [3]], "they come to 24 points, which are neither 16 nor 31 or more"),
    ],
)
def test_steps_that_are_none_of_a_length(steps: list[list[int]], reason: str) -> None:
    y = fourier(te.placeholder((2, 16, 2)), 1)
    with pytest.raises(errors.BadFourier, match=reason):
        te.create_schedule(y.op).fast_fourier(y, steps)


refused(errors.BadAlternative, "its operator offers nothing else", lambda p: p.s.redeclare(p.C, "winograd"))
refused(errors.BadOnline, "it is not a sum over one axis of exp", lambda p: p.s.online(p.C, 4))
refused(errors.BadMirror, "once for each term of a sum", lambda p: p.s[p.C].mirror(p.i, p.j))
refused(errors.BadMirror, "A is not the one tensor of a te.compute", lambda p: p.s[p.A].mirror(p.i, p.j))
refused(errors.BadMirror, "x and x are not two axes of one extent", lambda p: p.s[p.D].mirror(p.x, p.x))
refused(errors.BadMirror, "k and y are not two data axes", lambda p: p.s[p.D].mirror(p.k, p.y))
refused(errors.BadMatrix, "it is padded to", lambda p: p.s.matricize(p.C, [p.i], [p.j], padding=(16, 0, 16)))
refused(errors.BadCacheWrite, "expected a tensor", lambda p: p.s.cache_write([], "local"))
refused(errors.BadRfactor, "expected a tensor", lambda p: p.s.rfactor(p.C.op, p.k))
refused(
    errors.UnknownScope,
    "'texture' is not a storage scope.*global.*shared",
    lambda p: p.s.cache_read(p.B, "texture", p.C),
)
refused(errors.UnknownScope, "'l1' is not a storage scope", lambda p: p.s.cache_write(p.C, "l1"))
refused(errors.BadCacheWrite, "A is a placeholder: nothing writes it", lambda p: p.s.cache_write(p.A, "local"))
refused(errors.BadCacheWrite, "2 outputs, which are written together", lambda p: p.s.cache_write(p.T[0], "local"))
refused(errors.BadCacheWrite, "B and C are two operations", lambda p: p.s.cache_write([p.B, p.C], "local"))
refused(
    errors.BadCacheWrite,
    "data and reduce axes at once",
    lambda p: p.s.cache_write(p.C, "local"),
    lambda p: p.s[p.C].fuse(p.j, p.k),
)
refused(
    errors.AnnotationWouldBeLost,
    "i.outer is parallel",
    lambda p: p.s.cache_write(p.C, "local"),
    lambda p: p.s[p.C].parallel(p.s[p.C].split(p.i, 8)[0]),
)
refused(
    errors.BadCacheWrite,
    "store predicate speaks of k",
    lambda p: p.s.cache_write(p.C, "local"),
    lambda p: p.s[p.C].set_store_predicate(p.k < 3),
)
refused(
    errors.NotAnAxisOfStage,
    r"i.outer was a loop of C until cache_write .*made it part of the layout of C.local at .*\.py:\d+",
    lambda p: p.s[p.C].split(p.io, 2),
    lambda p: (setattr(p, "io", p.s[p.C].split(p.i, 8)[0]), p.s.cache_write(p.C, "local")),
)

# Reductions
refused(errors.BadRfactor, "B is not a reduction", lambda p: p.s.rfactor(p.B, p.B.op.axis[0]))
refused(errors.BadRfactor, "i is a data axis", lambda p: p.s.rfactor(p.C, p.i))
refused(errors.AxisIsNoLoop, "k was split into", lambda p: p.s.rfactor(p.C, p.k), lambda p: p.s[p.C].split(p.k, 8))
refused(
    errors.BadRfactor,
    "data and reduce axes at once",
    lambda p: p.s.rfactor(p.C, p.f),
    lambda p: setattr(p, "f", p.s[p.C].fuse(p.j, p.k)),
)
refused(
    errors.UnsplitReduction,
    "its combiner minus must not be split",
    lambda p: p.t.rfactor(p.R, p.R.op.reduce_axis[0]),
    lambda p: (setattr(p, "t", (made := difference())[0]), setattr(p, "R", made[1])),
)
refused(errors.BadRfactor, "give a place from 0 to 2", lambda p: p.s.rfactor(p.C, p.k, 3))
refused(
    errors.AnnotationWouldBeLost,
    "k.inner is unrolled",
    lambda p: p.s.rfactor(p.C, p.ki),
    lambda p: (setattr(p, "ki", p.s[p.C].split(p.k, 8)[1]), p.s[p.C].unroll(p.ki)),
)
refused(
    errors.BadRfactor,
    "B is computed at i.outer, which would vanish",
    lambda p: p.s.rfactor(p.C, p.k),
    lambda p: p.s[p.B].compute_at(p.s[p.C], p.s[p.C].split(p.i, 8)[0]),
)

# Storage
refused(errors.UnknownScope, "'fast' is not a storage scope", lambda p: p.s[p.C].set_scope("fast"))
refused(errors.UnknownScope, r"D is an output.*s.cache_write\(D, .shared.\)", lambda p: p.s[p.D].set_scope("shared"))
refused(errors.UnknownScope, r"A is a placeholder.*s.cache_read\(A", lambda p: p.s[p.A].set_scope("shared"))
refused(errors.BadStorageAlign, "D is an output", lambda p: p.s[p.D].storage_align(p.x, 32, 1))
refused(errors.BadStorageAlign, "k is not a dimension of C", lambda p: p.s[p.C].storage_align(p.k, 32, 1))
refused(errors.BadStorageAlign, "factor is 0", lambda p: p.s[p.C].storage_align(p.i, 0, 1))
refused(errors.BadStorageAlign, "no integer of 1 to 2147483647", lambda p: p.s[p.C].storage_align(p.i, 1 << 31, 1))
refused(errors.BadPrefetch, "not an integer of 32 bits", lambda p: p.s[p.C].prefetch(p.B, p.i, 1 << 31))
refused(errors.BadStorageAlign, "offset is 1.5", lambda p: p.s[p.C].storage_align(p.i, 8, 1.5))
refused(errors.NotAnAxisOfStage, "A has no loops", lambda p: p.s[p.A].storage_align(p.x, 32, 1))
refused(errors.BadStorePredicate, "is not a condition, but int32", lambda p: p.s[p.C].set_store_predicate(p.i + 1))
refused(errors.BadStorePredicate, "is not a condition, but str", lambda p: p.s[p.C].set_store_predicate("i < 3"))
refused(errors.BadStorePredicate, "uses i, which is not an axis of C", lambda p: p.s[p.C].set_store_predicate(p.x < 3))


@pytest.mark.parametrize("case", range(len(REFUSALS)), ids=lambda at: f"{at}-{REFUSALS[at][0].__name__}")
def test_a_refused_primitive_says_why_and_changes_nothing(case: int) -> None:
    error, match, act, before = REFUSALS[case]
    p = program()
    before(p)
    kept = exact(p.s)
    with pytest.raises(error, match=f"(?s){match}") as caught:
        act(p)
    assert exact(p.s) == kept
    assert "called at test_refusals.py:" in str(caught.value)


def test_an_axis_that_begins_elsewhere_is_neither_bound_nor_factored() -> None:
    A = te.placeholder((16, 16), name="A")
    k = te.reduce_axis((2, 10), "k")
    C = te.compute((16,), lambda i: te.sum(A[i, k], axis=k), name="C")
    s = te.create_schedule(C)
    with pytest.raises(errors.BadThreadBinding, match="k begins at 2"):
        s[C].bind(k, tx())
    with pytest.raises(errors.BadRfactor, match="k begins at 2"):
        s.rfactor(C, k)
    assert s.records == ()


def test_a_reduction_with_init_is_not_bound_to_threads() -> None:
    A = te.placeholder((16, 16), name="A")
    k = te.reduce_axis((0, 16), "k")
    C = te.compute((16,), lambda i: te.sum(A[i, k], axis=k, init=te.const(1.0, "float32")), name="C")
    s = te.create_schedule(C)
    with pytest.raises(errors.BadThreadBinding, match="reduces with init="):
        s[C].bind(k, tx())


def test_loops_whose_extent_changes_stay_inside_what_they_change_with() -> None:
    A = te.placeholder((16, 16), name="A")
    axes: list[te.IterVar] = []

    def element(i: te.IterVar) -> Any:
        axes.append(te.reduce_axis((0, i + 1), "k"))
        return te.sum(A[i, axes[0]], axis=axes[0])

    C = te.compute((16,), element, name="C")
    (i,), (k,) = C.op.axis, C.op.reduce_axis
    s = te.create_schedule(C)
    io, ii = s[C].split(i, 4)
    kept = exact(s)
    with pytest.raises(errors.BadReorder, match=r"the extent of k changes with i: k has to stay within i\.inner"):
        s[C].reorder(k, ii)
    with pytest.raises(errors.FuseApart, match="do not form a rectangle"):
        s[C].fuse(ii, k)
    with pytest.raises(errors.BadRfactor, match="changes with other axes"):
        s.rfactor(C, k)
    assert exact(s) == kept
    s[C].reorder(ii, io)
    assert [axis.name for axis in s[C].leaf_iter_vars] == ["i.inner", "i.outer", "k"]


def test_every_code_of_the_family_is_raised_above() -> None:
    mine = {
        cls for code, cls in CATALOGUE.items() if "TW0201" <= code <= "TW0239" and cls.__module__ == errors.__name__
    }
    unrefused = {errors.BadRecords, errors.NoSuchPrimitive, errors.NotExact}
    assert mine - {case[0] for case in REFUSALS} == unrefused, "refused by no primitive"


GOLDEN = {
    "vectorize": """\
ScheduleError TW0203: cannot vectorize 'k' of stage C
  C is a reduction over k: vector lanes would race on C[i, j]   (test_refusals.py:LINE)
  called at test_refusals.py:LINE: s[p.C].vectorize(p.k)
      for i.outer in 2:
        for i.inner in 32:    # parallel
          for j in 64:
            for k in 64:      # reduce
                ^
  fix: vectorize a data axis (i.outer, i.inner, j), or s.rfactor(C, k) first""",
    "split": """\
ScheduleError TW0205: cannot split 'i' of stage C
  i was split into i.outer, i.inner at test_refusals.py:LINE   (test_refusals.py:LINE)
  called at test_refusals.py:LINE: s[p.C].split(p.i, 4)
      for i.outer in 2:
          ^^^^^^^
        for i.inner in 32:    # parallel
            ^^^^^^^
          for j in 64:
            for k in 64:      # reduce
  fix: use i.outer or i.inner""",
    "compute_at": """\
ScheduleError TW0202: cannot compute B at 'i' of stage C
  i is an axis of stage D, not of C   (test_refusals.py:LINE)
  called at test_refusals.py:LINE: s[p.B].compute_at(s[p.C], p.x)
      for i.outer in 2:
        for i.inner in 32:    # parallel
          for j in 64:
            for k in 64:      # reduce
  fix: use an axis of C: i.outer, i.inner, j, k""",
}


def test_messages_read_as_agreed() -> None:
    p = program()
    s = p.s
    _, ii = s[p.C].split(p.i, 32)
    s[p.C].parallel(ii)
    found = {}
    with pytest.raises(errors.VectorizeReduction, match="TW0203") as caught:
        s[p.C].vectorize(p.k)
    found["vectorize"] = str(caught.value)
    with pytest.raises(errors.AxisIsNoLoop, match="TW0205") as caught:
        s[p.C].split(p.i, 4)
    found["split"] = str(caught.value)
    with pytest.raises(errors.NotAnAxisOfStage, match="TW0202") as caught:
        s[p.B].compute_at(s[p.C], p.x)
    found["compute_at"] = str(caught.value)
    assert {name: re.sub(r"(py:)\d+", r"\1LINE", text) for name, text in found.items()} == GOLDEN

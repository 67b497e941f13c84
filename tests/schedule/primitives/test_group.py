"""Groups, pragmas and virtual threads."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from every_backend import EMULATED, holds, replays
from lowered import allocated, loops
from schedule_state import exact
from tilewright import te
from tilewright.ir.passes.cpu.parallel_launch import launch_once
from tilewright.ir.text.parser import parse
from tilewright.schedule.errors import BadGroup, CannotAttach, UnknownPragma


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-8, 9, shape).astype("float32")


def chain(n: int) -> tuple[te.Schedule, list[te.Tensor]]:
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    C = te.compute((n,), lambda i: B[i] * 2, name="C")
    D = te.compute((n,), lambda i: C[i] - B[i], name="D")
    E = te.compute((n,), lambda i: D[i] * A[i], name="E")
    return te.create_schedule(E.op), [A, B, C, D, E]


def refused(s: te.Schedule, error: type[Exception], text: str, call: Callable[[], Any]) -> None:
    before = exact(s)
    with pytest.raises(error, match=text):
        call()
    assert exact(s) == before


# Groups


@pytest.mark.parametrize("n", [0, 1, 7, 20])
def test_the_members_of_a_group_are_placed_together(n: int) -> None:
    s, (A, B, C, D, E) = chain(n)
    group = s.create_group(outputs=D, inputs=A)
    assert group.members == [s[B], s[C], s[D]], "the stages on the ways from A to D, outputs included, inputs not"
    outer, _ = s[E].split(E.op.axis[0], 4)
    group.compute_at(s[E], outer)
    a = floats(n)
    function = holds(s, [A, E], [a], [((a + 1) * 2 - (a + 1)) * a])
    assert all(s[one].attach_type == "at" and s[one].attach_stage is s[E] for one in (B, C, D))
    if n == 20:
        assert allocated(function) == dict.fromkeys("BCD", ("4",))
    replays(s, [E.op])
    s[B].compute_at(s[D], D.op.axis[0])  # within the group, by itself
    with pytest.raises(tw.LoweringError, match="C reads B too"):
        tw.lower(s, [A, E])
    s[C].compute_at(s[D], D.op.axis[0])
    holds(s, [A, E], [a], [((a + 1) * 2 - (a + 1)) * a])
    replays(s, [E.op])
    group.compute_root()
    assert s[D].attach_type == "root"
    assert s[B].attach_stage is s[D]
    holds(s, [A, E], [a], [((a + 1) * 2 - (a + 1)) * a])


def test_inputs_may_belong_to_the_group_and_only_ways_to_them_count() -> None:
    s, (A, B, C, D, E) = chain(8)
    assert s.create_group(outputs=[D], inputs=[B], include_inputs=True).members == [s[B], s[C], s[D]]
    s, (A, B, C, D, E) = chain(8)
    assert s.create_group(outputs=[C, D], inputs=[B]).members == [s[C], s[D]]
    s, (A, B, C, D, E) = chain(8)
    assert s.create_group(outputs=[E], inputs=[C]).members == [s[D], s[E]]


def test_groups_nest_and_caches_join_them() -> None:
    s, (A, B, C, D, E) = chain(20)
    inner = s.create_group(outputs=C, inputs=B)
    outer_group = s.create_group(outputs=D, inputs=A)
    assert inner.outer is outer_group
    assert outer_group.members == [s[B], s[D]]
    CC = s.cache_write(C, "local")
    assert s[CC].group is inner
    outer, _ = s[E].split(E.op.axis[0], 4)
    outer_group.compute_at(s[E], outer)
    assert s[CC].attach_stage is s[E], "the root of the inner group is that of the outer one"
    inner.compute_at(s[D], D.op.axis[0])
    assert s[CC].attach_stage is s[D]
    a = floats(20)
    function = holds(s, [A, E], [a], [((a + 1) * 2 - (a + 1)) * a])
    assert allocated(function)["C.local"] == ("1",)
    replays(s, [E.op])
    assert [group.name for group in s.copy().groups] == ["group0", "group1"]
    assert s.copy().groups[0].outer is not outer_group


def test_groups_that_make_no_sense_are_refused() -> None:
    s, (A, B, C, D, E) = chain(8)
    refused(s, BadGroup, "no stage lies between them", lambda: s.create_group(outputs=B, inputs=E))
    refused(s, BadGroup, "the outputs are tensors", lambda: s.create_group(outputs=3, inputs=A))
    group = s.create_group(outputs=C, inputs=A)
    refused(s, BadGroup, "partly among", lambda: s.create_group(outputs=D, inputs=B))
    refused(
        s, CannotAttach, r"B belongs to group0\(B, C\), and D does not", lambda: s[B].compute_at(s[D], D.op.axis[0])
    )
    refused(s, CannotAttach, "C belongs to it", lambda: group.compute_at(s[C], C.op.axis[0]))
    last = s.create_group(outputs=E, inputs=D)
    refused(s, CannotAttach, "E is an output", lambda: last.compute_at(s[D], D.op.axis[0]))
    s, (A, B, C, D, E) = chain(8)
    s[B].compute_at(s[D], D.op.axis[0])
    refused(
        s,
        BadGroup,
        "a member is computed at a loop outside: B, at stage D",
        lambda: s.create_group(outputs=C, inputs=A),
    )


# Pragmas


def test_a_region_is_left_out() -> None:
    A = te.placeholder((6,), name="A")
    B, C = te.compute((6,), lambda i: A[i] * 2, name="B"), te.compute((6,), lambda i: A[i] + 1, name="C")
    s = te.create_schedule([B.op, C.op])
    s[C].pragma(C.op.axis[0], "debug_skip_region")
    a = floats(6)
    holds(s, [A, B, C], [a], [a * 2, np.full(6, 77, "float32")])
    replays(s, [B.op, C.op])
    s[C].pragma(C.op.axis[0], "debug_skip_region", False)
    holds(s, [A, B, C], [a], [a * 2, a + 1])


SOURCE = "float times_three_of_the_test(float x) { return 3 * x; }\n"


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("clang") is None, reason="needs a C compiler")
def test_c_is_imported(tmp_path: Path) -> None:
    A = te.placeholder((6,), name="A")
    B = te.compute((6,), lambda i: te.call_pure_extern("float32", "times_three_of_the_test", A[i]), name="B")
    s = te.create_schedule(B.op)
    s[B].pragma(B.op.axis[0], "import_c", SOURCE)
    a = floats(6)
    function = holds(s, [A, B], [a], [a * 3])
    assert function.attrs["import_c"] == (SOURCE,)
    replays(s, [B.op])
    f = tw.build(s, [A, B])
    if shutil.which("clang") is None:
        with pytest.raises(tw.CodegenError, match="only clang makes of that what a library can hold"):
            f.export(tmp_path / "libthrice.so")
    refused(s, UnknownPragma, "its value is 3", lambda: s[B].pragma(B.op.axis[0], "import_c", 3))
    s[B].pragma(B.op.axis[0], "import_c", "this is not a C")
    with pytest.raises(tw.CodegenError, match=r"refuses the (source|C)"):
        tw.build(s, [A, B])


PATTERNS = [(), ("launch",), ("launch", "stride"), ("stride",), ("launch", "stride", "barrier")]
KEYS = {
    "launch": "parallel_launch_point",
    "stride": "parallel_stride_pattern",
    "barrier": "parallel_barrier_when_finish",
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_parallel_loops_are_launched_once_and_shared_by_strides(pattern: tuple[str, ...]) -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: A[i] + 1, name="C")
    s = te.create_schedule(C.op)
    i, lanes = s[C].split(C.op.axis[0], 4)
    outer, inner = s[C].split(i, 3001)  # fewer steps would be left to one thread
    s[C].parallel(inner)
    s[C].vectorize(lanes)
    for one in pattern:
        s[C].pragma(outer if one == "launch" else inner, KEYS[one])
    replays(s, [C.op])
    f, checked = tw.build(s, [A, C]), tw.build(s, [A, C], target="interpret")
    for size in (0, 1, 5, 53, 4 * 3001 * 2 + 1, 4 * 3001 - 3):
        a = floats(size)
        for kernel in (f, checked) if size < 99 else (f,):
            c = np.full(size, 77, "float32")
            kernel(a, c)
            np.testing.assert_array_equal(c, a + 1)
    text = f.source("ir")
    outermost = next(line for line in text.splitlines() if line.strip().startswith("for "))
    assert ("parallel" in outermost.split(" with ")[0]) == (pattern[:1] == ("launch",) and "barrier" not in pattern)
    assert ("i64 %step" in f.source("llvm")) == ("stride" in pattern)


@pytest.mark.parametrize("size", [1, 37])
def test_threads_stay_with_their_part_over_the_steps_of_a_reduction(size: int) -> None:
    m = te.var("m")
    A, k = te.placeholder((50, m), name="A"), te.reduce_axis((0, 50), "k")
    C = te.compute((m,), lambda i: te.sum(A[k, i], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].reorder(k, C.op.axis[0])
    s[C].parallel(C.op.axis[0])
    s[C].pragma(k, "parallel_launch_point")
    a = floats(50, size)
    holds(s, [A, C], [a], [a.sum(0)])
    assert tw.build(s, [A, C]).source("ir").index("parallel(m)") < tw.build(s, [A, C]).source("ir").index("for k in 50")


NEIGHBOURS = """def f(A: float32[8], C: out float32[10]):
    for k in 4 with parallel_launch_point=1:
        for i in parallel(8):
            C[{stored}] = C[{loaded}] + A[i]
"""


@pytest.mark.parametrize(
    ("stored", "loaded", "moves"),
    [
        ("i", "i", True),
        ("i + 1", "i + 1", True),
        ("i", "i + 1", False),
        ("(i + k) % 8", "(i + k) % 8", False),
        ("k", "k", False),
        ("i // 2", "i // 2", False),
    ],
)
def test_a_parallel_loop_moves_out_only_where_its_iterations_keep_apart(stored: str, loaded: str, moves: bool) -> None:
    function = parse(NEIGHBOURS.format(stored=stored, loaded=loaded))
    assert (launch_once(function).body is not function.body) == moves


def test_keys_that_no_pass_reads_are_refused() -> None:
    s, (A, B, C, D, E) = chain(8)
    i = B.op.axis[0]
    refused(s, UnknownPragma, "allowed: .*parallel_launch_point.*import_c", lambda: s[B].pragma(i, "parallel_magic"))
    refused(s, UnknownPragma, "its value is 'often'", lambda: s[B].pragma(i, "parallel_stride_pattern", "often"))


# Virtual threads


@pytest.mark.parametrize("shape", drawn.part([(16, 16, 8), (13, 7, 5), (0, 3, 2)], 2))
@pytest.mark.parametrize("inside", [False, True])
def test_virtual_threads_are_interleaved_on_a_cpu(shape: tuple[int, int, int], inside: bool) -> None:
    n, m, depth = shape
    A, B, k = (
        te.placeholder((n, depth), name="A"),
        te.placeholder((depth, m), name="B"),
        te.reduce_axis((0, depth), "k"),
    )
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "local")
    outer, inner = s[C].split(C.op.axis[0], nparts=2)
    s[C].bind(outer, te.thread_axis("vthread"))
    s[CC].compute_at(s[C], inner if inside else outer)
    AA, BB = s.cache_read(A, "shared", [CC]), s.cache_read(B, "local", [CC])
    ko, ki = s[CC].split(s[CC].op.reduce_axis[0], 2)
    s[CC].reorder(ko, ki, *s[CC].op.axis)
    for cache in (AA, BB):
        s[cache].compute_at(s[CC], ko)
    s[BB].double_buffer()
    a, b = floats(n, depth), floats(depth, m, seed=1)
    holds(s, [A, B, C], [a, b], [a @ b])
    replays(s, [C.op])
    if shape == (16, 16, 8) and not inside:
        text = tw.build(s, [A, B, C]).source("ir")
        assert "C.local: local float32[int64(256)]" in text, "what depends on the virtual thread gains a dimension"
        assert "B.local: local float32[int64(64)]" in text, "what does not, does not: two halves of 2 by 16"
        assert text.count("for k.outer") == 1, "both threads go through the reduction together"


def test_virtual_threads_agree_on_the_emulated_gpu() -> None:
    A = te.placeholder((40,), name="A")
    B = te.compute((40,), lambda i: A[i] + 1, name="B")
    C = te.compute((40,), lambda i: B[i] * 2, name="C")
    s = te.create_schedule(C.op)
    v, t = s[C].split(C.op.axis[0], nparts=4)
    s[C].bind(v, te.thread_axis("vthread"))
    s[C].bind(t, te.thread_axis("threadIdx.x"))
    s[B].compute_at(s[C], t)
    a = floats(40)
    function = holds(s, [A, C], [a], [(a + 1) * 2], EMULATED)
    assert loops(function)[:2] == ["i.outer:4", "i.inner:10"]


def test_what_a_left_out_loop_would_load_ahead_is_left_out_too() -> None:
    s, (A, B, C, D, E) = chain(20)
    outer, _ = s[E].split(E.op.axis[0], 4)
    s.create_group(outputs=D, inputs=A).compute_at(s[E], outer)
    for one in (B, C, D):
        s[one].double_buffer()
    a = floats(20)
    holds(s, [A, E], [a], [((a + 1) * 2 - (a + 1)) * a])
    replays(s, [E.op])
    s[E].pragma(outer, "debug_skip_region")
    assert loops(holds(s, [A, E], [a], [np.full(20, 77, "float32")])) == ["i.outer:5"]

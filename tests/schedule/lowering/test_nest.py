"""The loops of a few schedules, as text."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

from tilewright import te
from tilewright.schedule import create_schedule
from tilewright.schedule.lowering.lower import lower
from tilewright.schedule.lowering.text import schedule_text


def dedented(text: str) -> str:
    return dedent(text).strip("\n")


def test_blocked_matmul_with_packing_and_a_write_cache(golden: Callable[[str, str], None]) -> None:
    size, block = 1000, 40
    A, B = te.placeholder((size, 77), name="A"), te.placeholder((77, size), name="B")
    k = te.reduce_axis((0, 77), "k")
    P = te.compute((size // block, 77, block), lambda x, y, z: B[y, x * block + z], name="P")
    C = te.compute((size, size), lambda m, n: te.sum(A[m, k] * P[n // block, k, n % block], axis=k), name="C")
    s = create_schedule(C.op)
    CC = s.cache_write(C, "global")
    mo, no, _, _ = s[C].tile(*s[C].op.axis, 32, block)
    s[CC].compute_at(s[C], no)
    mc, nc = s[CC].op.axis
    ko, ki = s[CC].split(s[CC].op.reduce_axis[0], factor=4)
    s[CC].reorder(ko, mc, ki, nc)
    s[CC].unroll(ki)
    s[CC].vectorize(nc)
    s[C].parallel(mo)
    golden("packed_matmul.txt", str(lower(s, [A, B, C])))


def test_a_padded_stencil_computed_in_blocks_of_its_consumer(golden: Callable[[str, str], None]) -> None:
    A = te.placeholder((100,), name="A")
    P = te.compute((102,), lambda i: te.if_then_else(te.all(i >= 1, i <= 100), A[i - 1], 0.0), name="P")
    C = te.compute((100,), lambda i: P[i] + P[i + 1] + P[i + 2], name="C")
    s = create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=16)
    s[P].compute_at(s[C], outer)
    golden("padded_stencil.txt", str(lower(s, [A, C], "blur")))


def test_a_reduction_across_threads_stores_by_the_thread_that_the_predicate_names(
    golden: Callable[[str, str], None],
) -> None:
    A = te.placeholder((8, 64), name="A")
    k = te.reduce_axis((0, 64), "k")
    B = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = create_schedule(B.op)
    _, ki = s[B].split(k, factor=16)
    BF = s.rfactor(B, ki)
    tx = te.thread_axis("threadIdx.x")
    s[B].bind(s[B].op.axis[0], te.thread_axis("blockIdx.x"))
    s[B].bind(s[B].op.reduce_axis[0], tx)
    s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
    s[B].set_store_predicate(tx.var.equal(0))
    golden("reduction_across_threads.txt", str(lower(s, [A, B])))


def test_print_shows_the_loops_after_every_primitive() -> None:
    A = te.placeholder((32, 8), name="A")
    B = te.compute((32, 8), lambda i, j: A[i, j] + 1.0, name="B")
    s = create_schedule(B.op)
    assert str(s) == dedented("""
        def B(A: float32[32, 8], B: out float32[32, 8]):
            for i in 32:
                for j in 8:
                    B[i, j] = A[i, j] + 1.0
    """)
    s[B].vectorize(B.op.axis[1])
    outer, _ = s[B].split(B.op.axis[0], factor=4)
    s[B].parallel(outer)
    assert str(s) == dedented("""
        def B(A: float32[32, 8], B: out float32[32, 8]):
            for i.outer in parallel(8):
                for i.inner in 4:
                    for j in vectorized(8):
                        B[i.outer * 4 + i.inner, j] = A[i.outer * 4 + i.inner, j] + 1.0
    """)


def test_print_shows_scalars_that_no_shape_tells() -> None:
    n, scale = te.size_var("n"), te.var("scale", "float32")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * scale, name="B")
    assert schedule_text(create_schedule(B.op)) == dedented("""
        def B[n: size](scale: float32, A: float32[n], B: out float32[n]):
            for i in n:
                B[i] = A[i] * scale
    """)


def test_print_shows_what_is_open_in_an_unfinished_schedule() -> None:
    A = te.placeholder((32,), name="A")
    B = te.compute((32,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((30,), lambda i: B[i] + B[i + 2], name="C")
    D = te.compute((30,), lambda i: C[i] * B[i], name="D")
    s = create_schedule(D.op)
    s[B].compute_at(s[D], D.op.axis[0])
    assert schedule_text(s) == dedented("""
        stage B, computed at i of D:
          for i in 32:
        stage C:
          for i in 30:
        stage D:
          for i in 30:
        open: cannot compute B at 'i' of D, because C reads B too, but does not lie under that loop
          fix: s[C].compute_at(s[D], i), or s[B].compute_root()
    """)


def test_print_names_inlined_stages() -> None:
    A = te.placeholder((32,), name="A")
    B = te.compute((32,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((30,), lambda i: B[i] + B[i + 2], name="C")
    D = te.compute((30,), lambda i: C[i] * C[29 - i], name="D")
    E = te.compute((30,), lambda i: C[i] * D[i], name="E")
    s = create_schedule(E.op)
    s[B].compute_inline()
    s[C].compute_at(s[D], D.op.axis[0])
    text = schedule_text(s)
    assert text.startswith("stage B, inlined\nstage C, computed at i of D:")
    assert "open: cannot compute C at 'i' of D" in text

"""What lower refuses, and in which words."""

from __future__ import annotations

from typing import Any

import pytest
from tilewright import te
from tilewright.base.errors import LoweringError
from tilewright.schedule import create_schedule
from tilewright.schedule.lowering.lower import lower


def chain() -> tuple[Any, Any, Any, Any, Any]:
    """A placeholder, B of it, C of B, and D of both."""
    A = te.placeholder((32,), name="A")
    B = te.compute((32,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((30,), lambda i: B[i] + B[i + 2], name="C")
    D = te.compute((30,), lambda i: C[i] * B[i], name="D")
    return create_schedule(D.op), A, B, C, D


def test_a_consumer_outside_the_attach_loop() -> None:
    s, A, B, C, D = chain()
    s[B].compute_at(s[C], C.op.axis[0])
    with pytest.raises(LoweringError, match=r"TW0333: cannot compute B at 'i' of C\n  D reads B too") as error:
        lower(s, [A, D])
    assert error.value.loops == "for i in 30:\n    ^"
    assert error.value.fix == "s[B].compute_root()"


def test_the_message_for_an_attach_point_that_not_all_consumers_share() -> None:
    s, A, B, C, D = chain()
    s[B].compute_at(s[D], D.op.axis[0])
    with pytest.raises(LoweringError, match=r"s\[C\].compute_at\(s\[D\], i\), or s\[B\].compute_root\(\)"):
        lower(s, [A, D])
    s[C].compute_at(s[D], D.op.axis[0])
    lower(s, [A, D])


def test_a_consumer_computed_further_out_than_its_producer() -> None:
    A = te.placeholder((4, 4), name="A")
    B = te.compute((4, 4), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((4, 4), lambda i, j: B[i, j] + 1.0, name="C")
    D = te.compute((4, 4), lambda i, j: C[i, j] * 2.0, name="D")
    s = create_schedule(D.op)
    s[C].compute_at(s[D], D.op.axis[0])
    s[B].compute_at(s[D], D.op.axis[1])
    with pytest.raises(LoweringError, match="TW0333: cannot compute B at 'j' of D"):
        lower(s, [A, D])


def test_a_missing_input() -> None:
    s, _, _, _, D = chain()
    with pytest.raises(LoweringError, match="TW0330: cannot lower: A is read, but is not among the arguments") as error:
        lower(s, [D])
    assert error.value.fix == "add A to the list of arguments"
    assert error.value.declared is not None
    assert "placeholder" in error.value.declared.text


def test_a_missing_output() -> None:
    s, A, _, _, _ = chain()
    with pytest.raises(LoweringError, match="TW0330: cannot lower: the output D is not among the arguments"):
        lower(s, [A])


def test_an_argument_of_no_schedule() -> None:
    s, A, _, _, D = chain()
    X = te.compute((3,), lambda i: A[i] * 3.0, name="X")
    with pytest.raises(LoweringError, match="TW0331: argument 2, X, is not computed by this schedule"):
        lower(s, [A, D, X])


def test_an_argument_that_is_no_tensor() -> None:
    s, A, _, _, D = chain()
    with pytest.raises(LoweringError, match="TW0331: argument 1 is neither a tensor nor a scalar\n  got 3"):
        lower(s, [A, 3, D])  # pyright: ignore[reportArgumentType]


def test_an_argument_that_is_given_twice() -> None:
    s, A, _, _, D = chain()
    with pytest.raises(LoweringError, match="TW0331: argument 2, A, is given twice"):
        lower(s, [A, D, A])


def test_an_argument_that_is_inlined() -> None:
    s, A, B, _, D = chain()
    s[B].compute_inline()
    with pytest.raises(LoweringError, match=r"TW0331: argument 1, B, is not stored anywhere\n  B is inlined"):
        lower(s, [A, B, D])


def test_an_unused_placeholder_is_a_parameter_all_the_same() -> None:
    s, A, _, _, D = chain()
    X = te.placeholder((3,), name="X")
    assert [buffer.name for buffer in lower(s, [A, X, D]).buffers] == ["A", "X", "D"]


def test_a_missing_scalar() -> None:
    scale, A = te.var("scale", "float32"), te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] * scale, name="B")
    s = create_schedule(B.op)
    with pytest.raises(LoweringError, match="TW0332: cannot lower: scale is read, but is not among the arguments"):
        lower(s, [A, B])
    assert [str(param.name) for param in lower(s, [scale, A, B]).params] == ["scale", "A", "B"]


def test_a_vector_of_symbolic_length() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    s = create_schedule(B.op)
    s[B].vectorize(B.op.axis[0])
    with pytest.raises(LoweringError, match="TW0337: cannot vectorize 'i' of stage B\n  its extent is n"):
        lower(s, [A, B])


def test_stages_computed_at_each_other() -> None:
    """No primitive makes such a schedule; lowering does not run in circles all the same."""
    s, A, B, C, D = chain()
    s[B].attach("at", s[C], C.op.axis[0])
    s[C].attach("at", s[B], B.op.axis[0])
    with pytest.raises(LoweringError, match=r"TW0334: cannot lower: stages are computed at each other \(B at C at B\)"):
        lower(s, [A, D])


def test_a_stage_computed_at_a_loop_that_is_gone() -> None:
    s, A, B, C, D = chain()
    s[B].attach("at", s[C], D.op.axis[0])
    with pytest.raises(LoweringError, match="TW0335: cannot compute B at 'i' of C\n  'i' is not a loop of C any more"):
        lower(s, [A, D])
    s[B].attach("at", s[C], C.op.axis[0])
    s[C].attach("inline")
    with pytest.raises(LoweringError, match="TW0335: cannot compute B at 'i' of C\n  C is inlined, so it has no loops"):
        lower(s, [A, D])


def test_an_output_that_is_not_at_root() -> None:
    s, A, _, C, D = chain()
    s[D].attach("at", s[C], C.op.axis[0])
    with pytest.raises(LoweringError, match="TW0336: cannot lower: the output D is computed at a loop of C"):
        lower(s, [A, D])


def test_an_unbound_thread() -> None:
    s, A, _, _, D = chain()
    s[D].set_store_predicate(te.thread_axis("threadIdx.x").var.equal(0))
    with pytest.raises(LoweringError, match=r"TW0341: cannot lower D: it reads the thread axis threadIdx\.x"):
        lower(s, [A, D])


def test_init_reads_what_is_computed_within_the_reduction() -> None:
    A = te.placeholder((4, 8), name="A")
    B = te.compute((4,), lambda i: A[i, 0] * 2.0, name="B")
    k = te.reduce_axis((0, 8), "k")
    C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k, init=B[i]), name="C")
    s = create_schedule(C.op)
    s[B].compute_at(s[C], k)
    with pytest.raises(LoweringError, match="TW0340: cannot compute B at 'k' of C"):
        lower(s, [A, C])
    s[B].compute_at(s[C], C.op.axis[0])
    lower(s, [A, C])


def test_errors_point_at_the_line_that_called_lower() -> None:
    s, _, _, _, D = chain()
    with pytest.raises(LoweringError, match="TW0330") as error:
        lower(s, [D])
    assert error.value.called is not None
    assert error.value.called.file.endswith("test_errors.py")

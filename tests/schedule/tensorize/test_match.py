"""What no intrinsic can stand in for is refused, and the message says which node, region, dtype, buffer or guard differs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tilewright as tw
from tilewright import te


def opaque(*bodies: str) -> Callable[[list[Any], list[Any]], Any]:
    """An intrinsic's function whose bodies call C functions of these names; None for ''."""

    def made(ins: list[Any], outs: list[Any]) -> Any:
        parts = [
            te.call_extern("int32", name, *(b.access_ptr("r") for b in ins), *(b.access_ptr("rw") for b in outs))
            if name
            else None
            for name in bodies
        ]
        return parts[0] if len(parts) == 1 else tuple(parts)

    return made


def dot(
    rows: int = 8,
    depth: int = 4,
    dtype: str = "float32",
    bodies: tuple[str, ...] = ("body",),
    combine: Any = te.sum,
    value: Any = lambda x, y: x * y,
    **binds: Any,
) -> te.TensorIntrin:
    """c[i] = combine over k of value(a[k], b[i, k])."""
    a, b = te.placeholder((depth,), dtype, "a"), te.placeholder((rows, depth), dtype, "b")
    k = te.reduce_axis((0, depth), "k")
    c = te.compute((rows,), lambda i: combine(value(a[k], b[i, k]), axis=k), "c")
    options = {"strides": [te.var("s"), 1]} | binds
    declared = te.decl_buffer(b.shape, b.dtype, "b", **options)
    return te.decl_tensor_intrin(c.op, opaque(*bodies), "dot", binds={b: declared})


def matmul(n: int = 6, m: int = 16, k: int = 12, dtype: str = "float32") -> tuple[Any, ...]:
    A, B = te.placeholder((n, k), dtype, "A"), te.placeholder((m, k), dtype, "B")
    r = te.reduce_axis((0, k), "r")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[j, r], axis=r), "C")
    return te.create_schedule(C.op), A, B, C, r


def tiled(intrinsic: te.TensorIntrin, rows: int = 8, depth: int = 4, **sizes: Any) -> tuple[Any, list[Any]]:
    """The matmul with `rows` by `depth` under the tensorized loop."""
    s, A, B, C, r = matmul(**sizes)
    i, j = C.op.axis
    jo, ji = s[C].split(j, factor=rows)
    ro, ri = s[C].split(r, factor=depth)
    s[C].reorder(i, jo, ro, ji, ri)
    s[C].tensorize(ji, intrinsic)
    return s, [A, B, C]


THREE = ("body", "reset", "update")


def refused(s: Any, args: list[Any], code: str, match: str) -> str:
    with pytest.raises(tw.LoweringError, match=match) as caught:
        tw.lower(s, args)
    assert caught.value.code == code
    text = str(caught.value)
    assert "cannot tensorize" in text
    assert "fix: " in text
    assert "^" in text, "the loop is shown"
    assert "open: cannot tensorize" in str(s), "print(s) says what is open"
    return text


def test_what_fits_is_taken() -> None:
    s, args = tiled(dot(bodies=THREE))
    assert [name for name in ("reset", "update") if f'"{name}"' in str(tw.lower(s, args))] == ["reset", "update"]


@pytest.mark.parametrize(
    ("rows", "depth", "match"),
    [
        (
            4,
            4,
            r"the data axes of C run through \(i: 1, j: 4\) under the loop, those of the intrinsic through \(i: 8\)",
        ),
        (8, 3, r"the reduce axes of C run through \(r: 3\) under the loop, those of the intrinsic through \(k: 4\)"),
    ],
)
def test_regions_of_another_shape(rows: int, depth: int, match: str) -> None:
    s, args = tiled(dot(bodies=THREE), rows, depth)
    refused(s, args, "TW0380", match)


def test_loops_that_are_no_box() -> None:
    s, A, B, C, r = matmul()
    i, j = C.op.axis
    fused = s[C].fuse(i, j)
    outer, inner = s[C].split(fused, factor=24)
    s[C].tensorize(inner, dot(24, 12))
    refused(s, [A, B, C], "TW0380", "not a constant number of consecutive ones|do not run through all of the box")


def test_symbolic_extents() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: A[i] + 1, "C")
    a = te.placeholder((8,), name="a")
    c = te.compute((8,), lambda i: a[i] + 1, "c")
    s = te.create_schedule(C.op)
    s[C].tensorize(C.op.axis[0], te.decl_tensor_intrin(c.op, opaque("f"), "inc"))
    refused(s, [A, C], "TW0380", "not a constant number|do not run through")


BODIES = {
    "a value": (
        dot(bodies=THREE, value=lambda x, y: x + y),
        "TW0381",
        r"it has `A\[i, .*\] \* B\[.*\]` of float32 where",
    ),
    "a combiner": (
        dot(bodies=THREE, combine=te.max),
        "TW0381",
        r"it reduces by sum \(`x \+ y`\), the intrinsic by max \(`max\(x, y\)`\)",
    ),
    "a dtype": (
        dot(bodies=THREE, dtype="float64"),
        "TW0381",
        r"it has .* of float32 where the intrinsic has .* of float64",
    ),
    "an order": (dot(bodies=THREE, value=lambda x, y: x - y), "TW0381", "where the intrinsic has"),
}


@pytest.mark.parametrize("what", BODIES)
def test_bodies_that_differ_in(what: str) -> None:
    intrinsic, code, match = BODIES[what]
    s, args = tiled(intrinsic)
    refused(s, args, code, f"C computes something else: .*{match}")


def test_factors_in_either_order_are_one_body() -> None:
    s, args = tiled(dot(bodies=THREE, value=lambda x, y: y * x))
    assert '"update"' in str(tw.lower(s, args))


def test_a_read_that_does_not_follow_the_axes() -> None:
    A, B = te.placeholder((4, 32), name="A"), te.placeholder((8, 4), name="B")
    r = te.reduce_axis((0, 4), "r")
    C = te.compute((4, 8), lambda i, j: te.sum(A[i, r * 2] * B[j, r], axis=r), "C")
    s = te.create_schedule(C.op)
    s[C].tensorize(C.op.axis[1], dot())
    refused(s, [A, B, C], "TW0381", r"reads `A\[i, k \* 2\]` where the intrinsic reads `a\[k\]`: index 1 of A")


def test_a_reduction_with_a_condition_or_a_beginning_of_its_own() -> None:
    A, B = te.placeholder((4, 4), name="A"), te.placeholder((8, 4), name="B")
    r = te.reduce_axis((0, 4), "r")
    for options, match in (
        ({"where": r < 3}, "it takes up only what `.* < 3` chooses"),
        ({"init": 5.0}, "begins with init="),
    ):
        C = te.compute((4, 8), lambda i, j, o=options: te.sum(A[i, r] * B[j, r], axis=r, **o), "C")
        s = te.create_schedule(C.op)
        s[C].tensorize(C.op.axis[1], dot())
        refused(s, [A, B, C], "TW0381", match)


def test_an_elementwise_stage_is_no_reduction() -> None:
    A = te.placeholder((8,), name="A")
    C = te.compute((8,), lambda i: A[i] * 2, "C")
    a = te.placeholder((8, 1), name="a")
    k = te.reduce_axis((0, 1), "k")
    c = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), "c")
    s = te.create_schedule(C.op)
    s[C].tensorize(C.op.axis[0], te.decl_tensor_intrin(c.op, opaque("f"), "sums"))
    refused(s, [A, C], "TW0380", "the reduce axes of C run through .no axis.")


def test_one_tensor_of_the_intrinsic_cannot_be_two_parts() -> None:
    A = te.placeholder((9,), name="A")
    C = te.compute((8,), lambda i: A[i] * A[i + 1], "C")
    a = te.placeholder((8,), name="a")
    c = te.compute((8,), lambda i: a[i] * a[i], "c")
    s = te.create_schedule(C.op)
    s[C].tensorize(C.op.axis[0], te.decl_tensor_intrin(c.op, opaque("f"), "square"))
    refused(
        s, [A, C], "TW0381", r"the intrinsic's a would be A at one place and `A\[i \+ 1\]`, another part, at the other"
    )


@pytest.mark.parametrize(
    ("binds", "match"),
    [
        (
            {"strides": None},
            r"of the part of B: its stride in dimension 0 is 12, and 4 in the declared b, which has no strides and so",
        ),
        ({"strides": [16, 1]}, "its stride in dimension 0 is 12, and 16 in the declared b"),
        ({"offset_factor": 8}, "is not proved to be a multiple of offset_factor=8"),
        (
            {"data_alignment": 64},
            r"is declared with data_alignment=64, so its first element, .*, must be aligned to that",
        ),
        ({"scope": "shared"}, "it lies in global memory, and b is declared in shared"),
    ],
)
def test_buffers_that_lie_otherwise(binds: dict[str, Any], match: str) -> None:
    s, args = tiled(dot(bodies=THREE, **binds))
    refused(s, args, "TW0382", match)


def test_offsets_that_are_multiples_are_taken() -> None:
    s, args = tiled(dot(bodies=THREE, offset_factor=4))
    assert '"update"' in str(tw.lower(s, args))


def test_guards_within() -> None:
    s, args = tiled(dot(bodies=THREE), m=17)
    text = refused(s, args, "TW0383", r"the guard `j.outer \* 8 \+ j.inner < 17` changes with 'j.inner' within it")
    assert "pad the tensors" in text


def test_guards_outside_stay() -> None:
    s, A, B, C, r = matmul(n=7)
    i, j = C.op.axis
    io, ii = s[C].split(i, factor=4)
    s[C].reorder(io, ii, j, r)
    s[C].tensorize(j, dot(16, 12))
    assert "if likely(i.outer * 4 + i.inner < 7):" in str(s)


def test_a_store_predicate_within() -> None:
    s, A, B, C, r = matmul()
    s[C].tensorize(C.op.axis[1], dot(16, 12))
    s[C].set_store_predicate(C.op.axis[1] < 3)
    refused(s, [A, B, C], "TW0383", "the store predicate `j < 3` changes with 'j' within it")


def test_a_reduction_that_goes_on_outside_needs_an_update() -> None:
    s, args = tiled(dot())
    refused(
        s, args, "TW0384", "the reduction goes on over 'r.outer' outside of it, and the intrinsic has no reduce_update"
    )


def test_without_an_init_the_first_iteration_begins() -> None:
    s, args = tiled(dot(bodies=("body", "", "update")))
    text = str(s)
    assert "if r.outer == 0:" in text
    assert text.index('"body"') < text.index("else:") < text.index('"update"')


def test_stages_computed_within() -> None:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1, "B")
    C = te.compute((16,), lambda i: B[i] * 2, "C")
    a = te.placeholder((16,), name="a")
    c = te.compute((16,), lambda i: a[i] * 2, "c")
    s = te.create_schedule(C.op)
    s[C].tensorize(C.op.axis[0], te.decl_tensor_intrin(c.op, opaque("f"), "twice"))
    s[B].compute_at(s[C], C.op.axis[0])
    refused(s, [A, C], "TW0385", "B is computed at 'i', which it takes in")


def test_annotated_loops_within() -> None:
    s, A, B, C, r = matmul()
    s[C].unroll(r)
    s[C].tensorize(C.op.axis[1], dot(16, 12))
    refused(s, [A, B, C], "TW0385", "'r', which it takes in, is unrolled")


def test_what_the_call_itself_refuses() -> None:
    s, A, B, C, r = matmul()
    j = C.op.axis[1]
    with pytest.raises(tw.ScheduleError, match=r"(?s)TW0240: cannot tensorize 'j' of stage C.*got str.*fix"):
        s[C].tensorize(j, "gemv")  # type: ignore[arg-type]
    s2, _, _, C2, _ = matmul()
    s2[C2].split(C2.op.axis[1], factor=8)
    with pytest.raises(tw.ScheduleError, match=r"(?s)TW0205: cannot tensorize 'j' of stage C.*j was split into"):
        s2[C2].tensorize(C2.op.axis[1], dot())
    s[C].tensorize(j, dot(16, 12))
    before = s.trace
    with pytest.raises(tw.ScheduleError, match="'j' is tensorized already, and one intrinsic computes a stage"):
        s[C].tensorize(C.op.axis[0], dot())
    with pytest.raises(tw.ScheduleError, match="j is tensorized, which would be lost with the loop"):
        s[C].split(j, factor=8)
    a = te.placeholder((4,), name="a")
    c0, _ = te.compute((4,), lambda i: (a[i], a[i] + 1), "c")
    two = te.decl_tensor_intrin(c0.op, opaque("f"), "two")
    s3, _, _, C3, _ = matmul()
    with pytest.raises(tw.ScheduleError, match="computes 1 tensors, the intrinsic two 2"):
        s3[C3].tensorize(C3.op.axis[1], two)
    assert s.trace == before


def test_the_whole_message() -> None:
    s, A, B, C, r = matmul()
    s[C].tensorize(C.op.axis[1], dot(16, 12, combine=te.max))
    with pytest.raises(tw.LoweringError, match="TW0381") as caught:
        tw.lower(s, [A, B, C])
    lines = str(caught.value).splitlines()
    assert lines[0] == "LoweringError TW0381: cannot tensorize 'j' of stage C by dot"
    found = "it reduces by sum (`x + y`), the intrinsic by max (`max(x, y)`)"
    assert lines[1].startswith(f"  C computes something else: {found}   (test_match.py:")
    assert lines[2].startswith("  called at test_match.py:")
    assert [line.strip() for line in lines[3:7]] == [
        "for i in 6:",
        "for j in 16:          # tensorized",
        "^",
        "for r in 12:        # reduce",
    ]
    assert lines[-1].startswith("  fix: write C and the intrinsic's operation alike, dtypes included")


def test_both_nests_stand_side_by_side_and_the_first_node_that_differs_is_marked() -> None:
    s, args = tiled(dot(bodies=THREE, value=lambda x, y: x * (y + 1.0)))
    shown = refused(s, args, "TW0381", "C computes something else").splitlines()
    begin = next(at for at, line in enumerate(shown) if "C under 'j.inner'" in line)
    assert [line.rstrip() for line in shown[begin : begin + 8]] == [
        "      C under 'j.inner'                                                       dot",
        "      for j in 8:                                                             for i in 8:",
        "        for r in 4:  # reduce                                                   for k in 4:  # reduce",
        "      ... sum(A[i, r.outer * 4 + r] * B[j.outer * 8 + j, r.outer * 4 + r])        c[i] = sum(a[k] * (b[i, k] + 1.0))",
        "                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^                           ^^^^^^^^^^^^^^^",
        "      gives C: float32[i, j.outer * 8 : + 8]                                  gives c: float32[0 : + 8]",
        "      reads A: float32[i, r.outer * 4 : + 4]                                  reads a: float32[0 : + 4]",
        "      reads B: float32[j.outer * 8 : + 8, r.outer * 4 : + 4]                  reads b: float32[0 : + 8, 0 : + 4]",
    ], "\n".join(shown)


@pytest.mark.parametrize(
    ("rows", "depth", "mine", "its"),
    [(4, 4, "for j in 4:", "for i in 8:"), (8, 3, "for r in 3:  # reduce", "for k in 4:  # reduce")],
)
def test_loops_that_differ_are_marked_on_both_sides(rows: int, depth: int, mine: str, its: str) -> None:
    s, args = tiled(dot(bodies=THREE), rows, depth)
    lines = refused(s, args, "TW0380", "under the loop").splitlines()
    marked = [at for at, line in enumerate(lines) if line.strip() and set(line.strip()) <= {"^", " "}][-1]
    left, right = (lines[marked - 1].index(text) for text in (mine, its))
    carets = [at for at, letter in enumerate(lines[marked]) if letter == "^"]
    assert carets == [left + len("for j in "), right + len("for i in ")]


def test_a_reducer_a_condition_and_a_shared_node_are_marked() -> None:
    s, args = tiled(dot(bodies=THREE, combine=te.max))
    lines = refused(s, args, "TW0381", "it reduces by sum").splitlines()
    at = next(at for at, line in enumerate(lines) if "= max(" in line)
    assert lines[at + 1].split() == ["^^^", "^^^"]
    assert lines[at][lines[at + 1].index("^") :].startswith("sum(")
    A = te.placeholder((8,), name="A")
    C = te.compute((8,), lambda i: (A[i] + 2.0) * (A[i] + 2.0), "C")
    a = te.placeholder((8,), name="a")
    c = te.compute((8,), lambda i: (a[i] + 3.0) * (a[i] + 3.0), "c")
    s = te.create_schedule(C.op)
    s[C].tensorize(C.op.axis[0], te.decl_tensor_intrin(c.op, opaque("f"), "squares"))
    lines = refused(s, [A, C], "TW0381", "it has 2.0 where the intrinsic has 3.0").splitlines()
    at = next(at for at, line in enumerate(lines) if "c[i] = " in line)
    for number in ("2.0", "3.0"):
        assert lines[at + 1][lines[at].index(number) :].startswith("^^^")

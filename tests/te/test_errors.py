"""The messages of te's errors, word for word. Each shows the user's own lines: those are filled in from this file."""

import re
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.base.errors import CATALOGUE, TensorExpressionError
from tilewright.te import errors as te_errors

LINES = Path(__file__).read_text().splitlines()


def golden(call, expected: str) -> None:
    """`call` raises exactly `expected`, where `@text@` stands for the place and text of the one line with `#: text`,
    and `@@text@@` for its place alone."""
    with pytest.raises(TensorExpressionError, match="TW01") as caught:
        call()

    def place(match: re.Match[str]) -> str:
        label = match[1] or match[2]
        (number,) = (at for at, line in enumerate(LINES, 1) if line.endswith("#: " + label))
        where = f"{Path(__file__).name}:{number}"
        return where if match[1] else f"{where}: {LINES[number - 1].strip()}"

    wanted = re.sub(r"@@(.*?)@@|@(.*?)@", place, expected.strip("\n"))
    assert str(caught.value) == wanted
    assert caught.value.code in CATALOGUE


def test_a_shape_mismatch():
    A = te.placeholder((3, 4), name="A")  #: mismatch A
    B = te.placeholder((3, 5), name="B")  #: mismatch B

    def call():
        return A + B  #: mismatch

    golden(
        call,
        """
TensorExpressionError TW0121: cannot add A and B: shapes (3, 4) and (3, 5) do not broadcast
  dimension 1 is 4 in A and 5 in B
  A: float32[3, 4], declared at @mismatch A@
  B: float32[3, 5], declared at @mismatch B@
  called at @mismatch@
  allowed: aligned from the last dimension on, extents are equal, or one of them is 1
  fix: declare A and B with one extent there, or say which elements meet: te.compute(shape, lambda *i: ...)
""",
    )


def test_a_mismatch_of_symbols():
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n,), name="A")  #: symbols A
    B = te.placeholder((2, m), name="B")  #: symbols B

    def call():
        return te.max(A, B)  #: symbols

    golden(
        call,
        """
TensorExpressionError TW0121: cannot maximum A and B: shapes (n,) and (2, m) do not broadcast
  dimension -1, counted from the end, is n in A and m in B
  A: float32[n], declared at @symbols A@
  B: float32[2, m], declared at @symbols B@
  called at @symbols@
  allowed: aligned from the last dimension on, extents are equal (the same symbol), or one of them is 1
  fix: declare A and B with one extent there, or say which elements meet: te.compute(shape, lambda *i: ...)
""",
    )


def test_a_negative_extent():
    def call():
        te.placeholder((4, -1), name="A")  #: negative

    golden(
        call,
        """
TensorExpressionError TW0110: extent 1 of A is negative
  got -1
  called at @negative@
  allowed: integers from 0 on, and integer expressions over te.var and te.size_var
  fix: if the size is not known yet, declare it: n = te.size_var("n")
""",
    )


def test_a_float_extent():
    def call():
        te.compute((5 / 2,), lambda i: i, name="C")  #: float extent

    golden(
        call,
        """
TensorExpressionError TW0110: extent 0 of C is not an integer
  got 2.5, a float
  called at @float extent@
  allowed: ints, numpy integers, and integer expressions over te.var and te.size_var
  fix: use // instead of / to compute sizes, or int(...)
""",
    )


@pytest.mark.parametrize("extent", [True, np.float32(2), "n", None, np.bool_(True), 2**70])
def test_other_bad_extents(extent):
    with pytest.raises(te_errors.BadExtent, match=r"extent 0 of A (is not an integer|does not fit int64)"):
        te.placeholder((extent,), name="A")


def test_an_extent_that_depends_on_elements():
    P = te.placeholder((4,), "int32", name="P")
    with pytest.raises(te_errors.BadExtent, match=r"extent 0 of A depends on tensor P\n  got P\[3\]"):
        te.placeholder((P[3],), name="A")
    i = te.compute((4,), lambda i: i).op.axis[0]
    with pytest.raises(te_errors.BadExtent, match=r"extent 0 of A depends on axis i"):
        te.placeholder((i,), name="A")


def test_a_function_with_too_few_parameters():
    def call():
        te.compute((4, 5), lambda i: i, name="C")  #: parameters

    golden(
        call,
        """
TensorExpressionError TW0111: the function of C takes 1 index, but its shape has 2 dimensions
  parameters (i), shape (4, 5)
  called at @parameters@
  fix: lambda i, j: ..., or lambda *indices: ...
""",
    )


@pytest.mark.parametrize("function", [lambda i, j, k: 0, lambda: 0, lambda i=0: 0, lambda i, *, k: 0])
def test_other_wrong_parameters(function):
    with pytest.raises(te_errors.WrongParameters, match=r"the function of C takes . ind"):
        te.compute((4,), function, name="C")


def test_no_function_at_all():
    with pytest.raises(te_errors.WrongParameters, match=r"C has no function to compute its elements\n  got 5"):
        te.compute((4,), 5, name="C")


def test_too_many_indices():
    A = te.placeholder((4, 5), name="A")  #: too many A

    def call():
        te.compute((4,), lambda i: A[i, i, i], name="C")  #: too many

    golden(
        call,
        """
TensorExpressionError TW0112: tensor A has 2 dimensions and was read with 3 indices
  A: float32[4, 5]   (@@too many A@@)
  called at @too many@
  fix: give one index for each dimension: A[i, j]
""",
    )


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + 1,
        lambda x: 1 + x,
        te.exp,
        lambda x: -x,
        lambda x: te.sum(x, te.reduce_axis((0, 4))),
        lambda x: te.select(True, x, 0),
        lambda x: x < 3,
        lambda x: x.astype("int32"),
        lambda x: x.equal(0),
        lambda x: te.compute((1,), lambda i: x),
    ],
)
def test_too_few_indices_however_the_element_is_used(use):
    A = te.placeholder((4, 5), name="A")
    with pytest.raises(te_errors.WrongNumberOfIndices, match=r"tensor A has 2 dimensions and was read with 1 index\n"):
        use(A[1])


def test_a_comparison_for_identity_that_is_used_as_a_value():
    A, B = te.placeholder((4,), name="A"), te.placeholder((4, 5), name="B")
    with pytest.raises(te_errors.WrongNumberOfIndices, match="tensor B has 2 dimensions and was read with 1 index"):
        te.compute((4,), lambda i: te.if_then_else(B[i] == 0, 1, 0))
    with pytest.raises(te_errors.ForeignAxis, match=r"cannot equal a whole tensor and an expression over axis 'i'"):
        te.compute((4,), lambda i: te.if_then_else(A[i] == A, 1, 0))


def test_a_float_index():
    A = te.placeholder((4,), name="A")  #: float index A

    def call():
        te.compute((4,), lambda i: A[i * 0.5], name="C")  #: float index

    golden(
        call,
        """
TensorExpressionError TW0113: index 0 of A is not an integer
  got float32(i) * 0.5, a float32   (@@float index A@@)
  called at @float index@
  allowed: integer expressions, constants and numpy integers
  fix: convert it: index.astype("int32"), and use // instead of / between integers
""",
    )


@pytest.mark.parametrize("index", [slice(0, 2, 2), slice(0, 1.5), True, None, ..., "i", 1.5])
def test_other_bad_indices(index):
    A = te.placeholder((4,), name="A")
    with pytest.raises(te_errors.BadIndex, match="index 0 of A is not an integer"):
        _ = A[index]


def test_a_range_of_a_tensor_is_no_value():
    A = te.placeholder((4, 4), name="A")
    assert repr(A[0, 0:2]) == "TensorRegion(A[0, 0:2])"
    with pytest.raises(te_errors.BadIndex, match=r"got \.\.\. (.*\n)*.*write an index for each dimension"):
        _ = A[..., 0]
    for use in (
        lambda part: part + 1,
        lambda part: te.exp(part),
        lambda part: part[0],
        lambda part: part < 2,
        lambda part: te.compute((2,), lambda i: part),
    ):
        with pytest.raises(
            te_errors.BadIndex, match=r"(?s)index 1 of A is not an integer.*got A\[0:2\].*tensor intrinsic"
        ):
            use(A[0, 0:2])


def test_a_constant_index_out_of_range():
    A = te.placeholder((4, 5), name="A")  #: out of range A

    def call():
        return A[0, 5]  #: out of range

    golden(
        call,
        """
TensorExpressionError TW0114: index 1 of A is out of range
  got 5; dimension 1 of A: float32[4, 5] has indices from 0 to 5 - 1   (@@out of range A@@)
  called at @out of range@
  fix: read within the shape (4, 5)
""",
    )


def test_a_negative_index():
    A = te.placeholder((4,), name="A")
    with pytest.raises(
        te_errors.IndexOutOfRange, match=r"fix: write the position itself, A\.shape\[0\] - 1: nothing counts"
    ):
        _ = A[-1]


def test_a_read_that_leaves_the_tensor():
    A = te.placeholder((8,), name="A")  #: leaves A

    D = te.compute((8,), lambda i: A[i - 1] + A[i], name="D")  #: leaves

    def call():
        tw.lower(te.create_schedule(D.op), [A, D])

    golden(
        call,
        """
TensorExpressionError TW0114: D reads outside A
  index 0, `i - 1`, runs from -1 to 6; dimension 0 of A: float32[8] has the indices 0 to 8 - 1   (@@leaves A@@)
  called at @leaves@
  fix: choose what lies outside: te.if_then_else(te.all(index >= 0, index < extent), A[...], 0), or compute fewer elements
""",
    )


def test_a_matmul_whose_depths_differ():
    A, B = te.placeholder((4, 6), name="A"), te.placeholder((5, 4), name="B")
    k = te.reduce_axis((0, 6), "k")
    C = te.compute((4, 4), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    with pytest.raises(
        te_errors.IndexOutOfRange, match=r"C reads outside B\n  index 0, `k`, runs from 0 to 5; dimension 0 of B"
    ):
        tw.lower(te.create_schedule(C.op), [A, B, C])


def test_reads_that_stay_inside_are_left_alone():
    A, n = te.placeholder((8,), name="A"), te.var("n")
    k = te.reduce_axis((0, 9), "k")
    made = [
        te.compute((8,), lambda i: te.if_then_else(i > 0, A[i - 1], 0)),
        te.compute((8,), lambda i: te.select(i > 0, A[i - 1], 0)),
        te.compute((8,), lambda i: A[(i + 5) % 8] + A[i - i // 2 * 2] + A[i - i]),
        te.compute((8,), lambda i: te.sum(A[k], axis=k, where=k < 8)),
        te.compute((0,), lambda i: A[i + 3]),
        te.compute((4,), lambda i: A[i * 2 + 1] + A[(i * 5 + 13) // 4]),
    ]

    def lower(i):
        j = te.reduce_axis((0, i), "j")
        return te.sum(A[i - 1] + j, axis=j)

    for tensor in (*made, te.compute((9,), lower)):
        assert "assert" not in str(tw.lower(te.create_schedule(tensor.op), [A, tensor]))
    open_ended = te.compute((n,), lambda i: A[i + 3])
    assert "assert" in str(tw.lower(te.create_schedule(open_ended.op), [A, open_ended]))


def test_a_body_that_is_missing():
    A = te.placeholder((4,), name="A")

    def body(i):
        A[i] + 1

    def call():
        te.compute((4,), body, name="C")  #: body

    golden(
        call,
        """
TensorExpressionError TW0115: the function of C returned no expression
  got None   (@@body@@)
  called at @body@
  allowed: an expression, a number, a reduction, or a tuple of these
  fix: return the element: does the function lack a `return`?
""",
    )


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("text", "no expression"),
        (np.ones(3), "no expression"),
        ((), "an empty tuple"),
        ({}, "no expression"),
        ((1, None), "no expression"),
    ],
)
def test_other_bad_bodies(value, what):
    with pytest.raises(te_errors.BadBody, match=f"the function of C returned {what}"):
        te.compute((4,), lambda i: value, name="C")


def test_a_whole_tensor_as_body():
    A = te.placeholder((4, 4), name="A")
    with pytest.raises(te_errors.BadBody, match=r"returned a whole tensor\n.*\n.*\n  fix: index it: A\[i, j\]"):
        te.compute((4,), lambda i: A, name="C")


def test_a_nested_reduction():
    A = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), "k")

    def call():
        te.compute((4,), lambda i: te.sum(A[i, k], axis=k) / 8, name="mean")  #: nested

    golden(
        call,
        """
TensorExpressionError TW0116: the body of mean has a sum over k inside a larger expression
  a reduction is a loop that updates its element, so it must be the whole body of a compute
  called at @nested@
  fix: reduce in a stage of its own, then use its elements:
    S = te.compute(shape, lambda i: te.sum(..., axis=k))
    mean = te.compute(shape, lambda i: ... S[i] ...)
""",
    )
    j = te.reduce_axis((0, 4), "j")
    with pytest.raises(te_errors.NestedReduction, match="a max over k inside"):
        te.compute((), lambda: te.sum(te.max(A[j, k], axis=k), axis=j))


def test_reductions_over_different_axes():
    A = te.placeholder((4, 8), name="A")
    k, j = te.reduce_axis((0, 8), "k"), te.reduce_axis((0, 8), "j")

    def call():
        te.compute((4,), lambda i: (te.sum(A[i, k], axis=k), te.max(A[i, j], axis=j)), name="C")  #: different

    golden(
        call,
        """
TensorExpressionError TW0117: C returns reductions over different axes
  one runs over (k), another over (j); one loop nest computes both
  called at @different@
  fix: reduce over the same axis objects in the same order, or make two computes
""",
    )
    with pytest.raises(te_errors.MixedReductions, match="C returns a reduction beside a plain value"):
        te.compute((4,), lambda i: (te.sum(A[i, k], axis=k), A[i, 0]), name="C")


def test_a_reduction_over_a_data_axis():
    A = te.placeholder((4,), name="A")

    def call():
        te.compute((4,), lambda i: te.sum(A[i], axis=i), name="C")  #: data axis

    golden(
        call,
        """
TensorExpressionError TW0118: sum cannot reduce over the data axis 'i'
  only axes that te.reduce_axis made can be reduced over
  called at @data axis@
  fix: k = te.reduce_axis((0, n), "k"), and use k as the index that runs
""",
    )


@pytest.mark.parametrize("axis", [1, [], None, te.var("n"), "k"])
def test_other_axes_that_are_none(axis):
    with pytest.raises(te_errors.NotAReduceAxis, match=r"sum (cannot reduce over|has no axis)"):
        te.sum(te.const(1), axis=axis)


def test_an_axis_twice():
    k = te.reduce_axis((0, 8), "k")
    with pytest.raises(te_errors.NotAReduceAxis, match="sum lists the axis 'k' twice"):
        te.sum(k, axis=[k, k])


def test_a_reduce_axis_that_nothing_reduces():
    A = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), "k")

    def call():
        te.compute((4,), lambda i: A[i, k], name="C")  #: unreduced

    golden(
        call,
        """
TensorExpressionError TW0119: the body of C uses the reduce axis 'k' outside a reduction over it
  'k' takes many values for one element of C
  called at @unreduced@
  fix: reduce over it: te.sum(..., axis=k), or axis=[..., k] beside others
""",
    )
    j = te.reduce_axis((0, k), "j")
    with pytest.raises(te_errors.UnreducedAxis, match="uses the reduce axis 'k' outside"):
        te.compute((4,), lambda i: te.sum(A[i, j], axis=j))


def test_an_axis_of_another_compute():
    A = te.placeholder((4,), name="A")
    x = te.compute((4,), lambda x: A[x], name="B").op.axis[0]

    def call():
        te.compute((4,), lambda i: A[x], name="C")  #: foreign

    golden(
        call,
        """
TensorExpressionError TW0120: the body of C uses the axis 'x', which is not one of its own
  'x' belongs to another compute and has no value here
  called at @foreign@
  allowed: i
  fix: use the parameters of this compute's function as indices
""",
    )


def test_a_whole_tensor_beside_an_element():
    A, B = te.placeholder((4,), name="A"), te.placeholder((4,), name="B")
    with pytest.raises(te_errors.ForeignAxis, match=r"cannot add a whole tensor and an expression over axis 'i'\n"):
        te.compute((4,), lambda i: A[i] + B)


def test_reducers_that_do_not_fit():
    k = te.reduce_axis((0, 8), "k")
    cases = [
        (lambda: te.comm_reducer(lambda x: x, lambda t: 0, "one"), "the combiner of one does not take two values"),
        (
            lambda: te.comm_reducer(lambda x, y: x, lambda a, b: 0, "few")((k, k), axis=k),
            "the combiner of few gives 2|the identity of few gives 1",
        ),
        (
            lambda: te.comm_reducer(lambda x, y: x * 0.5, lambda t: 0, "half")(k, axis=k),
            "the combiner of half is float32, but the reduced value is int32",
        ),
        (lambda: te.sum(k, axis=k, init=0.5), "the init= of sum is float32, but the reduced value is int32"),
        (lambda: te.sum(k, axis=k, init=(0, 1)), "init= of sum has 2 elements for 1 values"),
        (
            lambda: te.compute((), lambda: te.sum(k, axis=k, init=k)),
            "the init of compute depends on the reduce axis 'k'",
        ),
    ]
    for call, message in cases:
        with pytest.raises(te_errors.BadReducer, match=message):
            call()


def test_bad_domains_of_reduce_axes():
    for dom, message in [
        (8, r"is not a pair \(begin, end\)"),
        ((0, 8, 2), "is not a pair"),
        ((4, 2), "negative extent"),
        ((0, 2.5), "not an integer"),
    ]:
        with pytest.raises(te_errors.BadExtent, match=message):
            te.reduce_axis(dom, "k")


def test_an_unknown_thread_tag():
    def call():
        te.thread_axis("threadIdx.w")  #: thread

    golden(
        call,
        """
TensorExpressionError TW0123: unknown thread tag 'threadIdx.w'
  called at @thread@
  allowed: blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, vthread, vthread.x, vthread.y, vthread.z, cthread
  fix: te.thread_axis("threadIdx.x") or te.thread_axis((0, 32), "threadIdx.x")
""",
    )
    with pytest.raises(te_errors.BadThreadAxis, match="a thread axis needs a tag"):
        te.thread_axis((0, 32))


def test_the_truth_of_a_comparison_of_tensors():
    A, B = te.placeholder((4,), name="A"), te.placeholder((4,), name="B")

    def call():
        less = A < B  #: truth A
        return bool(less)  #: truth

    golden(
        call,
        """
TensorExpressionError TW0124: the truth of a comparison `<` of whole tensors is not known while the program is being built
  it is a tensor of bools, one for each element   (@@truth A@@)
  called at @truth@
  fix: choose by element: te.compute(shape, lambda *i: te.if_then_else(A[i] < B[i], a, b))
""",
    )


def test_the_truth_of_a_comparison_of_elements():
    A = te.placeholder((4,), name="A")
    for use in (lambda i: A[i] if i > 2 else 0, lambda i: i > 1 and A[i], lambda i: 0 < i < 3, lambda i: not i > 0):
        with pytest.raises(TensorExpressionError, match=r"TW0102[\s\S]*te.if_then_else[\s\S]*te.select"):
            te.compute((4,), use)


def test_iterating_over_a_tensor():
    A = te.placeholder((4,), name="A")
    with pytest.raises(te_errors.TensorIsNotIterable, match="tensor A cannot be iterated over"):
        list(A)


def test_bits_of_another_width():
    with pytest.raises(te_errors.BadReinterpret, match="cannot read the bits of float32 as int64"):
        te.reinterpret("int64", te.var("x", "float32"))


def test_division_asks_which():
    i = te.var("i")
    with pytest.raises(TensorExpressionError, match=r"TW0103[\s\S]*//[\s\S]*truncdiv"):
        _ = i / 2
    with pytest.raises(TensorExpressionError, match=r"TW0103[\s\S]*//[\s\S]*truncdiv"):
        _ = te.placeholder((3,), "int32") / 2


def test_literals_that_do_not_fit():
    x = te.var("x", "int8")
    with pytest.raises(TensorExpressionError, match=r"TW0105[\s\S]*int8 holds -128 to 127[\s\S]*astype\(\"int16\"\)"):
        _ = x + 300
    with pytest.raises(TensorExpressionError, match=r"TW0105: the number inf does not fit int32"):
        te.const(float("inf"), "int32")


@pytest.mark.parametrize("dtype", ["float", "float33", "float32x4", "handle"])
def test_dtypes_of_elements(dtype):
    if dtype == "float":
        assert te.placeholder((1,), dtype).dtype == "float32"
        return
    with pytest.raises(TensorExpressionError, match="TW0101"):
        te.placeholder((1,), dtype)


def test_every_code_of_te_is_raised_by_some_test():
    tests = Path(__file__).parents[1]
    text = "\n".join(
        path.read_text() for folder in ("te", "schedule/tensorize") for path in (tests / folder).rglob("test_*.py")
    )
    for error in vars(te_errors).values():
        if (
            isinstance(error, type)
            and getattr(error, "code", "").startswith("TW01")
            and error is not TensorExpressionError
        ):
            assert error.code in text or error.__name__ in text, f"{error.__name__} {error.code} has no test"

"""Every check of a call, fast path and Python path alike, each with the words of its error."""

from __future__ import annotations

import array as stdarray
import gc

import handwritten_kernels
import ml_dtypes
import numpy as np
import pytest
import tilewright  # noqa: F401
from handwritten_kernels import BufferParam, ScalarParam, Signature, Symbol, buffers
from tilewright.base.errors import CallError
from tilewright.runtime import abi, errors
from tilewright.runtime.array import Array, array, empty
from tilewright.runtime.diagnose import decode_status

F32 = np.float32


@pytest.fixture(scope="module")
def add():
    return handwritten_kernels.vector_add()


@pytest.fixture(scope="module")
def add2():
    """C = A + B over float32[4, 5]."""
    return handwritten_kernels.build(
        Signature("add2", buffers("A:float32[4,5] B:float32[4,5] out C:float32[4,5]")),
        handwritten_kernels.elementwise("20", symbols=0),
    )


def make(shape=(16,), dtype=F32):
    rng = np.random.default_rng(1)
    return rng.integers(0, 100, shape).astype(dtype)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: x,
        lambda x: x.view(Array),
        memoryview,
        lambda x: x.view(np.recarray),
        lambda x: stdarray.array("f", x),
    ],
    ids=["numpy", "tw.Array", "memoryview", "subclass", "array.array"],
)
def test_inputs_of_every_kind_are_read_in_place(add, wrap):
    a, b, c = make(), make(), np.zeros(16, F32)
    assert add(wrap(a), wrap(b), c) is None
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize(
    "name",
    [
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float8_e4m3fn",
        "float8_e5m2",
        "float16",
        "bfloat16",
        "float32",
        "float64",
    ],
)
def test_each_dtype_is_taken_on_the_fast_path_and_no_other(name, monkeypatch):
    """Monkeypatching the Python path away shows that right calls never get there."""
    kernel = handwritten_kernels.build(
        Signature("one", (BufferParam("A", name, (3,)), BufferParam("B", name, (3,), True))),
        "define i32 KERNEL(ptr %a, ptr %b) {\n ret i32 0\n}",
    )
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    other = np.dtype("int32" if name == "float32" else "float32")
    with pytest.raises(errors.WrongDType, match=f"'B' .*has dtype {other}; {name} is expected"):
        kernel(np.zeros(3, dtype), np.zeros(3, other))
    monkeypatch.setattr("tilewright.runtime.kernel._Entry.__call__", None)
    assert kernel(np.zeros(3, dtype), np.zeros(3, dtype)) is None
    if name in ("int64", "uint64"):
        long_long = np.dtype("longlong" if name == "int64" else "ulonglong")
        assert kernel(np.zeros(3, long_long), np.zeros(3, long_long)) is None


def test_the_wrong_count_is_told(add):
    a = make()
    with pytest.raises(errors.WrongArgumentCount, match=r"vadd takes 3 arguments, 2 were given\n  no value for 'C'"):
        add(a, a)
    with pytest.raises(errors.WrongArgumentCount, match="4 were given\n  1 too many"):
        add(a, a, a, a)


def test_arguments_may_be_named(add):
    a, b, c = make(), make(), np.zeros(16, F32)
    add(a, C=c, B=b)
    np.testing.assert_array_equal(c, a + b)
    with pytest.raises(errors.WrongKeyword, match="vadd has no parameter 'D'"):
        add(a, b, D=c)
    with pytest.raises(errors.WrongKeyword, match="gets a second value for 'A'"):
        add(a, b, A=c)
    with pytest.raises(errors.WrongArgumentCount, match="no value for 'B'"):
        add(a, C=c)


@pytest.mark.parametrize(
    ("fault", "kind", "match"),
    [
        (lambda x: None, errors.NotATensor, "'B' .argument 2 of add2. is None"),
        (lambda x: x.tolist(), errors.NotATensor, r"a list, not a tensor(.|\n)*tw.array"),
        (lambda x: "text", errors.NotATensor, "is a str, not a tensor"),
        (lambda x: 3.0, errors.NotATensor, r"is a float, not a tensor(.|\n)*rank 0"),
        (lambda x: np.ma.masked_array(x), errors.NotATensor, r"MaskedArray(.|\n)*knows? no masks"),
        (lambda x: x.astype(object), errors.WrongDType, "has dtype object; float32 is expected"),
        (lambda x: x.astype(np.complex64), errors.WrongDType, r'complex64(.|\n)*None\]\.view\("float32"\)'),
        (
            lambda x: x.astype(np.float64),
            errors.WrongDType,
            r'float64; float32 is expected(.|\n)*x.astype\("float32"\)',
        ),
        (lambda x: x.view([("x", F32)]), errors.WrongDType, "has dtype void32; float32 is expected"),
        (lambda x: x.astype(">f4"), errors.WrongByteOrder, "holds float32 in big-endian"),
        (lambda x: x.reshape(20), errors.WrongRank, r"has 1 \(shape \(20,\)\) dimensions; 2 are expected"),
        (lambda x: x.reshape(5, 4), errors.WrongShape, r"has 5 \(shape \(5, 4\)\) in dimension 0; 4 is expected"),
        (lambda x: np.zeros((4, 6), F32), errors.WrongShape, "has 6 .* in dimension 1; 5 is expected"),
        (lambda x: np.asfortranarray(x), errors.WrongStride, r"strides \(4, 16\) in bytes; \(20, 4\) is expected"),
        (lambda x: x[:, ::-1], errors.WrongStride, r"strides \(20, -4\)"),
        (lambda x: np.broadcast_to(x[:1], (4, 5)), errors.WrongStride, r"strides \(0, 4\)"),
        (
            lambda x: np.frombuffer(bytes(81), np.uint8)[1:].view(F32).reshape(4, 5),
            errors.Misaligned,
            "not a multiple of the element's 4 bytes",
        ),
    ],
)
def test_a_wrong_input_is_named(add2, fault, kind, match):
    x, c = make((4, 5)), np.zeros((4, 5), F32)
    with pytest.raises(kind, match=match) as caught:
        add2(x, fault(x), c)
    assert "'B' (argument 2 of add2)" in str(caught.value)
    assert "called at test_call_checks.py" in str(caught.value)


def test_a_read_only_output_is_refused_and_a_read_only_input_taken(add2):
    x, c = make((4, 5)), np.zeros((4, 5), F32)
    x.flags.writeable = False
    add2(x, x, c)
    np.testing.assert_array_equal(c, x + x)
    c.flags.writeable = False
    with pytest.raises(errors.ReadOnlyOutput, match=r"'C' .* is read-only"):
        add2(x, x, c)


def test_an_output_shares_memory_with_nothing(add):
    memory = np.zeros(40, F32)
    a, b, c = memory[:16], memory[16:32], memory[15:31]
    with pytest.raises(errors.OverlappingOutput, match=r"'C' .* shares memory with 'A' "):
        add(a, b, c)
    with pytest.raises(errors.OverlappingOutput, match=r"'C' .* shares memory with 'B' "):
        add(np.zeros(16, F32), b, c)
    add(a, a, b)  # neighbours share nothing, and inputs may be the same
    add(memory[:0], memory[:0], memory[:0])  # nor do empty tensors


def test_released_memory_is_refused(add):
    a, c = make(), np.zeros(16, F32)
    view = memoryview(a)
    view.release()
    with pytest.raises(errors.UnreadableTensor, match=r"'A' .*memoryview(.|\n)*buffer is gone"):
        add(view, a, c)


def test_symbols_bind_where_they_first_occur():
    kernel = handwritten_kernels.build(
        Signature(
            "f",
            (
                BufferParam("A", "float32", (("+", ("*", "n", 2), 1), "m")),
                BufferParam("B", "float32", ("m",)),
                BufferParam("C", "float32", ("n", ("//", "m", "n"), ("min", "n", "m")), True),
            ),
            (Symbol("n"), Symbol("m")),
        ),
        "define i32 KERNEL(ptr %a, ptr %b, ptr %c, i64 %n, i64 %m) {\n"
        " %f = sitofp i64 %n to float\n %g = sitofp i64 %m to float\n store float %f, ptr %b\n store float %g, ptr %c\n"
        " ret i32 0\n}",
    )
    a, b, c = np.zeros((7, 8), F32), np.zeros(8, F32), np.zeros((3, 2, 3), F32)
    kernel(a, b, c)
    assert (b[0], c[0, 0, 0]) == (3, 8)
    with pytest.raises(
        errors.SymbolDisagrees,
        match=r"'A' .* in dimension 0; \(n \* 2\) \+ 1 = 7 is expected\n"
        r"  'n' is 3, from dimension 0 of 'C'",
    ):
        kernel(np.zeros((6, 8), F32), b, c)
    with pytest.raises(errors.SymbolDisagrees, match="dimension 1; m // n = 2 is expected"):
        kernel(a, b, np.zeros((3, 3, 3), F32))
    with pytest.raises(errors.SymbolDisagrees, match=r"'B' .*has 9 \(shape \(9,\)\) in dimension 0; m = 8 is expected"):
        kernel(a, np.zeros(9, F32), c)
    with pytest.raises(errors.SymbolDisagrees, match=r"m // n = 0 is expected"):
        kernel(np.zeros((1, 8), F32), b, np.zeros((0, 4, 0), F32))


def test_a_symbol_is_solved_from_an_expression():
    signature = Signature("g", (BufferParam("A", "int8", (("-", ("*", 3, "n"), 2),)),), (Symbol("n", "int64"),))
    kernel = handwritten_kernels.build(
        signature, "define i32 KERNEL(ptr %a, i64 %n) {\n %b = trunc i64 %n to i8\n store i8 %b, ptr %a\n ret i32 0\n}"
    )
    a = np.zeros(10, np.int8)
    kernel(a)
    assert a[0] == 4
    with pytest.raises(errors.SymbolDisagrees, match=r"\(3 \* n\) - 2 = 10 is expected"):
        kernel(np.zeros(11, np.int8))
    with pytest.raises(errors.SymbolNotBound, match="'n' of 'h' gets no value"):
        Signature("h", (BufferParam("A", "int8", (("//", "n", 2),)),), (Symbol("n"),))


def test_extents_beyond_an_int32_symbol_are_refused():
    kernel = handwritten_kernels.build(
        Signature("big", (BufferParam("A", "int8", ("n",)),), (Symbol("n"),)),
        "define i32 KERNEL(ptr %a, i64 %n) {\n ret i32 0\n}",
    )
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), (1 << 30,), (1,), writeable=False)
    with pytest.raises(errors.ExtentTooLarge, match=r"(?s)1073741824 in dimension 0.*int64"):
        kernel(huge)
    kernel(huge[:-1])


def test_strides_of_unit_and_empty_dimensions_are_free():
    kernel = handwritten_kernels.build(
        Signature("unit", (BufferParam("A", "float32", ("n", 1, 4)),), (Symbol("n"),)),
        "define i32 KERNEL(ptr %a, i64 %n) {\n ret i32 0\n}",
    )
    x = np.zeros((3, 8, 4), F32)
    kernel(np.lib.stride_tricks.as_strided(x, (1, 1, 4), (1000, -64, 4)))
    kernel(np.lib.stride_tricks.as_strided(x, (0, 1, 4), (3, 5, 7)))
    with pytest.raises(errors.WrongStride, match="dimension 0 has another stride"):
        kernel(x[:, :1])


def test_scalars_are_passed_by_value_and_range_checked():
    params = (
        ScalarParam("i", "int8"),
        ScalarParam("u", "uint64"),
        ScalarParam("x", "float32"),
        ScalarParam("h", "float16"),
        ScalarParam("t", "bool"),
        ScalarParam("n", "int32", 0, (1 << 30) - 1),
        BufferParam("O", "float64", (6,), True),
    )
    kernel = handwritten_kernels.build(
        Signature("s", params),
        """
define i32 KERNEL(i8 %i, i64 %u, float %x, half %h, i1 %t, i32 %n, ptr %o) {
  %a = sitofp i8 %i to double
  %b = uitofp i64 %u to double
  %c = fpext float %x to double
  %hb = bitcast half %h to i16
  %d = uitofp i16 %hb to double
  %e = uitofp i1 %t to double
  %f = sitofp i32 %n to double
  %p1 = getelementptr double, ptr %o, i64 1
  %p2 = getelementptr double, ptr %o, i64 2
  %p3 = getelementptr double, ptr %o, i64 3
  %p4 = getelementptr double, ptr %o, i64 4
  %p5 = getelementptr double, ptr %o, i64 5
  store double %a, ptr %o
  store double %b, ptr %p1
  store double %c, ptr %p2
  store double %d, ptr %p3
  store double %e, ptr %p4
  store double %f, ptr %p5
  ret i32 0
}""",
    )
    o = np.zeros(6)
    kernel(-128, 2**64 - 1, 0.1, 0.1, True, 7, o)
    assert o.tolist() == [-128, float(2**64 - 1), float(F32(0.1)), float(np.float16(0.1).view(np.uint16)), 1, 7]
    kernel(np.int64(5), np.array(6), np.float64(2), 1, np.bool_(False), np.uint8(3), o)
    assert o.tolist() == [5, 6, 2, float(np.float16(1).view(np.uint16)), 0, 3]
    good = [1, 1, 1.0, 1.0, False, 1, o]
    for place, value, kind, match in [
        (0, 128, errors.ScalarOutOfRange, "'i' .* is 128; it must lie in -128 to 127"),
        (0, 10**30, errors.ScalarOutOfRange, "-128 to 127"),
        (0, 1.5, errors.WrongScalar, "'i' .* is a float, not a number that int8 takes"),
        (0, np.zeros(2), errors.WrongScalar, "a ndarray|an ndarray"),
        (1, -1, errors.ScalarOutOfRange, "is -1; it must lie in 0 to 18446744073709551615"),
        (2, "1", errors.WrongScalar, "'x' .* is a str"),
        (2, None, errors.WrongScalar, "is None"),
        (2, 10**400, errors.ScalarOutOfRange, "'x'"),
        (4, 1, errors.WrongScalar, "'t' .* is an int, not a number that bool takes"),
        (5, -1, errors.ScalarOutOfRange, "'n' .* is -1; it must lie in 0 to 1073741823"),
        (5, 1 << 30, errors.ScalarOutOfRange, "0 to 1073741823"),
    ]:
        with pytest.raises(kind, match=match):
            kernel(*good[:place], value, *good[place + 1 :])


def test_a_scalar_may_be_an_extent():
    kernel = handwritten_kernels.build(
        Signature("k", (BufferParam("A", "int8", ("n",)), ScalarParam("n", "int32", 0, 100))),
        "define i32 KERNEL(ptr %a, i32 %n) {\n ret i32 0\n}",
    )
    kernel(np.zeros(5, np.int8), 5)
    with pytest.raises(errors.SymbolDisagrees, match=r"(?s)has 5 .* n = 6 is expected.*'n' is 6, from argument 2"):
        kernel(np.zeros(5, np.int8), 6)


def test_a_kernel_that_fails_raises():
    kernel = handwritten_kernels.build(
        Signature("fails", (ScalarParam("status", "int32"),)),
        "define i32 KERNEL(i32 %s) {\n ret i32 %s\n}",
        ("index i is out of range",),
    )
    kernel(0)
    with pytest.raises(errors.KernelAssertion, match="fails stopped: index i is out of range"):
        kernel(1)
    with pytest.raises(errors.KernelOutOfMemory, match="could not get memory"):
        kernel(-1)
    with pytest.raises(MemoryError, match="could not get memory"):
        kernel(np.int64(-1))


def test_the_python_path_and_the_fast_path_agree_on_every_status(add2):
    """A status alone, as an exported library reports it, makes an error of the same class."""
    signature = add2.signature
    for check, kind in [
        (abi.Check.DTYPE, errors.WrongDType),
        (abi.Check.RANK, errors.WrongRank),
        (abi.Check.DEVICE, errors.WrongDevice),
        (abi.Check.READ_ONLY, errors.ReadOnlyOutput),
        (abi.Check.SHAPE, errors.WrongShape),
        (abi.Check.STRIDE, errors.WrongStride),
        (abi.Check.ALIGNMENT, errors.Misaligned),
        (abi.Check.OVERLAP, errors.OverlappingOutput),
    ]:
        status = abi.pack_status(check, 2, 1)
        assert abi.unpack_status(status) == (check, 2, 1)
        assert -(1 << 31) <= status < -1
        error = decode_status(signature, status)
        assert type(error) is kind
        assert "'C' (argument 3 of add2)" in str(error)
        assert error.fix


def test_a_signature_survives_json():
    import json

    signature = Signature(
        "f",
        (BufferParam("A", "float32", (("+", ("*", "n", 2), 1), 4), True), ScalarParam("k", "uint8", 1, 9)),
        (Symbol("n", "int64"),),
        True,
    )
    assert Signature.from_json(json.loads(json.dumps(signature.plain_json()))) == signature


def test_dropping_a_kernel_frees_its_code():
    class Code:
        freed = False

        def __del__(self):
            Code.freed = True

    kernel = handwritten_kernels.vector_add("dropped")
    kernel._entry.code = (Code(), kernel._entry.code)
    call = kernel.__call__
    a, c = make(), np.zeros(16, F32)
    gc.disable()
    try:
        del kernel
        assert not Code.freed  # a call could still be under way
        call(a, a, c)
        del call
        assert Code.freed
    finally:
        gc.enable()


def test_call_errors_are_type_and_value_errors(add):
    for kind in (CallError, TypeError, ValueError):
        with pytest.raises(kind, match="vadd takes 3 arguments"):
            add()


def test_an_array_of_ours_and_numpys_cost_alike(add):
    a, c = array(make()), empty(16)
    add(a, a, c)
    np.testing.assert_array_equal(np.asarray(c), np.asarray(a) * 2)

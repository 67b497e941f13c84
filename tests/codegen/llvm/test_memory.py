"""Loads and stores: strides, masks, gathers, bool, alignment, where intermediates live."""

from __future__ import annotations

import ctypes
import mmap
import re

import numpy as np
import pytest
import tilewright as tw
from llvm_run import buffer, build, call, int32, run, serial
from tilewright import te
from tilewright.ir import ops
from tilewright.ir.buffer import Buffer
from tilewright.ir.dtype import DType
from tilewright.ir.expr import LT, Broadcast, BufferLoad, Expr, IfThenElse, Ramp, Select, Shuffle, SizeVar, Var
from tilewright.ir.stmt import Allocate, BufferStore, Function, Seq

DTYPES = ("bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64")


def copy(
    source: Expr, target: Expr, sizes: tuple[int, int], dtype: str, predicate: Expr | None = None, *, both: bool = False
) -> Function:
    """out[target] = in[source]."""
    a, out = buffer("a", sizes[0], dtype), buffer("out", sizes[1], dtype)
    value = BufferLoad(a, (source,), predicate)
    return Function("f", (a, out), BufferStore(out, value, (target,), predicate if both else None), (out,))


def values(size: int, dtype: str) -> np.ndarray:
    numbers = np.arange(1, size + 1)
    return (numbers % 3 == 1) if dtype == "bool" else numbers.astype(dtype)


def at_end_of_a_page(array: np.ndarray) -> np.ndarray:
    """A copy that ends where readable memory ends, so that reading past it is a fault."""
    size = mmap.PAGESIZE
    assert array.nbytes <= size
    pages = mmap.mmap(-1, 2 * size)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address + size), ctypes.c_size_t(size), 0) == 0
    view = np.frombuffer(pages, array.dtype, array.size, size - array.nbytes)
    view[:] = array
    return view


@pytest.mark.parametrize("stride", [-5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("lanes", [2, 5, 16])
def test_strided_loads_read_nothing_outside(stride: int, lanes: int) -> None:
    for dtype in DTYPES:
        span = (lanes - 1) * abs(stride) + 1
        first = span - 1 if stride < 0 else 0
        source = at_end_of_a_page(values(span, dtype))
        out = np.zeros(lanes, dtype)
        index = Ramp(int32(first), int32(stride), lanes)
        assert run(copy(index, Ramp(int32(0), int32(1), lanes), (span, lanes), dtype), source, out) == 0
        np.testing.assert_array_equal(out, source[[first + stride * i for i in range(lanes)]], err_msg=dtype)


@pytest.mark.parametrize("stride", [-3, -1, 1, 2, 5])
def test_strided_stores_leave_the_rest_alone(stride: int) -> None:
    for dtype in DTYPES:
        lanes, span = 8, 7 * abs(stride) + 1
        first = span - 1 if stride < 0 else 0
        source, out = values(lanes, dtype), values(span, dtype)[::-1].copy()
        expected = out.copy()
        expected[[first + stride * i for i in range(lanes)]] = source
        index = Ramp(int32(first), int32(stride), lanes)
        assert run(copy(Ramp(int32(0), int32(1), lanes), index, (lanes, span), dtype), source, out) == 0
        np.testing.assert_array_equal(out, expected, err_msg=dtype)


@pytest.mark.parametrize("stride", [-1, 1, 2, 3])
@pytest.mark.parametrize("live", [0, 1, 7, 15, 16])
def test_masked_lanes_touch_no_memory(stride: int, live: int) -> None:
    """The lanes beyond `live` would be outside of the array, and of readable memory."""
    for dtype in DTYPES:
        count = max(live, 1)
        size = (count - 1) * abs(stride) + 1
        source = at_end_of_a_page(values(size, dtype))
        if stride < 0:
            source = source[::-1].copy()
        out = at_end_of_a_page(values(count, dtype)[::-1])
        before = out.copy()
        first = size - 1 if stride < 0 else 0
        mask = LT(Ramp(int32(0), int32(1), 16), Broadcast(int32(live), 16))
        function = copy(
            Ramp(int32(first), int32(stride), 16), Ramp(int32(0), int32(1), 16), (size, count), dtype, mask, both=True
        )
        assert run(function, source, out) == 0
        expected = before
        expected[:live] = source[[first + stride * i for i in range(live)]]
        np.testing.assert_array_equal(out, expected, err_msg=dtype)


def test_masked_loads_give_zero() -> None:
    source, out = values(16, "float32"), np.full(16, 9, "float32")
    mask = LT(Ramp(int32(0), int32(1), 16), Broadcast(int32(5), 16))
    index = Ramp(int32(0), int32(1), 16)
    assert run(copy(index, index, (16, 16), "float32", mask), source, out) == 0
    np.testing.assert_array_equal(out, np.where(np.arange(16) < 5, source, 0))


def test_scalar_predicates() -> None:
    i = Var("i")
    a, out = buffer("a", 5), buffer("out", 5)
    body = BufferStore(out, BufferLoad(a, (i,), LT(i, int32(5))), (i,), LT(i, int32(3)))
    source, got = at_end_of_a_page(values(5, "float32")), at_end_of_a_page(np.full(5, 7, "float32"))
    assert run(Function("f", (a, out), serial(i, 4000, body), (out,)), source, got) == 0
    np.testing.assert_array_equal(got, [1, 2, 3, 7, 7])


@pytest.mark.parametrize("index_dtype", ["int32", "int64", "uint8", "uint32"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gathers_and_scatters(dtype: str, index_dtype: str) -> None:
    table, where, out = buffer("table", 40, dtype), buffer("where", 16, index_dtype), buffer("out", 40, dtype)
    lanes = Ramp(int32(0), int32(1), 16)
    places = BufferLoad(where, (lanes,))
    gather = Function("f", (table, where, out), BufferStore(out, BufferLoad(table, (places,)), (lanes,)), (out,))
    scatter = Function("f", (table, where, out), BufferStore(out, BufferLoad(table, (lanes,)), (places,)), (out,))
    source, picks = values(40, dtype), np.random.default_rng(3).permutation(40)[:16].astype(index_dtype)
    got = np.zeros(40, dtype)
    assert run(gather, source, picks, got) == 0
    np.testing.assert_array_equal(got[:16], source[picks])
    got = np.zeros(40, dtype)
    assert run(scatter, source, picks, got) == 0
    expected = np.zeros(40, dtype)
    expected[picks] = source[:16]
    np.testing.assert_array_equal(got, expected)


def test_any_byte_but_zero_is_true() -> None:
    a, out = buffer("a", 16, "bool"), buffer("out", 16, "bool")
    lanes = Ramp(int32(0), int32(1), 16)
    source, got = np.arange(16, dtype="uint8"), np.full(16, 7, "uint8")
    assert run(Function("f", (a, out), BufferStore(out, BufferLoad(a, (lanes,)), (lanes,)), (out,)), source, got) == 0
    np.testing.assert_array_equal(got, [0] + [1] * 15)


@pytest.mark.parametrize("lanes", [1, 16])
def test_if_then_else_reads_the_chosen_side_alone(lanes: int) -> None:
    """out[i] = a[i] if i < 5 else b[i - 5], where each side ends at unreadable memory."""
    a, b, out = buffer("a", 5), buffer("b", 11), buffer("out", 16)
    i = Var("i")
    index = i if lanes == 1 else Ramp(i * 16, int32(1), 16)
    five = int32(5) if lanes == 1 else Broadcast(int32(5), 16)
    value = IfThenElse(LT(index, five), BufferLoad(a, (index,)), BufferLoad(b, (index - five,)))
    function = Function("f", (a, b, out), serial(i, 16 // lanes, BufferStore(out, value, (index,))), (out,))
    first, second, got = at_end_of_a_page(values(5, "float32")), values(11, "float32"), np.zeros(16, "float32")
    assert run(function, first, second, got) == 0
    np.testing.assert_array_equal(got, np.concatenate([first, second]))


def test_a_scalar_read_under_a_vector_condition_is_not_speculated() -> None:
    a, out = buffer("a", 1), buffer("out", 16)
    n = Var("n")
    lanes = Ramp(int32(0), int32(1), 16)
    mask = LT(lanes, Broadcast(n, 16))
    value = IfThenElse(mask, Broadcast(BufferLoad(a, (int32(5000),)), 16), Broadcast(ops.const(2.0, "float32"), 16))
    function = Function("f", (a, n, out), BufferStore(out, value, (lanes,)), (out,))
    got = np.zeros(16, "float32")
    assert run(function, at_end_of_a_page(values(1, "float32")), ctypes.c_int32(0), got) == 0
    np.testing.assert_array_equal(got, 2)


def test_select_shuffle_and_broadcast() -> None:
    a, out = buffer("a", 8), buffer("out", 8)
    lanes = Ramp(int32(0), int32(1), 8)
    low, high = (BufferLoad(a, (Ramp(int32(start), int32(1), 4),)) for start in (0, 4))
    zipped = Shuffle((low, high), (0, 4, 1, 5, 2, 6, 3, 7))
    one = Shuffle((zipped,), (3,))
    body = BufferStore(out, Select(LT(lanes, Broadcast(int32(6), 8)), zipped, Broadcast(one, 8)), (lanes,))
    source, got = values(8, "float32"), np.zeros(8, "float32")
    assert run(Function("f", (a, out), body, (out,)), source, got) == 0
    np.testing.assert_array_equal(got, [1, 5, 2, 6, 3, 7, 6, 6])


def test_shuffle_joins_vectors_and_scalars_of_any_lanes() -> None:
    a, out = buffer("a", 8), buffer("out", 6)
    parts = (
        BufferLoad(a, (Ramp(int32(0), int32(1), 3),)),
        BufferLoad(a, (int32(7),)),
        BufferLoad(a, (Ramp(int32(4), int32(1), 2),)),
    )
    body = BufferStore(out, Shuffle(parts, (5, 4, 3, 2, 1, 0)), (Ramp(int32(0), int32(1), 6),))
    source, got = values(8, "int32"), np.zeros(6, "int32")
    function = Function(
        "f",
        (a_int := buffer("a", 8, "int32"), out_int := buffer("out", 6, "int32")),
        _with(body, {a: a_int, out: out_int}),
        (out_int,),
    )
    assert run(function, source, got) == 0
    np.testing.assert_array_equal(got, [6, 5, 8, 3, 2, 1])


def _with(stmt: BufferStore, buffers: dict[Buffer, Buffer]) -> BufferStore:
    assert isinstance(stmt.value, Shuffle)
    vectors = tuple(BufferLoad(buffers[v.buffer], v.indices) for v in stmt.value.vectors if isinstance(v, BufferLoad))
    return BufferStore(buffers[stmt.buffer], Shuffle(vectors, stmt.value.indices), stmt.indices)


def doubled_through(size: Expr | int, count: Expr | int, parameters: tuple[Var, ...] = ()) -> Function:
    """out = 2 * a through an intermediate of `size` elements."""
    i, j = Var("i"), Var("j")
    a, out, temp = buffer("a", count), buffer("out", count), buffer("temp", size)
    fill = serial(i, count, BufferStore(temp, BufferLoad(a, (i,)) * 2.0, (i,)))
    drain = serial(j, count, BufferStore(out, BufferLoad(temp, (j,)), (j,)))
    return Function("f", (a, out, *parameters), Allocate(temp, Seq((fill, drain))), (out,))


def test_small_intermediates_are_on_the_stack_and_large_ones_on_the_heap() -> None:
    for size, heap in ((4096, False), (4097, True), (1 << 20, True)):
        compiled = build(doubled_through(size, 100))
        assert ("@aligned_alloc" in compiled.ir_text) == heap
        source, got = values(100, "float32"), np.zeros(100, "float32")
        assert call(compiled, "f", source, got) == 0
        np.testing.assert_array_equal(got, source * 2)


def test_the_stack_budget_is_the_functions_and_not_each_buffers() -> None:
    inner = doubled_through(3000, 10)
    more = buffer("more", 3000)
    body = Allocate(more, Seq((BufferStore(more, ops.const(1.0, "float32"), (int32(0),)), inner.body)))
    assert build(Function("f", inner.params, body, inner.outputs)).ir_text.count("call ptr @aligned_alloc") == 1


def test_intermediates_of_symbolic_size() -> None:
    n = SizeVar("n")
    compiled = build(doubled_through(n * 4, n))
    for count in (0, 1, 1000):
        source, got = values(count, "float32"), np.zeros(count, "float32")
        assert call(compiled, "f", source, got, count) == 0
        np.testing.assert_array_equal(got, source * 2)


def test_running_out_of_memory_is_status_minus_one() -> None:
    n = SizeVar("n", DType("int64"))
    function = doubled_through(n * (1 << 40), SizeVar("m"))
    m = next(v for v in (function.params[0].shape[0],))  # pyright: ignore[reportAttributeAccessIssue]
    compiled = build(Function("f", (*function.params, n), function.body, function.outputs), shape_symbols={"f": (m,)})
    source = values(4, "float32")
    assert call(compiled, "f", source, source.copy(), 1 << 18, 4) == -1


def test_alignment_is_stated_as_far_as_it_is_known() -> None:
    a, temp = buffer("a", 64), buffer("temp", 4 * 64)
    i = Var("i")
    at = Ramp(i * 16, int32(1), 16)
    odd = Ramp(i * 16 + 1, int32(1), 16)
    body = Allocate(
        temp,
        serial(
            i,
            4,
            [
                BufferStore(temp, BufferLoad(a, (at,)), (at,)),
                BufferStore(temp, BufferLoad(a, (at,)), (odd,)),
                BufferStore(a, BufferLoad(temp, (Ramp(i * 16 + 8, int32(1), 16),)), (at,)),
            ],
        ),
    )
    text = build(Function("f", (a,), body, (a,))).ir_text
    stores = [line for line in text.splitlines() if line.strip().startswith("store <16 x float>")]
    assert [line.rsplit("align ", 1)[1] for line in stores] == ["64", "4", "4"]
    loads = [line.rsplit("align ", 1)[1] for line in text.splitlines() if "load <16 x float>" in line]
    assert loads == ["4", "4", "32"]


@pytest.mark.parametrize(
    ("index", "steps"),
    [
        (
            lambda i: int32(7) - i,
            ["ptr", "ptr"],
        ),  # -i lies before the buffer, and LLVM lets no inbounds step begin there
        (lambda i: i - 1, ["ptr", "ptr"]),  # i may lie behind it
        (lambda i: i + 2, ["inbounds nuw", "inbounds"]),
    ],
)
def test_steps_are_inbounds_only_from_within_the_buffer(index, steps) -> None:
    a, b, i = buffer("a", 8), buffer("b", 8), Var("i")
    text = build(Function("f", (a, b), serial(i, 6, BufferStore(b, BufferLoad(a, (index(i),)), (i,))), (b,))).ir_text
    pattern = r"getelementptr (inbounds nuw|inbounds|)\s*float, (?:ptr) %\S+, i64 (?:%v\d+|-?[127])"
    found = [flags or "ptr" for flags in re.findall(pattern, text)]
    assert found[:2] == steps, text


def test_ramps_a_constant_apart_are_made_of_one_vector() -> None:
    """As the places are that a reduction over lanes keeps: eight lanes, then the next eight."""
    B = te.compute((40, 16), lambda i, j: (i * 16 + j).astype("int32"), name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(B.op.axis[1])
    text = tw.build(s, [B], target="llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell").source("llvm")
    assert text.count("insertelement") == 1, "the places of both vectors begin with one"
    assert "i32 8, i32 9, i32 10" in text

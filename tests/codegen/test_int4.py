"""Integers of 4 bits: every pair of numbers on every target, memory of two elements a byte, and what takes and gives it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import drawn
import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.runtime import PackedArray, from_dlpack

KINDS = ("int4", "uint4")
TARGETS = ("llvm", "c", "interpret", "cuda -emulate")


def numbers(kind: str, *shape: int) -> np.ndarray:
    """Drawn ones, or all 16."""
    bits = drawn.rng(f"{kind} {shape}").integers(0, 16, shape) if shape else np.arange(16)
    return bits.astype(np.uint8).view(getattr(ml_dtypes, kind))


def wrap(values: Any, kind: str) -> np.ndarray:
    values = np.asarray(values)
    return (values + 8 & 15) - 8 if kind == "int4" else values & 15


def quotient(a: np.ndarray, b: np.ndarray, rounded: Callable[[Any], Any] = np.floor) -> np.ndarray:
    return np.where(b == 0, 0, rounded(a / np.where(b == 0, 1, b))).astype(int)


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(b == 0, 0, a - b * quotient(a, b))


def count_bits(a: np.ndarray, _: np.ndarray) -> np.ndarray:
    return np.vectorize(lambda v: int(v & 15).bit_count())(a)


def count_zeros(a: np.ndarray, _: np.ndarray) -> np.ndarray:
    return np.vectorize(lambda v: 4 - int(v & 15).bit_length())(a)


PAIRS: tuple[tuple[Any, Any], ...] = (
    *(
        (f, f)
        for f in (operator.add, operator.sub, operator.mul, operator.and_, operator.or_, operator.xor, operator.lt)
    ),
    (operator.floordiv, quotient),
    (operator.mod, remainder),
    (te.truncdiv, lambda a, b: quotient(a, b, np.trunc)),
    (te.truncmod, lambda a, b: np.where(b == 0, 0, np.fmod(a, np.where(b == 0, 1, b)))),
    (te.ceildiv, lambda a, b: quotient(a, b, np.ceil)),
    (operator.lshift, lambda a, b: a << b % 4),
    (operator.rshift, lambda a, b: a >> b % 4),
    (lambda a, b: te.max(te.min(a, b), a ^ b), lambda a, b: np.maximum(np.minimum(a, b), a ^ b)),
    (lambda a, b: te.abs(a) + ~b, lambda a, b: abs(a) + ~b),
    (lambda a, _: te.popcount(a), count_bits),
    (lambda a, _: te.clz(a), count_zeros),
    (lambda a, b: te.if_then_else(a < b, a + b, te.const(3, a.dtype)), lambda a, b: np.where(a < b, a + b, 3)),
    (lambda a, b: a.astype("int32") * b.astype("int32"), operator.mul),
    (lambda a, b: (a.astype("float32") * 0.5 * b.astype("float32")).astype(a.dtype), None),
)
"""Expressions, and what they are of integers before these wrap; None for one that ends at the ends of the range."""


def join(values: list[Any]) -> Any:
    """Return four results as the bytes of one integer, so that there are few kernels to compile."""
    return sum(((value & 255) << 8 * at for at, value in enumerate(values)), 0)


@pytest.mark.parametrize("target", TARGETS)
def test_every_pair_is_as_integers_that_wrap(target: str) -> None:
    args, outs, expected, x = [], [], [], np.arange(16, dtype=np.uint8)
    for kind in KINDS:
        A, B = (te.placeholder((16,), kind, name=name) for name in "AB")
        args += [A, B]
        a, b = np.broadcast_arrays(numbers(kind).astype(int)[:, None], numbers(kind).astype(int))
        groups = [PAIRS[at : at + 4] for at in range(0, len(PAIRS), 4)]
        # the emulator's compiler takes a second for each
        for some in drawn.part(groups, 2) if target.startswith("cuda") else groups:
            outs.append(te.compute((16, 16), lambda i, j: join([f(A[i], B[j]).astype("int32") for f, _ in some])))
            joined = join(
                [
                    np.clip(np.trunc(a * 0.5 * b).astype(int), *((-8, 7) if kind == "int4" else (0, 15)))
                    if of is None
                    else (wrap(of(a, b), kind) if f(A[0], B[0]).dtype == kind else of(a, b).astype(int))
                    for f, of in some
                ]
            )
            expected.append(joined.astype(np.uint32).view(np.int32))
    s = te.create_schedule([out.op for out in outs])
    for out in outs if target.startswith("cuda") else ():
        s[out].bind(s[out].fuse(*out.op.axis), te.thread_axis("threadIdx.x"))
    found = [np.zeros((16, 16), np.int32) for _ in outs]
    given = [x.view(getattr(ml_dtypes, arg.dtype)) for arg in args]
    tw.build(s, [*args, *outs], target=target)(*given, *found)
    for place, (got, want) in enumerate(zip(found, expected, strict=True)):
        assert np.array_equal(got, want), (target, place, np.argwhere(got != want)[:4])


@pytest.mark.parametrize("target", TARGETS)
def test_rows_lie_one_after_the_other(target: str) -> None:
    """Of odd and even lengths that are known and not, in lanes, threads and parallel loops; the last half of a byte is 0."""
    for shape in ((3, 5), (4, 6), (7,), (2, 0)):
        is_known = drawn.rng(f"{target} {shape}").random() < 0.5
        dims = shape if is_known else tuple(te.var(f"n{at}") for at in range(len(shape)))
        A = te.placeholder(dims, "int4", name="A")
        B = te.compute(dims, lambda *i, A=A: A(*i) + 1, name="B")
        C = te.compute(dims[::-1], lambda *i, A=A, B=B: B(*i[::-1]) * A(*i[::-1]), name="C")
        s = te.create_schedule(C.op)
        for T in (B, C):
            outer, inner = s[T].split(s[T].fuse(*T.op.axis), factor=8)
            if target.startswith("cuda"):
                s[T].bind(outer, te.thread_axis("blockIdx.x"))
                s[T].bind(inner, te.thread_axis("threadIdx.x"))
            else:
                s[T].parallel(outer)
                s[T].vectorize(inner)
        a = numbers("int4", *shape)
        packed = tw.empty(shape, "int4")
        unpacked = np.zeros(shape[::-1], ml_dtypes.int4)
        tw.build(s, [A, B, C], target=target)(tw.array(a), packed, unpacked)
        one_more = wrap(a.astype(int) + 1, "int4")
        assert np.array_equal(packed.numpy().astype(int), one_more), (shape, is_known)
        assert np.array_equal(unpacked.astype(int), wrap(one_more * a.astype(int), "int4").T), (shape, is_known)
        assert packed.nbytes == -(-a.size // 2) and (a.size % 2 == 0 or packed.bytes[-1] < 16)


@pytest.mark.parametrize("target", ["llvm", "cuda -arch=sm_80 -emulate"])
def test_sums_of_them_are_scheduled(target: str) -> None:
    a, b = numbers("int4", 33, 64), numbers("uint4", 20, 64)
    A, B = te.placeholder(a.shape, "int4", name="A"), te.placeholder(b.shape, "uint4", name="B")
    k = te.reduce_axis((0, 64), "k")
    terms = (lambda i, j: A[i, k].astype("int32") * B[j, k].astype("int32"), lambda i, _: A[i, k])
    outs = [
        te.compute((33, 20), lambda i, j: te.sum(terms[0](i, j), axis=k), name="products"),
        te.compute((33,), lambda i: te.sum(terms[1](i, 0), axis=k), name="sums"),
        te.compute((33,), lambda i: te.max(A[i, k], axis=k), name="greatest"),
        te.compute((33,), lambda i: te.constant(a[0], name="K")[i % 5] * A[i, 3], name="scaled"),
    ]
    found = [np.zeros((33, 20), np.int32), *(tw.empty(33, "int4") for _ in outs[1:])]
    tw.build([A, B, *outs], target=target)(a, b, *found)
    x = a.astype(int)
    expected = (x @ b.astype(int).T, wrap(x.sum(1), "int4"), x.max(1), wrap(x[0, np.arange(33) % 5] * x[:, 3], "int4"))
    for got, want in zip(found, expected, strict=True):
        assert np.array_equal(np.asarray(got).astype(int), want)


def test_lanes_read_whole_bytes() -> None:
    """A declaration of a conversion is as good as one that takes bytes apart."""
    W = te.placeholder((64, 4096), "int4", name="W")
    D = te.compute(W.shape, lambda i, j: W[i, j].astype("int8"), name="D")
    text = tw.build([W, D], target="llvm -mcpu=haswell -cores=1").source("llvm")
    assert "masked.gather" not in text and re.search(r"load <\d+ x i8>", text)


def test_results_may_be_stored_in_part(tmp_path: Path) -> None:
    """Nothing else of the bytes changes; what a call passes to a library is what it passes here."""
    n, x = te.var("n"), te.var("x", "int4")
    A = te.placeholder((n,), "int4", name="A")
    B = te.compute((n,), lambda i: A[i] * x, name="B")
    s = te.create_schedule(B.op)
    s[B].set_store_predicate(B.op.axis[0] % 3 < 1)
    f = tw.build(s, [A, x, B], name="scale")
    f.export(tmp_path / "libscale.so")
    assert re.search(r"const uint8_t \*A, int8_t x, uint8_t \*B", (tmp_path / "scale.h").read_text())
    a = numbers("int4", 37)
    expected = np.where(np.arange(37) % 3 < 1, wrap(a.astype(int) * -3, "int4"), 5)
    for function in (f, tw.load(tmp_path / "libscale.so")):
        for given, taken in (
            (a, np.full(37, 5, ml_dtypes.int4)),
            (tw.array(a), tw.array(np.full(37, 5), dtype="int4")),
        ):
            function(given, -3, taken)
            assert np.array_equal(np.asarray(taken).astype(int), expected)
        view = np.zeros((37, 2), ml_dtypes.int4)[:, 1]
        function(np.repeat(a, 2)[::2], a[:1][0], view)  # whatever the strides: calls pack and unpack
    with pytest.raises(tw.CallError, match=r"x.*must lie in -8 to 7"):
        f(a, 8, a.copy())
    with pytest.raises(tw.CallError, match="dtype int8; int4 is expected"):
        f(a.view(np.int8), 1, a.copy())
    for shared in (a, tw.array(a)):
        with pytest.raises(tw.CallError, match="shares memory"):
            f(shared, 1, shared)


def test_arrays_of_two_elements_a_byte() -> None:
    a = tw.array([[-8, 7, 1], [2, 3, -1]], dtype="int4")
    assert isinstance(a, PackedArray) and (a.shape, a.ndim, a.size, a.nbytes, len(a)) == ((2, 3), 2, 6, 3, 2)
    assert a.bytes.tolist() == [0x78, 0x21, 0xF3]
    assert a.device == tw.cpu() and a[1, 2] == -1 and a.bytes.ctypes.data % 64 == 0
    assert np.asarray(a).dtype == ml_dtypes.int4 and "-8" in repr(a)
    assert tw.array(a).numpy().tolist() == a.asnumpy().tolist() == tw.array(a.numpy()).numpy().tolist()
    assert a.copyto(np.zeros((2, 3), np.int32)).tolist() == [[-8, 7, 1], [2, 3, -1]]
    for other in (
        tw.array(a, dtype="int8"),
        tw.empty((2, 3), "float32").copyfrom(a),
        tw.array(a.numpy(), dtype="bool"),
    ):
        assert np.array_equal(other.astype(bool), np.ones((2, 3))) and other[0, 0] in (-8, True)
    shared = from_dlpack(a)
    shared.copyfrom([[1, 2, 3], [4, 5, 17]])
    assert a.copyto(tw.empty((2, 3), "uint4")).bytes.tolist() == [0x21, 0x43, 0x15]
    with pytest.raises(tw.CallError, match="cannot copy shape"):
        a.copyfrom([1, 2])
    with pytest.raises(tw.CallError, match="cannot copy shape"):
        a.copyto(np.zeros(3))
    with pytest.raises(tw.CallError, match="into a list"):
        a.copyto([])
    with pytest.raises(tw.CallError, match="cannot make int4"):
        a.copyfrom([["a", "b", "c"]] * 2)
    # memory behind memory is not shared
    memory = np.zeros(10, np.uint8)
    first, second = (PackedArray(memory[at : at + 5], (9,), np.dtype(ml_dtypes.int4)) for at in (0, 5))
    A = te.placeholder((9,), "int4", name="A")
    tw.build([A, B := te.compute((9,), lambda i: A[i] - 1, name="B")])(first, second)
    assert memory.tolist() == [0] * 5 + [0xFF] * 4 + [0x0F]
    assert te.min_value("int4").value == -8 and te.max_value("uint4").value == 15 and B.dtype == "int4"
    with pytest.raises(tw.TensorExpressionError, match="cannot read the bits of int4 as int8"):
        te.reinterpret("int8", A[0])

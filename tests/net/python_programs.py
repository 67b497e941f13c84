"""Frozen programs whose operations are written in Python: intrinsics of one's own, hybrid scripts, externs, and what is grown
by a loop. Each returns a schedule and its arguments. They are never changed, only added to."""

# ruff: noqa: F821, B007, RUF100
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tilewright as tw
from tilewright import te

Frozen = tuple[Any, list[Any]]


def four_sums() -> Any:
    """Four sums of four products, in LLVM's vectors of 4."""
    a, b = te.placeholder((4,), name="a"), te.placeholder((4, 4), name="b")
    k = te.reduce_axis((0, 4), "k")
    c = te.compute((4,), lambda i: te.sum(a[k] * b[k, i], axis=k), "c")
    buffers = {b: te.decl_buffer(b.shape, b.dtype, "b", strides=[te.var("row"), 1])}

    def bodies(ins: Any, outs: Any) -> Any:
        (a, b), (c,) = ins, outs

        def add_to(sums: Any) -> Any:
            ib = tw.ir_builder()
            for k in range(4):
                factor = a.vload([k]).astype("float32x4")
                sums = te.call_llvm_intrin("float32x4", "llvm.fma.v4f32", factor, b.vload([k, 0], "float32x4"), sums)
            ib.emit(c.vstore([0], sums))
            return ib.get()

        zero = te.const(0.0, "float32x4")
        return add_to(zero), c.vstore([0], zero), add_to(c.vload([0], "float32x4"))

    return te.decl_tensor_intrin(c.op, bodies, "four_sums", binds=buffers)


def own_intrinsic(lanes: int = 4) -> Frozen:
    A, B = te.placeholder((8, 32), name="A"), te.placeholder((32, 16), name="B")
    k = te.reduce_axis((0, 32), "k")
    C = te.compute((8, 16), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), "C")
    s = te.create_schedule(C.op)
    jo, ji = s[C].split(C.op.axis[1], lanes)
    ko, ki = s[C].split(k, 4)
    s[C].reorder(C.op.axis[0], jo, ko, ji, ki)
    s[C].tensorize(ji, four_sums())
    return s, [A, B, C]


def refused_intrinsic() -> Frozen:
    """Its loops run through 8 elements where the intrinsic has 4."""
    return own_intrinsic(8)


def bytes_intrinsic(n: int = 203, m: int = 101, depth: int = 255) -> Frozen:
    A, B = te.placeholder((n, depth), "uint8", "A"), te.placeholder((m, depth), "int8", "B")
    wide, deep = -(-m // 16) * 16, -(-depth // 4) * 4
    padded = te.compute((n, deep), lambda i, k: te.if_then_else(k < depth, A[i, k], 0), "padded")
    packed = te.compute(
        (wide // 16, deep // 4, 16, 4),
        lambda jo, ko, ji, ki: te.if_then_else(
            te.all(jo * 16 + ji < m, ko * 4 + ki < depth), B[jo * 16 + ji, ko * 4 + ki], 0
        ),
        "packed",
    )
    k = te.reduce_axis((0, deep), "k")
    whole = te.compute(
        (n, wide),
        lambda i, j: te.sum(
            padded[i, k].astype("int32") * packed[j // 16, k // 4, j % 16, k % 4].astype("int32"), axis=k
        ),
        "whole",
    )
    C = te.compute((n, m), lambda i, j: whole[i, j], "C")
    s = te.create_schedule(C.op)
    jo, ji = s[whole].split(whole.op.axis[1], 16)
    ko, ki = s[whole].split(k, 4)
    s[whole].reorder(whole.op.axis[0], jo, ko, ji, ki)
    s[whole].tensorize(ji, te.intrinsics.get("x86.dot_u8i8_16x4"))
    return s, [A, B, C]


@te.hybrid.script
def counted(values, bins, parts):
    n = values.shape[0]
    counts = output_tensor((bins,), "int32")
    own = allocate((parts, bins), "int32")
    each = ceil_div(n, parts)
    for p in range(parts):
        for i in range(each):
            if p * each + i < n:
                own[p, values[p * each + i]] += 1
    for b in range(bins):
        total = 0
        for q in range(parts):
            total += own[q, b]
        counts[b] = total
    return counts


@te.hybrid.script
def permuted(values, order):
    out = output_tensor(values.shape, values.dtype)
    for i in range(values.shape[0]):
        out[order[i]] = values[i]
    return out


@te.hybrid.script
def first_below(values, limit):
    at = output_tensor((1,), "int32")
    going = 1
    for i in range(values.shape[0]):
        if going == 1 and values[i] < limit:
            going = 0
        at[0] += going
    return at


def histogram() -> Frozen:
    n = te.size_var("n")
    V = te.placeholder((n,), "int32", name="V")
    C = counted(V, 16, 4)
    D = te.compute((16,), lambda b: C[b].astype("float32") / n.astype("float32"), name="D")
    s = te.create_schedule(D.op)
    loops = {axis.name: axis for axis in s[C].op.axis}
    s[C].parallel(loops["p"])
    s[C].vectorize(loops["b"])
    return s, [V, D]


def permutation() -> Frozen:
    P, places = te.placeholder((9,), name="P"), te.placeholder((9,), "int32", name="places")
    Q = permuted(P, places)
    return te.create_schedule(Q.op), [P, places, Q]


def search() -> Frozen:
    P = te.placeholder((9,), name="P")
    R = first_below(P, 0.5)
    return te.create_schedule(R.op), [P, R]


def call_of_c(width: int = 12) -> Frozen:
    W = te.placeholder((width, width), name="W")
    C = te.extern(
        (width,),
        [W],
        lambda ins, outs: te.call_extern(
            "handle", "memcpy", outs[0].access_ptr("w"), ins[0].access_ptr("r"), te.const(4 * width, "int64")
        ),
        name="C",
    )
    return te.create_schedule(C.op), [W, C]


def long_chain(length: int = 300) -> Frozen:
    """One expression of `length` operators."""
    A = te.placeholder((1024,), name="A")

    def body(i: Any) -> Any:
        value = A[i]
        for step in range(length):
            value = value * 0.5 + 1.0 if step % 2 else te.max(value, A[(i + step) % 1024])
        return value

    B = te.compute((1024,), body, name="B")
    return te.create_schedule(B), [A, B]


WRITTEN: dict[str, Callable[[], Frozen]] = {
    program.__name__: program
    for program in (
        own_intrinsic,
        refused_intrinsic,
        bytes_intrinsic,
        histogram,
        permutation,
        search,
        call_of_c,
        long_chain,
    )
}

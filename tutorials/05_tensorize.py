"""5. An instruction in place of loops: tensorize.

A processor multiplies 64 pairs of bytes and adds them to 16 sums in one instruction. We tell tilewright what such an
instruction computes, as a tensor expression, and how it is called; `tensorize` then puts it in place of loops that
compute the same, and refuses all others.
"""

import numpy as np
import tilewright as tw
from tilewright import te


# An intrinsic of our own: 4 sums of 4 products, in LLVM's vectors of 4. First what it computes ...
def dot4x4() -> te.TensorIntrin:
    a, b = te.placeholder((4,), name="a"), te.placeholder((4, 4), name="b")
    k = te.reduce_axis((0, 4), "k")
    c = te.compute((4,), lambda i: te.sum(a[k] * b[k, i], axis=k), "c")

    # ... then how, on buffers that stand for parts of larger ones: rows of b may lie any distance apart.
    row = te.var("row")
    buffers = {b: te.decl_buffer(b.shape, b.dtype, "b", strides=[row, 1])}

    def bodies(ins, outs):
        (a, b), (c,) = ins, outs

        def add_to(sums):
            ib = tw.ir_builder()
            for k in range(4):
                factor = a.vload([k]).astype("float32x4")
                sums = te.call_llvm_intrin("float32x4", "llvm.fma.v4f32", factor, b.vload([k, 0], "float32x4"), sums)
            ib.emit(c.vstore([0], sums))
            return ib.get()

        zero = te.const(0.0, "float32x4")
        # Compute anew; begin a reduction; go on with it.
        return add_to(zero), c.vstore([0], zero), add_to(c.vload([0], "float32x4"))

    return te.decl_tensor_intrin(c.op, bodies, "dot4x4", binds=buffers)


A, B = te.placeholder((8, 32), name="A"), te.placeholder((32, 16), name="B")
k = te.reduce_axis((0, 32), "k")
C = te.compute((8, 16), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), "C")
s = te.create_schedule(C.op)
jo, ji = s[C].split(C.op.axis[1], 4)
ko, ki = s[C].split(k, 4)
s[C].reorder(C.op.axis[0], jo, ko, ji, ki)
s[C].tensorize(ji, dot4x4())  # ji and what is inside it, ki
print(s)

a, b, c = (
    np.random.rand(8, 32).astype("float32"),
    np.random.rand(32, 16).astype("float32"),
    np.empty((8, 16), "float32"),
)
tw.build(s, [A, B, C])(a, b, c)
np.testing.assert_allclose(c, a @ b, rtol=1e-5)

# What the loops do must be what the intrinsic computes. Here they run through 8 j, and it has 4.
other = te.create_schedule(C.op)
jo, ji = other[C].split(C.op.axis[1], 8)
ko, ki = other[C].split(k, 4)
other[C].reorder(C.op.axis[0], jo, ko, ji, ki)
other[C].tensorize(ji, dot4x4())
try:
    tw.lower(other, [A, B, C])
except tw.LoweringError as refusal:
    print(f"\n{refusal}")


# Now the bytes. That intrinsic ships with tilewright; it takes b packed in blocks of 16 by 4, and what does not divide
# is padded by stages of its own, so that any size will do.
def bytes_matmul(n: int, m: int, depth: int):
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


n, m, depth = 203, 101, 255
s, args = bytes_matmul(n, m, depth)
f = tw.build(s, args)
rng = np.random.default_rng(0)
a, b = rng.integers(0, 256, (n, depth), dtype="uint8"), rng.integers(-128, 128, (m, depth), dtype="int8")
c = np.empty((n, m), "int32")
f(a, b, c)
np.testing.assert_array_equal(c, a.astype("int32") @ b.T.astype("int32"))  # exactly
used = "vpdpbusd" in f.source("asm")
print(
    f"\n{n} x {m} x {depth} bytes: {2 * n * m * depth / f.time(a, b, c).median / 1e9:.0f} GOP/s; the instruction vpdpbusd is "
    f"{'used' if used else 'not there on this processor, and its portable body runs'}"
)

"""19. Your own accelerator: scratchpads as scopes, a product of tiles by tensorize, and virtual threads that hide latency.

target="vdla" is an accelerator that is a table and a simulator: three memories, an array that multiplies int8, an ALU, and three
queues (load, compute, store) that run side by side. docs/accelerator.md tells how it was brought: that is what yours would take.
The last part draws ResNet-18's layers under the accelerator's roof, with and without virtual threads (out/vdla-roofline.svg).
"""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import tilewright as tw
from tilewright import te
from tilewright.codegen import vdla

# A product of matrices. The sums lie in the accumulators, tiles of the operands in the other two scratchpads; loops say which.
n = 32
A, B = te.placeholder((n, n), "int8", "A"), te.placeholder((n, n), "int8", "B")
k = te.reduce_axis((0, n), "k")
C = te.compute((n, n), lambda y, x: te.sum(A[k, y].astype("int32") * B[k, x].astype("int32"), axis=k), "C")
s = te.create_schedule(C.op)
CL = s.cache_write(C, vdla.acc_buffer)
AL = s.cache_read(A, vdla.inp_buffer)
BL = s.cache_read(B, vdla.wgt_buffer)
yo, xo, _, _ = s[C].tile(*C.op.axis, 16, 16)
s[CL].compute_at(s[C], xo)
ko, ki = s[CL].split(s[CL].op.reduce_axis[0], 16)
km, ki = s[CL].split(ki, 8)
cyo, cxo, yi, xi = s[CL].tile(*s[CL].op.axis, 8, 8)
s[CL].reorder(ko, cyo, cxo, km, yi, xi, ki)
s[AL].compute_at(s[CL], ko)
s[BL].compute_at(s[CL], ko)
s[CL].tensorize(yi, vdla.gemm8x8)

f = tw.build(s, [A, B, C], target="vdla")
rng = np.random.default_rng(0)
a, b = (rng.integers(-128, 128, (n, n), "int8") for _ in range(2))
c = np.empty((n, n), "int32")
f(a, b, c)
np.testing.assert_array_equal(c, a.T.astype("int32") @ b.astype("int32"))

# Each nest that only copies, or only multiplies, is one instruction. Between queues stand tokens: a product waits for the copies
# that it reads, and the next copies wait for the product, since they go to the same place.
program = f.kernels[0]
print("\n".join(program.listing.splitlines()[:8]))
print(program.timed())

# The order of the queues is nothing but these tokens. Without the one that the first product waits for, two queues access the same address:
first = next(at for at, each in enumerate(program.stream) if each.op == "gemm")
careless = [replace(each, pops=()) if at == first else each for at, each in enumerate(program.stream)]
try:
    program.replace_stream(careless).run({"A": a, "B": b, "C": c})
except tw.TilewrightError as error:
    print(error)

# A scratchpad has as many bytes as it has.
try:
    wide = te.compute((n, 2048), lambda y, x: B[y, 0].astype("int32"), "wide")
    w = te.create_schedule(wide.op)
    w.cache_write(wide, vdla.acc_buffer)
    tw.build(w, [B, wide], target="vdla")
except tw.TilewrightError as error:
    print(error)


# A layer of a network: a convolution, its sums shifted back to 8 bits and clipped, which the ALU does in the accumulators. Channels
# lie in blocks of 16; the picture is padded already. Tiles are `rows` rows of `blocks` blocks of output channels, and every step
# takes up `steps` blocks of input channels. With two virtual threads, one tile's copies go on during the other one's products.
def convolution(size, inputs, outputs, kernel, stride, rows, blocks, steps, threads):
    width = (size - 1) * stride + kernel
    X = te.placeholder((inputs // 16, width, width, 16), "int8", "X")
    W = te.placeholder((outputs // 16, inputs // 16, kernel, kernel, 16, 16), "int8", "W")
    ko, ky, kx, ki = (
        te.reduce_axis((0, extent), name)
        for extent, name in ((inputs // 16, "ko"), (kernel, "ky"), (kernel, "kx"), (16, "ki"))
    )
    S = te.compute(
        (outputs // 16, size, size, 16),
        lambda o, y, x, i: te.sum(
            X[ko, y * stride + ky, x * stride + kx, ki].astype("int32") * W[o, ko, ky, kx, i, ki].astype("int32"),
            axis=[ko, ky, kx, ki],
        ),
        "S",
    )
    R = te.compute(S.shape, lambda *at: te.min(te.max(S[at] >> 8, 0), 127), "R")
    Y = te.compute(S.shape, lambda *at: R[at].astype("int8"), "Y")
    s = te.create_schedule(Y.op)
    XL, WL = s.cache_read(X, vdla.inp_buffer), s.cache_read(W, vdla.wgt_buffer)
    oo, yo, _, _ = s[Y].tile(Y.op.axis[0], Y.op.axis[1], blocks, rows)
    _, thread = s[Y].split(s[Y].fuse(oo, yo), threads)
    s[Y].bind(thread, te.thread_axis("vthread"))
    for stage in (S, R):
        s[stage].set_scope(vdla.acc_buffer)
        s[stage].compute_at(s[Y], thread)
    o, y, x, i = S.op.axis
    step, ko = s[S].split(ko, steps)
    s[S].reorder(step, ko, o, y, ky, kx, x, i, ki)
    s[S].tensorize(x, vdla.gemm(size, 16, 16, stride))
    s[XL].compute_at(s[S], step)
    s[WL].compute_at(s[S], step)
    return s, [X, W, Y]


s, args = convolution(7, 32, 64, 3, 2, 7, 2, 1, 2)
values = [rng.integers(-128, 128, [int(extent) for extent in tensor.shape], "int8") for tensor in args]
expected = values[2].copy()
tw.build(s, args, target="vdla")(*values)
tw.build(te.create_schedule(args[2].op), args)(*values[:2], expected)
np.testing.assert_array_equal(values[2], expected)

# ResNet-18's layers after the first, which a host does: size of the output, channels in and out, kernel, stride, how often; then
# the tiles that take the least time without virtual threads, and with two. The simulator tells that without running any data.
layers = {
    "C2": ((56, 64, 64, 3, 1), 4, (4, 4, 2), (4, 2, 1)),
    "C3": ((28, 64, 128, 3, 2), 1, (4, 8, 1), (4, 4, 1)),
    "C4": ((28, 64, 128, 1, 2), 1, (4, 8, 2), (2, 8, 2)),
    "C5": ((28, 128, 128, 3, 1), 3, (14, 2, 1), (7, 2, 1)),
    "C6": ((14, 128, 256, 3, 2), 1, (14, 4, 2), (7, 4, 1)),
    "C7": ((14, 128, 256, 1, 2), 1, (7, 8, 2), (2, 8, 4)),
    "C8": ((14, 256, 256, 3, 1), 3, (14, 4, 2), (14, 2, 1)),
    "C9": ((7, 256, 512, 3, 2), 1, (7, 8, 1), (7, 4, 1)),
    "C10": ((7, 256, 512, 1, 2), 1, (7, 8, 2), (7, 8, 2)),
    "C11": ((7, 512, 512, 3, 1), 3, (7, 8, 1), (7, 4, 1)),
}
reports = {
    name: [
        tw.build(*convolution(*shape, *tiles, threads), target="vdla").kernels[0].timed()
        for threads, tiles in ((1, alone), (2, hidden))
    ]
    for name, (shape, _, alone, hidden) in layers.items()
}
print(f"{'layer':6}{'times':>6}{'cycles':>10}{'of the array':>14}{'two threads':>12}{'of the array':>14}")
for name, (alone, hidden) in reports.items():
    print(
        f"{name:6}{layers[name][1]:6}{alone.cycles:10}{alone.utilisation:14.1%}{hidden.cycles:12}{hidden.utilisation:14.1%}"
    )
whole = [
    sum(layers[name][1] * both[at].products for name, both in reports.items())
    / sum(layers[name][1] * both[at].cycles for name, both in reports.items())
    / vdla.MACHINE.peak
    for at in (0, 1)
]
print(f"all of them: {whole[0]:.1%} of what the array could do, and {whole[1]:.1%} with latency hidden")
assert whole[0] < 0.75 and whole[1] > 0.88


# The roof: no layer does more products in a cycle than the array has multipliers, nor more than DRAM brings bytes for.
def picture(low=8.0, high=1024.0):
    peak, rate = vdla.MACHINE.peak, vdla.MACHINE.dma_bytes
    across = lambda intensity: 60 + 560 * math.log(intensity / low) / math.log(high / low)
    up = lambda products: 340 - 300 * math.log(products / (peak / 8)) / math.log(12)
    text = lambda at, words, style="": f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" {style}>{words}</text>'
    bend = peak / rate
    roof = " ".join(f"{across(x):.1f},{up(min(x * rate, peak)):.1f}" for x in (low, bend, high))
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 390" font-family="sans-serif" font-size="11">',
        '<rect width="640" height="390" fill="white"/>',
        '<rect x="60" y="40" width="560" height="300" fill="none" stroke="#ccc"/>',
        text(
            (60, 24),
            f"ResNet-18: {whole[0]:.0%} of the array, {whole[1]:.0%} with two virtual threads",
            'font-size="14"',
        ),
        text((250, 378), "products for each byte to or from DRAM"),
        text((6, 36), "products a cycle", 'fill="#666"'),
        f'<polyline points="{roof}" fill="none" stroke="#36c"/>',
    ]
    parts += [
        text((across(x), 356), f"{x:g}", 'text-anchor="middle" fill="#666"')
        for x in (8, 16, 32, 64, 128, 256, 512, 1024)
    ]
    parts += [text((54, up(x) + 4), f"{x:g}", 'text-anchor="end" fill="#666"') for x in (32, 64, 128, 256)]
    for name, both in reports.items():
        ends = [(across(each.products / each.dram_bytes), up(each.products / each.cycles)) for each in both]
        (x0, y0), (x1, y1) = ends
        parts.append(
            f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="#c30" stroke-opacity="0.4"/>'
            f'<circle cx="{x0:.1f}" cy="{y0:.1f}" r="4" fill="#fff" stroke="#c30"/>'
            f'<circle cx="{x1:.1f}" cy="{y1:.1f}" r="4" fill="#c30"/>'
        )
        parts.append(text((x0 + 7, y0 + 4), name, 'fill="#333"'))
    return "\n".join([*parts, "</svg>"])


out = Path("out")
out.mkdir(exist_ok=True)
(out / "vdla-roofline.svg").write_text(picture() + "\n")
print("out/vdla-roofline.svg: open circles without virtual threads, full ones with two")

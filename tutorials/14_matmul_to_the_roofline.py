"""14. A matrix product, step by step to what the machine can do at most.

Each step is drawn under the machine's roofs (out/matmul-1-naive.svg and so on): across, how many operations are done for a
byte that an instruction loads or stores; upwards, how many are done in a second. No step gets above its roof, which is what
the caches deliver where it slopes, and the multiply-add units where it is flat (Williams, Waterman and Patterson 2009,
Roofline; Ilic, Pratas and Sousa 2014 for bytes as the core sees them). The roofs are measured here too, by kernels of our own.

    python tutorials/14_matmul_to_the_roofline.py 1152     # another size than the small one that is quick
"""

import math
import os
import sys
from pathlib import Path

import numpy as np
import tilewright as tw
from tilewright import te, topi
from tilewright.codegen.machine import find_machine, register_tiles
from tilewright.codegen.target import Target

machine = find_machine(Target.parse("llvm"))
tile = register_tiles(machine, bits=32)[0]
lanes, threads = machine.lanes(32), min(machine.cores, int(os.environ.get("OMP_NUM_THREADS") or machine.cores))
unit = math.lcm(tile.rows, tile.columns, 32)
SIZE = unit * max(
    round(int(sys.argv[1] if len(sys.argv) > 1 else 384) / unit), 1
)  # tiles fit; step 6 is about those that do not


# The roofs.


def spread(out, tasks):
    """A schedule of `tasks` rows of accumulators, which are kept in registers."""
    s = te.create_schedule(out)
    sums = s.cache_write(out, "local")
    task = out.op.axis[0]
    s[sums].compute_at(s[out], task)
    s[sums].reorder(sums.op.axis[0], *sums.op.reduce_axis, *sums.op.axis[1:])
    for stage in (s[out], s[sums]):
        _, row, lane = stage.op.axis
        stage.unroll(row)
        stage.vectorize(lane)
    if tasks > 1:
        s[out].parallel(task)
    return s


def multiply_adds(tasks):
    """Operations a second of nothing but multiply-adds: 24 chains of them, so that no unit waits for a result."""
    chains, steps = 24, 100000
    chain = te.comm_reducer(
        lambda total, x: te.fma(total, te.const(0.5, "float32"), x), lambda dtype: te.const(0, dtype)
    )
    x = te.placeholder((lanes,), name="x")
    k = te.reduce_axis((0, steps), "k")
    out = te.compute((tasks, chains, lanes), lambda t, c, lane: chain(x[lane], axis=k), name="chains")
    f = tw.build(spread(out, tasks), [x, out])
    arrays = np.ones(lanes, "float32"), np.empty((tasks, chains, lanes), "float32")
    return lambda: 2 * tasks * chains * lanes * steps / f.time(*arrays, repeat=5, min_repeat_ms=2).min


def reading(tasks, size, times):
    """Bytes a second of a kernel that reads `size` bytes again and again."""
    rows = size // (8 * lanes * 4)
    x = te.placeholder((tasks, rows, 8, lanes), name="x")
    again, k = te.reduce_axis((0, times), "again"), te.reduce_axis((0, rows), "k")
    out = te.compute((tasks, 8, lanes), lambda t, r, lane: te.sum(x[t, k, r, lane], axis=[again, k]), name="sums")
    f = tw.build(spread(out, tasks), [x, out])
    arrays = np.ones((tasks, rows, 8, lanes), "float32"), np.empty((tasks, 8, lanes), "float32")
    return times * arrays[0].nbytes / f.time(*arrays, repeat=3, min_repeat_ms=1).min


counts = sorted({1, threads})
peak = {n: multiply_adds(n) for n in counts}
flat = dict.fromkeys(counts, 0.0)


def measure_ceiling():
    """Once more, as clocks change and other programs disturb; the best that has been seen in this run is the ceiling."""
    for n in counts:
        flat[n] = max(peak[n](), *(flat[fewer] for fewer in counts if fewer <= n))


measure_ceiling()
cache = {n: max(reading(m, machine.l1 // 2, 2000) for m in counts if m <= n) for n in counts}
memory = max(reading(n, (64 << 20) // n, 1) for n in counts)
for n in counts:
    print(f"{n} thread(s): {flat[n] / 1e9:.0f} GFLOP/s, {cache[n] / 1e9:.0f} GB/s from the first cache")
print(f"{memory / 1e9:.0f} GB/s from memory")

# A picture of it: both axes logarithmic, the steps so far, the newest one filled.


def picture(steps, low=2**-4, high=2**3):
    name, _, rate, n = steps[-1]
    top = 2 * max(flat.values())
    x = lambda intensity: 60 + 560 * math.log(intensity / low) / math.log(high / low)
    y = lambda rate: 40 + 300 * math.log(top / max(rate, top / 1024)) / math.log(1024)
    line = lambda points, style: (
        f'<polyline points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in points)}" fill="none" {style}/>'
    )
    text = lambda at, words, style="": f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" {style}>{words}</text>'
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 390" font-family="sans-serif" font-size="11">',
        '<rect width="640" height="390" fill="white"/>',
        '<rect x="60" y="40" width="560" height="300" fill="none" stroke="#ccc"/>',
        text(
            (60, 24),
            f"{len(steps)}. {name}: {rate / 1e9:.1f} GFLOP/s, {rate / flat[n]:.0%} of the ceiling",
            'font-size="14"',
        ),
        text((260, 378), "operations for each byte loaded or stored"),
    ]
    for power in range(-4, 4):
        parts.append(text((x(2.0**power), 356), f"{2.0**power:g}", 'text-anchor="middle" fill="#666"'))
    for rate in (10**e for e in range(7, 14)):
        if top / 1024 < rate < top:
            parts.append(text((54, y(rate) + 4), f"{rate / 1e9:g}", 'text-anchor="end" fill="#666"'))
    parts.append(text((6, 36), "GFLOP/s", 'fill="#666"'))
    for n in counts:
        bend = flat[n] / cache[n]
        parts.append(line([(x(low), y(low * cache[n])), (x(bend), y(flat[n])), (x(high), y(flat[n]))], 'stroke="#36c"'))
        parts.append(text((x(high) - 4, y(flat[n]) - 4), f"{n} thread{'s' * (n > 1)}", 'text-anchor="end" fill="#36c"'))
    bend = min(flat[threads] / memory, high)
    parts.append(line([(x(low), y(low * memory)), (x(bend), y(bend * memory))], 'stroke="#999" stroke-dasharray="4 3"'))
    parts.append(text((x(1.1), y(memory) + 8), "if every byte came from memory", 'fill="#999"'))
    at = [(x(intensity), y(rate)) for _, intensity, rate, _ in steps]
    parts.append(line(at, 'stroke="#c63" stroke-opacity="0.5"'))
    for number, point in enumerate(at, 1):
        last = number == len(at)
        parts.append(
            f'<circle cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="{6 if last else 3}" fill="{"#c30" if last else "#fff"}" '
            f'stroke="#c30"/>'
        )
        if all(math.dist(point, later) > 10 for later in at[number:]):
            parts.append(text((point[0] - 9, point[1] + 4), str(number), 'text-anchor="end"'))
    return "\n".join([*parts, "</svg>"])


out, taken = Path("out"), []
out.mkdir(exist_ok=True)


def step(name, s, args, elements, n=1):
    """Builds a step, checks it and draws it. elements: how many are loaded or stored for each multiply-add; n: threads."""
    print(f"\n{len(taken) + 1}. {name}\n{s}")
    f = tw.build(s, args)
    rows, columns, depth = int(args[2].shape[0]), int(args[2].shape[1]), int(args[0].shape[1])
    rng = np.random.default_rng(0)
    a, b = rng.random((rows, depth), np.float32), rng.random((depth, columns), np.float32)
    c = np.empty((rows, columns), np.float32)
    f(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)
    rate = 2 * rows * columns * depth / f.time(a, b, c, repeat=9 if taken else 2, min_repeat_ms=3).min
    measure_ceiling()
    taken.append((name, 2 / (4 * elements), rate, n))
    (out / f"matmul-{len(taken)}-{name.replace(' ', '-')}.svg").write_text(picture(taken))
    return f


def declare(size):
    A, B = te.placeholder((size, size), name="A"), te.placeholder((size, size), name="B")
    k = te.reduce_axis((0, size), "k")
    return A, B, te.compute((size, size), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")


# 1. The declaration alone. Two loads for each multiply-add, one of them from a new cache line every time; and each sum has to
# wait for the one before.
A, B, C = declare(SIZE)
step("naive", te.create_schedule(C), [A, B, C], 2)

# 2. Tiles that stay in the first cache, and the sum outside of them: B is read along its rows, and independent sums follow one
# another. For that, sums are loaded and stored all the time, and the point moves to the left.
s = te.create_schedule(C)
i, j = C.op.axis
row, column, i, j = s[C].tile(i, j, 32, tile.columns)
s[C].reorder(column, row, C.op.reduce_axis[0], i, j)
in_cache = 1 / tile.columns + 1 + 2
step("tiled", s, [A, B, C], in_cache)

# 3. Vectors: the same bytes in fewer instructions, so the point moves straight upwards. (LLVM may have found them by itself
# in step 2. Here they are no matter of luck.)
s[C].vectorize(j)
step("vectors", s, [A, B, C], in_cache)

# 4. A panel of B is copied so that its rows lie side by side: neither the first cache's few places for lines that are a power of
# two apart, nor the pages that rows lie on, matter any more. It is used by all rows of A. A product this small gains little.
panel = s.cache_read(B, "global", [C])
_, _, lane = s[panel].transform_layout(lambda k, j: [j // tile.columns, k, j % tile.columns])
s[panel].vectorize(lane)
s[panel].compute_at(s[C], column)
step("packing", s, [A, B, C], in_cache)


# 5. Accumulators in registers. A tile as large as the registers allow is summed there whole, and stored once: a step along
# the sum loads a row of the panel and broadcasts an element from each row of A, and all of those meet all of these.
def in_registers(size, grid=None):
    A, B, C = declare(size)
    s = te.create_schedule(C)
    panel = s.cache_read(B, "global", [C])
    _, _, lane = s[panel].transform_layout(lambda k, j: [j // tile.columns, k, j % tile.columns], 0)
    s[panel].vectorize(lane)
    sums = s.cache_write(C, "local")
    row, column, i, j = s[C].tile(*C.op.axis, tile.rows, tile.columns)
    if grid:  # see step 7
        many, row = s[C].split(row, nparts=grid[0])
        some, column = s[C].split(column, nparts=grid[1])
        s[C].reorder(many, some, column, row, i, j)
        s[C].parallel(s[C].fuse(many, some))
    else:
        s[C].reorder(column, row, i, j)
    s[C].unroll(i)
    s[C].vectorize(j)
    s[panel].compute_at(s[C], column)
    s[sums].compute_at(s[C], row)
    s[sums].reorder(*sums.op.reduce_axis, *sums.op.axis)
    s[sums].unroll(sums.op.axis[0])
    s[sums].vectorize(sums.op.axis[1])
    return s, [A, B, C]


per_step = 1 / tile.rows + 1 / tile.columns
print(
    f"\n{tile.rows} rows of {tile.vectors} vectors: {tile.rows * tile.vectors} of {machine.registers} registers are sums, "
    f"and the units need {machine.accumulators} independent ones"
)
f = step("accumulators", *in_registers(SIZE), per_step + 1 / SIZE)
print(sum("fmadd" in line for line in f.source("asm").splitlines()), "multiply-adds in its assembly")

# 6. Edges. At most sizes the last tiles are cut. The schedule is the same: the loops tell which tests are needed, whole tiles are
# told from cut ones outside of the loops over k, and the end of a row is a vector under a mask instead of a loop of scalars.
edged = SIZE + 13
f = step("masked edges", *in_registers(edged), per_step + 1 / edged)
print(sum("{%k" in line or "maskmov" in line for line in f.source("asm").splitlines()), "instructions under a mask")

# 7. Threads. A task is a rectangle of C. Cutting in both directions gives enough tasks where one direction has too few panels,
# and each thread reads only parts of A and of B. Where the threads share nothing else, one direction will do as well.
step("task grid", *in_registers(edged, grid=(2, threads)), per_step + 1 / edged, threads)

# 8. topi.schedule does all of this from the sizes and a table of machines, for any operands and with whatever follows; it
# skips steps that do not pay, such as packing for few rows. Its result is a program to go on from.
A, B = te.placeholder((edged, edged), name="A"), te.placeholder((edged, edged), name="B")
C = topi.matmul(A, B)
s = topi.schedule(C)
step("topi", s, [A, B, C], per_step + 1 / edged, threads)
print(f"\n{s.as_python()}")

print(f"{'':16}{'GFLOP/s':>9}{'ceiling':>9}{'FLOP/byte':>11}")
for name, intensity, rate, n in taken:
    print(f"{name:16}{rate / 1e9:>9.1f}{rate / flat[n]:>9.0%}{intensity:>11.2f}")

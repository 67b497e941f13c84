"""The inner loop of convolutions: as many multiply-adds as the tile has, and beside them loads and broadcasts alone."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import drawn
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.autoschedule.cpu.conv_plan import Layer, channel_tile, column_tile, plans
from tilewright.codegen.machine import find_machine
from tilewright.codegen.target import Target

CONTROL = re.compile(r"(add|inc|dec|sub|cmp|lea|mov|b\.|j)")
ALLOWED = re.compile(r"v?(fmadd\w*|broadcastss|movu?a?ps|pbroadcastd)|fmla|ldp|ldr|ldur|ld1r?w?|ldn?p|mov|ptrue")

LAYERS = {
    "3x3": ((64, 64, 56, 3, 1, 1), 56),
    "1x1": ((256, 64, 56, 1, 1, 0), 56),
    "7x7": ((3, 64, 224, 7, 2, 3), 112),
    "a small image": ((512, 512, 7, 3, 1, 1), 7),
}


def inner_loops(assembly: str) -> list[list[str]]:
    """The instructions of the loops that enclose no other label."""
    found: list[list[str]] = []
    label, body = "", []
    for line in assembly.splitlines():
        if match := re.match(r"([.\w$]+):", line):
            label, body = match[1], []
        elif match := re.match(r"\s+([a-z][\w.]*)\s*(.*)", line):
            body.append(f"{match[1]} {match[2]}")
            if label and re.search(rf"{re.escape(label)}\b", match[2]) and re.match(r"j|b\.|cb", match[1]):
                found.append(body)
                label, body = "", []
    return found


def build(layer, target):
    c, o, size, k, stride, pad = layer
    x, w = te.placeholder((1, c, size, size), name="x"), te.placeholder((o // 16, c, k, k, 16), name="w")
    y = topi.nn.conv2d_prepacked(x, w, o, stride, pad)
    return tw.build(topi.schedule(y, target), [x, w, y], target)


@pytest.mark.parametrize(
    ("target", "adds"),
    drawn.part(
        [
            ("llvm -mcpu=znver4", r"vfmadd"),
            ("llvm -mcpu=skylake-avx512", r"vfmadd"),
            ("llvm -mcpu=haswell", r"vfmadd"),
            ("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1", r"fmla"),
        ],
        2,
    ),
)
@pytest.mark.parametrize("name", drawn.part(LAYERS, 2))
def test_the_tile_stays_in_registers(name, target, adds):
    (c, o, size, k, stride, pad), out = LAYERS[name]
    machine = find_machine(Target.parse(target))
    lanes = machine.lanes(32)
    tile = channel_tile(Layer(1, 1, o, c, out, out, (k, k), (stride, stride), lanes, 32, padded=pad > 0), machine)
    loops = [
        loop
        for loop in inner_loops(build((c, o, size, k, stride, pad), target).source("asm"))
        if any(re.match(adds, line) for line in loop)
    ]
    sums = tile.vectors * tile.rows * tile.columns
    full = [
        loop for loop in loops if sum(bool(re.match(adds, line)) for line in loop) % sums == 0
    ]  # small ones are unrolled
    assert full, [Counter(line.split()[0] for line in loop) for loop in loops]
    for loop in full:
        assert not any("sp)" in line or "[sp" in line for line in loop), "spilled"
        others = [line for line in loop if not re.match(CONTROL, line) and not re.match(ALLOWED, line)]
        assert not others


def test_tiles_fill_the_registers_they_have():
    for target in ("llvm -mcpu=znver4", "llvm -mcpu=haswell", "llvm -mcpu=nehalem", "llvm -mtriple=aarch64-linux-gnu"):
        machine = find_machine(Target.parse(target))
        for height, width, outputs in [(56, 56, 64), (7, 7, 512), (14, 14, 20), (1, 1, 3), (13, 17, 96), (0, 0, 64)]:
            layer = Layer(1, 1, outputs, 16, height, width, (3, 3), (1, 1), machine.lanes(32), 32)
            tile = channel_tile(layer, machine)
            assert (tile.rows * tile.columns + 1) * tile.vectors + 1 <= machine.registers
            wide = column_tile(layer, machine)
            assert (wide.vectors + 1) * wide.columns // machine.lanes(32) + 1 <= machine.registers


@pytest.mark.parametrize("cores", [1, 2, 3, 4, 8, 16, 64])
def test_tasks_divide_among_threads(cores):
    machine = replace(find_machine(Target.parse("llvm -mcpu=znver4")), cores=cores)
    for size, inputs, outputs, k in [
        (56, 64, 64, 3),
        (56, 256, 64, 1),
        (28, 128, 128, 3),
        (14, 256, 256, 3),
        (112, 3, 64, 7),
    ]:
        layer = Layer(1, 1, outputs, inputs, size, size, (k, k), (1, 1), 16, 32, padded=k > 1)
        chosen = plans(layer, machine)[0]
        tasks = -(-size // chosen.band) * chosen.parts
        assert chosen.band % chosen.tile.rows == 0
        assert tasks / (-(-tasks // cores) * cores) >= 0.85, (cores, chosen)


def test_short_rows_are_one_row_where_no_tap_reads_beside_its_place() -> None:
    layer = Layer(1, 1, 160, 96, 7, 7, (1, 1), (1, 1), 8, 32)
    assert (layer.as_row.height, layer.as_row.width) == (1, 49)
    for other in (
        replace(layer, width=28),
        replace(layer, taps=(3, 3)),
        replace(layer, stride=(2, 2)),
        replace(layer, padded=True),
        replace(layer, height=0),
        replace(layer, groups=2),
        replace(layer, block=8),
        replace(layer, height=300),
    ):
        assert other.as_row is other
    x, w = te.placeholder((1, 96, 7, 7), name="x"), te.placeholder((160, 96, 1, 1), name="w")
    text = str(topi.schedule(topi.nn.conv2d(x, w), "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell"))
    assert "x.global: float32[1, 10, 96, 5]" in text, "ten tiles of five places"


@pytest.mark.parametrize("size", [12, 13])
def test_whole_tiles_are_stored_from_registers(size: int) -> None:
    """Cut ones are kept until a row is summed."""
    x, w = te.placeholder((1, 2, size, size, 16), name="x"), te.placeholder((4, 2, 1, 1, 16, 16), name="w")
    y = topi.nn.relu(topi.nn.conv2d_NCHWc(x, w, (1, 1), (0, 0), (1, 1)))
    s = topi.schedule(y, "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell")
    s.verify()
    stage = s[y]
    unrolled = [axis for axis in stage.leaf_iter_vars if stage.attr(axis).kind == "unrolled"]
    layer = Layer(1, 1, 64, 32, size, size, (1, 1), (1, 1), 8, 32, block=16)
    assert (
        bool(unrolled)
        == plans(layer, find_machine(Target.parse("llvm -mcpu=haswell")))[0].has_full_tiles(layer)
        == (size == 12)
    )

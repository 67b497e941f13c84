"""Schedules for GPUs as people write them, of drawn sizes: tiles in shared memory and registers, pipelines by threads and by the
copy engine, tensor cores, warps with roles, clusters, sums by threads together, chains of windows.

Those of the tests are taken as they are, so this is for a checkout of the repository.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ... import te
from .choices import Choices
from .device_programs import draw_stencils
from .program import Program
from .terms import numpy_type

__all__ = ["BY_HAND", "draw_by_hand"]

SIZES = (1, 7, 16, 31, 33, 45, 64, 72)
HOPPER_SIZES = (8, 31, 64, 72, 131, 136, 200, 264)


def _tests() -> tuple[Any, Any]:
    """The modules of the tests that schedule by hand."""
    folder = str(Path(__file__).resolve().parents[2] / "tests/support")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return import_module("gpu_programs"), import_module("warpgroups")


def _draw_tiled(choices: Choices) -> Any:
    n, m, k = (choices.pick(SIZES) for _ in range(3))
    programs, _ = _tests()
    if choices.chance(0.4):
        return programs.matmul(
            n,
            m,
            k,
            choices.pick([1, 2]),
            choices.pick([1, 4]),
            choices.pick(["float32", "float16"]),
            choices.chance(0.3),
        )
    return programs.pipelined_matmul(
        n,
        m,
        k,
        choices.number(2, 4),
        choices.pick([1, 2, 4]),
        choices.pick(["float32", "float32", "float64"]),
        choices.chance(0.5),
    )


def _tensor_cores(choices: Choices) -> Any:
    programs, _ = _tests()
    n, m, k = (choices.pick(SIZES) for _ in range(3))
    return programs.mma_matmul(
        n,
        m,
        k,
        choices.pick(["kn", "nk"]),
        choices.pick([(2, 2), (2, 1), (1, 2)]),
        choices.pick([(16, 16), (32, 32), (16, 32)]),
        choices.pick([8, 0]),
        choices.pick([1, 8]),
        choices.pick([16, 8]),
    )


def _warpgroups(choices: Choices) -> Any:
    _, programs = _tests()
    dtype = choices.pick(["float16", "bfloat16", "int8", "uint8"])
    layouts = ("mk", "nk") if "int8" in dtype else (choices.pick(["mk", "km"]), choices.pick(["kn", "nk"]))
    groups, bulk = choices.pick([1, 1, 2]), choices.chance(0.7)
    roles = bulk and choices.chance(0.6)
    cluster = choices.pick([1, 2, 2, 4]) if roles else 1
    depth = 128 if "int8" in dtype else 64
    columns = choices.pick([24, 64, 128]) if layouts[1] == "nk" else choices.pick([64, 128])
    n, m, k = (choices.pick(HOPPER_SIZES) for _ in range(3))
    if bulk:  # rows at multiples of 16 bytes
        n, m, k = (-(-extent // 16) * 16 for extent in (n, m, k))
    return programs.wgmma_matmul(
        n,
        m,
        k,
        layouts,
        (64 * groups, columns, depth),
        groups,
        choices.number(2, 4),
        dtype,
        bulk,
        roles,
        choices.pick([0, 0, cluster, 2 * cluster]),
        cluster,
    )


def _draw_fused(choices: Choices) -> Any:
    programs, _ = _tests()
    rows, columns = choices.pick([1, 3, 7, 20]), choices.pick([1, 17, 77, 133, 300])
    kind = choices.pick(["softmax", "reduce", "argmax", "columns", "norm", "transpose", "conv"])
    if kind == "softmax":
        return programs.softmax(rows, columns, choices.pick([16, 32, 64]), choices.pick([1, 2, 3]))
    if kind == "reduce":
        return programs.row_reduce(
            rows,
            columns,
            choices.pick([8, 24, 32, 128]),
            choices.pick([1, 2, 3]),
            choices.pick(["x", "y"]),
            choices.pick(["float32", "int32"]),
        )
    if kind == "argmax":
        return programs.argmax(rows, columns, choices.pick([8, 32, 64]))
    if kind == "columns":
        return programs.column_sums(columns, rows)
    if kind == "norm":
        return programs.row_norm(rows, columns)
    if kind == "transpose":
        return programs.transpose(choices.pick(SIZES), choices.pick(SIZES), align=choices.chance(0.5))
    window = choices.pick([1, 2, 3])
    return programs.conv2d(
        choices.pick([1, 4, 5]), choices.pick([4, 8, 11]), choices.pick([1, 4, 7]), window, window // 2
    )


BY_HAND: dict[str, Callable[[Choices], Any]] = {
    "tiles by hand": _draw_tiled,
    "tensor cores by hand": _tensor_cores,
    "warpgroups by hand": _warpgroups,
    "threads together": _draw_fused,
}


def draw_by_hand(choices: Choices, kind: str) -> tuple[Program, Any]:
    """A program with the schedule that belongs to it."""
    if kind == "stencils by hand":
        return _stencils(choices)
    made = BY_HAND[kind](choices)
    program = Program(kind, tolerance=made.tolerance * 10)
    rng = choices.contents()
    for tensor in made.args[:-1]:
        low, high = (0, 256) if tensor.dtype == "uint8" else (-8, 9)
        shape = [int(extent) for extent in tensor.shape]
        together, dtype = kind == "threads together", str(tensor.dtype)
        whole = rng.permutation(int(np.prod(shape))).reshape(shape) if together else rng.integers(low, high, shape)
        spread = 1 / max(whole.size, 1) if together and "int" not in dtype else 1
        program.add_argument(tensor, (whole * spread).astype(numpy_type(dtype)))
    result = made.args[-1]
    shape = [int(extent) for extent in result.shape]
    expected = np.asarray(made.reference(*program.values)).reshape(shape)
    program.result(result, expected.astype(numpy_type(str(result.dtype))))
    return program, made.schedule


def _stencils(choices: Choices) -> tuple[Program, Any]:
    """The last stage in tiles by blocks; those before it for each in shared memory, for each thread, or where it reads them."""
    program = draw_stencils(choices)
    result = program.args[program.results.index(True)]
    s: Any = te.create_schedule(result.op)
    height, width = choices.pick([2, 4, 8]), choices.pick([8, 16, 32])
    rows, columns, i, j = s[result].tile(*result.op.axis, height, width)
    s[result].bind(rows, te.thread_axis("blockIdx.y"))
    s[result].bind(columns, te.thread_axis("blockIdx.x"))
    s[result].bind(i, te.thread_axis((0, height), "threadIdx.y"))
    s[result].bind(j, te.thread_axis((0, width), "threadIdx.x"))
    stages = [stage for stage in s.stages if stage.op.input_tensors and stage.op is not result.op]
    wide = False  # what another stage reads for a whole block is there for a whole block
    for stage in reversed(stages):
        where = choices.pick(["shared", "inline"] if wide else ["shared", "inline", "local"])
        if where == "inline":
            stage.compute_inline()
            continue
        stage.compute_at(s[result], columns if where == "shared" else j)
        if where == "shared":
            wide = True
            rest = stage.fuse(*stage.op.axis)
            for extent, name in ((width, "x"), (height, "y")):
                rest, part = stage.split(rest, extent)
                stage.bind(part, te.thread_axis((0, extent), f"threadIdx.{name}"))
    program.name = "stencils by hand"
    return program, s

"""Boxes by the copy engine: right at any size in the emulator, the instructions in the machine code, planted faults, refusals."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from gpu_programs import Program, block, thread
from planted_faults import exact_in_every_order
from tilewright import te
from tilewright.base.errors import CudaError, ScheduleError
from warpgroups import TARGET, wgmma_matmul

CASES: dict[str, dict[str, Any]] = {
    "rows of both": {"m": 131, "n": 72, "k": 200},
    "columns of A, two groups": {
        "m": 136,
        "n": 23,
        "k": 136,
        "layouts": ("km", "nk"),
        "tile": (128, 24, 64),
        "groups": 2,
    },
    "bfloat16 by columns": {
        "m": 40,
        "n": 136,
        "k": 137,
        "layouts": ("km", "kn"),
        "tile": (64, 128, 64),
        "dtype": "bfloat16",
    },
    "bytes": {"m": 65, "n": 31, "k": 272, "layouts": ("mk", "nk"), "tile": (64, 32, 128), "dtype": "int8"},
    "one part of the sum": {"m": 1, "n": 8, "k": 8, "stages": 2},
    "rows of 64 bytes": {"m": 65, "n": 24, "k": 72, "layouts": ("mk", "nk"), "tile": (64, 24, 32)},
    "rows of 32 bytes": {
        "m": 64,
        "n": 31,
        "k": 144,
        "layouts": ("mk", "nk"),
        "tile": (64, 32, 32),
        "dtype": "int8",
        "stages": 4,
    },
    "roles": {"m": 131, "n": 72, "k": 200, "roles": True},
    "roles, two groups": {
        "m": 136,
        "n": 23,
        "k": 264,
        "layouts": ("km", "nk"),
        "tile": (128, 24, 64),
        "groups": 2,
        "roles": True,
    },
    "resident blocks": {"m": 200, "n": 136, "k": 136, "resident": 3},
    "roles, products that end late": {"m": 131, "n": 72, "k": 392, "roles": True, "stages": 4},
    "resident pairs, products that end late": {
        "m": 192,
        "n": 128,
        "k": 328,
        "resident": 2,
        "roles": True,
        "cluster": 2,
        "stages": 4,
    },
    "pairs": {"m": 131, "n": 128, "k": 200, "roles": True, "cluster": 2},
    "pairs of two groups": {
        "m": 256,
        "n": 48,
        "k": 264,
        "layouts": ("km", "nk"),
        "tile": (128, 24, 64),
        "groups": 2,
        "roles": True,
        "cluster": 2,
    },
    "four blocks": {"m": 64, "n": 250, "k": 136, "layouts": ("mk", "nk"), "roles": True, "cluster": 4},
    "a tile too many for resident pairs": {"m": 192, "n": 64, "k": 136, "resident": 2, "roles": True, "cluster": 2},
    "resident pairs": {"m": 200, "n": 128, "k": 136, "resident": 2, "roles": True, "cluster": 2},
    "stored by boxes": {"m": 131, "n": 72, "k": 200, "stored": 64},
    "stored by boxes, in parts, by two groups": {
        "m": 200,
        "n": 100,
        "k": 200,
        "tile": (128, 64, 64),
        "groups": 2,
        "roles": True,
        "stored": 16,
    },
    "stored by boxes of resident pairs": {
        "m": 200,
        "n": 128,
        "k": 136,
        "resident": 2,
        "roles": True,
        "cluster": 2,
        "stored": 32,
    },
    "resident blocks with roles": {"m": 264, "n": 136, "k": 136, "resident": 4, "roles": True, "stages": 2},
}


def window(n: int, m: int, stages: int = 3, dtype: str = "float32", tile: tuple[int, int] = (8, 32)) -> Program:
    """Sums of a row and the one above, where zeros lie outside: boxes that begin before the tensor, and end behind it."""
    A = te.placeholder((n, m), dtype, name="A")
    P = te.compute((n + 1, m), lambda i, j: te.if_then_else(i >= 1, A[i - 1, j], te.const(0, dtype)), name="P")
    C = te.compute((n, m), lambda i, j: P[i, j] + P[i + 1, j] * 2, name="C")
    s = te.create_schedule(C.op)
    rows, i = s[C].split(C.op.axis[0], factor=tile[0])
    columns, j = s[C].split(C.op.axis[1], factor=tile[1])
    s[C].reorder(rows, columns, i, j)
    s[C].bind(rows, block("x"))
    s[C].bind(j, thread(tile[1]))
    s[P].set_scope("shared")
    s[P].compute_at(s[C], columns)
    s[P].pipeline(stages, by="tma")

    def reference(a: np.ndarray) -> np.ndarray:
        above = np.vstack([np.zeros((1, m), a.dtype), a])[:n]
        return above + a * 2

    return Program(s, [A, C], reference)


@pytest.mark.parametrize("name", drawn.part(CASES, 2))
def test_products_of_boxes_are_exact_at_any_size_and_in_any_order_of_threads(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = wgmma_matmul(**{"bulk": True, **CASES[name]})
    kernel = tw.build(program.schedule, program.args, target=TARGET)
    inputs = exact_in_every_order(program, kernel, monkeypatch)
    found = one_element_on(program.output())
    kernel(*map(one_element_on, inputs), found)
    np.testing.assert_array_equal(
        found, program.reference(*inputs), err_msg="where the engine takes no address, a thread copies"
    )


def one_element_on(values: np.ndarray) -> np.ndarray:
    """The same numbers, an element beyond a multiple of 16 bytes."""
    memory = np.empty(values.nbytes + 64, np.uint8)
    begin = -memory.ctypes.data % 16 + values.itemsize
    moved = memory[begin : begin + values.nbytes].view(values.dtype).reshape(values.shape)
    moved[...] = values
    return moved


@pytest.mark.parametrize(
    ("n", "m", "dtype"),
    drawn.part([(17, 100, "float32"), (1, 4, "float32"), (9, 8, "float64"), (31, 33 * 16, "int8")], 2),
)
def test_zeros_lie_outside_on_every_side(n: int, m: int, dtype: str) -> None:
    program = window(n, m, dtype=dtype, tile=(7, 128) if dtype == "int8" else (7, 32))
    a = np.random.default_rng(n).integers(-9, 10, (n, m)).astype(dtype)
    for target in (TARGET, "cuda -emulate -arch=sm_80", "llvm"):
        found = np.empty((n, m), dtype)
        tw.build(program.schedule, program.args, target=target)(a, found)
        np.testing.assert_array_equal(found, program.reference(a), err_msg=target)


def test_the_machine_code_asks_the_copy_engine_and_keeps_sums_in_registers() -> None:
    program = wgmma_matmul(512, 512, 4096, tile=(128, 128, 64), groups=2, bulk=True)
    kernel = tw.build(program.schedule, program.args, target="cuda -arch=sm_90a")
    launch = kernel.kernels[0]
    assert launch.instructions["HGMMA"] == 4 and launch.instructions["UTMALDG"] == 3 and "SYNCS" in launch.instructions
    assert not {"LDGSTS.128", "LDS.128", "LDG.128"} & {*launch.instructions}, "no thread moves what is multiplied"
    assert launch.spilled_bytes == 0 and "UTMALDG.2D" in kernel.source("sass")
    a, b, *rest = launch.args
    assert (a.argument, a.box, a.strides, a.swizzle) == (0, (128, 64), (8192, 2), 128)
    assert (b.argument, b.box, b.strides, b.swizzle) == (1, (64, 64), (1024, 2), 128) and rest == [2]


def test_the_verifier_takes_barriers_in_memory_at_every_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_VERIFY", "1")
    program = wgmma_matmul(64, 64, 192, bulk=True, roles=True)
    assert "tw_bulk_init" in tw.build(program.schedule, program.args, target=TARGET).source("cuda")


def test_the_schedule_replays_and_says_who_copies() -> None:
    program = wgmma_matmul(64, 64, 192, bulk=True)
    assert "pipeline(3, by='tma')" in program.schedule.as_python()
    assert 'tw_bulk_wait", ' in str(tw.lower(program.schedule, program.args))


def test_blocks_of_a_cluster_fetch_what_both_read_once() -> None:
    program = wgmma_matmul(512, 512, 4096, tile=(128, 128, 64), groups=2, bulk=True, roles=True, cluster=2)
    kernel = tw.build(program.schedule, program.args, target="cuda -arch=sm_90a")
    launch, code = kernel.kernels[0], kernel.source("sass")
    assert launch.cluster == (2, 1, 1) and launch.grid == (4, 4, 1) and launch.spilled_bytes == 0
    assert launch.instructions["HGMMA"] == 4 and not {"MEMBAR", "BAR"} & {*launch.instructions}
    asked = {name: count for name, count in launch.copy_instructions.items() if name.startswith("UTMALDG")}
    assert asked == {"UTMALDG.MULTICAST": 1, "UTMALDG": 2}, (
        "half of A's tile for both, two panels of columns of its own"
    )
    assert "UTMALDG.2D.MULTICAST" in code
    assert [each.box for each in launch.args[:2]] == [(64, 64), (64, 64)]
    assert "warp_specialize=True, cluster=2)" in program.schedule.as_python()


def test_blocks_that_make_no_whole_clusters_are_refused() -> None:
    program = wgmma_matmul(64, 192, 136, bulk=True, roles=True, cluster=2)
    with pytest.raises(CudaError, match=r"(?s)TW0841.*there are 3 blocks along blockIdx.x, no whole clusters of 2"):
        tw.build(program.schedule, program.args, target=TARGET)


@pytest.mark.parametrize(
    ("stages", "said", "reason"),
    [
        (2, {"cluster": 3, "warp_specialize": True}, "clusters of 3 blocks"),
        (2, {"cluster": 2}, "no warps of their own"),
        (2, {"cluster": True, "warp_specialize": True}, "clusters of True blocks"),
    ],
)
def test_clusters_of_other_sizes_are_refused(stages: int, said: dict[str, Any], reason: str) -> None:
    with pytest.raises(ScheduleError, match=rf"(?s)TW0252.*{reason}"):
        copied((64, 64), lambda A, i, j: A[i, j], lambda s, t: s[t].pipeline(stages, by="tma", **said))


def test_warps_with_roles_pass_registers_on_and_meet_at_no_barrier_of_the_block() -> None:
    program = wgmma_matmul(512, 512, 4096, tile=(128, 128, 64), groups=2, bulk=True, roles=True)
    kernel = tw.build(program.schedule, program.args, target="cuda -arch=sm_90a")
    launch, code = kernel.kernels[0], kernel.source("sass")
    assert launch.block == (128, 3, 1) and launch.spilled_bytes == 0
    assert launch.instructions["HGMMA"] == 4 and launch.instructions["SYNCS"] == 2
    assert not {"UTMALDG", "BAR", "LDGSTS.128"} & {*launch.instructions}
    assert launch.copy_instructions["UTMALDG"] == 3 and "HGMMA" not in launch.copy_instructions, "other warps ask"
    assert re.search(r"USETMAXREG\.DEALLOC\S* 0x28", code) and re.search(r"USETMAXREG\.TRY_ALLOC\S* \S+ 0xe8", code)
    assert "pipeline(3, by='tma', warp_specialize=True)" in program.schedule.as_python()


def test_products_of_long_pipelines_end_while_the_next_ones_run() -> None:
    for stages, late in ((3, False), (4, True)):
        program = wgmma_matmul(128, 64, 4096, bulk=True, roles=True, stages=stages)
        kernel = tw.build(program.schedule, program.args, target="cuda -arch=sm_90a")
        assert ("tw_wgmma_wait<1>();" in kernel.source("cuda")) == late
        assert "tw_wgmma_wait<0>();" in kernel.source("cuda") and kernel.kernels[0].spilled_bytes == 0
        assert kernel.kernels[0].instructions["HGMMA"] == 4  # which the compiler would else begin one by one


def test_results_leave_by_boxes_while_sums_stay_in_registers() -> None:
    said: dict[str, Any] = {"tile": (128, 256, 64), "groups": 2, "bulk": True, "roles": True, "stages": 4}
    program = wgmma_matmul(512, 512, 4096, stored=32, **said)
    kernel = tw.build(program.schedule, program.args, target="cuda -arch=sm_90a")
    code, launch = kernel.source("sass"), kernel.kernels[0]
    assert code.count("UTMASTG.2D") == 8 and "STS" in code and launch.spilled_bytes == 0
    assert not re.search(r"\bSTG?\.E", code), "no thread stores to memory, nor by addresses of any memory"
    assert launch.instructions["HGMMA"] == 4 and "tw_wgmma_wait<1>();" in kernel.source("cuda"), (
        "there is room for four stages"
    )
    program = wgmma_matmul(512, 512, 4096, stored=64, **said)
    program.schedule[program.args[-1]].reorder(*reversed(program.schedule[program.args[-1]].leaf_iter_vars[-2:]))
    with pytest.raises(CudaError, match=r"(?s)TW0841"):
        tw.build(program.schedule, program.args, target="cuda -arch=sm_90a")


def test_roles_that_cannot_be_are_refused() -> None:
    few = copied((64, 64), lambda A, i, j: A[i, j], lambda s, t: s[t].pipeline(2, by="tma", warp_specialize=True))
    with pytest.raises(CudaError, match=r"(?s)TW0841.*a block of 8 threads is not of whole groups of four warps"):
        tw.build(few.schedule, few.args, target=TARGET)
    with pytest.raises(ScheduleError, match=r"(?s)TW0252.*only the copy engine"):
        copied((64, 64), lambda A, i, j: A[i, j], lambda s, t: s[t].pipeline(2, warp_specialize=True))


def copied(
    shape: tuple[int, ...], element: Callable[..., Any], change: Callable[[Any, Any], None] = lambda s, t: None
) -> Program:
    """A tile of a tensor in shared memory, filled by the copy engine."""
    A = te.placeholder(shape, name="A")
    T = te.compute((64, 64), lambda i, j: element(A, i, j), name="T")
    C = te.compute((64, 64), lambda i, j: T[i, j] + 1, name="C")
    s = te.create_schedule(C.op)
    b, rows = s[C].split(C.op.axis[0], factor=16)
    rows, i = s[C].split(rows, factor=8)
    s[C].bind(b, block("x"))
    s[C].bind(i, thread(8))
    s[T].set_scope("shared")
    s[T].compute_at(s[C], rows)
    s[T].pipeline(2, by="tma")
    change(s, T)
    return Program(s, [A, C], lambda a: a)


def bound(s: Any, tile: Any) -> None:
    s[tile].bind(s[tile].op.axis[0], thread(8))


def padded(s: Any, tile: Any) -> None:
    s[tile].storage_align(tile.op.axis[0], 32, 8)


REFUSED: dict[str, tuple[Callable[[], Program], str]] = {
    "turned": (lambda: copied((64, 64), lambda A, i, j: A[j, i]), "no dimensions|are not those of A"),
    "computed": (lambda: copied((64, 64), lambda A, i, j: A[i, j] * 2), "not a copy, element by element"),
    "ones outside": (
        lambda: copied((60, 64), lambda A, i, j: te.if_then_else(i < 60, A[te.min(i, 59), j], 1.0)),
        "no 0",
    ),
    "odd rows": (lambda: copied((64, 66), lambda A, i, j: A[i, j]), "not a multiple of 16 bytes"),
    "strided": (lambda: copied((64, 128), lambda A, i, j: A[i, j * 2]), "not a place and one of its loops"),
    "left out": (lambda: copied((64, 64), lambda A, i, j: te.if_then_else(j > 3, A[i, j], 0.0)), "leaves out elements"),
    "six dimensions": (lambda: copied((1, 1, 1, 1, 64, 64), lambda A, i, j: A[0, 0, 0, 0, i, j]), "6 dimensions"),
    "bound": (lambda: copied((64, 64), lambda A, i, j: A[i, j], bound), "bound, vectorized"),
    "padded": (lambda: copied((64, 64), lambda A, i, j: A[i, j], padded), "one behind"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_box_is_refused(name: str) -> None:
    make, message = REFUSED[name]
    program = make()
    with pytest.raises(CudaError, match=rf"(?s)TW0841.*({message})"):
        tw.build(program.schedule, program.args, target=TARGET)


def test_unknown_copiers_are_refused() -> None:
    with pytest.raises(ScheduleError, match=r'(?s)TW0252.*nothing copies by .dma.*by="tma"'):
        copied((64, 64), lambda A, i, j: A[i, j], lambda s, t: s[t].pipeline(2, by="dma"))

"""Products by four warps: exact in the emulator, the instructions in the machine code, planted faults, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from planted_faults import BARRIER, exact_in_every_order
from tilewright import te
from tilewright.base.errors import CudaError, TensorExpressionError
from tilewright.codegen.cuda.device_functions import DEVICE_FUNCTIONS
from tilewright.codegen.cuda.nvrtc import compile_cuda
from warpgroups import TARGET, wgmma_matmul, whole_numbers

CASES: dict[str, dict[str, Any]] = {
    "rows of both": {"m": 70, "n": 40, "k": 72},
    "columns of A, two groups": {
        "m": 131,
        "n": 24,
        "k": 8,
        "layouts": ("km", "nk"),
        "tile": (128, 24, 64),
        "groups": 2,
    },
    "bfloat16 by columns": {
        "m": 33,
        "n": 129,
        "k": 17,
        "layouts": ("km", "kn"),
        "tile": (64, 128, 64),
        "dtype": "bfloat16",
    },
    "bytes": {"m": 65, "n": 31, "k": 130, "layouts": ("mk", "nk"), "tile": (64, 32, 128), "dtype": "int8"},
    "bytes without a sign": {
        "m": 64,
        "n": 40,
        "k": 96,
        "layouts": ("mk", "nk"),
        "tile": (64, 48, 128),
        "dtype": "uint8",
    },
    "A in registers": {"m": 70, "n": 40, "k": 72, "square": True, "held": True},
    "bytes of A in registers": {
        "m": 64,
        "n": 24,
        "k": 70,
        "layouts": ("mk", "nk"),
        "tile": (64, 24, 128),
        "dtype": "int8",
        "square": True,
        "held": True,
    },
    "TF32": {
        "m": 65,
        "n": 40,
        "k": 70,
        "layouts": ("mk", "nk"),
        "tile": (64, 40, 32),
        "dtype": "float32",
    },
    "TF32 of A in registers": {
        "m": 70,
        "n": 24,
        "k": 40,
        "layouts": ("mk", "nk"),
        "tile": (64, 24, 32),
        "dtype": "float32",
        "square": True,
        "held": True,
    },
    "rows of 64 bytes": {"m": 65, "n": 24, "k": 72, "layouts": ("mk", "nk"), "tile": (64, 24, 32)},
    "rows of 32 bytes": {"m": 64, "n": 16, "k": 80, "layouts": ("mk", "nk"), "tile": (64, 16, 16), "stages": 2},
    "without a pipeline": {"m": 1, "n": 1, "k": 1, "layouts": ("mk", "nk"), "tile": (64, 8, 128), "stages": 1},
}


@pytest.mark.parametrize("name", drawn.part(CASES, 2))
def test_products_are_exact_at_any_size_and_in_any_order_of_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = wgmma_matmul(**CASES[name])
    kernel = tw.build(program.schedule, program.args, target=TARGET)
    exact_in_every_order(program, kernel, monkeypatch)
    if name == "rows of both":  # which come by 16 bytes
        assert kernel.kernels[0].bank_conflicts == 0, "parts of rows are exchanged so that threads meet no bank twice"


@pytest.mark.parametrize("groups", [1, 2])
def test_a_warpgroup_of_4_by_32_threads(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row of a thread was taken from threadIdx.x alone."""
    program = wgmma_matmul(70, 40, 72, tile=(64 * groups, 64, 64), groups=groups, square=True)
    kernel = tw.build(program.schedule, program.args, target=TARGET)
    assert kernel.kernels[0].block == (4, 32, groups)
    exact_in_every_order(program, kernel, monkeypatch)


def test_the_place_of_a_thread_is_computed_once() -> None:
    """Whatever tells a warp, a lane or a warpgroup asks the one function."""
    found = [name for name, text in DEVICE_FUNCTIONS.items() if re.search(r"\bthreadIdx\b", text)]
    assert found == ["tw_thread"]


def test_without_warpgroups_the_same_schedule_runs_as_loops() -> None:
    program = wgmma_matmul(66, 9, 70)
    inputs, found = whole_numbers(program), program.output()
    tw.build(program.schedule, program.args, target="llvm")(*inputs, found)
    np.testing.assert_array_equal(found, program.reference(*inputs))


def test_the_machine_code_has_the_instructions_and_keeps_sums_in_registers() -> None:
    program = wgmma_matmul(512, 512, 4096, tile=(128, 128, 64), groups=2)
    kernel = tw.build(program.schedule, program.args, target="cuda -arch=sm_90a")
    assert "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16" in kernel.source("ptx")
    launch = kernel.kernels[0]
    assert (
        launch.instructions["HGMMA"] == 4
        and launch.instructions["LDGSTS.128"] == 8
        and "LDS.128" not in launch.instructions
    )
    assert launch.spilled_bytes == 0 and not re.search(r"\b(LDL|STL|HADD2|F2F)\b", kernel.source("sass"))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_bytes_of_either_kind_are_multiplied_by_warpgroups_where_the_rules_say_so(dtype: str) -> None:
    A, B = te.placeholder((512, 512), dtype, name="A"), te.placeholder((512, 512), dtype, name="B")
    k = te.reduce_axis((0, 512), name="k")
    C = te.compute((512, 512), lambda i, j: te.sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k), name="C")
    s = tw.autoschedule.schedule([C], "cuda -arch=sm_90a")
    assert s.plan[0].description.startswith("warpgroups")
    kind = "u8" if dtype == "uint8" else "s8"
    assert f"k32.s32.{kind}.{kind}" in tw.build(s, [A, B, C], target="cuda -arch=sm_90a").source("ptx")


def test_copies_of_later_iterations_begin_while_products_are_under_way() -> None:
    program = wgmma_matmul(64, 64, 400)
    loop = tw.build(program.schedule, program.args, target=TARGET).source("cuda").partition("for (int k_outer")[2]
    places = [
        loop.index(each)
        for each in (
            "tw_copies_wait",
            BARRIER,
            "tw_wgmma_float16",
            "tw_wgmma_commit",
            "tw_copy<16>",
            "tw_copies_commit",
            "tw_wgmma_wait<0>",
        )
    ]
    assert places == sorted(places) and loop[: places[-1]].count(BARRIER) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("kn", 60, 64, 64), "is not a 60 by 64 by 64 one"),
        (("kn", 64, 72, 64), "is not a 64 by 72 by 64 one"),
        (("nk", 64, 264, 64), "is not a 64 by 264"),
        (("kn", 64, 64, 64, "int8"), "takes no layouts"),
        (("kn", 64, 64, 32, "float32"), "takes no layouts"),
        (("nk", 64, 64, 64, "float64"), "not of 'float64'"),
    ],
)
def test_what_the_instruction_does_not_have_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TensorExpressionError, match=rf"TW0132.*{message}"):
        te.intrinsics.get("cuda.wgmma", *arguments)
    with pytest.raises(TensorExpressionError, match=r"TW0132.*stores no 64 by 4"):
        te.intrinsics.get("cuda.wgmma_store", 64, 4)


def test_swizzled_memory_of_half_panels_is_refused() -> None:
    program = wgmma_matmul(64, 64, 48, ("mk", "kn"), (64, 64, 48))
    with pytest.raises(CudaError, match=r"(?s)TW0840.*A.matrix, of shape \[64, 48\].*8 rows by 64 elements"):
        tw.build(program.schedule, program.args, target=TARGET)
    columns = wgmma_matmul(64, 32, 64, ("mk", "kn"), (64, 32, 64))
    with pytest.raises(CudaError, match=r"(?s)TW0840.*B.matrix, with rows of 64 bytes, is multiplied by columns"):
        tw.build(columns.schedule, columns.args, target=TARGET)


@pytest.mark.parametrize("groups", [2, 3, 4])
def test_threads_exchange_the_registers_that_the_launch_has(groups: int) -> None:
    """ptxas knows how many each begins with, and together they ask for no more, which they would wait for without end."""
    program = wgmma_matmul(64 * groups, 64, 128, groups=groups, tile=(64 * groups, 64, 64), bulk=True, roles=True)
    kernel = tw.build(program.schedule, program.args, target="cuda -arch=sm_90a")
    text, threads = kernel.source("cuda"), 128 * groups
    more, fewer = (int(re.findall(rf"tw_{word}_registers<(\d+)>", text)[0]) for word in ("more", "fewer"))
    assert f"__launch_bounds__({threads + 128}, 1)" in text
    log = compile_cuda(text, "sm_90a", ("--fmad=false",)).log
    assert "setmaxnreg" not in log, "nothing is ignored"
    at_entry = int(re.findall(r"Used (\d+) registers", log)[0])
    assert fewer < at_entry < more <= 240
    assert threads * more + 128 * fewer <= (threads + 128) * at_entry <= 65536

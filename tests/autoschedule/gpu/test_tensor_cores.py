"""Products on tensor cores, as the rule schedules them: on the emulator what the program means, and what they are compiled to."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import drawn
import gpu_choices
import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.autoschedule.gpu import hopper
from tilewright.autoschedule.plan import Candidate
from tilewright.autoschedule.scheduler import schedule
from tilewright.codegen.gpus import GPUS

SUMS = {"float16": "float32", "bfloat16": "float32", "int8": "int32"}
MULTIPLIED = (*SUMS, "float32", "uint8", "uint8 int8", "int8 uint8")
"""float32: rounded to TF32; two words: of each side."""
KINDS = {"tensor cores": "cuda -emulate", "warpgroups": "cuda -emulate -arch=sm_90a"}
"""What ways are called, and where they are tried."""


def product(
    rows: int,
    columns: int,
    terms: int,
    dtype: str = "float16",
    turned: tuple[bool, bool] = (False, False),
    batch: int = 0,
) -> Any:
    """turned: whether A is stored by columns, and B."""
    outer = (batch,) if batch else ()
    first, second = dtype.split() * 2 if " " not in dtype else dtype.split()
    A = te.placeholder((*outer, *((terms, rows) if turned[0] else (rows, terms))), first, name="A")
    B = te.placeholder((*outer, *((columns, terms) if turned[1] else (terms, columns))), second, name="B")
    sums = SUMS.get(dtype, "int32")
    k = te.reduce_axis((0, terms), "k")

    def term(*at: Any) -> Any:
        *before, i, j = at
        left, right = A[(*before, *((k, i) if turned[0] else (i, k)))], B[(*before, *((j, k) if turned[1] else (k, j)))]
        if dtype == "float32":
            return te.sum(te.tf32(left) * te.tf32(right), axis=k)
        return te.sum(left.astype(sums) * right.astype(sums), axis=k)

    return te.compute((*outer, rows, columns), term, name="C")


def convolution(rng: np.random.Generator) -> Any:
    """Windows of an image with a border of zeros, as half-precision layers have them."""
    size, window, channels, filters = (int(rng.integers(*range_)) for range_ in ((5, 17), (1, 4), (1, 20), (9, 40)))
    image = te.placeholder((2, channels, size, size), "float16", name="image")
    weights = te.placeholder((filters, channels, window, window), "float16", name="weights")
    border, zero = window // 2, te.const(0, "float16")
    wide = size + 2 * border
    padded = te.compute(
        (2, channels, wide, wide),
        lambda n, c, y, x: te.if_then_else(
            te.all(y >= border, y < size + border, x >= border, x < size + border),
            image[n, c, y - border, x - border],
            zero,
        ),
        "pad",
    )
    c, r, q = te.reduce_axis((0, channels), "c"), te.reduce_axis((0, window), "r"), te.reduce_axis((0, window), "q")
    extent = wide - window + 1
    sums = te.compute(
        (2, filters, extent, extent),
        lambda n, f, y, x: te.sum(
            padded[n, c, y + r, x + q].astype("float32") * weights[f, c, r, q].astype("float32"), axis=[c, r, q]
        ),
        name="conv",
    )
    return te.compute((2, filters, extent, extent), lambda *at: te.max(sums[at], 0.0).astype("float16"), name="relu")


def some_tensor_way(rng: np.random.Generator, kind: str = "tensor cores") -> Callable[[Sequence[Candidate]], int]:
    def choose(ways: Sequence[Candidate]) -> int:
        own = [at for at, way in enumerate(ways) if way.description.startswith(kind)]
        return int(rng.choice(own)) if own else 0

    return choose


@pytest.mark.parametrize("at", range(drawn.count(2, 300)))
def test_drawn_products_are_right_in_every_way_that_there_is(at: int) -> None:
    rng = drawn.rng("tensor cores", at)
    rows, columns = (int(rng.choice([9, 16, 31, 33, 64, 67, 130])) for _ in range(2))
    terms, dtype = int(rng.choice([9, 16, 32, 63, 65, 128, 200])), str(rng.choice(MULTIPLIED))
    turned = bool(rng.integers(2)), bool(rng.integers(2))
    output = product(rows, columns, terms, dtype, turned, int(rng.choice([0, 0, 2])))
    kind, target = list(KINDS.items())[at % 2]
    assert gpu_choices.differs(output, rng, some_tensor_way(rng, kind), target=target) == ""


@pytest.mark.parametrize("at", range(drawn.count(1, 100)))
def test_drawn_convolutions_are_right(at: int) -> None:
    rng = drawn.rng("convolutions on tensor cores", at)
    kind, target = rng.choice(list(KINDS.items()))
    assert gpu_choices.differs(convolution(rng), rng, some_tensor_way(rng, kind), tolerance=2e-3, target=target) == ""


def test_sums_of_integers_are_exact_and_those_of_floats_are_not_taken_where_exact_ones_are_asked_for() -> None:
    target = "cuda -arch=sm_80"
    whole = tw.autoschedule.schedule([product(256, 256, 256, "int8")], target)
    assert whole.is_exact and whole.plan[0].description.startswith("tensor cores")
    floats = product(256, 256, 256)
    assert not tw.autoschedule.schedule([floats], target).is_exact
    assert tw.autoschedule.schedule([floats], target, exact=True).is_exact


@pytest.mark.parametrize(
    ("dtype", "arch"),
    drawn.part([(dtype, arch) for dtype in MULTIPLIED for arch in ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100")], 1),
)
def test_machine_code_has_the_instructions_and_nothing_else_that_costs(dtype: str, arch: str) -> None:
    output = product(1024, 1024, 1024, dtype, (False, "int8" in dtype))
    s = tw.autoschedule.schedule([output], f"cuda -arch={arch}")
    kernel = tw.build(s, [*gpu_choices.inputs_of(output), output], target=f"cuda -arch={arch}")
    code = kernel.source("sass")
    instruction = "IMMA" if "int8" in dtype else "HMMA"
    assert len(re.findall(rf"\b{instruction}\.", code)) >= 32 and "LDSM" in code
    assert kernel.kernels[0].spilled_bytes == 0
    assert len(re.findall(r"LDGSTS\S*\.128", code)) >= 8, "16 bytes at once, past the registers"
    assert not re.search(r"\b(LDL|STL|LDG|F2F|HADD|I2F|F2I)\b", code), (
        "no spills, no loads by registers, no conversions"
    )
    assert kernel.kernels[0].dynamic_shared_bytes <= GPUS[arch].block_shared


@pytest.mark.parametrize("columns", [1024, 1004])
@pytest.mark.parametrize("dtype", drawn.part(list(SUMS), 1))
def test_warpgroups_multiply_from_shared_memory_and_nothing_else_costs(dtype: str, columns: int) -> None:
    """Whole rows of 16 bytes come by the copy engine, which one thread asks; others are copied by threads, 16 bytes at once where
    these lie so in memory."""
    output = product(1024, columns, 1024, dtype, (False, dtype == "int8"))
    boxes = columns == 1024 or dtype == "int8"
    s = tw.autoschedule.schedule([output], "cuda -arch=sm_90a")
    assert s.plan[0].description.startswith("warpgroups") and (" of boxes" in s.plan[0].description) == boxes
    kernel = tw.build(s, [*gpu_choices.inputs_of(output), output], target="cuda -arch=sm_90a")
    launch, code = kernel.kernels[0], kernel.source("sass")
    assert launch.instructions["IGMMA" if dtype == "int8" else "HGMMA"] >= 4
    copies = {name for name in launch.instructions if name.startswith(("LDGSTS", "UTMALDG", "LDG", "STS"))}
    assert not copies and "UTMALDG" in code if boxes else "LDGSTS.128" in copies, "other warps ask for boxes"
    assert not re.search(r"\b(LDL|STL|LDSM|F2F|HADD|I2F|F2I)\b", code) and launch.spilled_bytes == 0


@pytest.mark.parametrize(
    ("rows", "columns", "terms", "dtype", "turned", "batch", "activated"),
    drawn.part(
        [
            (100, 200, 136, "float16", (False, False), 0, "float16"),
            (65, 72, 264, "bfloat16", (False, True), 2, "float32"),
            (136, 33, 136, "float16", (True, True), 0, ""),
            (72, 88, 100, "float16", (True, False), 3, "float16"),
            (33, 31, 272, "int8", (False, True), 0, ""),
            (150, 80, 272, "int8", (False, True), 0, "int32"),
            (72, 33, 100, "float32", (False, True), 2, ""),
        ],
        2,
    ),
)
def test_products_of_boxes_are_exact(
    rows: int, columns: int, terms: int, dtype: str, turned: tuple[bool, bool], batch: int, activated: str
) -> None:
    """Of odd sizes along all but the rows in memory, in each of several ways; activated: the dtype of what threads make of their sums
    and a bias, for the copy engine to store."""
    output = product(rows, columns, terms, dtype, turned, batch)
    if activated:
        bias, sums = te.placeholder((columns,), activated, name="bias"), output
        output = te.compute(
            sums.shape,
            lambda *at: te.max(sums[at] + bias[at[-1]].astype(sums.dtype), 0).astype(activated),
            name="relu",
        )
    rng = np.random.default_rng(rows)
    kernel, tensors = in_boxes(output, rng, "of what threads make" if activated else " of boxes")
    a, b, *biases = (
        rng.integers(-4, 5, [int(extent) for extent in each.shape]).astype(
            ml_dtypes.bfloat16 if str(each.dtype) == "bfloat16" else str(each.dtype)
        )
        for each in tensors[:-1]
    )
    found = np.empty([int(extent) for extent in output.shape], activated or SUMS.get(dtype, "float32"))
    kernel(a, b, *biases, found)
    left, right = (
        each.astype("float64").swapaxes(-1, -2) if turn else each.astype("float64")
        for each, turn in zip((a, b), turned, strict=True)
    )
    sums = left @ right
    np.testing.assert_array_equal(found, np.maximum(sums + biases[0], 0).astype(activated) if activated else sums)


LATENCY = 600e-9
"""Seconds until memory answers on an H100, at most."""


@pytest.mark.parametrize(
    ("dtype", "rows", "columns", "terms"),
    [
        ("float16", 4096, 4096, 4096),
        ("bfloat16", 1000, 776, 1000),
        ("int8", 2047, 1023, 1024),
        ("float16", 8192, 8192, 8192),
    ],
)
def test_so_many_bytes_are_in_flight_that_memory_never_waits(dtype: str, rows: int, columns: int, terms: int) -> None:
    """Of an H100: its rate times its latency (Little's law), by what the boxes of all blocks that run at once are ahead."""
    output, gpu = product(rows, columns, terms, dtype, (False, True)), GPUS["sm_90a"]
    picked: list[Candidate] = []
    schedule([output], "cuda -arch=sm_90a", chooser=lambda _, ways: picked.append(ways[0]) or 0)
    tile = picked[0].apply.args[2]
    assert tile.boxes, picked[0].description
    blocks = min(
        hopper._resident_blocks(tile, gpu) * gpu.processors,
        math.ceil(rows / tile.rows) * math.ceil(columns / tile.columns),
    )
    ahead = (tile.rows / tile.cluster + tile.columns) * 128 * (tile.stages - (not tile.roles))
    assert blocks * ahead >= LATENCY * gpu.memory_rate * gpu.clock * 1e9, (
        f"{picked[0].description}: {blocks * ahead:.0f} bytes"
    )


def test_clusters_of_four_fetch_what_all_read_once_and_agree_in_any_order() -> None:
    A, B = te.placeholder((128, 136), "float16", name="A"), te.placeholder((512, 136), "float16", name="B")
    output = topi.matmul(A, B, transpose_b=True, out_dtype="float32")

    def four(ways: Sequence[Candidate]) -> int:
        return next(
            at for at, way in enumerate(ways) if re.search(r"tiles of 64 x 16,.*clusters of 4", way.description)
        )

    rng, target = np.random.default_rng(1), "cuda -emulate -arch=sm_90a"
    assert gpu_choices.differs(output, rng, four, bits=False, tolerance=1e-3, target=target) == ""
    large = product(8192, 8192, 8192, "float16", (False, True))
    assert "clusters of 4" in schedule([large], "cuda -arch=sm_90a").plan[0].description


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_estimates_know_the_shared_memory_that_tiles_take(dtype: str) -> None:
    """A tile that is said to fit, and does not, would be refused when it is built."""
    out = product(512, 512, 1024, dtype, (False, True))
    ways: list[Candidate] = []
    schedule([out], KINDS["warpgroups"], chooser=lambda _, found: ways.extend(found) or 0)
    places = [at for at, way in enumerate(ways) if "warpgroups" in way.description]
    tensors = [*sorted(gpu_choices.inputs_of(out), key=lambda each: each.name), out]
    for at in np.random.default_rng(len(places)).choice(places, 5, replace=False):
        tile = ways[at].apply.args[2]
        kernel = tw.build(
            schedule([out], KINDS["warpgroups"], chooser=lambda _, __, at=at: int(at)),
            tensors,
            target=KINDS["warpgroups"],
        )
        said, is_ = hopper._shared_bytes(tile), kernel.kernels[0].dynamic_shared_bytes
        assert not is_ or said - 1024 <= is_ <= said, f"{ways[at].description}: {said} bytes are said, {is_} taken"


@pytest.mark.parametrize(
    "refused", [product(40, 1, 264, turned=(False, True)), product(40, 100, 264), product(40, 64, 64)]
)
def test_what_is_no_box_is_copied_by_threads_or_first(refused: Any) -> None:
    """A single column; rows of 200 bytes; a sum of one part."""
    seen: list[str] = []

    def choose(_: Any, ways: Sequence[Candidate]) -> int:
        seen.extend(way.description for way in ways)
        return 0

    schedule([refused], "cuda -emulate -arch=sm_90a", chooser=choose)
    boxes = [each for each in seen if " of boxes" in each]
    assert any(each.startswith("warpgroups") for each in seen) and all("copies in whole rows" in each for each in boxes)


def experts() -> Any:
    """Rows in groups, each multiplied with the weights that data choose for it."""
    chosen = te.placeholder((3,), "int32", name="chosen")
    X = te.placeholder((3, 32, 72), "float16", name="X")
    W = te.placeholder((2, 72, 64), "float16", name="W")
    k = te.reduce_axis((0, 72), "k")
    return te.compute(
        (3, 32, 64),
        lambda g, i, j: te.sum(
            X[g, i, k].astype("float32") * W[te.min(te.max(chosen[g], 0), 1), k, j].astype("float32"), axis=k
        ),
        name="Y",
    )


def weights_of_4_bits() -> Any:
    """Two weights a byte, with a scale for each 32 of a row, made float16 on their way to shared memory."""
    A = te.placeholder((40, 96), "float16", name="A")
    Q, S = te.placeholder((64, 48), "uint8", name="Q"), te.placeholder((64, 3), "float16", name="S")
    k = te.reduce_axis((0, 96), "k")
    W = te.compute(
        (64, 96),
        lambda n, m: (((Q[n, m // 2].astype("int32") >> ((m % 2) * 4)) & 15) - 8).astype("float16") * S[n, m // 32],
        name="W",
    )
    return te.compute(
        (40, 64), lambda i, j: te.sum(A[i, k].astype("float32") * W[j, k].astype("float32"), axis=k), name="Y"
    )


@pytest.mark.parametrize("declare", [experts, weights_of_4_bits])
def test_factors_that_data_choose_or_that_are_computed_are_multiplied_on_tensor_cores(
    declare: Callable[[], Any],
) -> None:
    kind = str(drawn.rng(declare.__name__).choice([*KINDS]))
    rng, output = drawn.rng(declare.__name__, 1), declare()
    assert not gpu_choices.differs(output, rng, some_tensor_way(rng, kind), target=KINDS[kind])
    (decision,) = schedule([output], KINDS[kind]).plan
    assert decision.rule == "product" and decision.description.startswith(("tensor cores", "warpgroups"))


PACKED = {
    "odd rows": lambda: product(131, 75, 203),
    "one odd side": lambda: product(70, 64, 134, "bfloat16", (False, True)),
    "batches by columns": lambda: product(33, 130, 135, "float16", (True, False), 2),
    "bytes": lambda: product(66, 70, 197, "int8", (False, True)),
}


def test_sides_without_whole_rows_may_be_copied_to_matrices_first() -> None:
    """By kernels of their own: tiles come 16 bytes at once, or in boxes."""
    for name in drawn.part(PACKED, 2):
        for kind, target in KINDS.items():
            rng = drawn.rng(f"packed {name} {kind}", 0)

            def choose(ways: Sequence[Candidate], kind: str = kind) -> int:
                own = [
                    at
                    for at, way in enumerate(ways)
                    if way.description.startswith(kind) and "whole rows" in way.description
                ]
                return int(drawn.rng(kind, 1).choice(own))

            assert not gpu_choices.differs(PACKED[name](), rng, choose, target=target)
    for target, most in (("cuda -arch=sm_80", 1.5), ("cuda -arch=sm_90a", 1.6)):
        even, odd = (schedule([product(n, n, n)], target).plan[0] for n in (4096, 4097))
        assert "whole rows" in odd.description and odd.seconds < most * even.seconds, (even, odd)


def test_sums_of_warpgroups_stay_in_registers_where_blocks_reach_beyond_the_result() -> None:
    """Bands of 16 rows of blocks, and resident blocks, more than the result needs: no condition stands around products."""
    target = "cuda -arch=sm_90a"
    output = product(5000, 5000, 5000)
    s = schedule([output], target)
    assert "boxes by warps of their own" in s.plan[0].description, s.plan
    (launch,) = tw.build(s, [*gpu_choices.inputs_of(output), output], target=target).kernels
    assert launch.spilled_bytes == 0 and launch.instructions["HGMMA"] > 0

    def choose(ways: Sequence[Candidate]) -> int:
        wanted = "tiles of 64 x 256", "bands of 16"
        return next(at for at, way in enumerate(ways) if all(each in way.description for each in wanted))

    rng, output = drawn.rng("beyond", 0), product(1027, 256, 72)
    assert not gpu_choices.differs(output, rng, choose, target="cuda -emulate -arch=sm_90a")


def in_boxes(output: Any, rng: np.random.Generator, said: str = " of boxes") -> tuple[Any, list[Any]]:
    def choose(_: Any, ways: Sequence[Candidate]) -> int:
        return int(rng.choice([at for at, way in enumerate(ways) if said in way.description]))

    s = schedule([output], "cuda -emulate -arch=sm_90a", chooser=choose)
    tensors = [*sorted(gpu_choices.inputs_of(output), key=lambda each: each.name), output]
    return tw.build(s, tensors, target="cuda -emulate -arch=sm_90a"), tensors


@pytest.mark.parametrize("turned", [(False, False), (True, True)])
def test_tf32_meets_no_bank_twice_either_way_that_it_lies(turned: tuple[bool, bool]) -> None:
    output = product(128, 128, 64, "float32", turned)
    s = schedule([output], "cuda -emulate")
    assert s.plan[0].description.startswith("tensor cores") and not s.is_exact
    kernel = tw.build(s, [*gpu_choices.inputs_of(output), output], target="cuda -emulate")
    shapes = [[int(extent) for extent in tensor.shape] for tensor in (*gpu_choices.inputs_of(output), output)]
    kernel(*(np.zeros(shape, "float32") for shape in shapes))
    assert kernel.kernels[0].bank_conflicts == 0 and kernel.kernels[0].uncoalesced == 0


def test_products_of_float32_that_nobody_rounds_keep_their_bits() -> None:
    a, b = te.placeholder((256, 256), name="a"), te.placeholder((256, 256), name="b")
    for allowed in (False, True):
        decision = tw.autoschedule.schedule([topi.matmul(a, b, allow_tf32=allowed)], "cuda -arch=sm_80").plan[0]
        assert decision.description.startswith("tensor cores") == allowed


def test_warpgroups_multiply_copies_that_are_rounded_to_tf32() -> None:
    target = "cuda -arch=sm_90a"
    for turned, kind in (((False, True), "warpgroups"), ((False, False), "tensor cores")):
        output = product(4096, 4096, 4096, "float32", turned)
        s = schedule([output], target)
        assert s.plan[0].description.startswith(kind)
        if kind == "warpgroups":
            *copies, launch = tw.build(s, [*gpu_choices.inputs_of(output), output], target=target).kernels
            assert len(copies) == 2 and launch.instructions["HGMMA"] == 4 and launch.spilled_bytes == 0
            assert all(copy.instructions["LDG.128"] == copy.instructions["STG.128"] == 1 for copy in copies)
    rng, output = drawn.rng("TF32"), product(70, 40, 104, "float32", (False, True))
    choose = some_tensor_way(rng, "warpgroups")
    assert not gpu_choices.differs(output, rng, choose, tolerance=1e-5, target="cuda -emulate -arch=sm_90a")


def test_rows_in_shared_memory_meet_no_bank_twice() -> None:
    """Eight rows of 16 bytes are what ldmatrix reads at once; they lie in different banks where their distance in these is odd."""
    output = product(128, 128, 128)
    s = schedule(
        [output],
        "cuda -emulate",
        chooser=lambda _, ways: next(at for at, way in enumerate(ways) if "tiles of 128 x 64 x" in way.description),
    )
    tensors = [*gpu_choices.inputs_of(output), output]
    kernel = tw.build(s, tensors, target="cuda -emulate")
    strides = [int(stride) for stride in re.findall(r"tw_mma_load_\w+\(.*, (\d+), \d+\);", kernel.source("cuda"))]
    assert len(strides) == 2 and all(stride * 2 % 16 == 0 and stride * 2 // 16 % 2 == 1 for stride in strides)
    kernel(*(np.zeros((128, 128), str(tensor.dtype)) for tensor in tensors))
    assert kernel.kernels[0].bank_conflicts == 0 and kernel.kernels[0].uncoalesced == 0, (
        "as counted from the addresses of a run"
    )


def test_the_estimate_is_near_what_the_best_libraries_take() -> None:
    """137 billion operations take cuBLAS about 0.5 ms on A100 (312 TFLOP/s at most), and 0.2 to 0.35 ms on H100 by either kind of
    instruction."""
    for arch, kind, least, most in (
        ("sm_80", "tensor cores", 0.44e-3, 0.8e-3),
        ("sm_90", "tensor cores", 0.2e-3, 0.5e-3),
        ("sm_90a", "warpgroups", 0.15e-3, 0.45e-3),
    ):
        decision = tw.autoschedule.schedule([product(4096, 4096, 4096)], f"cuda -arch={arch}").plan[0]
        assert decision.description.startswith(kind) and decision.seconds is not None
        assert least <= decision.seconds <= most

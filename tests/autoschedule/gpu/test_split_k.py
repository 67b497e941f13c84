"""Products whose terms blocks share, and the order of a product's blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import drawn
import gpu_choices
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.autoschedule.gpu.grids import Grid
from tilewright.autoschedule.gpu.split_k import list_splits
from tilewright.autoschedule.plan import Candidate
from tilewright.codegen.gpus import GPUS


def product(rows: int, columns: int, terms: int, dtype: str = "float32", transposed: bool = False) -> Any:
    sums = {"float16": "float32", "int8": "int32"}.get(dtype, dtype)
    A = te.placeholder((rows, terms), dtype, name="A")
    B = te.placeholder((columns, terms) if transposed else (terms, columns), dtype, name="B")
    k = te.reduce_axis((0, terms), "k")
    return te.compute(
        (rows, columns),
        lambda i, j: te.sum(A[i, k].astype(sums) * (B[j, k] if transposed else B[k, j]).astype(sums), axis=k),
        name="C",
    )


def one_with(word: str, rng: np.random.Generator) -> Callable[[Sequence[Candidate]], int]:
    def choose(ways: Sequence[Candidate]) -> int:
        return int(rng.choice([at for at, way in enumerate(ways) if word in way.description]))

    return choose


@pytest.mark.parametrize("at", range(drawn.count(2, 150)))
def test_parts_of_sums_are_added_up(at: int) -> None:
    rng = drawn.rng("split k", at)
    rows, columns = (int(rng.choice([16, 31, 33, 64, 67])) for _ in range(2))
    terms = int(rng.choice([1024, 1030, 1101]))
    output = product(rows, columns, terms, str(rng.choice(["float32", "float16", "int8"])), bool(rng.integers(2)))
    output = topi.nn.relu(output) if rng.integers(2) else output
    assert gpu_choices.differs(output, rng, one_with("sums in", rng)) == ""


def test_blocks_share_long_sums_of_few_results_where_their_order_is_free() -> None:
    target = "cuda -arch=sm_90"
    long = tw.autoschedule.schedule([product(64, 64, 16384)], target)
    assert "parts" in long.plan[0].description and not long.is_exact and len(long.plan[0].candidates) > 100
    assert "parts" not in str(tw.autoschedule.schedule([product(4096, 4096, 4096)], target).plan)
    for dtype in ("float32", "float16"):  # a tile in its order, no thread for each element
        whole = tw.autoschedule.schedule([product(64, 64, 16384, dtype)], target, exact=True)
        assert whole.is_exact and whole.plan[-1].description.startswith("tiles of") and "parts" not in str(whole.plan)
    assert list(list_splits(2, 100, GPUS["sm_80"])) == [1, 8, 16] and list(list_splits(300, 1000, GPUS["sm_80"])) == [1]


def test_bands_of_blocks_load_their_panels_less_often() -> None:
    panel = 128 * 16384 * 2
    many, few = (Grid(GPUS["sm_80"], blocks, blocks, (panel, panel)) for blocks in (128, 2))
    assert many.loaded(8) < many.loaded(1) / 4 and many.loaded(8) >= 2 * 128 * panel and many.band() == 8
    assert few.loaded(8) == few.loaded(1) == 4 * panel and few.band() == 1
    plan = str(tw.autoschedule.schedule([product(16384, 16384, 16384, "float16")], "cuda -arch=sm_80").plan)
    assert "bands of 8" in plan or "bands of 16" in plan


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_products_in_bands_are_right(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Grid, "band", lambda grid: 4 if grid.down % 4 == 0 else 1)
    rng = drawn.rng("bands", 0)
    assert gpu_choices.differs(product(250, 130, 40, dtype, True), rng, one_with("bands of 4", rng)) == ""

"""Attention against float64, within the bound that it states: odd sizes, lengths that differ, long and short ones."""

from __future__ import annotations

import math
import re
from typing import Any

import drawn
import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te, topi
from tilewright.tools.fuzz.references import attention as reference

UNIT = 2.0**-24


def arrays(shape: tuple[int, ...], keys: int, width: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng([seed, *shape, keys, width])
    *lead, _, depth = shape
    return [rng.standard_normal(one).astype("float32") for one in (shape, (*lead, keys, depth), (*lead, keys, width))]


def placeholders(given: list[np.ndarray]) -> list[te.Tensor]:
    return [te.placeholder(x.shape, str(x.dtype), name) for x, name in zip(given, "qkv", strict=True)]


def check(given: list[np.ndarray], causal: bool = False, scale: float | None = None, target: str = "llvm") -> None:
    declared = placeholders(given)
    y = topi.nn.attention(*declared, scale=scale, causal=causal)
    found = np.full([extent.value for extent in y.shape], np.nan, "float32")
    tw.build(topi.schedule(y, target), [*declared, y], target=target)(*given, found)
    wanted, bound = reference(*given, given[0].shape[-1] ** -0.5 if scale is None else scale, causal)
    assert (np.abs(found - wanted) <= bound).all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("shape", "keys", "width"),
    drawn.part(
        [
            ((2, 64, 64), 64, 64),
            ((3, 75, 64), 83, 64),
            ((1, 130, 33), 71, 17),
            ((2, 17, 5), 200, 3),
            ((1, 5, 1), 1, 1),
            ((2, 3, 2, 40), 50, 24),
            ((1, 1, 64), 129, 64),
            ((2, 2, 31), 77, 65),
            ((2, 3, 7, 8), 7, 8),
        ],
        4,
    ),
)
def test_attention_of_any_size(shape: tuple[int, ...], keys: int, width: int, causal: bool) -> None:
    check(arrays(shape, keys, width), causal)


@pytest.mark.parametrize(("queries", "keys", "causal"), [(1, 4099, False), (70, 2500, True), (2300, 2100, True)])
def test_many_keys_come_in_chunks(queries: int, keys: int, causal: bool) -> None:
    given = arrays((1, queries, 8), keys, 5)
    assert "merged" in str(topi.schedule(topi.nn.attention(*placeholders(given), causal=causal)))
    check(given, causal)


def test_chunks_of_very_different_peaks_are_merged() -> None:
    q, k, v = arrays((1, 3, 4), 3100, 4)
    k[:, 1100:2100] *= 40
    k[:, 2100:] *= 0.01
    check([q, k, v], scale=1.0)


@pytest.mark.parametrize("causal", [False, True])
def test_drawn_sizes(causal: bool) -> None:
    for case in range(drawn.count(2, 60)):
        rng = drawn.rng("attention", case + 1000 * causal)
        heads, queries, keys, depth, width = (int(rng.integers(1, most)) for most in (4, 150, 150, 80, 80))
        check(arrays((heads, queries, depth), keys, width, case), causal)


def masked(
    given: list[np.ndarray], mask: np.ndarray | None, unseen: str = "zero", **how: Any
) -> tuple[np.ndarray, np.ndarray]:
    """What is computed, and by how much it is outside of its bound."""
    whole = [*given, mask] if mask is not None else given
    declared = [te.placeholder(x.shape, str(x.dtype), name) for x, name in zip(whole, "qkvm", strict=False)]
    y = topi.nn.attention(
        *declared[:3], scale=0.5, mask=declared[3] if mask is not None else None, unseen=unseen, **how
    )
    found = np.full([extent.value for extent in y.shape], 7, "float32")
    tw.build(topi.schedule(y), [*declared, y])(*whole, found)
    wanted, bound = reference(*given, 0.5, mask=mask, **{"causal": False, **how})
    return found, np.abs(found - wanted) - bound


def grouped(shape: tuple[int, ...], shared: int, keys: int, seed: int) -> list[np.ndarray]:
    """Queries of `shared` times as many heads as keys and values have."""
    *lead, heads, queries, depth = shape
    q, _, _ = arrays((*lead, heads * shared, queries, depth), 1, 1, seed)
    return [q, *arrays(shape, keys, 9, seed)[1:]]


@pytest.mark.parametrize(
    ("shape", "shared", "keys", "of_mask", "causal", "kind"),
    [
        ((2, 2, 1, 33), 3, 67, (2, 1, 1, 67), False, "bool"),  # a word's queries are one block
        ((1, 17, 3), 1, 5, (17, 1), False, "added"),
        ((1, 3, 13, 8), 5, 31, (15, 1, 31), True, "lowest"),
        ((2, 67, 5), 2, 70, (4, 67, 70), False, "bool"),
        ((1, 3, 4), 7, 2100, (3, 2100), False, "added"),
        ((2, 1, 1, 16), 4, 1, (1,), False, "lowest"),
    ],
)
def test_masks_and_heads_that_share_keys(
    shape: tuple[int, ...], shared: int, keys: int, of_mask: tuple[int, ...], causal: bool, kind: str
) -> None:
    seen = np.random.default_rng(keys).random(of_mask) < 0.6
    lowest = np.finfo("float32").min
    added = np.where(seen, np.float32(1.5), np.float32(-math.inf))
    mask = {"bool": seen, "added": added, "lowest": np.where(seen, 0, lowest)}[kind]
    _, outside = masked(grouped(shape, shared, keys, 1), mask, causal=causal, offset=keys - shape[-2] if causal else 0)
    assert (outside <= 0).all()


def test_a_query_that_sees_no_key_gives_zero_or_nan() -> None:
    seen = np.ones((5, 7), bool)
    seen[3] = False
    given = grouped((2, 5, 4), 1, 7, 0)
    assert (masked(given, seen)[0][:, 3] == 0).all()
    found, outside = masked(given, seen, "nan")
    assert np.isnan(found[:, 3]).all() and (outside[:, [0, 1, 2, 4]] <= 0).all()
    found, outside = masked(given, None, causal=True, offset=-2)
    assert (found[:, :2] == 0).all() and (outside <= 0).all()
    weighed, _ = masked(given, seen, fill=-1e30)
    assert np.allclose(weighed[:, 3], given[2].mean(1), atol=1e-5), "of equal scores"


def test_heads_that_share_keys_read_them_once() -> None:
    q, k, v = (
        te.placeholder((1, *of, 64), name=name) for of, name in (((32, 1), "q"), ((8, 500), "k"), ((8, 500), "v"))
    )
    text = str(topi.schedule(topi.nn.attention(q, k, v)))
    assert "parallel(8)" in text and "in 500" in text and text.count(" = mul_add(v[") + text.count(" = mul_add(k[") <= 2


def test_targets_of_other_vectors() -> None:
    for target in runnable("llvm -mattr=-avx512f", "llvm -mcpu=x86-64"):
        check(arrays((2, 70, 20), 45, 36), causal=True, target=target)


def test_large_scores_do_not_overflow_and_small_ones_vanish() -> None:
    q, k, v = arrays((1, 20, 16), 40, 8)
    check([q * 30, k * 30, v], scale=1.0)


def test_a_gpu_computes_the_same() -> None:
    check(arrays((2, 6, 5), 7, 4), causal=True, target="cuda -emulate")


def test_no_keys_and_no_queries() -> None:
    q, k, v = arrays((2, 5, 8), 0, 6)
    declared = placeholders([q, k, v])
    y = topi.nn.attention(*declared)
    found = np.full((2, 5, 6), np.nan, "float32")
    tw.build(topi.schedule(y), [*declared, y])(q, k, v, found)
    assert (found == 0).all()
    q, k, v = arrays((2, 0, 8), 3, 6)
    declared = placeholders([q, k, v])
    y = topi.nn.attention(*declared)
    tw.build(topi.schedule(y), [*declared, y])(q, k, v, np.empty((2, 0, 6), "float32"))
    found, _ = masked([np.zeros((1, 4, 0, 8), "float32"), *arrays((1, 2, 1, 8), 3, 6)[1:]], np.ones((4, 0, 1), bool))
    assert found.shape == (1, 4, 0, 6), "of heads that share keys"


@pytest.mark.parametrize(("dtype", "unit"), [("float16", 2.0**-11), ("bfloat16", 2.0**-8), ("float64", 2.0**-40)])
def test_other_floats(dtype: str, unit: float) -> None:
    kind: Any = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    given = [x.astype(kind) for x in arrays((2, 37, 24), 41, 19)]
    declared = [te.placeholder(x.shape, dtype, name) for x, name in zip(given, "qkv", strict=True)]
    y = topi.nn.attention(*declared, causal=True)
    assert y.dtype == dtype
    found = np.zeros((2, 37, 19), kind)
    tw.build(topi.schedule(y), [*declared, y])(*given, found)
    wanted, bound = reference(*given, 24**-0.5, True)
    bound = (0 if dtype == "float64" else bound) + unit * np.abs(wanted) + unit**2
    rounding = 41 * 2.0**-52 if dtype == "float64" else unit + 41 * 2.0**-25  # of sums that cancel
    bound = bound + rounding * np.abs(given[2].astype("float64")).max()
    assert (np.abs(found.astype("float64") - wanted) <= bound).all()


def test_lengths_that_are_known_when_it_runs() -> None:
    n, m = te.size_var("n"), te.size_var("m")
    q, k, v = (
        te.placeholder((2, n, 16), name="q"),
        te.placeholder((2, m, 16), name="k"),
        te.placeholder((2, m, 16), name="v"),
    )
    y = topi.nn.attention(q, k, v, causal=True)
    f = tw.build(topi.schedule(y), [q, k, v, y])
    for queries, keys in ((1, 1), (70, 33), (65, 1030)):
        given = arrays((2, queries, 16), keys, 16)
        found = np.full((2, queries, 16), np.nan, "float32")
        f(*given, found)
        wanted, bound = reference(*given, 0.25, True)
        assert (np.abs(found - wanted) <= bound).all()


def test_what_surrounds_attention_is_one_kernel_with_it() -> None:
    """Heads taken out of a projection before it, a residual after it."""
    x = te.placeholder((50, 3, 2, 16), name="x")
    q, k, v = (
        te.compute((2, 50, 16), lambda h, i, d, part=part: x[i, part, h, d], name=f"part{part}", tag="injective")
        for part in range(3)
    )
    residual = te.placeholder((2, 50, 16), name="residual")
    y = topi.nn.attention(q, k, v)
    z = te.compute(y.shape, lambda *at: y[at] * 2.0 + residual[at], name="z", tag="elementwise")
    s = topi.schedule(z)
    assert str(s).count("parallel") == 1
    given = arrays((50, 3, 2, 16), 1, 1)[0]
    more = np.linspace(-1, 1, 1600).astype("float32").reshape(2, 50, 16)
    found = np.empty((2, 50, 16), "float32")
    tw.build(s, [x, residual, z])(given, more, found)
    wanted, bound = reference(*(given[:, part].transpose(1, 0, 2) for part in range(3)), 0.25, False)
    assert (np.abs(found - (wanted * 2 + more)) <= 2 * bound + 4 * UNIT * np.abs(wanted * 2 + more) + UNIT).all()


def test_scores_stay_within_a_block_of_queries_and_unseen_keys_are_skipped() -> None:
    q, k, v = (te.placeholder((4, 512, 64), name=name) for name in "qkv")
    text = str(topi.schedule(topi.nn.attention(q, k, v, causal=True)))
    shapes = re.findall(r"^ +attention\S*: (?:local )?float32\[([\d, ]+)\]$", text, re.MULTILINE)
    sizes = [math.prod(int(extent) for extent in shape.split(",")) for shape in shapes]
    assert max(sizes) == 512 * 64, "of scores, 64 queries by all keys"
    assert "in 512" not in text, "every loop over keys ends where the block does"


def test_the_accumulators_of_both_products_stay_in_registers() -> None:
    q, k, v = (te.placeholder((4, 512, 64), name=name) for name in "qkv")
    y = topi.nn.attention(q, k, v)
    kernel = tw.build(topi.schedule(y, "llvm -mcpu=x86-64-v4"), [q, k, v, y], target="llvm -mcpu=x86-64-v4")
    loops = innermost(kernel.source("asm"))
    products = [body for body in loops if sum("vfmadd" in line for line in body) == 16]
    assert len(products) == 2
    for body in products:
        assert not any("rsp" in line or "rbp" in line for line in body)
        assert sum("vbroadcastss" in line or "1to16" in line for line in body) <= 5


def innermost(assembly: str) -> list[list[str]]:
    """The lines between each label and a jump back to it, without labels between."""
    found: list[list[str]] = []
    label, body = "", list[str]()
    for line in assembly.splitlines():
        if line.startswith(".LBB"):
            label, body = line.split(":")[0], []
            continue
        body.append(line)
        if line.strip().startswith("j") and line.endswith(label):
            found.append(list(body))
    return found


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(2, 5, 8), (2, 6, 7), (2, 6, 8)], "the depth of queries and keys is 8 here and 7 there"),
        ([(2, 5, 8), (2, 6, 8), (2, 5, 8)], "the number of keys and values is 6 here and 5 there"),
        ([(2, 5, 8), (3, 6, 8), (3, 6, 8)], "the heads is 2 here and 3 there"),
        ([(6, 5, 8), (4, 6, 8), (4, 6, 8)], "the heads is 6 here and 4 there"),
        ([(6, 5, 8), (3, 6, 8), (2, 6, 8)], "the heads is 3 here"),
        ([(5, 8), (6, 8), (6, 8)], "they have 2, 2 and 2 dimensions"),
        ([(2, 5, 8), (2, 6, 8), (2, 6, 8), (2, 1, 5)], "the mask is"),
    ],
)
def test_what_does_not_fit_is_refused(shapes: list[tuple[int, ...]], message: str) -> None:
    q, k, v, *mask = (te.placeholder(shape, name=name) for shape, name in zip(shapes, "qkvm", strict=False))
    with pytest.raises(tw.TensorExpressionError, match=message):
        topi.nn.attention(q, k, v, mask=mask[0] if mask else None)


def test_types_that_differ_are_refused() -> None:
    q, k = te.placeholder((1, 4, 4), name="q"), te.placeholder((1, 4, 4), "float16", "k")
    with pytest.raises(tw.TensorExpressionError, match="not floats of one type"):
        topi.nn.attention(q, k, k)
    with pytest.raises(tw.TensorExpressionError, match="takes a tensor as v"):
        topi.nn.attention(q, q, 3)  # pyright: ignore[reportArgumentType]

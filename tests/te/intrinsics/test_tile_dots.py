"""Tiles of sums of products of bytes: exact by tile registers, by dot products and by pairs; and when the scheduler takes them."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te, topi
from tilewright.codegen.llvm import tiles
from tilewright.codegen.target import Target
from tilewright.ir.verify import verify

SAPPHIRE, ICE, HASWELL = (
    f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={name}" for name in ("sapphirerapids", "icelake-server", "haswell")
)
DTYPES = [(a, b) for a in ("int8", "uint8") for b in ("int8", "uint8")]


def product(rows: int, columns: int, terms: int, dtypes: tuple[str, str], turned: bool = False) -> list[Any]:
    """A[rows, terms] * B, which is [terms, columns], or turned."""
    A = te.placeholder((rows, terms), dtypes[0], "A")
    B = te.placeholder((columns, terms) if turned else (terms, columns), dtypes[1], "B")
    k = te.reduce_axis((0, terms), "k")
    return [
        A,
        B,
        te.compute(
            (rows, columns),
            lambda i, j: te.sum(A[i, k].astype("int32") * (B[j, k] if turned else B[k, j]).astype("int32"), axis=k),
            "C",
        ),
    ]


def values(rng: np.random.Generator, tensors: list[Any]) -> list[np.ndarray]:
    """Bytes, the extreme ones often."""
    arrays = []
    for tensor in tensors:
        info = np.iinfo(tensor.dtype)
        array = rng.integers(info.min, info.max + 1, tuple(map(int, tensor.shape)))
        extreme = rng.choice([info.min, info.max], array.shape)
        arrays.append(np.where(rng.random(array.shape) < 0.3, extreme, array).astype(tensor.dtype))
    return arrays


def by_hand(tensors: list[Any]) -> te.Schedule:
    """Padded, packed and tensorized."""
    *_, C = tensors
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    _, b, whole = s.matricize(C, [i], [j], (32, 32, 64), (False, True))
    terms = -(-int(C.op.reduce_axis[0].dom.extent) // 64) * 64
    s[b].transform_layout(lambda j, k: [j // 16, k // 4, j % 16 * 4 + k % 4])
    s[whole].transform_layout(lambda i, j: [i, j // 16, j % 16])
    rows, _ = s[whole].split(s[whole].op.axis[0], factor=32)
    panels, inner = s[whole].split(s[whole].op.axis[1], factor=2)
    s[whole].reorder(rows, panels, s[whole].leaf_iter_vars[1], inner)
    s[whole].tensorize(
        s[whole].leaf_iter_vars[2], te.intrinsics.get("x86.tile_dot_32x32", terms, *(t.dtype for t in tensors[:2]))
    )
    return s


@pytest.mark.parametrize("dtypes", drawn.part(DTYPES, 1))
@pytest.mark.parametrize("target", runnable("llvm", "llvm -mattr=-amx-int8", "llvm -mcpu=haswell", "interpret"))
def test_tiles_are_exact_on_every_target(target: str, dtypes: tuple[str, str]) -> None:
    rng = drawn.rng(f"tile dots {target} {dtypes}")
    sizes = [int(rng.choice([1, 31, 33])) for _ in range(2)] + [int(rng.choice([1, 63, 65]))]
    tensors = product(*sizes, dtypes)
    a, b = values(rng, tensors[:2])
    found = np.full((sizes[0], sizes[1]), 77, "int32")
    tw.build(by_hand(tensors), tensors, target=target)(a, b, found)
    np.testing.assert_array_equal(found, a.astype("int32") @ b.astype("int32"))


def test_where_the_system_keeps_tile_registers_dot_products_do_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for what there is not, Linux refuses; the same kernel then goes the other way."""
    monkeypatch.setattr(tiles, "_REQUEST", 0x1FFF)
    tensors = product(35, 33, 70, ("int8", "uint8"))
    a, b = values(drawn.rng("refused tiles"), tensors[:2])
    found = np.zeros((35, 33), "int32")
    tw.build(by_hand(tensors), tensors)(a, b, found)
    np.testing.assert_array_equal(found, a.astype("int32") @ b.astype("int32"))


def test_other_systems_are_not_asked() -> None:
    called = ["tw_tile_dot_i8u8", "malloc"]
    linux, other = (
        tiles.tile_functions(called, Target.parse(f"llvm -mtriple=x86_64-{system}"))
        for system in ("unknown-linux-gnu", "pc-windows-msvc")
    )
    assert "tdpbsud" in linux[0] and "@syscall" in linux[0]
    assert "ret i32 1" in other[0] and "@syscall" not in other[0]


@pytest.mark.parametrize(("target", "instruction"), [(SAPPHIRE, "tdpbsud"), (ICE, "vpdpbusd"), (HASWELL, "vpmaddwd")])
def test_the_scheduler_takes_tiles_where_the_processor_has_the_instructions(target: str, instruction: str) -> None:
    tensors = product(200, 300, 400, ("int8", "uint8"))
    s = tw.autoschedule.schedule([tensors[-1]], target)
    assert [row.rule for row in s.plan] == ["byte_tiles"] and s.is_exact
    assert instruction in tw.build(s, tensors, target=target).source("asm")
    small = product(3, 300, 400, ("int8", "uint8"))
    assert "byte_tiles" not in [row.rule for row in tw.autoschedule.schedule([small[-1]], target).plan]
    A, B = te.placeholder((1, 64, 56, 56), "int8", "A"), te.placeholder((64, 32, 3, 3), "int8", "B")
    grouped = topi.nn.conv2d(A, B, 1, 1, groups=2, out_dtype="int32")
    assert [row.rule for row in tw.autoschedule.schedule([grouped], target).plan] == ["byte_tiles"]


@pytest.mark.parametrize("case", range(drawn.count(3, 60)))
def test_drawn_products_of_bytes(case: int) -> None:
    """Batches, sums over two axes, windows and what follows, by the schedules of processors with tiles in this one's code."""
    rng = drawn.rng("products of bytes", case)
    n, m, q, r, batch = (int(rng.integers(low, high)) for low, high in ((40, 90), (33, 99), (1, 12), (20, 40), (1, 4)))
    dtypes = DTYPES[case % 4]
    A = te.placeholder((batch, n + q - 1, r), dtypes[0], "A")
    B = te.placeholder((batch, q, r, m), dtypes[1], "B")
    x, y = te.reduce_axis((0, q), "x"), te.reduce_axis((0, r), "y")
    C = te.compute(
        (batch, n, m),
        lambda b, i, j: te.sum(A[b, i + x, y].astype("int32") * B[b, x, y, j].astype("int32"), axis=[x, y]),
        "C",
    )
    D = te.compute((batch, n, m), lambda b, i, j: C[b, i, j] * 3 - 7, "D")
    a, b = values(rng, [A, B])
    windows = np.lib.stride_tricks.sliding_window_view(a, q, axis=1)
    expected = np.einsum("bnrq,bqrm->bnm", windows.astype("int32"), b.astype("int32")) * 3 - 7
    for target in (SAPPHIRE, ICE, HASWELL):
        s = tw.autoschedule.schedule([D], target)
        found = np.full(expected.shape, 77, "int32")
        tw.build(tw.lower(s, [A, B, D]), target="llvm")(a, b, found)
        np.testing.assert_array_equal(found, expected, err_msg=f"case {case}, {s.plan}")


@pytest.mark.parametrize("case", range(drawn.count(2, 20)))
def test_groups_of_convolutions_of_bytes_are_outer_axes_of_products(case: int) -> None:
    """A group's channels are read at a quotient of the result's, with a tail, by tiles and by pairs."""
    rng = drawn.rng("groups of bytes", case)
    groups, outs, terms = int(rng.integers(2, 5)), int(rng.integers(16, 40)), int(rng.integers(7, 40))
    height, width, taps = (int(rng.integers(low, high)) for low, high in ((9, 15), (9, 20), (1, 4)))
    dtype = DTYPES[case % 4][0]
    A = te.placeholder((2, groups * terms, height, width), dtype, "A")
    B = te.placeholder((groups * outs, terms, taps, taps), "int8", "B")
    C = topi.nn.conv2d(A, B, 1, 0, groups=groups, out_dtype="int32")
    D = te.compute(C.shape, lambda *i: C(*i) * 3 - 7, "D")
    a, b = values(rng, [A, B])
    windows = np.lib.stride_tricks.sliding_window_view(a, (taps, taps), (2, 3)).astype("int32")
    parts = zip(np.split(windows, groups, 1), np.split(b.astype("int32"), groups), strict=True)
    expected = np.concatenate([np.einsum("nchwpq,ocpq->nohw", *part) for part in parts], 1) * 3 - 7
    for target in (SAPPHIRE, ICE, HASWELL):
        s = tw.autoschedule.schedule([D], target)
        found = np.full(expected.shape, 77, "int32")
        tw.build(tw.lower(s, [A, B, D]), target="llvm")(a, b, found)
        np.testing.assert_array_equal(found, expected, err_msg=f"case {case}, {s.plan}")


@pytest.mark.parametrize("dtypes", [("int16", "int16"), ("int8", "int16")])
def test_products_of_16_bits_wrap_as_int32_does(dtypes: tuple[str, str]) -> None:
    """Four products of -2**15 by itself are 2**32, which is 0."""
    tensors = product(41, 130, 301, dtypes)
    s = tw.autoschedule.schedule([tensors[-1]], HASWELL)
    assert [row.rule for row in s.plan] == ["byte_tiles"] and s.is_exact
    a, b = values(drawn.rng(f"products of 16 bits {dtypes}"), tensors[:2])
    a[0], b[:, 0] = np.iinfo(dtypes[0]).min, -(2**15)
    found = np.full((41, 130), 77, "int32")
    tw.build(tw.lower(s, tensors), target=runnable("llvm -mcpu=haswell", "llvm")[0])(a, b, found)
    np.testing.assert_array_equal(found, (a.astype("int64") @ b.astype("int64")).astype("int32"))


@pytest.mark.parametrize("turned", [False, True])
def test_columns_that_the_second_cache_does_not_hold_are_packed_by_their_tasks(turned: bool) -> None:
    rng = drawn.rng(f"wide products of bytes {turned}")
    sizes = [int(rng.integers(low, high)) for low, high in ((33, 40), (65, 90), (33_000, 34_000))]
    tensors = product(*sizes, ("int8", "uint8"), turned)
    s = tw.autoschedule.schedule([tensors[-1]], SAPPHIRE)
    function = tw.lower(s, tensors)
    verify(function)
    assert "B.matrix: int8[2, " in str(function).replace("uint8", "int8"), "panels of 32 columns"
    a, b = values(rng, tensors[:2])
    found = np.full([int(extent) for extent in tensors[-1].shape], 77, "int32")
    tw.build(function, target="llvm")(a, b, found)
    expected = a.astype("float64") @ (b.T if turned else b).astype("float64")  # whole numbers below 2**53
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("arguments", [(63, "int8", "int8"), (64, "int8", "int16"), (0, "int8", "int8")])
def test_other_tiles_are_refused(arguments: tuple[int, str, str]) -> None:
    with pytest.raises(tw.TensorExpressionError, match=r"TW0132: cannot declare a tile of"):
        te.intrinsics.get("x86.tile_dot_32x32", *arguments)

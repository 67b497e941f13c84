"""What the accelerator cannot do is refused when it is built, with what to write instead."""

from __future__ import annotations

from typing import Any

import pytest
import tilewright as tw
from tilewright import te
from tilewright.codegen import vdla
from vdla_programs import product


def refused(args: list[te.Tensor], message: str, s: Any = None) -> None:
    with pytest.raises(tw.TilewrightError, match=message) as caught:
        tw.build(s or te.create_schedule(args[-1].op), args, target="vdla")
    assert caught.value.code == "TW0441" and caught.value.fix


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"tile": (16, 16), "depth": 2112},
            r"stage A\.vdla\.inp_buffer does not fit into.*33792 bytes.*there are 32768",
        ),
        (
            {"tile": (8, 2112), "depth": 16, "threads": 2},
            r"stage C\.vdla\.acc_buffer.*135168 bytes \(2 x 8 x 2112 int32\)",
        ),
    ],
)
def test_a_stage_that_does_not_fit_is_named_with_its_bytes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(tw.TilewrightError, match=f"(?s)TW0440.*{message}.*split the loops"):
        tw.build(*product((16, 2112, 2112), **options), target="vdla")


def test_what_lies_beside_a_stage_counts() -> None:
    A = te.placeholder((20000,), "int32", "A")
    R = te.compute((20000,), lambda i: te.max(A[i], 0), "R")
    s = te.create_schedule(R.op)
    s.cache_write(R, vdla.acc_buffer)
    s.cache_read(A, vdla.acc_buffer)
    with pytest.raises(
        tw.TilewrightError, match=r"(?s)R\.vdla.*80000 bytes.*beside A\.vdla\.acc_buffer \(80000 bytes\)"
    ):
        tw.build(s, [A, R], target="vdla")


def test_sums_of_products_need_the_array() -> None:
    s, args = product((16, 16, 16))
    plain = te.create_schedule(args[2].op)
    plain.cache_write(args[2], vdla.acc_buffer)
    refused(args, r"(?s)a product is the array's work.*tensorize", plain)
    A = te.placeholder((8,), "int32", "A")
    B = te.compute((8,), lambda i: A[i] * 3, "B")
    s = te.create_schedule(B.op)
    s.cache_write(B, vdla.acc_buffer)
    s.cache_read(A, vdla.acc_buffer)
    refused([A, B], r"(?s)a product is the array's work.*power of two", s)


def test_nothing_is_computed_in_dram() -> None:
    A = te.placeholder((8,), "int32", "A")
    refused(
        [A, te.compute((8,), lambda i: te.max(A[i], 0), "B")], r"(?s)B lies in DRAM.*cache_write\(B, vdla\.acc_buffer\)"
    )


def test_the_alu_reads_its_own_memory() -> None:
    A = te.placeholder((8,), "int32", "A")
    B = te.compute((8,), lambda i: A[i] + 1, "B")
    s = te.create_schedule(B.op)
    s.cache_write(B, vdla.acc_buffer)
    refused([A, B], r"(?s)the ALU reads A, which lies in DRAM.*cache_read\(A, vdla\.acc_buffer\)", s)


def test_memories_hold_one_dtype() -> None:
    A = te.placeholder((8,), "float32", "A")
    B = te.compute((8,), lambda i: A[i], "B")
    s = te.create_schedule(B.op)
    s.cache_read(A, vdla.acc_buffer)
    refused([A, B], r"(?s)float32 in vdla\.acc_buffer.*holds int32|integers only", s)


def test_bytes_are_widened_by_a_copy_and_not_by_the_alu() -> None:
    A = te.placeholder((8,), "int8", "A")
    B = te.compute((8,), lambda i: A[i].astype("int32") + 1, "B")
    s = te.create_schedule(B.op)
    s.cache_write(B, vdla.acc_buffer)
    s.cache_read(A, vdla.acc_buffer)
    refused([A, B], r"(?s)holds int32, and what it widens is int8.*in a stage of its own", s)


def test_shapes_are_numbers() -> None:
    n = te.var("n")
    A = te.placeholder((n,), "int32", "A")
    refused([A, te.compute((n,), lambda i: A[i], "B")], r"(?s)n is known in a call only.*numbers")


def test_there_are_no_threads_but_virtual_ones() -> None:
    s, args = product((16, 16, 16))
    s[args[2]].bind(s[args[2]].leaf_iter_vars[0], te.thread_axis("blockIdx.x"))
    refused(args, r"(?s)bound to blockIdx\.x.*vthread", s)


def test_padding_is_not_done_on_the_way() -> None:
    A = te.placeholder((8,), "int8", "A")
    P = te.compute((10,), lambda i: te.if_then_else(te.all(i > 0, i < 9), A[i - 1], 0), "P")
    B = te.compute((10,), lambda i: P[i], "B")
    s = te.create_schedule(B.op)
    s[P].set_scope(vdla.inp_buffer)
    refused([A, B], r"(?s)takes copies from DRAM.*pad", s)


def test_a_scope_that_there_is_not_is_refused_as_before() -> None:
    A = te.placeholder((8,), "int8", "A")
    B = te.compute((8,), lambda i: A[i], "B")
    with pytest.raises(tw.ScheduleError, match=r"'vdla\.wgt' is not a storage scope"):
        te.create_schedule(B.op).cache_read(A, "vdla.wgt", [B])

"""The search for outputs that share memory with other arguments: any pair is found and named, and its text grows with the arguments."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from exported import as_dlpack
from numpy.typing import NDArray
from tilewright import te
from tilewright.codegen.abi.stub import stub_text
from tilewright.codegen.export.entries import entries_text
from tilewright.codegen.export.statuses import overlap_texts, status_texts
from tilewright.runtime.abi import Check, pack_status
from tilewright.runtime.errors import OverlappingOutput
from tilewright.runtime.kernel import Kernel
from tilewright.runtime.signature import BufferParam, Signature


def shifts(count: int) -> Kernel:
    """A kernel of `count` outputs and, between them, an input and an empty one."""
    A, E = te.placeholder((8,), name="A"), te.placeholder((0,), name="E")
    outs = [te.compute((8,), lambda i, c=c: A[i] + float(c), name=f"o{c}") for c in range(count)]
    half = count // 2
    s = te.create_schedule([out.op for out in outs])
    return tw.build(s, [*outs[:half], A, E, *outs[half:]], name="shifts")


def arguments(kernel: Kernel) -> list[NDArray[np.float32]]:
    return [np.zeros(0 if p.name == "E" else 8, np.float32) for _, p in kernel.signature.buffers]


def sharing(kernel: Kernel, i: int, j: int) -> list[NDArray[np.float32]]:
    """Arguments of which i begins where j ends, but for one element."""
    given, memory = arguments(kernel), np.zeros(15, np.float32)
    given[i], given[j] = memory[7:], memory[:8]
    return given


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_every_pair_with_an_output_is_refused_by_both_names(target: str) -> None:
    outs = [te.compute((8,), lambda i, c=c: float(c), name=f"o{c}") for c in range(4)]
    A, B = te.placeholder((8,), name="A"), te.placeholder((8,), name="B")
    outs.append(te.compute((8,), lambda i: A[i] + B[i], name="o4"))
    kernel = tw.build(te.create_schedule([out.op for out in outs]), [outs[0], A, *outs[1:], B], target)
    params = [param for _, param in kernel.signature.buffers]
    for i, one in enumerate(params):
        for j, other in enumerate(params):
            if i == j:
                continue
            if not (one.is_output or other.is_output):
                kernel(*sharing(kernel, i, j))
                continue
            with pytest.raises(OverlappingOutput, match="TW") as caught:
                kernel(*sharing(kernel, i, j))
            assert f"'{one.name}'" in str(caught.value) and f"'{other.name}'" in str(caught.value)


@pytest.mark.parametrize("count", [6, 40])
def test_neighbours_and_empty_arguments_share_nothing(count: int) -> None:
    kernel = shifts(count)
    memory = np.zeros(8 * len(kernel.signature.params), np.float32)
    given = [memory[8 * at : 8 * at + 8] for at in range(len(kernel.signature.params))]
    half = count // 2
    given[half + 1] = memory[20:20]  # inside an output
    kernel(*given)
    shown = [x[0] for at, x in enumerate(given) if at != half + 1]
    assert shown == [*range(half), 0, *range(half, count)]


def test_many_drawn_arguments_are_refused_where_an_output_shares_an_element() -> None:
    kernel, draw = shifts(24), np.random.default_rng(0)
    assert "call i1 @tw_is_disjoint" in stub_text(kernel.signature) and "@tw_is" not in stub_text(shifts(6).signature)
    assert "noinline optnone nounwind" in stub_text(shifts(2).signature), "few pairs are not worth LLVM's time"
    assert "noinline nounwind" in stub_text(kernel.signature)
    params, memory = [param for _, param in kernel.signature.buffers], np.zeros(4000, np.float32)
    verdicts = set[bool]()
    for spread in (4, 8, 9, 12) * 12:
        begins = draw.permutation(len(params)) * spread + draw.integers(0, 3, len(params))
        given = [memory[at : at + (0 if p.name == "E" else 8)] for at, p in zip(begins, params, strict=True)]
        shared = any(
            (params[i].is_output or params[j].is_output) and np.shares_memory(given[i], given[j])
            for i in range(len(params))
            for j in range(i)
        )
        verdicts.add(shared)
        if shared:
            with pytest.raises(OverlappingOutput, match="shares memory"):
                kernel(*given)
        else:
            kernel(*given)
    assert verdicts == {True, False}


def test_a_library_names_both_arguments_of_any_pair(tmp_path: Path) -> None:
    kernel = shifts(40)
    kernel.export(tmp_path / "libshifts.so", threads="none")
    library = ctypes.CDLL(str(tmp_path / "libshifts.so"))
    library.shifts_error.restype = ctypes.c_char_p
    names = [param.name for param in kernel.signature.params]
    for i, j in ((0, 1), (0, 41), (7, 20), (39, 12), (41, 40)):
        status = library.shifts_checked(*(ctypes.byref(as_dlpack(x)) for x in sharing(kernel, i, j)))
        assert status in (pack_status(Check.OVERLAP, i, j), pack_status(Check.OVERLAP, j, i))
        told = library.shifts_error(status)
        assert told == library.shifts_error(status)
        assert told.startswith(b"TW0511: '") and all(
            f"'{names[k]}' (argument {k + 1} of".encode() in told for k in (i, j)
        )
    for i, j in ((20, 0), (0, 42), (42, 0), (4095, 4095)):  # an input in an output's place, and nobody
        assert library.shifts_error(pack_status(Check.OVERLAP, i, j)) == b"unknown status"


@pytest.mark.parametrize("text", ["python", "library", "statuses"])
def test_the_text_grows_with_the_arguments_and_not_with_their_pairs(text: str) -> None:
    def size(count: int) -> int:
        params = [BufferParam(f"o{at:05}", "float32", (8,), True) for at in range(count)]
        signature = Signature("f", tuple(params), ())
        if text == "python":
            return len(stub_text(signature))
        texts = status_texts(signature, (), ())
        if text == "statuses":
            return sum(map(len, texts.values())) + sum(
                len(part or "") for pair in overlap_texts(signature) for part in pair
            )
        return len(entries_text(signature, texts, "nounwind", [0]))

    assert size(400) < 2.1 * size(200)

"""Facts of declared buffers: checked where an intrinsic is used, and by the call, and of use to the code."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from lowered import floats
from tilewright import te
from tilewright.ir.text.parser import parse
from tilewright.ir.text.printer import to_text


def doubled(size: int = 16, **facts: Any) -> te.TensorIntrin:
    """z = 2 * x as one vector, x and z declared with the facts."""
    x = te.placeholder((size,), name="x")
    z = te.compute((size,), lambda i: x[i] * 2.0, "z")
    return te.decl_tensor_intrin(
        z.op,
        lambda ins, outs: outs[0].vstore([0], ins[0].vload([0], f"float32x{size}") * 2.0),
        "doubled",
        default_buffer_params=facts,
    )


def scheduled(n: int, width: int, intrinsic: te.TensorIntrin, begin: int = 0) -> tuple[Any, list[Any]]:
    A = te.placeholder((n, width), name="A")
    C = te.compute((n, 16), lambda i, j: A[i, j + begin] * 2.0, "C")
    s = te.create_schedule(C.op)
    s[C].tensorize(C.op.axis[1], intrinsic)
    return s, [A, C]


def aligned(shape: tuple[int, ...], shift: int = 0) -> np.ndarray:
    """An array whose address is `shift` bytes beyond a multiple of 64."""
    size = int(np.prod(shape)) * 4
    memory = np.zeros(size + 128, "uint8")
    begin = -memory.ctypes.data % 64 + shift
    return memory[begin : begin + size].view("float32").reshape(shape)


def test_an_argument_is_declared_with_what_the_intrinsic_relies_on() -> None:
    s, args = scheduled(4, 16, doubled(data_alignment=64, offset_factor=16))
    function = tw.lower(s, args)
    assert "A: float32[4, 16, align=64], C: out float32[4, 16, align=64]" in str(function)
    assert to_text(parse(to_text(function))) == to_text(function)
    f = tw.build(s, args)
    a, c = aligned((4, 16)), aligned((4, 16))
    a[:] = floats(4, 16)
    f(a, c)
    np.testing.assert_array_equal(c, 2 * a)
    assert re.search(r"load <16 x float>, ptr %\w+, align 64", f.source("llvm"))
    assert re.search(r"store <16 x float> %\w+, ptr %\w+, align 64", f.source("llvm"))
    plain = tw.build(*scheduled(4, 16, doubled()))
    assert "align 64" not in plain.source("llvm").partition("define i32 @tw_check")[0]
    f(tw.array(a), tw.empty((4, 16)))


@pytest.mark.parametrize("target", ["llvm", "interpret"])
def test_the_call_checks_the_address(target: str) -> None:
    s, args = scheduled(4, 16, doubled(data_alignment=64))
    f = tw.build(s, args, target=target)
    with pytest.raises(tw.CallError, match=r"(?s)TW0509: 'A'.*not a multiple of the 64 bytes that .*tw\.array\(x\)"):
        f(aligned((4, 16), 4), aligned((4, 16)))
    with pytest.raises(tw.CallError, match=r"TW0509: 'C' \(argument 2 of main\).*64 bytes"):
        f(aligned((4, 16)), aligned((4, 16), 32))
    tw.build(*scheduled(4, 16, doubled(data_alignment=32)), target=target)(aligned((4, 16), 32), aligned((4, 16)))


def test_exports_check_it_as_well(tmp_path: Any) -> None:
    s, args = scheduled(4, 16, doubled(data_alignment=64))
    f = tw.build(s, args, name="doubled")
    f.export(str(tmp_path / "libdoubled.so"))
    assert "A  in  float32[4, 16, align=64]" in (tmp_path / "doubled.h").read_text()
    loaded = tw.load(str(tmp_path / "libdoubled.so"))
    a, c = aligned((4, 16)), aligned((4, 16))
    a[:] = 3
    loaded(a, c)
    assert (c == 6).all()
    with pytest.raises(tw.CallError, match="not a multiple of the 64 bytes"):
        loaded(aligned((4, 16), 8), c)


@pytest.mark.parametrize(
    ("width", "begin", "facts", "match"),
    [
        (17, 0, {"data_alignment": 64}, r"so its first element, i \* 17, must be aligned to that, which is not proved"),
        (24, 8, {"data_alignment": 64}, r"its first element, i \* 24 \+ 8, must"),
        (
            24,
            8,
            {"offset_factor": 16},
            r"begins at element i \* 24 \+ 8, which is not proved to be a multiple of offset_factor=16",
        ),
    ],
)
def test_parts_that_do_not_begin_there(width: int, begin: int, facts: dict[str, int], match: str) -> None:
    s, args = scheduled(4, width, doubled(**facts), begin)
    with pytest.raises(tw.LoweringError, match=rf"(?s)TW0382.*{match}"):
        tw.lower(s, args)
    half = {key: value // 2 for key, value in facts.items()}
    ok, args = scheduled(4, width, doubled(**half), begin)
    if width % 8 == 0:
        assert "ramp" in str(tw.lower(ok, args))


def test_own_memory_is_aligned_without_a_word() -> None:
    """What the schedule allocates begins at 64 bytes; more is nobody's to promise."""
    n = 6
    A = te.placeholder((n, 16), name="A")
    B = te.compute((n, 16), lambda i, j: A[i, j] + 1.0, "B")
    C = te.compute((n, 16), lambda i, j: B[i, j] * 2.0, "C")
    D = te.compute((n, 16), lambda i, j: C[i, j] + 1.0, "D")
    for wanted in (64, 128):
        s = te.create_schedule(D.op)
        s[B].compute_at(s[D], D.op.axis[0])
        s[C].compute_at(s[D], D.op.axis[0])
        s[C].tensorize(s[C].op.axis[1], doubled(data_alignment=wanted))
        if wanted > 64:
            with pytest.raises(
                tw.LoweringError, match=r"data_alignment=128, so .* aligned to that, and its memory is to 64"
            ):
                tw.lower(s, [A, D])
            continue
        assert "align" not in str(tw.lower(s, [A, D]))
        a, d = floats(n, 16), np.zeros((n, 16), "float32")
        tw.build(s, [A, D])(a, d)
        np.testing.assert_allclose(d, (a + 1) * 2 + 1, rtol=1e-6)


def test_symbolic_rows_are_proved_by_their_factor() -> None:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m * 16), name="A")
    C = te.compute((n, m * 16), lambda i, j: A[i, j] * 2.0, "C")
    s = te.create_schedule(C.op)
    _, inner = s[C].split(C.op.axis[1], 16)
    s[C].tensorize(inner, doubled(data_alignment=64, offset_factor=16))
    f = tw.build(s, [A, C])
    a, c = aligned((3, 32)), aligned((3, 32))
    a[:] = floats(3, 32)
    f(a, c)
    np.testing.assert_array_equal(c, 2 * a)


def test_on_the_emulated_gpu() -> None:
    s, args = scheduled(8, 16, doubled(data_alignment=64))
    outer, inner = s[args[1]].split(args[1].op.axis[0], 4)
    s[args[1]].bind(outer, te.thread_axis("blockIdx.x"))
    s[args[1]].bind(inner, te.thread_axis("threadIdx.x"))
    a, c = aligned((8, 16)), aligned((8, 16))
    a[:] = floats(8, 16)
    tw.build(s, args, target="cuda -emulate")(a, c)
    np.testing.assert_array_equal(c, 2 * a)

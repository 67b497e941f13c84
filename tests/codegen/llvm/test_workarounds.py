"""Faults of LLVM that code is kept out of the way of: each shows itself in a program, until a version is without it.

The one of masks of signs, whose program is long, is in test_regressions.py.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import llvmlite.binding as llvm
import numpy as np
import pytest
import tilewright as tw
from this_machine import runnable
from tilewright import te
from tilewright.codegen.llvm import jit
from tilewright.codegen.llvm.workarounds import (
    bfloat_vectors,
    byte_masks,
    doubled_bytes,
    dropped_selects,
    joined_stores,
    masked_stores,
    saturating_conversions,
    scalar_choices,
    scalar_masks,
)
from tilewright.codegen.target import Target
from tilewright.ir.text.parser import parse

AVX512 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512"


@dataclass(frozen=True)
class Fault:
    """versions: of LLVM that have it. program: LLVM IR. shows: whether (validity after optimising, assembly) has the fault.
    avoided: whether LLVM gets other programs, in which the fault cannot be; otherwise what comes out of LLVM is mended."""

    versions: tuple[int, ...]
    program: Callable[[], str]
    shows: Callable[[bool, str], bool]
    avoided: bool = False


def lone_lane() -> str:
    return """
define void @f(ptr %from, ptr %to) {
  %wide = load <2 x i64>, ptr %from, align 1
  %v = trunc <2 x i64> %wide to <2 x i8>
  call void @llvm.masked.store.v2i8.p0(<2 x i8> %v, ptr align 1 %to, <2 x i1> <i1 true, i1 false>)
  ret void
}
"""


def neighbours() -> str:
    """Whether each of eight bytes, or the next one, is 0: all scalar."""
    lines = ["define void @f(ptr noalias %p, ptr noalias %q) {"]
    for at in range(8):
        lines += [
            f"%p{at} = getelementptr i8, ptr %p, i64 {at}",
            f"%x{at} = load i8, ptr %p{at}",
            f"%c{at} = icmp eq i8 %x{at}, 0",
        ]
    for at in range(8):
        following = f"%c{at + 1}" if at < 7 else "false"
        lines += [
            f"%e{at} = or i1 %c{at}, {following}",
            f"%b{at} = zext i1 %e{at} to i8",
            f"%q{at} = getelementptr i8, ptr %q, i64 {at}",
            f"store i8 %b{at}, ptr %q{at}",
        ]
    return "\n".join([*lines, "ret void", "}"])


def tiles() -> str:
    """Stores of three tiles, side by side."""
    function = parse("""
        def D(A: float32[4, 4], B: float32[12, 4], D: out float32[4, 12]):
            near: local float32[12, 4]
            for ax0 in 12:
                for ax1 in 4:
                    near[ax0, ax1] = B[ax0, ax1]
            C: float32[4, 12]
            for tile in 3:
                for i in 4:
                    for j in 4:
                        C[i, tile * 4 + j] = 0.0
                        for k in 4:
                            C[i, tile * 4 + j] = C[i, tile * 4 + j] + A[i, k] * near[tile * 4 + j, k]
            for i in 4:
                for j in 12:
                    D[i, j] = C[i, j] + 1.0
    """)
    return tw.build(function, target="llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell").source("llvm")


FAULTS = {
    "masked_stores": Fault(
        masked_stores.VERSIONS,
        lone_lane,
        lambda valid, assembly: re.search(r"movq\s+%r\w+, \(%rsi\)", assembly) is not None,
    ),
    "byte_masks": Fault(
        byte_masks.VERSIONS,
        neighbours,
        lambda valid, assembly: re.search(r"kshiftrw\s+\$1, %k\d, %k\d", assembly) is not None,
    ),
    "joined_stores": Fault(joined_stores.VERSIONS, tiles, lambda valid, assembly: not valid),
    "joined_stores of parts": Fault(
        joined_stores.VERSIONS, lambda: joined_stores.PROGRAM, lambda valid, assembly: not valid
    ),
    "dropped_selects": Fault(
        dropped_selects.VERSIONS,
        lambda: dropped_selects.PROGRAM,
        lambda valid, assembly: len(re.findall(r"v?(?:maxss|cmp\w*ss|ucomiss)", assembly)) < 2,
        avoided=True,
    ),
    "saturating_conversions": Fault(
        saturating_conversions.VERSIONS,
        lambda: saturating_conversions.PROGRAM,
        lambda valid, assembly: assembly.count("vcvttss2si") >= 8,
        avoided=True,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_versions_that_have_a_fault_are_those_that_say_so(name: str) -> None:
    fault, version, machine = FAULTS[name], llvm.llvm_version_info[0], Target.parse(AVX512).machine()
    with llvm.create_context() as context, llvm.parse_assembly(fault.program(), context) as module:
        jit._optimise(module, machine)
        valid = jit._is_valid(module)
        shown = fault.shows(valid, machine.emit_assembly(module) if valid else "")
    _compare(name, version, shown, fault.versions)


def _compare(name: str, version: int, shown: bool, versions: tuple[int, ...]) -> None:
    assert shown or version not in versions, (
        f"this fault is gone from LLVM {version}: delete codegen/llvm/workarounds/{name}.py, or take {version} out of its VERSIONS"
    )
    assert not shown or version in versions, (
        f"LLVM {version} is at fault too: codegen/llvm/workarounds/{name}.py says otherwise"
    )


def test_the_versions_that_read_four_floats_for_one_are_those_that_say_so() -> None:
    machine = Target.parse("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell").machine(0)
    shown, avoided = (
        re.search(r"blendvps.*\(%rdi\)", machine.emit_assembly(llvm.parse_assembly(text))) is not None
        for text in (scalar_choices.PROGRAM, scalar_choices.split_loads(scalar_choices.PROGRAM))
    )
    assert not avoided
    _compare("scalar_choices", llvm.llvm_version_info[0], shown, scalar_choices.VERSIONS)


def test_the_versions_that_cannot_make_vectors_of_bfloat_are_those_that_say_so() -> None:
    """It ends the process, so another one emits the program."""
    emits = (
        "import sys; import llvmlite.binding as llvm; llvm.initialize_all_targets(); llvm.initialize_all_asmprinters(); "
        "machine = llvm.Target.from_triple(sys.argv[1]).create_target_machine(cpu=sys.argv[2], opt=3); "
        "print(len(machine.emit_assembly(llvm.parse_assembly(sys.stdin.read()))))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", emits, bfloat_vectors.TRIPLE, bfloat_vectors.CPU],
        input=bfloat_vectors.PROGRAM,
        text=True,
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0 or "LLVM ERROR: Cannot select" in ran.stderr, ran.stderr
    _compare("bfloat_vectors", llvm.llvm_version_info[0], ran.returncode != 0, bfloat_vectors.VERSIONS)


def test_the_versions_that_misread_masks_with_a_shared_condition_are_those_that_say_so() -> None:
    """It ends the process by an assertion, so another one emits the program."""
    emits = (
        "import sys; import llvmlite.binding as llvm; llvm.initialize_all_targets(); llvm.initialize_all_asmprinters(); "
        "machine = llvm.Target.from_triple('x86_64-unknown-linux-gnu').create_target_machine(cpu='haswell', opt=3); "
        "print(len(machine.emit_assembly(llvm.parse_assembly(sys.stdin.read()))))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", emits], input=scalar_masks.PROGRAM, text=True, capture_output=True, check=False
    )
    assert ran.returncode == 0 or "unknown LocationSize" in ran.stderr, ran.stderr
    _compare("scalar_masks", llvm.llvm_version_info[0], ran.returncode != 0, scalar_masks.VERSIONS)
    machine = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(cpu="haswell", opt=3)
    chosen = machine.emit_assembly(llvm.parse_assembly(scalar_masks.CHOSEN))
    _compare(
        "scalar_masks", llvm.llvm_version_info[0], "vmaskmov" in chosen and "32(%rdi)" in chosen, scalar_masks.VERSIONS
    )


@pytest.mark.parametrize("lanes", [16, 32])
@pytest.mark.parametrize("target", runnable("llvm", "llvm -mcpu=haswell", "llvm -mcpu=x86-64-v3"))
def test_lanes_that_a_mask_leaves_out_with_a_shared_condition_are_not_read(lanes: int, target: str) -> None:
    """Rows of a matrix in two panels: of the last panel five rows are there, and of the last vector of a row six lanes."""
    a = te.placeholder((21, lanes + 6), name="a")
    c = te.compute(
        (2, 16, 2 * lanes),
        lambda p, i, j: te.abs(te.if_then_else(te.all(p * 16 + i < 21, j < lanes + 6), a[p * 16 + i, j], 0.0)) + 1.0,
        name="c",
    )
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[2], factor=lanes)
    s[c].reorder(outer, *c.op.axis[:2], inner)
    s[c].vectorize(inner)
    x = np.random.default_rng(lanes).standard_normal((21, lanes + 6)).astype("float32")
    wanted = np.ones((32, 2 * lanes), "float32")
    wanted[:21, : lanes + 6] += np.abs(x)
    got = np.full((2, 16, 2 * lanes), np.nan, "float32")
    tw.build(s, [a, c], target)(x, got)
    got = got.reshape(wanted.shape)
    np.testing.assert_array_equal(got, wanted)


def test_the_versions_that_come_to_no_end_over_doubled_bytes_are_those_that_say_so() -> None:
    """Another process emits the program, and is given up."""
    emits = (
        "import sys; import llvmlite.binding as llvm; llvm.initialize_all_targets(); llvm.initialize_all_asmprinters(); "
        "machine = llvm.Target.from_triple('x86_64-unknown-linux-gnu').create_target_machine(cpu='skylake-avx512', opt=3); "
        "print(len(machine.emit_assembly(llvm.parse_assembly(sys.stdin.read()))))"
    )
    try:
        subprocess.run(
            [sys.executable, "-c", emits],
            input=doubled_bytes.PROGRAM,
            text=True,
            capture_output=True,
            check=True,
            timeout=5,
        )
        ends = True
    except subprocess.TimeoutExpired:
        ends = False
    _compare("doubled_bytes", llvm.llvm_version_info[0], not ends, doubled_bytes.VERSIONS)


@pytest.mark.parametrize("lanes", [64, 65, 96, 192])
def test_bytes_that_are_repeated_and_doubled_are_compiled(lanes: int) -> None:
    """Rows of an image that is enlarged by its nearest pixels; for AVX-512 the compiler of machine code came to no end."""
    A = te.placeholder((5, (lanes + 1) // 2), "uint8", name="A")
    B = te.compute((5, lanes), lambda i, j: A[i, j // 2] + A[i, j // 2], name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(B.op.axis[1])
    assert "vpadd" in tw.build(s, [A, B], target=AVX512).source("asm")
    a, b = (
        np.random.default_rng(lanes).integers(0, 256, (5, (lanes + 1) // 2)).astype("uint8"),
        np.zeros((5, lanes), "uint8"),
    )
    tw.build(s, [A, B])(a, b)
    assert np.array_equal(b, (2 * a).repeat(2, axis=1)[:, :lanes])


@pytest.mark.parametrize("processor", ["x86-64-v2", "haswell", "znver4"])
def test_lanes_that_rows_and_columns_leave_out_are_zeros(processor: str) -> None:
    """70 columns leave 6 of the last 32, in rows that may lie outside."""
    W = te.placeholder((21, 70), name="W")
    B = te.compute(
        (2, 3, 16, 32),
        lambda p, g, i, r: te.if_then_else(
            te.all(p * 16 + i < 21, g * 32 + r < 70), W[p * 16 + i, g * 32 + r], te.const(0, "float32")
        ),
        name="B",
    )
    s = te.create_schedule(B.op)
    s[B].vectorize(B.op.axis[3])
    assert tw.build(s, [W, B], target=f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={processor}").source("asm")
    rows = np.random.default_rng(0).random((40, 70), dtype=np.float32)
    padded = np.zeros((32, 96), np.float32)
    padded[:21, :70] = rows[:21]
    got = np.empty((2, 3, 16, 32), np.float32)
    tw.build(s, [W, B])(rows[:21], got)
    np.testing.assert_array_equal(got, padded.reshape(2, 16, 3, 32).transpose(0, 2, 1, 3))


def test_no_program_of_bfloat16_has_a_vector_of_bfloat() -> None:
    A = te.placeholder((64,), "bfloat16", name="A")
    B = te.compute((64,), lambda i: te.max(A[i] * 2, A[63 - i]), name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(B.op.axis[0], 8)[1])
    for target in (AVX512, f"llvm -mtriple={bfloat_vectors.TRIPLE} -mcpu={bfloat_vectors.CPU}"):
        text = tw.build(s, [A, B], target=target).source("llvm")
        assert f"x {bfloat_vectors.CARRIED_AS}>" in text and "x bfloat" not in text


@pytest.mark.parametrize("dtype", ["uint8", "uint32"])
def test_conversions_are_clamped_by_whole_vectors_and_ask_for_a_nan_last(dtype: str) -> None:
    A = te.placeholder((64,), "float32", name="A")
    B = te.compute((64,), lambda i: te.max(A[i], te.const(0.0, "float32")).astype(dtype), name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(B.op.axis[0], 16)[1])
    kernel = tw.build(s, [A, B], target=AVX512)
    assert "fptosi.sat" not in kernel.source("llvm") and "fptoui.sat" not in kernel.source("llvm")
    assert re.search(r"vcvttps2u?dq", kernel.source("asm")) and "cvttss2" not in kernel.source("asm")
    assert "fcmp uno" in kernel.source("llvm") or "fcmp ord" in kernel.source("llvm"), (
        "the question about a NaN is not dropped"
    )


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if not fault.avoided])
def test_what_is_made_of_the_program_is_without_the_fault(name: str) -> None:
    fault = FAULTS[name]
    assert not fault.shows(True, jit.assembly_text([fault.program()], Target.parse(AVX512)))


@pytest.mark.parametrize("columns", [6, 14])
def test_products_whose_rows_end_with_zeros_build_and_are_right(columns: int) -> None:
    x, w = te.placeholder((2, 3), name="x"), te.placeholder((columns, 3), name="w")
    y = tw.topi.matmul(x, w, False, True)
    tw.build([x, w, y], target="llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell")
    rng = np.random.default_rng(columns)
    arrays = [rng.standard_normal(shape).astype("float32") for shape in ((2, 3), (columns, 3))]
    result = np.empty((2, columns), "float32")
    tw.build([x, w, y])(*arrays, result)
    np.testing.assert_allclose(result, arrays[0] @ arrays[1].T, rtol=1e-5, atol=1e-6)

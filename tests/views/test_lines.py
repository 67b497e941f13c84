"""Lines of the loops at the instructions that came from them."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.codegen.assembly import AssemblyLine
from tilewright.codegen.cuda.assembly import sass_lines
from tilewright.codegen.llvm.assembly import assembly_lines
from tilewright.codegen.llvm.build import CodegenOptions, module_text
from tilewright.codegen.llvm.jit import assembly_text
from tilewright.codegen.llvm.pipeline import cpu_pipeline
from tilewright.codegen.target import Target
from tilewright.ir.passes.common.runner import run_pipeline
from tilewright.ir.stmt import BufferStore, For, Function
from tilewright.ir.text.numbering import number_lines
from tilewright.ir.text.printer import to_text
from tilewright.ir.visit import walk
from tilewright.tools.fuzz.case import draw_case
from tilewright.tools.fuzz.programs import draw_program
from tilewright.tools.fuzz.schedules import draw_schedule
from tilewright.views.report import page


def blocked_matmul(n: int = 64) -> tuple[te.Schedule, list[te.Tensor]]:
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C)
    cached = s.cache_write(C, "global")
    xo, yo, _, yi = s[C].tile(*s[C].op.axis, 32, 32)
    s[cached].compute_at(s[C], yo)
    xc, yc = s[cached].op.axis
    ko, ki = s[cached].split(s[cached].op.reduce_axis[0], 4)
    s[cached].reorder(ko, xc, ki, yc)
    s[cached].unroll(ki)
    s[cached].vectorize(yc)
    s[C].vectorize(yi)
    s[C].parallel(xo)
    return s, [A, B, C]


def uneven_blur() -> tuple[te.Schedule, list[te.Tensor]]:
    A = te.placeholder((53, 71), "int32", name="A")
    X = te.compute((53, 69), lambda i, j: A[i, j] + A[i, j + 1] + A[i, j + 2], name="X")
    Y = te.compute((51, 69), lambda i, j: (X[i, j] + X[i + 1, j] + X[i + 2, j]) // 9, name="Y")
    s = te.create_schedule(Y)
    yo, _ = s[Y].split(Y.op.axis[0], 8)
    s[Y].vectorize(s[Y].split(Y.op.axis[1], 16)[1])
    s[X].compute_at(s[Y], yo)
    return s, [A, Y]


def symbolic_sum() -> tuple[te.Schedule, list[te.Tensor]]:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    k = te.reduce_axis((0, n), "k")
    B = te.compute((), lambda: te.sum(te.exp(A[k]), axis=k), name="B")
    return te.create_schedule(B), [A, B]


PROGRAMS = [blocked_matmul, uneven_blur, symbolic_sum]


def lines_of(program: Callable[..., tuple[te.Schedule, list[te.Tensor]]]) -> tuple[Function, list[AssemblyLine]]:
    schedule, args = program()
    function = number_lines(tw.lower(schedule, args))
    return function, assembly_lines(function, Target())


@pytest.mark.parametrize("program", PROGRAMS)
def test_noting_lines_changes_no_instruction(program: Callable[..., tuple[te.Schedule, list[te.Tensor]]]) -> None:
    schedule, args = program()
    _, noted = lines_of(program)
    built = tw.build(schedule, args).source("asm")
    assert ".loc" not in built and ".debug" not in built
    plain = [re.sub(r"\s+", " ", line.split("#")[0]).strip() for line in built.splitlines()]
    shown = [re.sub(r"\s+", " ", one.text).strip() for one in noted if one.is_instruction]
    first = plain.index(shown[0])
    instructions = [line for line in plain[first:] if line and not line.startswith(".") and not line.endswith(":")]
    assert instructions[: len(shown)] == shown


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_line_noted_is_a_loop_or_a_store_of_the_text(
    program: Callable[..., tuple[te.Schedule, list[te.Tensor]]],
) -> None:
    function, found = lines_of(program)
    text = to_text(function).splitlines()
    stores = {node.line for node in walk(function.body) if isinstance(node, BufferStore)}
    loops = {node.line for node in walk(function.body) if isinstance(node, For)}
    assert all(" = " in text[line - 1] for line in stores) and all(
        text[line - 1].lstrip().startswith("for ") for line in loops
    )
    assert {one.line for one in found} <= {0} | stores | loops
    assert {one.line for one in found} & stores == stores or program is not uneven_blur
    instructions = [one for one in found if one.is_instruction]
    # what LLVM puts around a sum's vectors has no line: three of four instructions of the sum, for AVX2
    assert sum(one.line > 0 or one.within > 0 for one in instructions) > len(instructions) * 0.2


def test_multiplications_of_a_matmul_come_from_its_update_and_run_in_its_loops() -> None:
    function, found = lines_of(blocked_matmul)
    text = to_text(function).splitlines()
    update = next(at for at, line in enumerate(text, 1) if "A[" in line and " = " in line)
    products = [one for one in found if "vfmadd" in one.text or "fmla" in one.text]
    assert products and {one.line for one in products} == {update}
    assert all("for" in text[one.within - 1] for one in products)


def test_the_body_of_a_parallel_loop_runs_within_it() -> None:
    function, found = lines_of(blocked_matmul)
    parallel = next(
        node.line for node in walk(function.body) if isinstance(node, For) and node.kind.value == "parallel"
    )
    assert parallel in {one.line for one in found}
    assert any(one.within == parallel for one in found)


@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump, of the binutils, reads the line table")
def test_a_library_names_the_lines_of_its_loops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_DUMP", str(tmp_path / 'a "dump'))
    schedule, args = blocked_matmul()
    tw.build(schedule, args, name="matmul").export(tmp_path / "libmatmul.so")
    (loops,) = tmp_path.glob("a*/matmul/loops.*.ir")
    text = loops.read_text().splitlines()
    assert "\n".join(text) == to_text(tw.lower(schedule, args, name="matmul"))
    update = next(at for at, line in enumerate(text, 1) if "A[" in line and " = " in line)
    table, symbols = (
        subprocess.run(["objdump", how, tmp_path / "libmatmul.so"], capture_output=True, text=True, check=True).stdout
        for how in ("--dwarf=decodedline", "--syms")
    )
    assert re.search(rf"{loops.name}\s+{update}\s+0x", table) and "tw_kernel_matmul" in symbols


@pytest.mark.skipif(importlib.util.find_spec("nvidia") is None, reason="NVRTC is not installed")
def test_a_gpus_instructions_come_from_their_lines_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n = te.var("n")
    A, B = te.placeholder((n, 32), name="A"), te.placeholder((n,), name="B")
    k = te.reduce_axis((0, n), "k")
    C = te.compute((32,), lambda i: te.sum(A[k, i] * B[k], k), name="C")
    s = te.create_schedule(C.op)
    s[C].bind(C.op.axis[0], te.thread_axis("threadIdx.x"))
    function = number_lines(tw.lower(s, [A, B, C]))
    text = to_text(function).splitlines()
    found = sass_lines(function, Target.parse("cuda -arch=sm_80"))
    update = next(at for at, line in enumerate(text, 1) if "A[" in line and " = " in line)
    loop = next(at for at, line in enumerate(text, 1) if "for k in" in line)
    products = [one for one in found if "FFMA" in one.text or "FMUL" in one.text]
    assert products and {one.line for one in products} == {update}
    assert loop in {one.within for one in products} <= {0, loop}, "what is left of unrolling jumps nowhere"
    assert "FFMA" in page(s, "cuda -arch=sm_80"), "the page shows it beside the loops"
    monkeypatch.setenv("TILEWRIGHT_DUMP", str(tmp_path / 'a "dump'))
    ptx = tw.build(s, [A, B, C], target="cuda -arch=sm_80").source("ptx")
    (loops,) = tmp_path.glob("a*/*/loops.*.ir")
    assert loops.name in ptx and re.search(rf"\.loc\s+\d+ {update} ", ptx)


def test_lines_mean_nothing_to_passes_and_results() -> None:
    schedule, args = uneven_blur()
    plain, noted = tw.lower(schedule, args), number_lines(tw.lower(schedule, args))
    assert str(plain) == str(noted)
    data = np.random.default_rng(3).integers(-99, 99, (53, 71)).astype("int32")
    results = [np.empty((51, 69), "int32") for _ in range(2)]
    for function, out in zip((plain, noted), results, strict=True):
        tw.build(function)(data, out)
    np.testing.assert_array_equal(*results)


def test_noting_lines_changes_no_instruction_of_drawn_programs() -> None:
    count, compared = drawn.count(8, 400), 0
    for case in range(count):
        numbers, choices, _ = draw_case(drawn.SEED, case, "llvm")
        program = draw_program(numbers)
        s = te.create_schedule(program.outputs)
        draw_schedule(choices, s, text=False)
        try:
            function = number_lines(tw.lower(s, program.args))
            final = run_pipeline(function, cpu_pipeline(Target().vector_bits))
        except tw.LoweringError:
            continue
        plain, noted = (
            [
                re.sub(r"\.L\w+", ".L", " ".join(line.split("#")[0].split()))
                for line in text.splitlines()
                if re.match(r"\s+[a-z]", line)
            ]
            for text in (
                assembly_text([module_text([final], Target(), CodegenOptions(debug_lines=noting))[0]], Target())
                for noting in (False, True)
            )
        )
        assert plain == noted, f"case {case} of seed {drawn.SEED}"
        compared += 1
    assert compared * 4 >= count

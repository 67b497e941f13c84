"""Drawn programs with drawn schedules, several to a library: built, loaded, plain and checked functions agree to the bit."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from exported import as_dlpack
from tilewright import te
from tilewright.base.errors import LoweringError
from tilewright.runtime.signature import BufferParam, Signature, evaluate_extent
from tilewright.tools.fuzz.choices import case_choices
from tilewright.tools.fuzz.oracle import compare, run_kernel
from tilewright.tools.fuzz.program import Program
from tilewright.tools.fuzz.programs import draw_program
from tilewright.tools.fuzz.schedules import draw_schedule

C_SCALARS: dict[str, Any] = {
    "bool": ctypes.c_bool,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    **{f"int{bits}": getattr(ctypes, f"c_int{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": getattr(ctypes, f"c_uint{bits}") for bits in (8, 16, 32, 64)},
}
IN_A_LIBRARY = 5


def drawn_functions(case: int) -> dict[str, tuple[Program, Any]]:
    """Lowered functions by name, with their programs."""
    choices = case_choices(drawn.SEED, case, 7)
    found: dict[str, tuple[Program, Any]] = {}
    while len(found) < IN_A_LIBRARY:
        program = draw_program(choices)
        s = te.create_schedule(program.outputs)
        draw_schedule(choices, s)
        name = f"drawn_{len(found)}"
        try:
            found[name] = program, tw.lower(s, program.args, name=name)
        except LoweringError:
            continue
    return found


class InC:
    """An exported function, called as a C program would; fails as a kernel does, by raising."""

    def __init__(self, library: ctypes.CDLL, signature: Signature, checked: bool) -> None:
        self.function, self.signature, self.checked = (
            getattr(library, signature.name + "_checked" * checked),
            signature,
            checked,
        )

    def __call__(self, *values: Any) -> None:
        passed: list[Any] = [] if self.checked else [ctypes.c_int64(n) for n in self.extents(values)]
        keep: list[Any] = []
        for param, value in zip(self.signature.params, values, strict=True):
            if not isinstance(param, BufferParam):
                passed.append(C_SCALARS[param.dtype](np.asarray(value).item()))
            elif self.checked:
                keep.append(as_dlpack(value))
                passed.append(ctypes.byref(keep[-1]))
            else:
                passed.append(ctypes.c_void_p(value.ctypes.data))
        status = self.function(*passed)
        assert status == 0, f"{self.signature.name}: status {status}"

    def extents(self, values: tuple[Any, ...]) -> list[int]:
        found: list[int] = []
        for symbol in self.signature.symbols:
            binding = self.signature.bindings[symbol.name]
            extent = values[binding.param].shape[binding.dim]
            for operator, number in binding.steps:
                extent = evaluate_extent((operator, extent, number), {})
            found.append(extent)
        return found


@pytest.fixture
def one_thread() -> Iterator[None]:
    """How a loop is cut into tasks decides which of its iterations LLVM's vector code takes, and that may round otherwise
    than the code for the rest."""
    before = tw.num_threads()
    tw.set_num_threads(1)
    yield
    tw.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_drawn_programs_do_the_same_in_a_library(tmp_path: Path) -> None:
    threads = ("openmp", "none", "hook")
    for case in range(drawn.count(3, 150)):
        functions = drawn_functions(case)
        module = tw.build({name: function for name, (_, function) in functions.items()})
        path = module.export(tmp_path / f"libdrawn{case}.so", threads=threads[case % 3])[0]
        loaded, library = tw.load(path), ctypes.CDLL(str(path))
        for name, (program, _) in functions.items():
            step = f"seed {drawn.SEED}, library {case}, {name} ({program.name})"
            at_end = [True] * len(program.args)
            built = run_kernel(f"{step}, built", program, module[name], at_end)
            compare(f"{step}, built", program, built, program.values)
            signature = module[name].signature
            for how, kernel in {
                "loaded": loaded[name],
                "plain": InC(library, signature, checked=False),
                "checked": InC(library, signature, checked=True),
            }.items():
                found = run_kernel(f"{step}, {how}", program, kernel, at_end)
                for argument, is_result, ours, theirs in zip(program.args, program.results, built, found, strict=True):
                    # inputs, which may have more elements than memory, are guarded against being written
                    same = not is_result or np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()
                    assert same, f"{step}, {how}: {argument}"

"""`tilewright reduce`: a failing schedule or model of a file becomes a small program that fails in the same way."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tilewright as tw
from tilewright.cli import main
from tilewright.codegen.llvm import pipeline
from tilewright.ir import Function
from tilewright.tools.fuzz import reducer
from tilewright.tools.fuzz.reduce_command import find_subject
from tilewright.tools.fuzz.reducer import ScheduleSubject

SCHEDULE = """
import tilewright as tw
from tilewright import te
A = te.placeholder((64, 48), name="A")
W = te.placeholder((48, 32), name="W")
P = te.compute((64, 48), lambda i, j: A[i, j] + 1, name="P")
k = te.reduce_axis((0, 48), "k")
C = te.compute((64, 32), lambda i, j: te.sum(P[i, k] * W[k, j], axis=k), name="C")
D = te.compute((64, 32), lambda i, j: te.max(C[i, j], 0.0), name="D")
E = te.compute((64, 32), lambda i, j: D[i, j] * 2, name="E")
s = te.create_schedule(E)
s[D].compute_inline()
xo, yo, xi, yi = s[C].tile(*C.op.axis, 8, 8)
s[C].vectorize(yi)
s[P].reorder(P.op.axis[1], *s[P].split(P.op.axis[0], factor=5))
s.cache_read(A, "local", [P])
tw.build(s, [A, W, E])
"""
MODEL = """
import numpy as np
import tilewright as tw
b = tw.graph.Builder("net")
x = b.input("x", (4, 8))
h = b.node("relu", b.node("matmul", x, b.param("w", np.ones((8, 6), "float32"))))
b.output("y", b.node("softmax", b.node("exp", b.node("negative", h))))
g = b.graph()
"""


@pytest.fixture
def broken_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that fails on every vectorized loop."""
    hoist = pipeline.hoist_invariants

    def fail(function: Function) -> Function:
        if "vectorized(" in str(function):
            raise IndexError("planted")
        return hoist(function)

    monkeypatch.setattr(pipeline, "hoist_invariants", fail)


def reduce(folder: Path, program: str, capfd: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    path = folder / "program.py"
    path.write_text(program)
    status = main(
        ["reduce", f"{path}{more[0] if more else ''}", "-o", str(folder / "out"), "--seconds", "20", *more[1:]]
    )
    captured = capfd.readouterr()
    return status, captured.out + captured.err


@pytest.mark.usefixtures("broken_pass")
def test_a_failing_schedule_keeps_the_stage_and_the_primitives_that_matter(tmp_path: Path, capfd) -> None:
    status, said = reduce(tmp_path, SCHEDULE, capfd)
    assert status == 0 and "InternalError in pass hoist: " in said
    text = (tmp_path / "out" / "reduced.py").read_text()
    assert text.count("te.compute(") == 1 and "te.sum(" in text, "one stage is left, with its inputs"
    primitives = re.findall(r"s\[?\w*\]?\.(\w+)\(", text.partition("create_schedule")[2])
    assert [each for each in primitives if each != "verify"] == ["tile", "vectorize"]
    with pytest.raises(Exception, match="planted"):
        exec(compile(text, "reduced.py", "exec"), {})


def test_what_does_not_fail_is_said_to_be_right(tmp_path: Path, capfd) -> None:
    assert reduce(tmp_path, SCHEDULE, capfd) == (
        1,
        f"tilewright reduce: {tmp_path}/program.py builds, and computes what it declares\n",
    )


def test_a_program_that_ends_the_process_names_what_to_reduce(tmp_path: Path, capfd) -> None:
    program = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    status, said = reduce(tmp_path, program, capfd)
    assert status == 2 and "ends with signal SIGKILL when it runs: name a function" in said
    status, said = reduce(tmp_path, "x = 3\n", capfd, ":x")
    assert status == 2 and "gives neither a schedule nor a graph" in said


def test_a_failing_model_keeps_the_node_that_matters(tmp_path: Path, capfd, monkeypatch: pytest.MonkeyPatch) -> None:
    exp = pipeline.round_sums

    def fail(function: Function, fuses: bool) -> Function:
        if "exp(" in str(function):
            os.kill(os.getpid(), 11)
        return exp(function, fuses)

    monkeypatch.setattr(pipeline, "round_sums", fail)
    status, said = reduce(tmp_path, MODEL, capfd, ":g")
    assert status == 0 and said.startswith("signal SIGSEGV: ")
    text = (tmp_path / "out" / "reduced.py").read_text()
    assert "= exp(" in text and "matmul" not in text and "softmax" not in text
    done = subprocess.run([sys.executable, tmp_path / "out" / "reduced.py"], capture_output=True, text=True)
    assert "every value agrees" in done.stdout, done.stderr


USERS_OWN = """
import tilewright as tw
from tilewright import te
A = te.placeholder((8,), name="A")
@te.hybrid.script
def doubled(a):
    out = output_tensor((8,), "float32")
    for i in range(8):
        out[i] = a[i] * 2.0
    return out
B = doubled(A)
C = te.compute((8,), lambda i: B[i] + 1, name="C")

def subtract():
    a = te.placeholder((4,), name="a")
    c = te.compute((4,), lambda i: a[i] + 1, "c")
    return te.decl_tensor_intrin(c.op, lambda ins, outs: outs[0].vstore([0], ins[0].vload([0], "float32x4") - 1.0), "inc")
s = te.create_schedule(C)
s[C].tensorize(s[C].split(C.op.axis[0], 4)[1], subtract())
"""


def test_scripts_and_intrinsics_of_ones_own_come_from_the_file_again(tmp_path: Path) -> None:
    """The program ended in a NameError at them."""
    path = tmp_path / "program.py"
    path.write_text(USERS_OWN)
    subject = find_subject(str(path), "llvm")
    assert isinstance(subject, ScheduleSubject)
    text = subject.write((subject.numbers, subject.records), tmp_path, "TW0258").read_text()
    with pytest.raises(tw.ScheduleError, match="TW0258"):
        exec(compile(text, "reduced.py", "exec"), {})


def test_inputs_that_no_memory_holds_are_no_failure_of_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    b = tw.graph.Builder("net")
    b.output("y", b.node("relu", b.input("x", (4,))))
    subject = reducer.GraphSubject(b.graph(), "llvm")
    monkeypatch.setattr(reducer.np.random, "default_rng", lambda _: (_ for _ in ()).throw(MemoryError()))
    assert reducer.failure_kind(lambda: subject.check((subject.numbers, []))) == "_NoSuchSubject"

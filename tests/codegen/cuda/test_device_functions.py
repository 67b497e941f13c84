"""CONTRIBUTING's way to a new GPU instruction works as it stands there; and what it rests on."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from gpu_programs import Program, block, thread
from tilewright import te
from tilewright.codegen.cuda import device_functions
from tilewright.ir.buffer import Buffer
from tilewright.ir.dtype import DType
from tilewright.ir.expr import Var
from tilewright.ir.ops import const
from tilewright.ir.stmt import For, Function, LoopKind

TEXT = (Path(__file__).resolve().parents[3] / "CONTRIBUTING.md").read_text()


def shown(begin: str) -> str:
    """The indented text of CONTRIBUTING that begins with a line."""
    found = re.search(rf"^    {re.escape(begin)}.*\n(?:(?:    .*)?\n)*", TEXT, re.MULTILINE)
    assert found, f"CONTRIBUTING shows no {begin}"
    return textwrap.dedent(found[0]).strip()


@pytest.fixture
def dp4a(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The intrinsic, its device function being known."""
    rows: dict[str, str] = eval("{" + shown('"tw_dp4a": """') + "}")
    for name, text in rows.items():
        monkeypatch.setitem(device_functions.DEVICE_FUNCTIONS, name, text.strip())
    names: dict[str, Any] = {"te": te}
    exec(shown("def dp4a():"), names)
    return names["dp4a"]


def byte_matmul(m: int, n: int, k: int, intrinsic: Any) -> Program:
    """int8 by rows of B, four at a time; k is a multiple of 4."""
    A, B = te.placeholder((m, k), "int8", name="A"), te.placeholder((n, k), "int8", name="B")
    r = te.reduce_axis((0, k), "k")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, r].astype("int32") * B[j, r].astype("int32"), axis=r), "C")
    s = te.create_schedule(C.op)
    CL = s.cache_write(C, "local")
    by, bx, y, x = s[C].tile(*C.op.axis, 8, 8)
    for axis, bound in ((by, block("y")), (bx, block("x")), (y, thread(8, "y")), (x, thread(8, "x"))):
        s[C].bind(axis, bound)
    s[CL].compute_at(s[C], x)
    outer, inner = s[CL].split(s[CL].op.reduce_axis[0], factor=4)
    s[CL].tensorize(inner, intrinsic())
    return Program(s, [A, B, C], lambda a, b: a.astype("int32") @ b.astype("int32").T)


@pytest.mark.parametrize("target", ["cuda -emulate", "interpret"])
def test_the_new_instruction_computes_what_it_declares(target: str, dp4a: Any) -> None:
    program = byte_matmul(11, 13, 24, dp4a)
    inputs, output = program.inputs(), program.output()
    tw.build(program.schedule, program.args, target=target)(*inputs, output)
    np.testing.assert_array_equal(output, program.reference(*inputs))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_new_instruction_is_in_the_machine_code(arch: str, dp4a: Any) -> None:
    program = byte_matmul(11, 13, 24, dp4a)
    assert "IDP.4A" in tw.build(program.schedule, program.args, target=f"cuda -arch={arch}").source("sass")


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("int8x8", "int32x2"),
        ("float32x2", "uint8x8"),
        ("float16x4", "int64"),
        ("int64", "float16x4"),
        ("int32x4", "float32x4"),
    ],
)
def test_bits_are_read_as_wider_and_narrower_lanes(source: str, target: str) -> None:
    rng = np.random.default_rng(0)
    one, lanes = source.partition("x")[::2]
    to, many = target.partition("x")[::2]
    given = rng.integers(-100, 100, 32 * int(lanes or 1)).astype(one)
    A = Buffer("A", (const(given.size),), DType(one))
    C = Buffer("C", (const(32 * int(many or 1)),), DType(to))
    at = Var("t", DType("int32"))
    value = te.call_intrin(target, "reinterpret", A.vload([at * int(lanes or 1)], source))
    body = For(at, const(0), const(32), LoopKind.THREAD, C.vstore([at * int(many or 1)], value), "threadIdx.x")
    function = Function("bits", (A, C), body, (C,), {"stage": "loops"})
    for where in ("interpret", "cuda -emulate"):
        found = np.zeros(32 * int(many or 1), to)
        tw.build(function, target=where)(given, found)
        assert found.tobytes() == given.tobytes()

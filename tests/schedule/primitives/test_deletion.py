"""A primitive is one file: where that is deleted, nothing of it is left, and nothing misses it."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tokenize
from pathlib import Path

import tilewright as tw
from tilewright import te
from tilewright.schedule.lowering.extension import Extension
from tilewright.schedule.model.primitive import primitives

ROOT = Path(tw.__file__).parent

PROGRAM = """
import numpy as np
import tilewright as tw
from tilewright import te
from tilewright.schedule import Stage
from tilewright.tools.fuzz import schedules

assert tw.__file__.startswith(PLACE), tw.__file__
left = {"double_buffer", "rolling_buffer", "storage_align", "skew", "rotate"} & set(dir(Stage))
assert not left, left
assert {"split", "vectorize", "prefetch", "compute_at"} <= set(dir(Stage))

n, m, d = 17, 33, 8
A, B = te.placeholder((n, d), name="A"), te.placeholder((d, m), name="B")
k = te.reduce_axis((0, d), "k")
C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
s = te.create_schedule(C.op)
near = s.cache_read(A, "local", [C])
outer, inner = s[C].split(C.op.axis[1], 8)
s[C].reorder(outer, k, inner)
s[near].compute_at(s[C], outer)
s[C].prefetch(B, k, 1)
s[C].vectorize(inner)
assert "prefetch" in str(s) and "s[C].split(" in s.as_python() and s.options(s[C])
assert str(te.Schedule.replay(s.trace, [C.op])) == str(s)
a, b, c = np.arange(n * d, dtype="float32").reshape(n, d), np.ones((d, m), "float32"), np.zeros((n, m), "float32")
tw.build(s, [A, B, C])(a, b, c)
np.testing.assert_allclose(c, a @ b)
print("built")
"""


def test_deleted_primitives_leave_nothing_behind_and_the_rest_goes_on(tmp_path: Path) -> None:
    others = shutil.ignore_patterns("tests", "docs", "tutorials", "build", ".*", "*.egg-info", "*.so")
    copy = shutil.copytree(ROOT, tmp_path / "tilewright", ignore=others)
    for name in ("double_buffer", "rolling_buffer", "storage_align", "skew", "rotate"):
        (copy / "schedule" / "primitives" / f"{name}.py").unlink()
    deleted = re.compile("double_buffer|rolling_buffer|skew|rotate")
    mentions = [
        path.name
        for path in (copy / "schedule" / "lowering").rglob("*.py")
        if any(
            token.type == tokenize.NAME and deleted.search(token.string)  # the texts of errors may advise one
            for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
        )
    ]
    assert not mentions, "lowering knows no primitive"
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("PLACE", repr(str(tmp_path)))],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        check=False,
    )
    assert ran.returncode == 0 and ran.stdout == "built\n", ran.stderr


def test_a_run_of_lowering_asks_what_the_rows_bring() -> None:
    row, asked = primitives()["storage_align"], list[str]()
    own = row.lowering
    assert own is not None and issubclass(own, Extension)

    class Looking(Extension):
        def plan(self, bounds: object) -> None:
            asked.append("plan")

    A = te.placeholder((9,), name="A")
    B = te.compute((9,), lambda i: A[i] + 1, name="B")
    object.__setattr__(row, "lowering", Looking)
    try:
        tw.lower(te.create_schedule(B.op), [A, B])
    finally:
        object.__setattr__(row, "lowering", own)
    assert asked == ["plan"]

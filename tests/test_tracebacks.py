"""Tracebacks of users' errors show the user's lines, and all frames on demand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tilewright as tw
from tilewright import te
from tilewright.base.tracebacks import users_frames

_PROGRAM = """
import sys, threading
import tilewright as tw
from tilewright import te

def program():
    A = te.placeholder((4, 4), name="A")
    k = te.reduce_axis((0, 4), "k")
    C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="C")
    s = te.create_schedule(C)
    if "build" in sys.argv:
        tw.build(s, [A])
    s[C].vectorize(k)

if "thread" in sys.argv:
    threading.Thread(target=program).start()
elif "cause" in sys.argv:
    try:
        program()
    except tw.TilewrightError as error:
        raise RuntimeError("mine") from error
else:
    program()
"""


def printed(tmp_path: Path, *how: str, shown: str = "") -> str:
    script = tmp_path / "mine.py"
    script.write_text(_PROGRAM)
    environment = {**os.environ, "TILEWRIGHT_TRACEBACK": shown}
    done = subprocess.run(
        [sys.executable, str(script), *how], capture_output=True, text=True, check=False, env=environment, timeout=120
    )
    return done.stderr


@pytest.mark.parametrize("how", [(), ("build",), ("thread",)])
def test_the_users_lines_alone_are_printed(tmp_path: Path, how: tuple[str, ...]) -> None:
    text = printed(tmp_path, *how)
    files = [line for line in text.splitlines() if line.startswith("  File")]
    assert files[-1].startswith(f'  File "{tmp_path / "mine.py"}"') and files[-1].endswith("in program")
    assert not any("tilewright" in line for line in files), text
    assert "of tilewright" in text and "TILEWRIGHT_TRACEBACK=all shows every one" in text


def test_all_frames_on_demand(tmp_path: Path) -> None:
    text = printed(tmp_path, shown="all")
    assert "vectorize.py" in text and "left out" not in text
    assert "cannot read TILEWRIGHT_TRACEBACK='most'" in printed(tmp_path, shown="most")


def test_errors_of_the_user_keep_all_frames(tmp_path: Path) -> None:
    assert "vectorize.py" in printed(tmp_path, "cause"), "what is raised is the user's own"


def test_the_exception_keeps_its_frames() -> None:
    A = te.placeholder((4,), name="A")
    with pytest.raises(tw.TensorExpressionError, match="TW0114") as caught:
        te.compute((4,), lambda i: A[7], name="C")
    inside = caught.value.__traceback__
    assert inside is not None
    kept, count = users_frames(inside)
    assert count > 0 and kept is not None and kept.tb_frame is inside.tb_frame
    names: list[str] = []
    while kept is not None:
        names.append(kept.tb_frame.f_code.co_name)
        kept = kept.tb_next
    assert names[-1] == "<lambda>", "the user's function that ours called is there"

"""Variables of the environment that are nonsense are errors that name them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from sources import source_files
from tilewright import te
from tilewright.base import environment
from tilewright.base.errors import BadVariable
from tilewright.base.tracebacks import shows_all
from tilewright.compat.tvm.nd import is_emulated
from tilewright.driver.helpers import compile_jobs
from tilewright.runtime.cache_paths import cache_folder, default_database
from tilewright.runtime.threads import _may_have_pool


def build(target: str = "llvm") -> Any:
    A = te.placeholder((8,), name="A")
    return tw.build([A, te.compute((8,), lambda i: A[i] + 1, name="B")], target=target)


def emulate() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B)
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    tw.build(s, [A, B], target="cuda -emulate")(np.zeros(8, "float32"), np.zeros(8, "float32"))


READ: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "TILEWRIGHT_CACHE": (build, ("maybe", "2", "-1", "\x1b[31m")),
    "TILEWRIGHT_CACHE_MB": (build, ("x", "-1", "1e9", "1_0", "9" * 30, "9" * 5000)),
    "TILEWRIGHT_JOBS": (compile_jobs, ("x", "-1", "1.5", "9" * 30)),
    "TILEWRIGHT_INTERPRET": (build, ("maybe",)),
    "TILEWRIGHT_VERIFY": (build, ("maybe",)),
    "TILEWRIGHT_DUMP": (build, ("/dev/null/folder", "/proc/nothing")),
    "TILEWRIGHT_CALIBRATION": (build, ("~nobody-of-this-name/file",)),
    "TILEWRIGHT_DATABASE": (default_database, ("~nobody-of-this-name/file",)),
    "TILEWRIGHT_EMULATE": (is_emulated, ("maybe",)),
    "TILEWRIGHT_EMULATE_CHECK": (emulate, ("maybe",)),
    "TILEWRIGHT_EMULATE_SEED": (emulate, ("x", "-1", "1.5", "9" * 40)),
    "TILEWRIGHT_TRACEBACK": (shows_all, ("maybe", "1")),
    "TILEWRIGHT_THREADS": (_may_have_pool, ("posix", "4")),
}
NOT_OURS = {"TILEWRIGHT_SOAK", "TILEWRIGHT_SEED", "TILEWRIGHT_NUM_THREADS"}
"""Of the tests, and of what a benchmark hands on."""


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, (_, texts) in READ.items() for text in texts])
def test_nonsense_is_named(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", "1")
    monkeypatch.setenv(name, text)
    with pytest.raises(BadVariable, match=rf"TW0446: cannot read {name}=") as caught:
        READ[name][0]()
    assert f"unset {name}" in caught.value.fix and "\x1b" not in str(caught.value)


def test_every_variable_is_tried() -> None:
    """TILEWRIGHT_HOST has errors of its own, and TILEWRIGHT_CACHE_DIR is any text."""
    read = {
        name
        for path in source_files("tests", "tools", "docs", "tutorials")
        for name in re.findall(r"TILEWRIGHT_[A-Z]+(?:_[A-Z]+)*", path.read_text())
    }
    assert read - NOT_OURS == {*READ, "TILEWRIGHT_HOST", "TILEWRIGHT_CACHE_DIR"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("1", True),
        ("on", True),
        ("YES", True),
        (" true ", True),
        ("0", False),
        ("off", False),
        ("False", False),
    ],
)
def test_switches_take_the_usual_words(text: str, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", text)
    assert environment.is_enabled("TILEWRIGHT_CACHE", True) is expected
    assert (cache_folder() is not None) is expected

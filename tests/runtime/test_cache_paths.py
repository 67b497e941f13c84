"""The user's folders, where there are none, and where they are not folders: as good as none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.autotune.trial_marks import _secret
from tilewright.cli import main
from tilewright.runtime.cache_paths import cache_folder, write_atomically

PLACES = ("HOME", "XDG_CACHE_HOME", "TILEWRIGHT_CACHE_DIR", "TILEWRIGHT_CALIBRATION")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder is chosen, and what is built is kept where that can be done."""
    for name in PLACES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TILEWRIGHT_CACHE", "1")


def _file(path: Path) -> str:
    path.write_text("in the way")
    return str(path)


def _loop(path: Path) -> str:
    path.symlink_to(path)
    return str(path)


def _pipe(path: Path) -> str:
    os.mkfifo(path)
    return str(path)


HOMES: dict[str, Callable[[Path], str]] = {
    "/dev/null": lambda path: "/dev/null",
    "/dev/zero": lambda path: "/dev/zero",
    "/proc": lambda path: "/proc/1/nothing",
    "empty": lambda path: "",
    "relative": lambda path: "somewhere/else",
    "long": lambda path: f"/{'x' * 5000}",
    "file": _file,
    "loop": _loop,
    "pipe": _pipe,
}


@pytest.mark.parametrize("name", ["HOME", "XDG_CACHE_HOME", "TILEWRIGHT_CACHE_DIR"])
@pytest.mark.parametrize("home", drawn.part(HOMES, 3))
def test_kernels_are_built_without_a_folder(
    name: str, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(name, HOMES[home](tmp_path / "place"))
    A = te.placeholder((8,), name="A")
    b = np.zeros(8, "float32")
    tw.build([A, te.compute((8,), lambda i: A[i] + 1, name="B")])(np.ones(8, "float32"), b)
    assert (b == 2).all()
    folder = cache_folder()
    assert len(_secret.__wrapped__(folder)) == 32
    if name != "TILEWRIGHT_CACHE_DIR":
        assert list((tmp_path / "cwd").iterdir()) == []
    is_told = home in (
        "/dev/null",
        "/dev/zero",
        "long",
        "file",
        "loop",
        "pipe",
    )  # there is nothing in the others' places
    for options in ([], ["--clear"]):
        assert main(["cache", *options]) == is_told
        assert not is_told or "removed" not in capsys.readouterr().out
    main(["doctor"])


def test_a_user_without_a_home_has_no_cache(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert cache_folder() is None
    assert main(["cache", "--clear"]) == 0
    assert capsys.readouterr().out == "off: there is no home folder\n"


@pytest.mark.parametrize("struck", [KeyboardInterrupt, OSError])
def test_what_is_not_whole_is_not_there(
    struck: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def strike(*_: object) -> None:
        raise struck("struck")

    monkeypatch.setattr(Path, "replace", strike)
    with pytest.raises(struck, match="struck"):
        write_atomically(tmp_path / "file", b"content")
    assert list(tmp_path.iterdir()) == []

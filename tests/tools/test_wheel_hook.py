"""The folder of links of an editable install is made anew whatever an earlier one and its use have left there."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def test_an_editable_install_may_be_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one failed on the __pycache__ that Python had put beside the links."""
    stand_in = ModuleType("hatchling.builders.hooks.plugin.interface")
    stand_in.__dict__["BuildHookInterface"] = list
    monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)
    spec = spec_from_file_location("wheel_hook", ROOT / "tools" / "wheel_hook.py")
    assert spec is not None and spec.loader is not None
    hook = module_from_spec(spec)
    spec.loader.exec_module(hook)
    for name in ("te", "build", ".git", "__pycache__"):
        (tmp_path / name).mkdir()
    (tmp_path / "errors.py").touch()
    package = tmp_path / "build" / "editable" / "tilewright"
    for files in ({"te", "errors.py"}, {"te"}):
        hook._link_package(tmp_path, package)
        assert {entry.name for entry in package.iterdir() if entry.is_symlink()} == files
        (package / "__pycache__").mkdir(exist_ok=True)
        (tmp_path / "errors.py").unlink(missing_ok=True)

"""Build hook of the wheel: its platform tag, and the folder that an editable install puts on the path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

__all__ = ["WheelHook"]

_PLATFORMS = ("manylinux_2_27_x86_64", "manylinux_2_28_aarch64")
"""The Linux systems for which llvmlite has wheels: this package has no compiled code of its own, and runs where LLVM does."""

_NOT_OF_THE_PACKAGE = ("build", "dist", "out", "tests")


class WheelHook(BuildHookInterface[Any]):
    """Build hook that names the platforms of the wheel and links the package for editable installs."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Set the tag of a wheel. version: "standard", or "editable", for which a folder `tilewright` of links is made:
        a path that type checkers follow as well as Python, and that shows files that are added to a folder later."""
        build_data["tag"] = f"py3-none-{'.'.join(_PLATFORMS)}"
        if version == "editable":
            _link_package(Path(self.root), Path(self.root, "build", "editable", "tilewright"))


def _link_package(root: Path, package: Path) -> None:
    """Make a folder of links to what lies in the root: one link to the root itself would be a circle for whoever copies it."""
    package.mkdir(parents=True, exist_ok=True)
    for old in package.iterdir():
        if old.is_symlink():  # bytecode of the modules at the root lies beside the links
            old.unlink()
    for entry in root.iterdir():
        if not entry.name.startswith((".", "__pycache__")) and entry.name not in _NOT_OF_THE_PACKAGE:
            (package / entry.name).symlink_to(entry, target_is_directory=entry.is_dir())

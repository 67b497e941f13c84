"""Writes the stubs of topi's faces, topi/__init__.pyi and those of topi.nn, topi.image and topi.vision: the operators that they
hand on when they are first used, for type checkers and editors. tests/test_faces.py holds the stubs to the faces."""

from __future__ import annotations

import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import tilewright

ROOT = Path(tilewright.__file__).parent
FACES = ("topi", "topi/nn", "topi/image", "topi/vision")
_WIDTH = 132


def render(face: str) -> str:
    """The stub of a face."""
    module = import_module("tilewright." + face.replace("/", "."))
    names: dict[str, list[str]] = defaultdict(list)
    for name, home in module.homes.items():
        names[home if home.startswith(".") else f".{home}"].append(name)
    below = [name for name in dir(module) if name not in module.homes]
    lines = [f"from . import {', '.join(f'{name} as {name}' for name in below)}"] if below else []
    for home, handed in sorted(names.items()):
        whole = f"from {home} import {', '.join(f'{name} as {name}' for name in sorted(handed))}"
        lines += [whole] if len(whole) <= _WIDTH else [
            f"from {home} import (", *(f"    {name} as {name}," for name in sorted(handed)), ")"]
    title = f'"""The operators of {module.__name__}; written by docs/make_faces.py."""'
    return "\n".join([title, "", *lines, ""])


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    for face in FACES:
        (ROOT / face / "__init__.pyi").write_text(render(face))

"""What a package hands on lazily is there: the tables of names and modules are texts, which no import checks."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
sys.path.insert(0, str(DOCS))
import make_faces  # noqa: E402

sys.path.remove(str(DOCS))

FACES = (
    "tilewright",
    "tilewright.te",
    "tilewright.topi",
    "tilewright.topi.nn",
    "tilewright.topi.image",
    "tilewright.topi.vision",
    "tilewright.schedule",
    "tilewright.autotune",
    "tilewright.runtime",
    "tilewright.compat.tvm",
    "tilewright.compat.tvm.te",
    "tilewright.compat.tvm.topi",
    "tilewright.compat.tvm.autotvm",
    "tilewright.compat.tvm.auto_scheduler",
)


@pytest.mark.parametrize("name", FACES)
def test_every_name_of_a_face_can_be_had(name: str) -> None:
    face = import_module(name)
    names = {*getattr(face, "__all__", ()), *(public for public in dir(face) if not public.startswith("_"))}
    assert len(names) > 3
    assert [public for public in sorted(names) if not hasattr(face, public)] == []


def test_a_name_that_no_module_has_is_told() -> None:
    with pytest.raises(AttributeError, match="has no dilating"):
        _ = import_module("tilewright.topi.nn").dilating


def test_importing_the_package_loads_what_errors_are_and_nothing_else() -> None:
    program = """
import sys
before = set(sys.modules)
import tilewright
loaded = set(sys.modules) - before
print(*sorted(name for name in loaded if name.partition(".")[0] in ("tilewright", "json", "threading", "numpy")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "tilewright",
        "tilewright.base",
        "tilewright.base.dataclass",
        "tilewright.base.errors",
        "tilewright.base.forks",
        "tilewright.base.limits",
        "tilewright.importing",
    ]


def test_every_operator_has_its_home() -> None:
    assert (make_faces.ROOT / make_faces.HOMES).read_text() == make_faces.render_homes(), (
        "run python docs/make_faces.py"
    )


@pytest.mark.parametrize("face", make_faces.FACES)
def test_type_checkers_see_the_operators_that_a_face_hands_on(face: str) -> None:
    stub = make_faces.ROOT / face / "__init__.pyi"
    assert stub.read_text() == make_faces.render(face), "run python docs/make_faces.py"

"""Libraries as Python packages: they need numpy alone, say what they take, and check it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
import tilewright as tw
from exported import run
from tilewright import te
from tilewright.codegen.export.python_package import check_package, python_name

PROGRAM = """
import sys
sys.modules["tilewright"] = sys.modules["llvmlite"] = sys.modules["ml_dtypes"] = None
import numpy as np
import tables

a, out = np.arange(6, dtype="float32").reshape(3, 2), np.zeros((3, 2), "float32")
tables.twice(a, out)
assert (out == a * 2).all()
tables.twice_1(A=a, B=out)

class Handed:               # no array of numpy's: DLPack alone
    def __init__(self, array): self.array = array
    def __dlpack__(self, **options): return self.array.__dlpack__()
    def __dlpack_device__(self): return self.array.__dlpack_device__()

out[:] = 0
tables.def_(Handed(a), 3.0, Handed(out))
assert (out == a * 3).all()
try:
    tables.def_(a, 3.0, out.T)
except tables.KernelError as error:
    assert error.code == "TW0506" and "called at program.py" in str(error) and "__notes__" not in vars(error), error
try:
    tables.twice(a, out[:1])
except tables.KernelError as error:
    assert error.code == "TW0533"
print(tables.__version__, sorted(set(tables.__all__)), tables.__name__)
"""


def rows(n: int, dtype: str = "float32") -> list[te.Tensor]:
    A = te.placeholder((n, 2), dtype, name="A")
    return [A, te.compute((n, 2), lambda i, j: A[i, j] * 2, name="B")]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tw.Library("tables")
    library.add("twice", rows(3))
    library.add("twice", rows(5, "float64"))
    A, factor = te.placeholder((3, 2), name="it's\\"), te.var("lambda", "float32")
    B = te.compute((3, 2), lambda i, j: A[i, j] * factor, name="B")
    s = te.create_schedule(B)
    s[B].parallel(B.op.axis[0])
    library.add("def", s, [A, factor, B])
    return library.export_python(tmp_path_factory.mktemp("made") / "new" / "folder", version="1.2.3rc1")


def test_a_package_runs_where_there_is_nothing_but_numpy(package: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = run([sys.executable, tmp_path / "program.py"], env={**os.environ, "PYTHONPATH": str(package)}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1.2.3rc1 ['KernelError', 'def_', 'twice', 'twice_1', 'twice_2'] tables\n"


def test_its_functions_say_what_they_take(package: Path) -> None:
    classes = {
        each.name: each
        for each in ast.parse((package / "tables/__init__.py").read_text()).body
        if isinstance(each, ast.ClassDef)
    }
    called = classes["_tw_def_"].body[0]
    assert isinstance(called, ast.FunctionDef)
    assert ast.unparse(called.args) == "self, it_s_: _tw_Tensor, lambda_: float, B: _tw_Tensor, /"
    assert ast.get_docstring(called) == "def(it's\\: float32[3, 2], lambda: float32, B: out float32[3, 2])"
    assert "twice_2(A: float64[5, 2]" in str(ast.get_docstring(classes["_tw_twice"].body[0]))  # pyright: ignore[reportArgumentType]
    assert 'dependencies = ["numpy>=1.26"]' in (package / "pyproject.toml").read_text()


def test_names_and_versions_that_packages_cannot_have_are_refused(tmp_path: Path) -> None:
    for name in ("def", "class", "None", "json", "numpy", "tilewright", "sys"):
        library = tw.Library(name)
        library.add("twice", rows(3))
        with pytest.raises(tw.ExportError, match=f"TW0703: no Python package can be called '{name}'"):
            library.export_python(tmp_path / "x")
    for version in ("", "1.", "a", "1.0\n", '1"', "1.0+local", "1" * 20, None, 1):
        with pytest.raises(tw.ExportError, match="TW0703: no package can have the version"):
            check_package("tables", version)  # pyright: ignore[reportArgumentType]
    library = tw.Library("tables")
    library.add("twice", rows(3))
    (tmp_path / "file").write_text("kept")
    for place in ("file", "file/below", "/proc/nowhere"):
        with pytest.raises(tw.ExportError, match="TW0705: cannot write"):
            library.export_python(tmp_path / place)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_names_of_functions_are_pythons_and_differ() -> None:
    taken = {"KernelError"}
    assert [python_name(name, taken) for name in ("def", "def_", "match", "KernelError", "_tw_x", "_runtime")] == [
        "def_",
        "def__",
        "match",
        "KernelError_",
        "_tw_x_",
        "_runtime_",
    ]


def test_pip_makes_a_wheel_that_installs_beside_numpy(package: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, package], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith("tables-1.2.3rc1-py3-none-linux_") and wheel.stat().st_size < 300_000
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read("tables-1.2.3rc1.dist-info/METADATA").decode()
    assert [line for line in metadata.splitlines() if line.startswith("Requires-Dist")] == [
        "Requires-Dist: numpy>=1.26"
    ]
    venv.create(tmp_path / "environment")
    python = tmp_path / "environment/bin/python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "-q"]
    subprocess.run([*install, "numpy"], check=True)
    subprocess.run([*install, "--no-index", wheel], check=True)
    (tmp_path / "program.py").write_text(PROGRAM)
    done = run([python, tmp_path / "program.py"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr

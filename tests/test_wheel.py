"""The release: a wheel and a source distribution of the same bytes wherever they are built, and an editable install."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import venv
import zipfile
from pathlib import Path

import pytest
import tilewright as tw

ROOT = Path(__file__).resolve().parent.parent

PROGRAM = """
import numpy, tilewright as tw
from tilewright import te, topi
A = te.placeholder((1000,), name="A")
B = te.compute((1000,), lambda i: A[i] * 2 + 1, name="B")
s = te.create_schedule(B)
outer, inner = s[B].split(B.op.axis[0], 32)
s[B].vectorize(inner)
f = tw.build(s, [A, B])
a = numpy.random.rand(1000).astype("float32"); b = numpy.empty_like(a)
f(a, b)
assert (b == a * 2 + 1).all()
assert "<html" in s.show("page.html").read_text() and s._repr_html_().startswith("<iframe")

@tw.jit
def relu(x):
    return topi.nn.relu(x)
assert (relu(a - 0.5) == numpy.maximum(a - 0.5, 0)).all()

@te.hybrid.script
def running_sum(x):
    out = output_tensor((1000,), "float32")
    out[0] = x[0]
    for i in range(1, 1000):
        out[i] = out[i - 1] + x[i]
    return out
tw.build([A, running_sum(A)])(numpy.ones(1000, "float32"), b)
assert b[-1] == 1000
net = tw.graph.Builder("net")
net.output("y", net.node("exp", net.input("x", ("n", 4))))
assert tw.build(net.graph())(numpy.zeros((3, 4), "float32")).sum() == 12
print("ran from", tw.__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what would be committed, so that neither leaves anything in the other."""
    source = committed_tree(tmp_path_factory.mktemp("source"))
    return next(built(source, tmp_path_factory.mktemp("wheel")).glob("tilewright-*.whl"))


def committed_tree(source: Path) -> Path:
    """A copy of the files that git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    return source


def built(source: Path, out: Path) -> Path:
    """The folder in which a wheel was built."""
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", out, source], check=True)
    return out


def test_the_wheel_has_every_package_folder_and_names_what_it_runs_on(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    modules = {str(Path(name).relative_to("tilewright")) for name in names if name.endswith((".py", ".pyi"))}
    outside = ("tests/", "tools/", "tutorials/", "docs/", "typings/")
    tracked = subprocess.run(["git", "ls-files", "*.py", "*.pyi"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert modules == {
        name for name in tracked.stdout.split() if not name.startswith(outside) and (ROOT / name).exists()
    }
    tags = wheel.stem.split("-")[-3:]
    assert tags[:2] == ["py3", "none"] and all(each.startswith("manylinux") for each in tags[2].split("."))
    assert wheel.name.split("-")[1] == tw.__version__


def test_another_folder_and_another_time_give_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    source = committed_tree(tmp_path / "elsewhere")
    for path in source.rglob("*"):
        os.utime(path, (1e9, 1e9))
    again = built(source, tmp_path / "out") / wheel.name
    assert again.read_bytes() == wheel.read_bytes()


def test_an_editable_install_is_a_path_that_type_checkers_follow(tmp_path: Path) -> None:
    source = committed_tree(tmp_path / "source")
    environment = tmp_path / "environment"
    venv.create(environment)
    python = environment / "bin" / "python"
    install = ["install", "-q", "--no-deps", "--editable", source]
    subprocess.run([sys.executable, "-m", "pip", "--python", python, *install], check=True)
    (path,) = environment.rglob("*tilewright*.pth")
    package = Path(path.read_text().strip()) / "tilewright"
    (source / "te" / "added_later.py").write_text("")
    assert (package / "te" / "added_later.py").exists() and (package / "py.typed").exists()
    assert not (package / "build").exists(), "no folder of links leads back to itself"


def test_the_wheel_is_one_package_of_three_megabytes(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    top = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert top == {"tilewright"}
    assert {"tilewright/py.typed", "tilewright/views/page_files/page.html", "tilewright/docs/errors/TW0203.md"} <= set(
        names
    )
    assert not [
        name for name in names if name.startswith(("tilewright/tests", "tilewright/tutorials", "tilewright/tools"))
    ]
    assert wheel.stat().st_size < 3_200_000


@pytest.mark.parametrize(
    "interpreter", os.environ.get("TILEWRIGHT_PYTHONS", sys.executable).split(), ids=os.path.basename
)
def test_the_wheel_installs_in_an_empty_environment_and_runs_a_kernel_and_the_demo(
    wheel: Path, tmp_path: Path, interpreter: str
) -> None:
    environment = tmp_path / "environment"
    subprocess.run([interpreter, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    start = time.perf_counter()
    # Bytecode of all that numpy brings would take longer than the rest.
    install = ["install", "-q", "--no-compile", wheel]
    subprocess.run([sys.executable, "-m", "pip", "--python", python, *install], check=True)
    print(f"base install: {time.perf_counter() - start:.1f} s")
    (tmp_path / "program.py").write_text(PROGRAM)
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-W", "error", "-P", tmp_path / "program.py"], cwd=tmp_path, capture_output=True, text=True, env=bare
    )
    assert done.returncode == 0, done.stderr
    assert str(environment) in done.stdout
    check_demo(python, tmp_path)


SMALL_DEMO = """
import sys
import tilewright.demo as demo
from tilewright.demo import picture

demo.SIZE, demo.TUNED_SIZE, demo.TRIALS, demo.EMULATED_SIZE, picture.DRAWN_SIZE = 192, 64, 4, 20, 96
raise SystemExit(demo.main(sys.argv[1]))
"""


def check_demo(python: Path, folder: Path) -> None:
    """The demo runs where nothing but the package is installed; smaller, since it is not looked at here."""
    (folder / "small_demo.py").write_text(SMALL_DEMO)
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-P", folder / "small_demo.py", folder / "out"], cwd=folder, capture_output=True, text=True, env=bare
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "a zone plate (pip install scikit-image for a photograph)" in done.stdout
    assert (folder / "out" / "picture-sharpened.png").read_bytes().startswith(b"\x89PNG")

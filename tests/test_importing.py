"""Modules as they are loaded: by the content of their sources, whole or not at all, and never during a fork."""

from __future__ import annotations

import os
import py_compile
import shutil
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

import drawn
import pytest
import tilewright as tw
from tilewright import importing
from tilewright.driver.cache import key as key_module
from tilewright.importing import LOADS, source_digest

ROOT = Path(tw.__file__).parent
POSIX = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are of POSIX")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, with its bytecode, to edit."""
    copy = tmp_path_factory.mktemp("checkout") / "tilewright"
    left_out = shutil.ignore_patterns(".*", "tests", "docs", "tools", "tutorials", "out", "build")
    shutil.copytree(ROOT, copy, ignore=left_out)
    return copy


def python(text: str, checkout: Path, folder: Path, *options: str) -> str:
    """What a program prints that runs the copy, with a cache of its own."""
    places = {"PYTHONPATH": str(checkout.parent), "TILEWRIGHT_CACHE": "1", "TILEWRIGHT_CACHE_DIR": str(folder)}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, *options, "-c", text],
        env=environment | places,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


SAVED = """
import os, random, sys
from importlib import import_module
from pathlib import Path
import tilewright as tw
from tilewright import te
from tilewright.codegen.target import Target
from tilewright.driver.cache import kernels, key
from tilewright.driver.cache.store import SUFFIX
from tilewright.driver.compile import BuildItem, BuildOptions, Request, compile_programs

A = te.placeholder((8,), name="A")
B = te.compute((8,), lambda i: A[i] * 3 + 1, name="B")
request = Request((BuildItem("main", te.create_schedule(B), [A, B]),), Target(), BuildOptions())
place = kernels.find_place(request)
compiled = compile_programs(request)

def entries():
    return list(place.store.folder.glob(f"*{SUFFIX}"))

def in_child(work):
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
"""

EACH = """
sources = {}
for floor in key._FLOORS:
    for path in key._files(os.path.join(key.ROOT, floor)):
        name = "tilewright." + key._module_name(path)
        if name not in sys.modules:
            sources[name] = Path(path)

def edited(name, path):
    before, times = path.read_bytes(), path.stat()
    path.write_bytes(before + b"#")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    try:
        in_child(lambda: (import_module(name), place.save(compiled.native)))
    finally:
        path.write_bytes(before)
    assert not entries(), f"{name} is not what was counted"

for name in random.Random(SEED).sample(sorted(sources), min(COUNT, len(sources))):
    edited(name, sources[name])
in_child(lambda: (import_module("tilewright.autoschedule.cpu.rules"), place.save(compiled.native)))
assert len(entries()) == 1
print(len(sources))
"""


@POSIX
def test_no_kernel_is_kept_once_a_module_is_loaded_that_was_edited_since(checkout: Path, tmp_path: Path) -> None:
    """Each module that a build may load later, one in each child; the time of the file says nothing."""
    count = f"COUNT, SEED = {drawn.count(40, 10_000)}, {drawn.SEED}"
    assert int(python(SAVED + count + EACH, checkout, tmp_path)) > 100


def test_what_is_edited_after_it_was_loaded_is_known_as_it_was_loaded(checkout: Path, tmp_path: Path) -> None:
    """The process runs the old one, under the old version, whatever lies on the disk now."""
    path = checkout / "codegen" / "abi" / "stub.py"
    before = path.read_bytes()
    text = f"""
import sys
sys.argv[1:] = []
import tilewright.codegen.abi.stub
path = {str(path)!r}
text = open(path).read()
open(path, "a").write("#" * int(sys.stdin.read() or 0))
from tilewright.driver.cache import key
print(key.code_version())
"""
    try:
        plain = python(text, checkout, tmp_path)
        assert plain.strip()
        assert python(text.replace("sys.stdin.read()", "'7'"), checkout, tmp_path) == plain
        assert python(text, checkout, tmp_path) not in (plain, "\n")
    finally:
        path.write_bytes(before)


def test_a_source_in_which_only_the_content_changed_is_compiled_anew(checkout: Path, tmp_path: Path) -> None:
    """Its time and size are those that bytecode of either kind was written for."""
    path = checkout / "base" / "limits.py"
    before, times = path.read_bytes(), path.stat()
    text = "from tilewright.base import limits; print(limits.SEEN, limits.__file__)"
    try:
        path.write_bytes(before + b"\nSEEN = 1\n")
        os.utime(path, ns=(times.st_mtime_ns, times.st_mtime_ns))
        assert python(text, checkout, tmp_path) == f"1 {path}\n"
        py_compile.compile(str(path), invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
        path.write_bytes(before + b"\nSEEN = 2\n")
        os.utime(path, ns=(times.st_mtime_ns, times.st_mtime_ns))
        assert python(text, checkout, tmp_path, "-B") == f"2 {path}\n"
        assert python(text, checkout, tmp_path) == f"2 {path}\n"
        assert python(text, checkout, tmp_path, "-B") == f"2 {path}\n"
    finally:
        path.write_bytes(before)


def test_bytecode_that_is_damaged_is_written_anew(checkout: Path, tmp_path: Path) -> None:
    program = "import tilewright.base.limits as m; print(m.__name__)"
    Path(cache_from_source(checkout / "base" / "limits.py")).unlink(
        missing_ok=True
    )  # what was copied names another folder
    python(program, checkout, tmp_path)
    kept = Path(cache_from_source(checkout / "base" / "limits.py"))
    whole = kept.read_bytes()
    for damaged in (whole[:40], b"", whole[:16] + b"\0" * 50, whole[:16] + b"i\1\0\0\0"):
        kept.write_bytes(damaged)
        assert python(program, checkout, tmp_path) == "tilewright.base.limits\n"
        assert kept.read_bytes() == whole


def test_every_module_of_this_process_came_by_the_loader() -> None:
    known = dict(LOADS)
    for name in list(sys.modules):
        below = name.removeprefix("tilewright.")
        if name.startswith("tilewright.") and below.partition(".")[0] in key_module._FLOORS:
            assert below in known, name
    assert known["base.errors"] == source_digest((ROOT / "base" / "errors.py").read_bytes())


INTERRUPTED = """
import sys
import tilewright as tw
from tilewright import importing

class Struck(BaseException):
    pass

def strike(frame, event, _):
    if frame.f_globals.get("__name__") == PLACE and event == "line" and frame.f_lineno >= LINE:
        sys.settrace(None)
        raise Struck
    return strike

PLACE, LINE = "tilewright.te.errors", 100
before = set(sys.modules)
sys.settrace(strike)
try:
    import tilewright.te
except Struck:
    print("struck")
sys.settrace(None)
assert not [name for name in set(sys.modules) - before if name.startswith("tilewright.")]
from tilewright import te
A = te.placeholder((4,), name="A")
tw.build([A, te.compute((4,), lambda i: A[i] + 1, name="B")], target="interpret")
print("built")
"""


def test_an_import_that_is_interrupted_leaves_nothing(checkout: Path, tmp_path: Path) -> None:
    assert python(INTERRUPTED, checkout, tmp_path) == "struck\nbuilt\n"


def test_lazy_names_are_imported_out_of_reach(checkout: Path, tmp_path: Path) -> None:
    text = """
import sys
import tilewright as tw
seen = []
def trace(frame, event, _):
    name = frame.f_globals.get("__name__", "")
    if name.startswith("tilewright.") and name != "tilewright.importing":
        seen.append(name)
    return trace
sys.settrace(trace)
tw.te, tw.build
sys.settrace(None)
print(seen)
"""
    assert python(text, checkout, tmp_path) == "[]\n"


def test_a_name_is_there_before_the_import_of_another_thread_puts_it_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module is complete a moment before its package has its name: another thread got a KeyError in between."""
    for package, name in ((tw.topi, "matmul"), (tw.topi.nn, "dense")):
        getattr(package, name)
        monkeypatch.delitem(vars(package), name)
        assert callable(getattr(package, name))


def test_a_name_that_cannot_be_imported_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"tilewright\.nothing"):
        importing.import_on_thread(".nothing", "tilewright")


@POSIX
def test_a_child_that_is_forked_during_another_threads_first_build_builds(checkout: Path, tmp_path: Path) -> None:
    text = """
import os, signal, sys, threading, time
import tilewright as tw

def build():
    from tilewright import te
    A = te.placeholder((4,), name="A")
    tw.build([A, te.compute((4,), lambda i: A[i] + 1, name="B")], target="interpret")

other = threading.Thread(target=build)
other.start()
children = []
for _ in range(12):
    time.sleep(0.03)
    child = os.fork()
    if not child:
        signal.alarm(60)
        build()
        os._exit(0)
    children.append(child)
print([os.waitpid(child, 0)[1] for child in children])
other.join()
"""
    assert python(text, checkout, tmp_path) == f"{[0] * 12}\n"


@POSIX
def test_hooks_of_what_is_loaded_while_a_fork_waits_are_called_in_pairs(checkout: Path, tmp_path: Path) -> None:
    """A fork during another thread's first build released a lock of LLVM's that it had never taken."""
    text = """
import os
import tilewright
from tilewright.base.forks import register_fork_hooks
calls = []

def load():
    calls.append("first")
    register_fork_hooks(before=lambda: calls.append("second"), in_parent=lambda: calls.append("second is over"))

register_fork_hooks(before=load, in_parent=lambda: calls.append("first is over"))
child = os.fork()
if not child:
    os._exit(0)
os.waitpid(child, 0)
print(calls)
"""
    assert python(text, checkout, tmp_path) == "['first', 'second', 'second is over', 'first is over']\n"

"""Built kernels kept on disk: found by another process, never in place of another, and never in the way."""

from __future__ import annotations

import hashlib
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.cli import main
from tilewright.codegen.errors import UnresolvedSymbol
from tilewright.codegen.result import BuildOptions
from tilewright.driver import compile as compiling
from tilewright.driver.build import build_with_options
from tilewright.driver.cache import key as key_module
from tilewright.driver.cache.store import _HEADER as HEADER
from tilewright.driver.cache.store import SUFFIX, Entry, Store, open_store
from tilewright.driver.cache.structure import NoStructure, structure_text
from tilewright.ir.passes.common.options import PassOptions
from tilewright.ir.passes.common.runner import pass_times
from tilewright.topi.row import load_rows

PROGRAM = """
import numpy as np, tilewright as tw
from tilewright import te
A = te.placeholder((64,), name="A")
B = te.compute((64,), lambda i: A[i] * 3 + 1, name="B")
s = te.create_schedule(B)
s[B].vectorize(s[B].split(B.op.axis[0], 16)[1])
f = tw.build(s, [A, B])
b = np.zeros(64, "float32")
f(np.ones(64, "float32"), b)
assert (b == 4).all()
print("ran", flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where entries go: a cache of the test's own, on."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", "1")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    key_module._sources.cache_clear()  # a source may be edited while tests run
    return tmp_path / "cache" / "kernels"


class Builds:
    """Counts the builds that were not found."""

    def __init__(self) -> None:
        self.count = 0

    def more(self, action: Callable[[], Any]) -> bool:
        """Whether an action builds something."""
        before = self.count
        action()
        return self.count > before


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Builds:
    counted, plain = Builds(), compiling.build_kernels

    def counting(*args: Any, **named: Any) -> Any:
        counted.count += 1
        return plain(*args, **named)

    monkeypatch.setattr(compiling, "build_kernels", counting)
    return counted


def scaled(
    n: Any = 64, dtype: str = "float32", factor: int = 3, width: int = 16, name: str = "A"
) -> tuple[te.Schedule, list[Any]]:
    a = te.placeholder((n,), dtype, name=name)
    b = te.compute((n,), lambda i: a[i] * factor + 1, name="B")
    s = te.create_schedule(b)
    s[b].vectorize(s[b].split(b.op.axis[0], width)[1])
    return s, [a, b]


def right(kernel: Any, n: int = 64) -> bool:
    a, b = np.arange(n, dtype=np.float32), np.empty(n, np.float32)
    kernel(a, b)
    return bool((b == a * 3 + 1).all())


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


def python(text: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program with the cache that has its entries in `folder`."""
    given = {**os.environ, "TILEWRIGHT_CACHE": "1", "TILEWRIGHT_CACHE_DIR": str(folder.parent), **environment}
    return subprocess.run(
        [sys.executable, "-c", text], env=given, capture_output=True, text=True, check=False, timeout=120
    )


# What is found


def test_the_same_program_declared_again_is_linked_instead_of_built(folder: Path, builds: Builds) -> None:
    first = tw.build(*scaled())
    assert builds.count == 1 and len(entries(folder)) == 1
    assert folder.stat().st_mode & 0o777 == 0o700 and entries(folder)[0].stat().st_mode & 0o777 == 0o600
    second = tw.build(*scaled())
    assert builds.count == 1
    assert right(first) and right(second)
    assert second.signature == first.signature
    with pytest.raises(tw.CallError, match=r"'A' \(argument 1 of main\) has dtype float64"):
        second(np.zeros(64), np.zeros(64, np.float32))


def test_texts_and_libraries_of_a_found_kernel_are_those_of_what_was_built(
    folder: Path, builds: Builds, tmp_path: Path
) -> None:
    built = tw.build(*scaled())
    s, args = scaled()
    found = tw.build(s, args)
    s[args[1]].parallel(s[args[1]].leaf_iter_vars[0])  # the kernel stays what it was
    assert builds.count == 1
    assert [found.source(kind) for kind in ("ir", "llvm", "asm")] == [
        built.source(kind) for kind in ("ir", "llvm", "asm")
    ]
    assert builds.count == 2
    library, *_ = found.export(tmp_path / "libscaled.so")
    assert right(tw.load(library)) and builds.count == 2


def test_modules_are_kept_whole(folder: Path, builds: Builds, tmp_path: Path) -> None:
    def module() -> Any:
        return tw.build({"three": scaled(), "wide": scaled(width=8)})

    first, second = module(), module()
    assert builds.count == 1 and list(second) == list(first) == ["three", "wide"]
    assert right(second["three"]) and right(second["wide"])
    assert len(second.export(tmp_path / "libboth.so")) == 3


def test_symbolic_parallel_and_asserting_kernels_work_when_found(folder: Path, builds: Builds) -> None:
    def made() -> Any:
        n = te.var("n")
        a, at = te.placeholder((n,), name="A"), te.placeholder((n,), "int32", name="at")
        b = te.compute((n,), lambda i: te.exp(a[at[i]]), name="B")
        s = te.create_schedule(b)
        s[b].parallel(b.op.axis[0])
        return tw.build(s, [a, at, b], bounds_check=True)

    made()
    kernel = made()
    assert builds.count == 1
    a, at, b = (
        np.linspace(0, 1, 1000, dtype=np.float32),
        np.arange(1000, dtype=np.int32)[::-1].copy(),
        np.empty(1000, np.float32),
    )
    kernel(a, at, b)
    np.testing.assert_allclose(b, np.exp(a[::-1]), rtol=1e-6)
    at[7] = 1000
    with pytest.raises(tw.CallError, match="A"):
        kernel(a, at, b)


def scan() -> tuple[te.Schedule, list[Any]]:
    a = te.placeholder((6, 4), name="A")
    state = te.placeholder((6, 4), name="state")
    init = te.compute((1, 4), lambda _, j: a[0, j])
    update = te.compute((6, 4), lambda t, j: state[t - 1, j] + a[t, j])
    sums = te.scan(init, update, state, inputs=[a])
    return te.create_schedule(sums), [a, sums]


def hybrid() -> tuple[te.Schedule, list[Any]]:
    @te.hybrid.script
    def sums(a: Any) -> Any:
        b = output_tensor((6, 4), "float32")  # noqa: F821  (the script's own name)
        for j in range(4):
            b[0, j] = a[0, j]
            for t in range(1, 6):
                b[t, j] = b[t - 1, j] + a[t, j]
        return b

    a = te.placeholder((6, 4), name="A")
    made = sums(a)
    return te.create_schedule(made), [a, made]


def reducer() -> tuple[te.Schedule, list[Any]]:
    add = te.comm_reducer(lambda x, y: x + y, lambda dtype: te.const(0, dtype), name="add")
    a = te.placeholder((6, 4), name="A")
    k = te.reduce_axis((0, 6), "k")
    b = te.compute((6, 4), lambda i, j: add(te.if_then_else(k <= i, a[k, j], 0.0), axis=k), name="B")
    return te.create_schedule(b), [a, b]


def imported() -> tuple[te.Schedule, list[Any]]:
    s, args = reducer()
    stage = s[args[1]]
    stage.pragma(stage.op.axis[0], "import_llvm", "define float @cache_test_unused(float %x) { ret float %x }")
    return s, args


@pytest.mark.parametrize("program", [scan, hybrid, reducer, imported], ids=lambda program: program.__name__)
def test_every_kind_of_operation_is_found_and_right(program: Callable[[], Any], folder: Path, builds: Builds) -> None:
    a = np.random.default_rng(0).random((6, 4), np.float32)
    for _ in range(2):
        out = np.empty((6, 4), np.float32)
        tw.build(*program())(a, out)
        np.testing.assert_allclose(out, np.cumsum(a, 0), rtol=1e-5)
    assert builds.count == 1 and len(entries(folder)) == 1


CHANGES: dict[str, Callable[[], Any]] = {
    "shape": lambda: tw.build(*scaled(n=65)),
    "dtype": lambda: tw.build(*scaled(dtype="float64")),
    "constant": lambda: tw.build(*scaled(factor=4)),
    "records": lambda: tw.build(*scaled(width=8)),
    "argument's name": lambda: tw.build(*scaled(name="X")),
    "function's name": lambda: tw.build(*scaled(), name="other"),
    "order of arguments": lambda: (
        tw.build(scaled_again[0], scaled_again[1][::-1]) if (scaled_again := scaled()) else None
    ),
    "bounds_check": lambda: tw.build(*scaled(), bounds_check=True),
    "fast_math": lambda: tw.build(*scaled(), fast_math=True),
    "features": lambda: tw.build(*scaled(), target="llvm -mattr=-fma"),
    "pass options": lambda: build_with_options(
        *scaled(), "llvm", "main", BuildOptions(passes=PassOptions(vectorize=False))
    ),
    "left out passes": lambda: build_with_options(
        *scaled(), "llvm", "main", BuildOptions(passes=PassOptions(without=frozenset({"cse"})))
    ),
    "one function of a module": lambda: tw.build({"main": scaled()}) and tw.build({"more": scaled(), "main": scaled()}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_the_code_is_built(change: str, folder: Path, builds: Builds) -> None:
    tw.build(*scaled())
    assert builds.more(CHANGES[change])
    assert not builds.more(lambda: tw.build(*scaled()))


def test_versions_and_sources_are_part_of_the_key(
    folder: Path, builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    tw.build(*scaled())
    for name in ("llvmlite 0", "tilewright another"):
        monkeypatch.setattr(key_module, "_surroundings", lambda name=name: (name,))
        assert builds.more(lambda: tw.build(*scaled()))
    assert len(entries(folder)) == 3


def test_the_number_of_processors_is_part_of_the_key(
    folder: Path, builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = scaled()[1]
    tw.build(args)
    monkeypatch.setattr(key_module, "available_cpus", lambda: 64)
    assert builds.more(lambda: tw.build(args))


def test_a_process_that_runs_other_sources_than_were_counted_keeps_nothing(
    folder: Path, builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tests/test_importing.py edits them."""
    assert right(tw.build(*scaled()))
    with monkeypatch.context() as patch:
        patch.setattr(key_module, "LOADS", [*key_module.LOADS, ("ir.expr", b"another")])
        assert key_module.code_version() == ""
        assert builds.more(lambda: tw.build(*scaled()))
        assert builds.more(lambda: tw.build(*scaled(factor=4)))
        assert len(entries(folder)) == 1
    monkeypatch.setitem(sys.modules, "tilewright.ir.loaded_by_another_loader", tw)
    assert key_module.code_version() == ""


@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero"), lambda path: _sparse(path)]
)
def test_what_is_no_entry_is_not_read(folder: Path, make: Any) -> None:
    tw.build(*scaled())
    (entry,) = entries(folder)
    entry.unlink()
    make(entry)
    assert right(tw.build(*scaled()))


def test_a_folder_in_the_place_of_an_entry_ends_nothing_else(
    folder: Path, builds: Builds, capsys: pytest.CaptureFixture[str]
) -> None:
    tw.build(*scaled())
    (entry,) = entries(folder)
    entry.unlink()
    (entry / "inside").mkdir(parents=True)
    assert right(tw.build(*scaled()))
    assert builds.more(lambda: tw.build(*scaled(factor=4)))
    assert not builds.more(lambda: tw.build(*scaled(factor=4)))
    store = Store(folder, 1 << 20)
    store.save("one", Entry({}, bytes(1000)))
    full = Store(folder, 1)
    full._make_room(0)
    assert full.usage().entries == 0 and not full.problem
    assert main(["cache", "--clear"]) == 1
    assert f"cannot remove {entry}" in capsys.readouterr().err


def test_what_cannot_be_cleared_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tw.build(*scaled())

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(1, "Operation not permitted", path)

    monkeypatch.setattr(Path, "unlink", refuse)
    assert main(["cache", "--clear"]) == 1
    said = capsys.readouterr()
    assert "removed" not in said.out and "cannot remove" in said.err and "Operation not permitted" in said.err


def test_a_disk_that_has_room_again_is_written_to(
    folder: Path, builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:

        def refuse(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        patched.setattr(os, "fdopen", refuse)
        tw.build(*scaled())
        assert "No space left" in open_store().usage().problem  # pyright: ignore[reportOptionalMemberAccess]
    tw.build(*scaled())
    assert not builds.more(lambda: tw.build(*scaled()))


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 << 30)
    path.chmod(0o600)


@pytest.mark.parametrize(
    "about", [b"[" * 100_000, b"[]", b"NaN", b"\xff", b"{}", b'{"functions": [{}]}', b'{"functions": 7}']
)
def test_an_entry_that_describes_something_else_is_built_again(folder: Path, about: bytes, builds: Builds) -> None:
    tw.build(*scaled())
    (entry,) = entries(folder)
    content = entry.read_bytes()
    magic, _, *sizes = HEADER.unpack_from(content)
    key = content[HEADER.size :][: sizes[0]]
    code = content[HEADER.size + sizes[0] + sizes[1] :]
    body = struct.pack("<QQQ", len(key), len(about), len(code)) + key + about + code
    entry.write_bytes(magic + hashlib.sha256(body).digest() + body)
    assert builds.more(lambda: right(tw.build(*scaled())))


def test_the_code_version_reads_every_source(tmp_path: Path) -> None:
    files = list(key_module._files(str(Path(tw.__file__).parent / "codegen")))
    found = {Path(file).relative_to(Path(tw.__file__).parent / "codegen").as_posix() for file in files}
    assert {"abi/stub.py", "llvm/jit.py", "cuda/emulate/compiler.py"} <= found
    assert not [file for file in found if "__pycache__" in file]


# The text of a graph


def test_the_text_tells_sharing_from_likeness() -> None:
    x, y = te.var("x"), te.var("x")
    assert structure_text([x + x]) != structure_text([x + y])
    assert structure_text([x + y]) == structure_text([te.var("x") + te.var("x")])
    assert structure_text(["1", 1]) != structure_text([1, "1"])
    assert structure_text([1, [2, 3]]) != structure_text([[1, 2], 3])
    assert structure_text([0.0]) != structure_text([-0.0])
    assert structure_text([True]) != structure_text([1])


def test_constants_count_by_their_values() -> None:
    values = np.arange(6, dtype=np.float32)
    texts = {
        structure_text([array])
        for array in (values, values + 1, values.astype("float64"), values.reshape(2, 3), values[:0])
    }
    assert len(texts) == 5
    assert structure_text([values]) == structure_text([values.copy()])
    assert structure_text([values[::2]]) == structure_text([values[::2].copy()])


@pytest.mark.parametrize("name", sorted(load_rows()))
def test_all_that_topi_declares_has_a_text(name: str) -> None:
    row = load_rows()[name]
    for sample in row.samples:
        arrays = sample.arrays(np.random.default_rng(0))
        tensors = [te.placeholder(array.shape, str(array.dtype), f"x{at}") for at, array in enumerate(arrays)]
        texts = {structure_text([row.declare(*tensors, **{**row.attributes, **sample.attributes})]) for _ in range(2)}
        assert len(texts) == 1, "declared twice, it has two texts"


def test_functions_have_no_text() -> None:
    with pytest.raises(NoStructure, match="function"):
        structure_text([te.compute((4,), lambda i: i, attrs={"author": lambda: None})])


# What is not kept


def test_code_that_calls_this_process_is_not_kept(folder: Path) -> None:
    seen: list[int] = []
    tw.register_func(
        "cache_test.note", lambda x, y: (seen.append(1), y.__setitem__(slice(None), x + 1))[0], override=True
    )
    a = te.placeholder((4,), name="A")
    b = te.extern((4,), [a], lambda ins, outs: te.call_packed("cache_test.note", ins[0], outs[0]), name="B")
    for _ in range(2):
        out = np.zeros(4, np.float32)
        tw.build(te.create_schedule(b), [a, b])(np.ones(4, np.float32), out)
        assert (out == 2).all()
    assert seen == [1, 1] and not entries(folder)


def test_imported_c_is_not_kept(folder: Path) -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: te.call_extern("float32", "cache_test_twice", a[i]), name="B")
    s = te.create_schedule(b)
    s[b].pragma(b.op.axis[0], "import_c", "float cache_test_twice(float x) { return 2 * x; }")
    out = np.zeros(4, np.float32)
    tw.build(s, [a, b])(np.ones(4, np.float32), out)
    assert (out == 2).all() and not entries(folder)


def test_loops_that_were_lowered_elsewhere_are_kept_by_what_they_are(folder: Path, builds: Builds) -> None:
    assert builds.more(lambda: tw.build(tw.lower(*scaled())))
    assert not builds.more(lambda: tw.build(tw.lower(*scaled())))
    assert right(tw.build(tw.lower(*scaled())))
    assert builds.more(lambda: tw.build(tw.lower(*scaled(width=8))))
    assert builds.more(lambda: tw.build(tw.lower(*scaled(factor=5))))
    assert builds.more(lambda: tw.build(tw.lower(*scaled(), name="other")))


def test_other_targets_are_not_kept(folder: Path) -> None:
    tw.build(*scaled(), target="interpret")
    tw.build(*scaled(), target="llvm -mtriple=riscv64-unknown-linux-gnu")
    assert not entries(folder)


def test_turned_off_or_watched_everything_is_built(
    folder: Path, builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    tw.build(*scaled())
    with pass_times() as times:
        assert builds.more(lambda: tw.build(*scaled()))
    assert "simplify" in times
    monkeypatch.setenv("TILEWRIGHT_CACHE", "0")
    assert builds.more(lambda: tw.build(*scaled()))
    assert (
        builds.more(lambda: build_with_options(*scaled(width=4), "llvm", "main", BuildOptions()))
        and len(entries(folder)) == 1
    )


def test_a_found_kernel_whose_outside_function_is_missing_says_so(folder: Path) -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: te.call_extern("float32", "cbrtf", a[i]), name="B")
    tw.build(te.create_schedule(b), [a, b])
    store, (path,) = open_store(), entries(folder)
    assert store is not None
    key = key_of(path)
    entry = store.load(key)
    assert entry is not None and "cbrtf" in entry.about["outside"]
    store.save(key, Entry({**entry.about, "outside": ["no_such_function"]}, entry.code))
    with pytest.raises(UnresolvedSymbol, match="no_such_function"):
        tw.build(te.create_schedule(b), [a, b])


def key_of(path: Path) -> str:
    content = path.read_bytes()
    return content[64 : 64 + int.from_bytes(content[40:48], "little")].decode()


# Faults


@pytest.mark.parametrize(
    "damage", ["empty", "half", "one byte less", "first byte", "key", "about", "code", "last byte", "longer"]
)
def test_a_damaged_entry_is_built_again_and_replaced(damage: str, folder: Path, builds: Builds) -> None:
    tw.build(*scaled())
    (path,) = entries(folder)
    whole = path.read_bytes()
    places = {
        "first byte": 0,
        "key": 80,
        "about": 64 + len(key_of(path).encode()) + 5,
        "code": len(whole) - 300,
        "last byte": -1,
    }
    damaged = bytearray(whole)
    if damage in places:
        damaged[places[damage]] ^= 1
    cut = {"empty": 0, "half": len(whole) // 2, "one byte less": len(whole) - 1}.get(damage, len(whole))
    path.write_bytes(bytes(damaged[:cut]) + (b"x" if damage == "longer" else b""))
    made: list[Any] = []
    assert builds.more(lambda: made.append(tw.build(*scaled())))
    assert right(made[0]) and path.read_bytes() == whole


def test_an_entry_of_another_key_is_not_taken(folder: Path, builds: Builds) -> None:
    tw.build(*scaled())
    (first,) = entries(folder)
    tw.build(*scaled(factor=4))
    (second,) = set(entries(folder)) - {first}
    first.write_bytes(second.read_bytes())
    made: list[Any] = []
    assert builds.more(lambda: made.append(tw.build(*scaled())))
    assert right(made[0])


def test_code_that_does_not_link_is_built_again(folder: Path, builds: Builds) -> None:
    tw.build(*scaled())
    store, (path,) = open_store(), entries(folder)
    assert store is not None
    entry = store.load(key_of(path))
    assert entry is not None
    store.save(key_of(path), Entry(entry.about, b"\x7fELF no object"))
    made: list[Any] = []
    assert builds.more(lambda: made.append(tw.build(*scaled())))
    assert right(made[0])


def test_a_folder_that_others_can_reach_is_not_used(
    folder: Path, builds: Builds, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.mkdir(parents=True, mode=0o700)
    folder.chmod(0o755)
    for _ in range(2):
        assert builds.more(lambda: tw.build(*scaled()))
    assert not entries(folder)
    assert main(["cache"]) == 1
    assert "mode is 755, not 700" in capsys.readouterr().err
    assert not next(finding for finding in examined() if finding.part == "cache").found


def examined() -> list[Any]:
    from tilewright.cli.doctor import examine

    return examine()


def test_a_folder_or_an_entry_of_somebody_else_is_not_used(
    folder: Path, builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    tw.build(*scaled())
    store = Store(folder, 1 << 20)
    key = key_of(entries(folder)[0])
    assert store.load(key) is not None
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert store.load(key) is None and "another user" in store.problem


@pytest.mark.parametrize("kind", ["link to a folder", "file"])
def test_what_is_no_folder_is_not_used(kind: str, folder: Path, tmp_path: Path, builds: Builds) -> None:
    folder.parent.mkdir(parents=True)
    if kind == "file":
        folder.write_text("in the way")
    else:
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    for _ in range(2):
        assert builds.more(lambda: right(tw.build(*scaled())))
    assert open_store().usage().problem  # pyright: ignore[reportOptionalMemberAccess]


def test_links_and_writable_files_in_place_of_an_entry_are_not_read(folder: Path, tmp_path: Path) -> None:
    tw.build(*scaled())
    (path,) = entries(folder)
    store, key = Store(folder, 1 << 20), key_of(path)
    path.chmod(0o666)
    assert store.load(key) is None
    path.chmod(0o600)
    assert store.load(key) is not None
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert store.load(key) is None


def test_a_full_disk_leaves_nothing_behind(folder: Path) -> None:
    limited = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))\n"
        + PROGRAM
        + """
from tilewright.driver.cache.store import open_store
print(open_store().problem)
"""
    )
    done = python(limited, folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ran\ncannot write to ") and "File too large" in done.stdout
    assert list(folder.iterdir()) == []


def test_several_processes_at_once_leave_one_whole_entry(folder: Path) -> None:
    given = {**os.environ, "TILEWRIGHT_CACHE": "1", "TILEWRIGHT_CACHE_DIR": str(folder.parent)}
    together = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], env=given, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [process.communicate(timeout=120)[0] for process in together] == ["ran\n"] * 4
    assert [path.suffix for path in folder.iterdir()] == [SUFFIX]
    counted = "from tilewright.driver import compile\ncompile.build_kernels = None\n" + PROGRAM
    assert python(counted, folder).stdout == "ran\n"


def test_a_process_that_is_killed_while_writing_leaves_no_entry(folder: Path) -> None:
    killed = f"""
import os, pathlib
pathlib.Path.replace = lambda *_: os.kill(os.getpid(), {int(signal.SIGKILL)})
{PROGRAM}"""
    assert python(killed, folder).returncode == -signal.SIGKILL
    (unfinished,) = folder.iterdir()
    assert unfinished.suffix == ".part"
    assert python(PROGRAM, folder).stdout == "ran\n"
    assert unfinished.exists() and len(entries(folder)) == 1  # somebody could still be writing it
    os.utime(unfinished, (0, 0))
    Store(folder, 1 << 20).usage()
    assert not unfinished.exists()


def test_entries_on_a_disk_that_can_only_be_read_are_found(
    folder: Path, builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    tw.build(*scaled())

    def refuse(*_: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    assert not builds.more(lambda: tw.build(*scaled()))


# Size


def test_the_least_recently_used_entries_go_first(folder: Path) -> None:
    store = Store(folder, 10_000)
    for at in range(9):
        store.save(f"key {at}", Entry({}, bytes(1000)))
        os.utime(store._path(f"key {at}"), (at, at))
    assert len(entries(folder)) == 9
    assert store.load("key 0") is not None  # used: now it is the latest
    store.save("key 9", Entry({}, bytes(1000)))
    left = [at for at in range(10) if store.load(f"key {at}") is not None]
    assert 7 <= len(left) <= 9 and left == [0, *range(11 - len(left), 10)]
    assert store.usage().size <= 10_000


def test_what_is_larger_than_the_folder_is_not_kept(folder: Path) -> None:
    store = Store(folder, 500)
    store.save("key", Entry({}, bytes(1000)))
    assert store.load("key") is None and not store.problem


def test_the_limit_comes_from_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_MB", "3")
    assert open_store().limit == 3 << 20  # pyright: ignore[reportOptionalMemberAccess]


# Seen from outside


def test_the_command_shows_and_clears(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tw.build(*scaled())
    assert main(["cache"]) == 0
    assert capsys.readouterr().out.startswith(f"{folder}: 1 kernels, 0.0 of 512 MB")
    assert main(["cache", "--clear"]) == 0
    assert capsys.readouterr().out.startswith("removed 1 kernels from ")
    assert not entries(folder)
    monkeypatch.setenv("TILEWRIGHT_CACHE", "0")
    assert main(["cache"]) == 0
    assert capsys.readouterr().out == "off: TILEWRIGHT_CACHE=0\n"


def test_the_doctor_shows_the_folder(folder: Path) -> None:
    tw.build(*scaled())
    finding = next(one for one in examined() if one.part == "cache")
    assert finding.found and str(folder) in finding.detail and "1 kernels" in finding.detail

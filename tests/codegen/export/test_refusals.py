"""Exports that cannot be: each a typed error that names the subject and a fix, and no file is left half-written."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest
import tilewright as tw
from exported import run, scale_add
from tilewright import te
from tilewright.codegen.export import cpu


def test_the_suffix_and_the_threads_are_checked(tmp_path: Path) -> None:
    for name in ("libx.dll", "libx", ".so"):
        with pytest.raises(tw.ExportError, match=r"TW0701: cannot export to .*(?s:.*)\.so \(a shared library\)"):
            scale_add().export(tmp_path / name)
    with pytest.raises(tw.ExportError, match=r"(?s)TW0702: cannot export with threads='omp'.*fix: threads=\"openmp\""):
        scale_add().export(tmp_path / "libx.so", threads="omp")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("class", "word of C or C\\+\\+"),
        ("exp", "a function of the C library"),
        ("malloc", "a function of the C library"),
        ("tw_kernel", "reserved"),
        ("_X", "reserved"),
        ("_init", "reserved"),
        ("GOMP_parallel", "reserved"),
        ("omp_get_thread_num", "reserved"),
        ("a" * 1001, "at most 1000 characters"),
    ],
)
def test_names_that_c_cannot_have_are_refused(tmp_path: Path, name: str, reason: str) -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i], name="B")
    with pytest.raises(tw.ExportError, match=f"(?s)TW0703: no C function can be called '{name}'.*{reason}"):
        tw.build(te.create_schedule(B), [A, B], name=name).export(tmp_path / "libx.so")


def test_two_functions_of_one_name_are_refused(tmp_path: Path) -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i], name="B")
    module = tw.build({"f": [A, B], "f_error": [A, B]})
    with pytest.raises(tw.ExportError, match=r"(?s)TW0704: the C function 'f_error' of kernel 'f_error' .*kernel 'f'"):
        module.export(tmp_path / "libx.so")


def test_kernels_that_are_not_compiled_are_not_exported(tmp_path: Path) -> None:
    with pytest.raises(tw.ExportError, match=r"TW0740: cannot export scale_add"):
        scale_add("interpret").export(tmp_path / "libx.so")
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i], name="B")
    with pytest.raises(tw.ExportError, match=r"TW0740: cannot export Module"):
        tw.build({"f": [A, B]}, target="interpret").export(tmp_path / "libx.so")


def test_machines_whose_processors_cannot_be_asked_are_refused(tmp_path: Path) -> None:
    kernel = scale_add("llvm -mtriple=powerpc64le-unknown-linux-gnu")
    with pytest.raises(
        tw.ExportError, match=r"(?s)TW0708: cannot export code for powerpc64le.*allowed: x86_64, aarch64"
    ):
        kernel.export(tmp_path / "x.o")


@pytest.mark.parametrize(
    "triple",
    [
        "x86_64-unknown-freebsd",
        "x86_64-unknown-none",
        "wasm32-unknown-unknown",
        "wasm32-wasi",
    ],
)
def test_systems_whose_libraries_are_not_written_are_refused(tmp_path: Path, triple: str) -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i], name="B")
    library = tw.Library("x")
    library.add("f", [A, B], target=f"llvm -mtriple={triple}")
    for file in ("libx.so", "libx.a", "x.o"):
        with pytest.raises(tw.ExportError, match=f'(?s)TW0712: cannot export code for {triple}.*fix: .*target="c"'):
            library.export(tmp_path / file)
    with pytest.raises(tw.ExportError, match="TW0712"):
        library.export_python(tmp_path / "package")
    assert not list(tmp_path.iterdir())


def test_one_library_has_vectors_of_one_length(tmp_path: Path) -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i], name="B")
    library = tw.Library("x")
    long = "llvm -mtriple=aarch64-unknown-linux-gnu -mattr=+sve -msve-vector-bits={}"
    library.add("f", [A, B], target=[long.format(256), "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=generic"])
    library.export(tmp_path / "x.o")
    with pytest.raises(tw.ExportError, match="TW0710: 'f' cannot be in library 'x' for vectors of 256 and of 512 bits"):
        library.add("f", [A, B], target=long.format(512))


def test_every_feature_has_a_bit_of_its_own_in_the_answer() -> None:
    for table, *_ in cpu._TABLES.values():
        assert len(table) < 63, "the length of vectors has one, too, and one says that the processor was asked"


def test_a_library_that_cannot_be_linked_says_what_the_linker_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linker = tmp_path / "failing"
    linker.write_text("#!/bin/sh\necho 'collect2: error: undefined reference to your_gemv' >&2\nexit 1\n")
    linker.chmod(0o755)
    monkeypatch.setenv("CC", str(linker))
    with pytest.raises(tw.ExportError, match=r"(?s)TW0707: cannot link 'libx.so'.*undefined reference to your_gemv"):
        scale_add().export(tmp_path / "libx.so")
    assert {path.name for path in tmp_path.iterdir()} == {"failing"}


def test_without_any_linker_objects_are_still_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    with pytest.raises(tw.ExportError, match=r"(?s)TW0706: this machine has no linker for 'libx.so'.*ziglang"):
        scale_add().export(tmp_path / "libx.so")
    scale_add().export(tmp_path / "libx.a")
    assert {path.name for path in tmp_path.iterdir()} == {
        "libx.a",
        "x.h",
        "x.json",
        "x.pc",
        "xConfig.cmake",
        "xConfigVersion.cmake",
    }


def without_compilers(folder: Path, monkeypatch: pytest.MonkeyPatch, *tools: str) -> None:
    """A PATH with these tools alone."""
    (folder / "bin").mkdir()
    for tool in tools:
        (folder / "bin" / Path(tool).name).symlink_to(tool)
    monkeypatch.setenv("PATH", str(folder / "bin"))
    monkeypatch.delenv("CC", raising=False)


@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="the ziglang package is not installed")
@pytest.mark.parametrize("threads", ["none", "openmp"])
def test_the_ziglang_package_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: str) -> None:
    without_compilers(tmp_path, monkeypatch)
    loaded = tw.load(scale_add().export(tmp_path / "libscale_add.so", threads=threads)[0])
    assert loaded.name == "scale_add"


def test_a_linker_alone_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = shutil.which("ld") or shutil.which("ld.lld")
    if not found:
        pytest.skip("no ld here")
    without_compilers(tmp_path, monkeypatch, found)
    loaded = tw.load(scale_add().export(tmp_path / "libscale_add.so")[0])
    assert loaded.name == "scale_add"


def test_a_folder_for_temporary_files_that_is_full_or_gone_is_an_error_of_ours(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(
        tw.ExportError, match=r"(?s)TW0707: cannot link 'libx.so'.*gone.*No such file or directory.*TMPDIR"
    ):
        scale_add().export(tmp_path / "libx.so")


def test_a_folder_that_is_not_there_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(tw.ExportError, match=r"(?s)TW0705: cannot write '.*nowhere/.*No such file or directory"):
        scale_add().export(tmp_path / "nowhere" / "x.o")
    (tmp_path / "x.o").mkdir()
    with pytest.raises(tw.ExportError, match=r"(?s)TW0705: cannot write '.*x.o'.*directory"):
        scale_add().export(tmp_path / "x.o")


FULL_DISK = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import exported, tilewright as tw
folder = Path(sys.argv[1])
kernel = exported.scale_add()
kernel.export(folder / "x.o")
before = {path.name: path.read_bytes() for path in folder.iterdir()}
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))      # as a full disk does, writing stops in the middle of a file
try:
    kernel.export(folder / "x.o", threads="none")
except tw.ExportError as error:
    print(error)
assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
"""


def test_a_disk_that_fills_up_leaves_what_was_there(tmp_path: Path) -> None:
    done = run([sys.executable, "-c", FULL_DISK, tmp_path, Path(__file__).parents[2] / "support"])
    assert done.returncode == 0, done.stderr
    assert "ExportError TW0705: cannot write" in done.stdout
    assert "File too large" in done.stdout

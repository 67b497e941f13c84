"""Exports under names that nobody should choose, into places that cannot be written, and killed at any moment: a typed error or a
library that works, and nothing half written under its name."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from exported import needs_compiler, scale_add
from tilewright import te

WORDS = (
    "int",
    "class",
    "while",
    "NULL",
    "errno",
    "I",
    "main",
    "printf",
    "exp",
    "malloc",
    "memcpy",
    "_start",
    "_init",
    "__x",
    "_X",
    "tw_kernel",
    "restrict",
    "_Bool",
    "linux",
    "uint8_t",
    "stdin",
    "x_checked",
    "x_error",
    "x",
    "lib",
    "liblib",
    "lib.",
    ".",
    "..",
    "-",
    "--help",
    "-o",
    "-z",
    "-Wl,-z",
    "@file",
    "a,b",
    "a b",
    " ",
    "a'b",
    'a"b',
    "a$(id)b",
    "`id`",
    "a;b",
    "a|b",
    "a&b",
    "a\\b",
    "a\\",
    "??/",
    "/*",
    "*",
    "?",
    "[a]",
    "{a,b}",
    "~",
    "%s%n",
    "a%b",
    "#",
    "!",
    "\n",
    "a\nb",
    "a\r\nb",
    "\t",
    "\x01",
    "\x1b[31m",
    "\x7f",
    "\0",
    "a\0b",
    "é",
    "日本",
    "😀",
    "\u202e",
    "\u200b",
    "\ud800",
    "a\udcffb",
    "ñ" * 60,
    "a" * 100,
    "a" * 200,
    "a" * 251,
    "a" * 255,
    "a" * 300,
    "a" * 5000,
    "😀" * 50,
    "😀" * 63,
    "con",
    "nul",
    "0",
    "1x",
    "007",
    "a.b",
    "a..b",
    ".a",
    "a.so.1",
    "x.h",
    "x.json",
    "a.c",
    "/",
    "a/b",
    "../a",
    "./a",
    "//",
    "",
)
ALPHABET = "ab_0. -\n\t,;\\'\"$é😀\ud801\x02@%"


def hostile_names() -> list[str]:
    rng = random.Random(drawn.SEED)
    made = ["".join(rng.choice(ALPHABET) for _ in range(rng.randint(1, 30))) for _ in range(200 - len(WORDS))]
    return drawn.part([*WORDS, *made], 30)


def small_kernel(name: str = "main", target: str = "llvm") -> Any:
    A = te.placeholder((5,), name="A")
    B = te.compute((5,), lambda i: A[i] + 1, name="B")
    return tw.build(te.create_schedule(B.op), [A, B], name=name, target=target)


@needs_compiler
@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_library_of_any_name_works_or_is_refused(target: str, tmp_path: Path) -> None:
    kernel, written = small_kernel(target=target), 0
    for number, name in enumerate(hostile_names()):
        folder = tmp_path / str(number) / "inner"
        folder.mkdir(parents=True)
        suffix = ".so" if number % 3 == 0 else {"llvm": ".o", "c": ".c"}[target]
        try:
            paths = kernel.export(f"{folder}/{name}{suffix}", threads="none")
        except tw.ExportError:
            paths = ()
        found = [path for path in folder.parent.rglob("*") if path.is_file()]
        packages = 3 if target == "llvm" or suffix == ".so" else 0
        expected = len(paths) + packages + (target == "c" and suffix == ".so") if paths else 0
        assert len(found) == expected, (name, found)
        if paths:
            written += 1
            header = [
                "cc",
                "-std=c99",
                "-Wall",
                "-Werror",
                "-pedantic",
                "-fsyntax-only",
                "-x",
                "c",
                str(paths[1].resolve()),
            ]
            assert subprocess.run(header, capture_output=True, text=True).stderr == "", name
        if paths and suffix == ".so" and target == "llvm":
            out = np.zeros(5, "float32")
            tw.load(paths[0])(np.ones(5, "float32"), out)
            assert out.tolist() == [2.0] * 5
    assert written


def test_a_kernel_of_any_name_works_or_is_refused(tmp_path: Path) -> None:
    for number, name in enumerate(hostile_names()):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            small_kernel(name).export(folder / "x.o")
        except tw.TilewrightError:
            assert not list(folder.iterdir()), name
        else:
            assert {path.name for path in folder.iterdir()} == {
                "x.o",
                "x.h",
                "x.json",
                "x.pc",
                "xConfig.cmake",
                "xConfigVersion.cmake",
            }


def test_functions_of_libraries_have_any_name_or_are_refused() -> None:
    library, added, codes = tw.Library("hostile"), 0, set[str]()
    A = te.placeholder((5,), name="A")
    B = te.compute((5,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    for name in ("plain", *hostile_names(), None, 7, b"a", ("a",)):  # a draw may hold no name of C
        try:
            library.add(name, s, [A, B])  # pyright: ignore[reportArgumentType]
        except tw.TilewrightError as error:
            codes.add(error.code)
        else:
            added += 1
    assert added and codes <= {"TW0422", "TW0703", "TW0704"}


def sum_of_all(names: list[str]) -> tw.Kernel:
    """A kernel of as many scalars, a tensor to which it adds them, and one for the result, all of these names."""
    scalars = [te.var(name, "int32") for name in names]
    A = te.placeholder((5,), "int32", name=names[0])
    B = te.compute((5,), lambda i: A[i] + sum(scalars[1:], scalars[0]), name=names[-1])
    return tw.build(te.create_schedule(B.op), [*scalars, A, B], name="sum_all")


def test_parameters_of_any_name_work(tmp_path: Path) -> None:
    for name in ("\ud800", "a\udcffb"):
        with pytest.raises(tw.ExportError, match="TW0703: no parameter of a library can be called"):
            sum_of_all([name, "a"]).export(tmp_path / "libsum_all.so")
    assert not list(tmp_path.iterdir())
    names = [name for name in hostile_names() if not any("\ud800" <= character < "\ue000" for character in name)]
    arguments = names[:20]
    sum_of_all(names[:20]).export(tmp_path / "libsum_all.so")
    out = np.zeros(5, "int32")
    tw.load(tmp_path / "libsum_all.so")(*range(len(arguments)), np.ones(5, "int32"), out)
    assert out.tolist() == [1 + sum(range(len(arguments)))] * 5


def test_places_that_cannot_be_written_are_errors_and_keep_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "folder.so").mkdir()
    (tmp_path / "file").write_text("kept")
    (tmp_path / "gone.so").symlink_to(tmp_path / "nowhere" / "x.so")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    refused = ["folder.so", "file/x.so", "loop/x.so", "nowhere/x.so", "/dev/full/x.so", "/proc/x.so", "/sys/x.so"]
    refused += ["closed/x.so"] if os.geteuid() else []
    for place in refused:
        with pytest.raises(tw.ExportError, match="TW0705: cannot write"):
            scale_add().export(tmp_path / place)
    scale_add().export(tmp_path / "gone.so")  # takes the link's place
    assert tw.load(tmp_path / "gone.so").name == "scale_add"
    assert (tmp_path / "file").read_text() == "kept"
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {
        "folder.so",
        "file",
        "gone.so",
        "gone.h",
        "gone.json",
        "gone.pc",
        "goneConfig.cmake",
        "goneConfigVersion.cmake",
        "loop",
        "closed",
    }
    assert not list((tmp_path / "folder.so").iterdir())


def exporting_child(kernel: Any, place: Path) -> int:
    """The process, a copy of this one, that exports again and again, each time another library."""
    child = os.fork()
    if not child:
        number = 0
        while True:
            kernel.export(place, threads=("none", "openmp", "hook")[number % 3])
            number += 1
    return child


@needs_compiler
def test_a_killed_export_leaves_no_broken_file_under_its_name(tmp_path: Path) -> None:
    rng, kernel, place, survived = random.Random(drawn.SEED), scale_add(), tmp_path / "libkilled.so", 0
    for turns_left in reversed(range(drawn.count(5, 20))):
        child = exporting_child(kernel, place)
        time.sleep(rng.uniform(0, 1.5))
        end = time.monotonic() + 120
        while not turns_left and not place.exists() and time.monotonic() < end:  # on a machine with much else to do
            time.sleep(0.01)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if place.exists():
            survived += 1
            copy = shutil.copy(place, tmp_path / f"copy{survived}.so")  # a library that is loaded stays loaded
            out = np.zeros((2, 6), "float32")
            tw.load(copy)(np.ones((2, 6), "float32"), 2.0, np.ones(6, "float32"), out)
            assert (out == 3).all()
    assert survived, "some exports came to their end"

"""tw.load of what says something else of itself than a library does: typed errors, before anything of it is called."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.runtime.metadata import MAGIC, SECTION, NoMetadata, read_metadata, seal_file

HEADER = struct.Struct("<8sIIIII")
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    1 << 70,
    "",
    "x",
    "\0",
    [],
    {},
    [[]],
    ["+", "n", 1],
    ["?", 1, 2],
    {"name": 1},
    [None, None],
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    n = te.size_var("n")
    a = te.placeholder((n, 8), name="A")
    b = te.compute((n, 8), lambda i, j: a[i, j] + 1, name="B")
    kernel = tw.build(te.create_schedule(b.op), [a, b], name="add")
    return kernel.export(tmp_path_factory.mktemp("good") / "libadd.so")[0]


def with_text(content: bytes, text: bytes, **numbers: int) -> bytes:
    """The library with another text in its section, which is not longer, as if it had been written so."""
    at = content.index(MAGIC)
    fields = dict(
        zip(("magic", "version", "size", "checksum", "count", "seal"), HEADER.unpack_from(content, at), strict=True)
    )
    begin = at + HEADER.size + 4 * fields["count"]
    assert len(text) <= fields["size"]
    whole = text.ljust(fields["size"])
    header = fields | {"checksum": zlib.crc32(whole)} | numbers
    return seal_file(
        content[:at]
        + HEADER.pack(*header.values())
        + content[at + HEADER.size : begin]
        + whole
        + content[begin + fields["size"] :]
    )


def places(value: Any) -> list[tuple[Any, Any]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, below in inner for place in ((value, key), *places(below))]


def loaded(path: Path, content: bytes) -> str:
    """The code of the error, "" where it loads."""
    path.write_bytes(content)
    try:
        tw.load(path)
    except tw.TilewrightError as error:
        return error.code
    finally:
        path.unlink()
    return ""


def test_a_mutated_description_is_a_description_or_a_typed_error(library: Path, tmp_path: Path) -> None:
    content = library.read_bytes()
    plain = read_metadata(content).description
    room = len(json.dumps(plain, separators=(",", ":")))
    codes: list[str] = []
    for case in range(drawn.count(218, 2000)):
        rng, changed = random.Random(f"{drawn.SEED} {case}"), deepcopy(plain)
        holder, key = rng.choice(places(changed))
        if isinstance(holder, dict) and rng.random() < 0.2:
            del holder[key]
        else:
            holder[key] = deepcopy(rng.choice(VALUES))
        text = json.dumps(changed, separators=(",", ":")).encode()
        if len(text) <= room:
            codes.append(loaded(tmp_path / f"{case}.so", with_text(content, text)))
    assert {*codes} <= {"", "TW0741"} and codes.count("TW0741") > len(codes) // 3


@pytest.mark.parametrize("text", [b"[" * 900, b"", b"NaN", b"[1]", b'"x"', b"\xff", b'{"functions":[]}', b"9" * 900])
def test_a_text_that_is_no_description_is_a_typed_error(library: Path, tmp_path: Path, text: bytes) -> None:
    assert loaded(tmp_path / "x.so", with_text(library.read_bytes(), text)) == "TW0741"


@pytest.mark.parametrize(
    "numbers",
    [
        {"size": 0},
        {"size": 2**32 - 1},
        {"count": 0},
        {"count": 2**32 - 1},
        {"count": 5},
        {"checksum": 1},
        {"version": 99},
    ],
)
def test_a_mutated_header_is_a_typed_error(library: Path, tmp_path: Path, numbers: dict[str, int]) -> None:
    content = library.read_bytes()
    text = json.dumps(read_metadata(content).description, separators=(",", ":"), sort_keys=True).encode()
    assert loaded(tmp_path / "x.so", with_text(content, text, **numbers)) in ("TW0741", "TW0744")


@pytest.mark.parametrize("offset", [0, 8, -(2**31), 2**31 - 1])
@pytest.mark.parametrize("place", range(6))
def test_functions_that_lie_nowhere_are_a_typed_error(library: Path, tmp_path: Path, place: int, offset: int) -> None:
    content = bytearray(library.read_bytes())
    struct.pack_into("<i", content, content.index(MAGIC) + HEADER.size + 4 * place, offset)
    assert loaded(tmp_path / "x.so", seal_file(bytes(content))) == "TW0741"


def test_a_changed_byte_of_what_is_loaded_is_a_typed_error(library: Path, tmp_path: Path) -> None:
    """The system's loader falls over damaged relocations, and a call over damaged code."""
    content, kept = library.read_bytes(), 0
    for case in range(drawn.count(150, 5000)):
        rng, changed = random.Random(f"{drawn.SEED} bytes {case}"), bytearray(content)
        for _ in range(rng.choice((1, 8))):
            changed[rng.randrange(len(content))] ^= rng.randrange(1, 256)
        code = loaded(tmp_path / f"{case}.so", bytes(changed))
        assert code in ("", "TW0741", "TW0744"), "the last where the byte is the version's"
        kept += not code
    assert kept < drawn.count(150, 5000) // 2, "most of a file is loaded"


def test_a_file_that_lost_blocks_is_a_typed_error(library: Path, tmp_path: Path) -> None:
    """Cut off, cut off and filled up, with a block of zeros, without a byte, with two blocks exchanged: as disks and copies do it."""
    content = library.read_bytes()
    codes: list[str] = []
    for case in range(drawn.count(100, 5000)):
        rng = random.Random(f"{drawn.SEED} blocks {case}")
        at, other, size = rng.randrange(len(content)), rng.randrange(len(content)), rng.choice((1, 64, 512, 4096))
        low, high = sorted((at, other))
        size = min(size, high - low, len(content) - high)
        block, further = content[low : low + size], content[high : high + size]
        changed = rng.choice(
            (
                content[:at],
                content[:at].ljust(len(content), b"\0"),
                content[:low] + bytes(size) + content[low + size :],
                content[:at] + content[at + 1 :],
                content[:low] + further + content[low + size : high] + block + content[high + size :],
            )
        )
        codes.append(loaded(tmp_path / f"{case}.so", changed))
    assert {*codes} <= {"", "TW0741", "TW0744"}, "the last where the version is lost"
    assert codes.count("TW0741") > len(codes) // 2


def test_a_library_without_symbols_of_sections_still_loads(library: Path, tmp_path: Path) -> None:
    shutil.copy(library, tmp_path / "stripped.so")
    strip = shutil.which("strip")
    if strip is None:
        pytest.skip("the program strip is not installed")
    subprocess.run([strip, f"--keep-section={SECTION}", tmp_path / "stripped.so"], check=True)
    assert (tmp_path / "stripped.so").stat().st_size < library.stat().st_size
    assert tw.load(tmp_path / "stripped.so").name == "add"


def test_mutated_tables_of_the_file_are_typed_errors(library: Path) -> None:
    content = library.read_bytes()
    for case in range(drawn.count(300, 5000)):
        rng, changed = random.Random(f"{drawn.SEED} tables {case}"), bytearray(content)
        table = struct.unpack_from("<Q", content, 40)[0]
        for _ in range(rng.choice((1, 3))):
            changed[rng.choice((rng.randrange(64), min(table + rng.randrange(2000), len(content) - 1)))] = (
                rng.randrange(256)
            )
        with contextlib.suppress(NoMetadata):  # and nothing else
            read_metadata(bytes(changed[: rng.choice((len(content), rng.randrange(len(content))))]))


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 << 30)


@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, sparse, partial(os.symlink, "/dev/zero"), partial(os.symlink, "/dev/null")]
)
def test_what_is_no_file_of_a_library_is_not_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "x.so")
    with pytest.raises(tw.ExportError, match="TW0741"):
        tw.load(tmp_path / "x.so")


def test_what_is_right_still_loads(library: Path, tmp_path: Path) -> None:
    shutil.copy(library, tmp_path / "copy.so")
    assert str(tw.load(tmp_path / "copy.so").signature) == "add(A: float32[n, 8], B: out float32[n, 8])"


def test_a_file_that_is_replaced_again_and_again_costs_a_copy_for_each_content(tmp_path: Path) -> None:
    kernels = []
    for number in (1, 2, 3):
        a = te.placeholder((4,), name="A")
        b = te.compute((4,), lambda i, a=a, number=number: a[i] + float(number), name="B")
        kernel = tw.build(te.create_schedule(b.op), [a, b], name="add")
        kernels.append(kernel.export(tmp_path / f"lib{number}.so", threads="none")[0].read_bytes())
    values, result = np.zeros(4, np.float32), np.zeros(4, np.float32)

    def in_turn() -> tuple[int, int]:
        for number, content in enumerate(kernels, 1):
            (tmp_path / "new").write_bytes(content)
            (tmp_path / "new").replace(tmp_path / "libadd.so")
            tw.load(tmp_path / "libadd.so")(values, result)
            assert result.tolist() == [number] * 4
        mapped = Path("/proc/self/maps").read_text()
        return mapped.count("memfd:") + mapped.count(str(tmp_path)), len(os.listdir("/proc/self/fd"))

    before = len(os.listdir("/proc/self/fd"))
    first = in_turn()
    assert first[1] == before
    assert in_turn() == in_turn() == first


@pytest.mark.parametrize("path", ["a\0b", "\udc80", "", "x" * 5000, 5, None, 1.5, b"abc", "/dev/zero", "/"], ids=repr)
def test_what_is_no_path_to_a_library_is_refused(path: Any) -> None:
    with pytest.raises(tw.ExportError, match="TW0741"):
        tw.load(path)

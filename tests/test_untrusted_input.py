"""Text from somewhere: shown without control characters, and read as JSON within limits."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import drawn
import pytest
import tilewright as tw
from tilewright.base.errors import RecordError
from tilewright.base.untrusted_input import is_deeper, open_regular, plain_json, printable, read_regular
from tilewright.cli.export import _read_description
from tilewright.cli.models import read_model


def test_control_characters_are_written_as_escapes() -> None:
    assert printable("a\x1b[31m\x07\x9b\u202eb\ud800\n\tc") == r"a\x1b[31m\x07\x9b\u202eb\ud800\x0a\x09c"
    assert printable("a\r\nb\tc", lines=True) == "a\\x0d\nb\tc"
    assert printable("Größe 大きさ 🙂") == "Größe 大きさ 🙂"


def test_no_error_carries_them() -> None:
    error = RecordError(
        "cannot read \x1b]0;owned\x07", reason="it says\n\x9b2J", allowed="\x08", fix="\u2066x", loops="for \x7f in 8"
    )
    assert not {"\x1b", "\x07", "\x9b", "\x08", "\u2066", "\x7f"} & {*str(error)}
    assert isinstance(error, tw.TilewrightError) and "it says\n" in str(error)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"a":' * 200_000,
        "NaN",
        "-Infinity",
        "1e999",
        "9" * 5000,
        '"\\ud800"',
        '"\ud800"',
        "",
        "[1",
        '{"a" 1}',
        b"\xff\xfe",
        '"' * 100_001,
        "\\" * 100_001,
        "[" * 65 + "]" * 65,
    ],
)
def test_what_is_refused_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        plain_json(text, 1 << 20)


def test_brackets_within_texts_do_not_count() -> None:
    value = ["[" * 100, {"}": '\\"]' * 100}, "🙂"]
    assert plain_json(json.dumps(value), 1 << 20, most_depth=2) == value
    with pytest.raises(ValueError, match="nested deeper than 1 levels"):
        plain_json(json.dumps(value), 1 << 20, most_depth=1)
    with pytest.raises(ValueError, match="longer than 10 bytes"):
        plain_json(json.dumps(value), 10)


def test_the_depth_of_drawn_values_is_theirs() -> None:
    for case in range(drawn.count(200, 20_000)):
        value, depth = drawn_value(drawn.rng("depths", case), 6)
        text = json.dumps(value)
        assert not is_deeper(text, depth), text
        assert depth == 0 or is_deeper(text, depth - 1), text


def drawn_value(rng: Any, most: int) -> tuple[Any, int]:
    """A value, and how deep it is."""
    if most == 0 or rng.random() < 0.3:
        return ['[{"\\', 1, None, "]"][int(rng.integers(4))], 0
    parts = [drawn_value(rng, most - 1) for _ in range(int(rng.integers(3)))]
    depth = 1 + max((depth for _, depth in parts), default=0)
    if rng.random() < 0.5:
        return [value for value, _ in parts], depth
    return {f'{{"[{at}': value for at, (value, _) in enumerate(parts)}, depth


def test_only_regular_files_are_opened_and_their_sizes_are_looked_at_first(tmp_path: Path) -> None:
    """A pipe that nobody writes would wait for ever, a device never ends."""
    pipe, plain = tmp_path / "pipe", tmp_path / "plain"
    os.mkfifo(pipe)
    plain.write_bytes(b"12345")
    before = len(os.listdir("/proc/self/fd"))
    assert read_regular(plain, 5) == b"12345"
    for path in (pipe, Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError, match="not a regular file"):
            open_regular(path)
    with pytest.raises(OSError, match="5 bytes, more than 4"):
        read_regular(plain, 4)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("name", ["/dev/zero", "pipe"])
def test_no_reader_of_foreign_files_waits_for_a_pipe_or_reads_a_device(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    links = {
        suffix: tmp_path / f"model{suffix}" for suffix in (".onnx", ".pt2", ".safetensors", ".txt", ".so", ".toml")
    }
    for link in links.values():
        link.symlink_to(name if name.startswith("/") else tmp_path / name)
    readers = {
        ".pt2": tw.graph.from_torch,
        ".safetensors": tw.graph.load,
        ".txt": lambda path: read_model(str(path), {}),
        ".so": tw.load,
        ".toml": lambda path: _read_description(str(path)),
    }
    if find_spec("onnx"):  # without the package no model is read
        readers[".onnx"] = tw.graph.from_onnx
    for suffix, reader in readers.items():
        with pytest.raises(tw.TilewrightError, match="regular file"):
            reader(links[suffix])

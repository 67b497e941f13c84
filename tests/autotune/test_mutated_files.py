"""Files of records that were damaged by chance or by design: whatever they hold, the error is a RecordError."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import autotune_faults as faults
import drawn
import pytest
from tilewright.autoschedule.search.space import Config
from tilewright.autotune.json_lines import Line, read_lines, write_line
from tilewright.autotune.records import Database
from tilewright.autotune.trial import Trial
from tilewright.base.errors import RecordError

RECORDS = json.dumps(
    [
        ["split", 1, {"parent": {"axis": [1, 0]}, "factor": 8, "nparts": None, "disable_predication": False}],
        [
            "transform_layout",
            0,
            {
                "mapping_function": {
                    "layout": [
                        ["i"],
                        ["int32"],
                        [
                            {
                                "expr": {
                                    "node": "FloorMod",
                                    "of": [{"parameter": [0]}, {"node": "IntImm", "of": [64, {"dtype": "int32"}]}],
                                }
                            }
                        ],
                    ]
                },
                "pad_value": None,
            },
        ],
        ["bind", 1, {"axis": {"axis": [1, 1]}, "thread_axis": {"thread": [0, "threadIdx.x", 8]}}],
        ["pragma", 1, {"axis": {"axis": [1, 2]}, "pragma_type": "auto_unroll_max_step", "pragma_value": 16}],
        ["tensorize", 1, {"axis": {"axis": [1, 2]}, "intrinsic": {"intrinsic": ["c.gemv_f32", [8, 12]]}}],
        ["cache_read", None, {"tensor": {"tensor": [0, 0]}, "scope": "local", "readers": [{"stage": [1]}]}],
    ]
)
VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    1.5,
    1 << 63,
    10**400,
    float("nan"),
    float("inf"),
    1e308,
    "",
    "x" * 5000,
    "\ud800",
    "\0",
    "\x1b[2J",
    [],
    {},
    [[[]]],
    {"axis": [1, 0]},
    {"axis": ["1", None]},
    {"expr": {}},
    {"expr": {"node": "Add", "of": [1, 2]}},
    {"node": "__init__"},
    {"layout": [1, 2, 3]},
    {"layout": "abc"},
    {"thread": [1 << 40, "x", -1]},
    {"a": 1, "b": 2},
    {"intrinsic": [None, None]},
    {"expr": {"dtype": "int1e9"}},
    {"expr": {"axis": [1, 0]}},
]


def trials() -> list[Trial]:
    return [
        Trial(RECORDS, 2e-3, Config("s", (("a", 1),)), confirmed=1e-3),
        Trial("[]", None, None, "crash", "SIGSEGV"),
        faults.checked(faults.task(), '[["unroll", 1, {"axis": {"axis": [1, 0]}}]]', 1e-3),
    ]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Everything within a JSON value, as (what holds it, the key there)."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, below in inner for place in ((value, key), *places(below))]


def exchanged(lines: list[str], rng: random.Random) -> bytes:
    """A value that is another one."""
    at = rng.randrange(len(lines))
    plain = json.loads(lines[at])
    for _ in range(rng.choice((1, 1, 2))):
        holder, key = rng.choice(places(plain))
        holder[key] = deepcopy(rng.choice(VALUES))
    return "\n".join([*lines[:at], json.dumps(plain), *lines[at + 1 :]]).encode()


def nested(lines: list[str], rng: random.Random) -> bytes:
    """A value that is nested deeper than anybody counts."""
    text = "\n".join(lines)
    at, depth = rng.randrange(len(text)), rng.choice((70, 2_000, 200_000))
    return (text[:at] + rng.choice(("[", '{"a":', '[{"axis":', '"[')) * depth + text[at:]).encode()


def rubbed(content: bytes, rng: random.Random) -> bytes:
    """Bytes that are others, left out, doubled, or cut off."""
    for _ in range(rng.choice((1, 3, 40))):
        at, size = rng.randrange(len(content)), rng.choice((1, 1, 4, 100))
        new = rng.choice((rng.randbytes(size), b"", content[at : at + size] * 2, b"\xff" * size, bytes(size)))
        content = content[:at] + new + content[at + size :] or b" "
    return content[: rng.randrange(len(content) + 1)] if rng.random() < 0.1 else content


def flipped(content: bytes, rng: random.Random) -> bytes:
    """A database of the same size with other bits, often where SQLite keeps its numbers and our texts are."""
    page = bytearray(content)
    begins = [content.find(word) for word in (b"unroll", b"create table", b"SIGSEGV", b"AMD", b"workload")] + [
        0,
        4096,
        8192,
    ]
    for _ in range(rng.choice((1, 2, 8, 60))):
        at = rng.choice((rng.randrange(len(page)), max(0, rng.choice(begins)) + rng.randrange(-40, 100)))
        page[at % len(page)] = rng.choice((0, 0xFF, rng.randrange(256), page[at % len(page)] ^ 1 << rng.randrange(8)))
    return bytes(page)


def use(database: Database) -> None:
    """Everything that reads it."""
    key = faults.task().key
    database.trials(key)
    database.best(key)
    database.candidates(key, 4)
    list(database.check())
    list(database.export_lines())
    with Database(":memory:") as other:
        other.merge(database)


def import_lines(path: Path) -> None:
    with Database(":memory:") as database:
        with path.open("rb") as file:
            database.import_lines(read_lines(file))
        use(database)


def open_database(path: Path) -> None:
    with Database(path) as database:
        use(database)


def refused(read: Callable[[Path], None], path: Path, content: bytes) -> str:
    """The code of the error that reading the file raises, "" for none. Raises what is not a RecordError."""
    for rest in path.parent.iterdir():
        rest.unlink()
    path.write_bytes(content)
    try:
        read(path)
    except RecordError as error:
        str(error).encode()
        return error.code
    return ""


@pytest.mark.parametrize("mutate", [exchanged, nested, rubbed])
def test_mutated_lines_are_records_or_typed_errors(tmp_path: Path, mutate: Any) -> None:
    lines = [write_line(Line(faults.task().key, "B", 0.5, trial)) for trial in trials()]
    codes = [
        refused(
            import_lines,
            tmp_path / "x.jsonl",
            mutate(
                lines if mutate is not rubbed else "\n".join(lines).encode(),
                random.Random(f"{drawn.SEED} {mutate.__name__} {case}"),
            ),
        )
        for case in range(drawn.count(30, 1000))
    ]
    assert {*codes} <= {"", "TW0634"} and codes.count("TW0634") > len(codes) // 4


@pytest.mark.parametrize("mutate", [flipped, rubbed])
def test_mutated_databases_are_databases_or_typed_errors(tmp_path: Path, mutate: Any) -> None:
    (tmp_path / "good").mkdir()
    with Database(tmp_path / "good" / "tune.sqlite") as database:
        for trial in trials():
            database.add(faults.task().key, "B", trial)
        database.set_baseline(faults.task().key, "B", 0.5)
    content = (tmp_path / "good" / "tune.sqlite").read_bytes()
    (tmp_path / "bad").mkdir()
    codes = [
        refused(
            open_database,
            tmp_path / "bad" / "tune.sqlite",
            mutate(content, random.Random(f"{drawn.SEED} {mutate.__name__} {case}")),
        )
        for case in range(drawn.count(30, 1000))
    ]
    assert {*codes} <= {"", "TW0631", "TW0632", "TW0634", "TW0635"} and codes.count("") < len(codes)

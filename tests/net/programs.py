"""Frozen programs and models, read from the files of `frozen/`."""

from __future__ import annotations

import base64
import json
import linecache
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import tilewright as tw
from numpy.typing import NDArray
from tilewright import te
from tilewright.schedule import from_json

from .internals import tagged
from .python_programs import WRITTEN

__all__ = ["Program", "load_declarations", "load_models", "load_programs"]

FROZEN = Path(__file__).parent / "frozen"

ALGORITHMS = ("arg_blocks", "attention", "conv2d_winograd", "dense_dots", "weight_only_dense")
"""The operators of the frozen sources that a rule knows by their tags. The rule of resize wants attrs beside them, which a frozen
source does not hold: what those compute is declared by the user as well."""

Program = Callable[[], tuple[Any, list[Any]]]
"""Makes a schedule and its arguments."""


def load_programs() -> dict[str, Program]:
    """All frozen programs by name, GROUP/NAME."""
    programs: dict[str, Program] = {
        name: lambda row=row: _replayed(row) for name, row in _rows("benchmarks", "cuda", "drawn", "tutorials").items()
    }
    return programs | {f"written/{name}": program for name, program in WRITTEN.items()}


def load_declarations() -> dict[str, Callable[[], tuple[list[Any], list[Any]]]]:
    """The frozen programs without their schedules, by name: each makes operations and arguments."""
    rows = _rows("benchmarks", "drawn", "tutorials")
    return {name: lambda row=row: _declared(row) for name, row in rows.items()}


def load_models() -> dict[str, Callable[[], Any]]:
    """The frozen models by name: each makes a graph whose large parameters are drawn by their names."""
    return {
        name: lambda row=row: tw.graph.parse(row["text"], {n: _parameter(n, p) for n, p in row["params"].items()})
        for name, row in _rows("models").items()
    }


def _rows(*groups: str) -> dict[str, dict[str, Any]]:
    """The lines of these files, by GROUP/NAME."""
    return {
        f"{group}/{row['name']}": row
        for group in groups
        for row in map(json.loads, (FROZEN / f"{group}.jsonl").read_text().splitlines())
    }


def _replayed(row: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Declare the operations by the frozen source, and replay the records on them."""
    ops, args = _declared(row)
    return te.Schedule.replay(from_json(json.dumps(row["records"])), ops), args


def _declared(row: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Run a frozen source, which defines `ops` and `args`."""
    source: str = row["source"]
    place = f"<frozen {row['name']}>"
    # hybrid scripts look for their own source
    linecache.cache[place] = (len(source), None, source.splitlines(True), place)
    scope: dict[str, Any] = {"te": _Frozen(), "tw": tw, "np": np, "base64": base64, "ml_dtypes": ml_dtypes}
    exec(compile(source, place, "exec"), scope)
    return scope["ops"], scope["args"]


class _Frozen:
    """te as it is named in a frozen source: the tags that it writes are those of our operators where rules know these by them."""

    def __getattr__(self, name: str) -> Any:
        return getattr(te, name)

    def compute(self, shape: Any, element: Any, name: str, tag: str = "", **rest: Any) -> Any:
        known = tag.partition(".")[0] in ALGORITHMS
        return te.compute(shape, element, name, tagged(tag) if known else tag, **rest)


def _parameter(name: str, row: dict[str, Any]) -> NDArray[Any]:
    """A parameter's frozen values, or normal ones drawn by its name (variances away from 0)."""
    if "values" in row:
        return np.asarray(row["values"], row["dtype"]).reshape(row["shape"])
    drawn = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(row["shape"]) * 0.1
    if row.get("positive"):
        # rounded before it is shifted: the digests in the texts were taken of this
        drawn = np.abs(drawn.astype(row["dtype"])) + 0.5
    return drawn.astype(row["dtype"])

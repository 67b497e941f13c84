"""Calibration: measurements of this machine, kept in a file of the user's cache folder: `tilewright doctor --calibrate` writes it.

    {"tilewright": "calibration 1", "machine": "AMD EPYC, znver3, 256 bits, 2 threads", "values": {"clock": 3.39, "fma.rate": 1.96}}

A value takes the place of what the machine's row (machine.py) says of it, in the row's units; what was not measured stays. A file
is for one machine, and its name says for which, so that machines can share a folder. TILEWRIGHT_CALIBRATION names another file, or
is 0 for none; with TILEWRIGHT_CACHE=0 the folder is not looked at.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, cast

from ..base import dataclass, user_source
from ..base.environment import bad_variable
from ..base.untrusted_input import plain_json, printable, read_regular
from ..ir.lazy_values import cached_property
from ..runtime.cache_paths import cache_folder, write_atomically
from ..runtime.hosts import host
from ..runtime.threads import available_cpus
from .errors import BadCalibration
from .target import Target, this_processor

__all__ = [
    "MEASURES",
    "VARIABLE",
    "Calibration",
    "Measure",
    "calibration_file",
    "read_calibration",
    "keep",
    "machine_text",
]

VARIABLE = "TILEWRIGHT_CALIBRATION"
_FORM = "calibration 1"
_LARGEST = 1 << 16
"""Bytes: a longer file is none of ours."""


@dataclass(frozen=True)
class Measure:
    """A quantity that can be measured. unit: of its values, which lie between least and most."""

    unit: str
    least: float
    most: float


_CYCLES, _RATE, _BYTES = Measure("cycles", 1, 1000), Measure("a cycle", 1e-4, 16), Measure("bytes a cycle", 0.05, 1024)
MEASURES: Mapping[str, Measure] = {
    "clock": Measure("GHz", 0.1, 10),
    **{f"{name}.latency": _CYCLES for name in ("fma", "add", "mul")},
    **{
        f"{name}.rate": _RATE
        for name in (
            "fma",
            "add",
            "mul",
            "div",
            "sqrt",
            "call",
            "select",
            "shuffle",
            "gather",
            "load",
            "store",
            "masked",
        )
    },
    **dict.fromkeys(("l2_rate", "l3_rate", "memory_rate", "memory_shared"), _BYTES),
    "write": Measure("bytes moved for one written", 0.5, 8),
    "fork": Measure("cycles", 1, 1e9),
}
"""By the names of machine.Machine's fields, and those of its instructions."""


@dataclass(frozen=True)
class Calibration:
    """Measured numbers of a machine.

    values: by names of MEASURES.
    """

    values: tuple[tuple[str, float], ...]

    @cached_property
    def digest(self) -> str:
        """Digest of these values."""
        return hashlib.sha256(repr(self.values).encode()).hexdigest()[:12]


@cache
def machine_text() -> str:
    """Describe the machine of a calibration: the processor, the part of it that code uses, and how many threads share work."""
    part = this_processor()
    features = hashlib.sha256(part.feature_text.encode()).hexdigest()[:8]
    return f"{host().cpu_model()}, {part.cpu} {features}, {available_cpus()} threads"


def calibration_file() -> Path | None:
    """Return the path of this machine's calibration; None where nothing is to be read or written."""
    chosen, folder = os.environ.get(VARIABLE, "").strip(), cache_folder()
    if chosen in ("0", "off") or not chosen and folder is None:
        return None
    if folder is None or chosen:
        try:
            return Path(chosen).expanduser()
        except RuntimeError as problem:  # the home of nobody that is known
            raise bad_variable(VARIABLE, str(problem)) from problem
    return folder / f"calibration-{hashlib.sha256(machine_text().encode()).hexdigest()[:16]}.json"


def read_calibration(target: Target) -> Calibration | None:
    """Return the measurements that schedules for a target depend on: of this machine, unless the target names a processor, changes its
    features or is `-uncalibrated`. None where nothing was.

    Raises BadCalibration (TW0407) for a file that is damaged or another machine's. A cache folder that cannot be read has none."""
    if (
        not target.backend.for_processors
        or target.cpu
        or target.triple
        or target.features
        or target.has_flag("uncalibrated")
    ):
        return None
    path = calibration_file()
    if path is None:
        return None
    try:
        state = path.stat()
    except OSError as error:
        if os.environ.get(VARIABLE, "").strip():
            raise _bad(path, _why(error)) from None
        return None
    return _read(path, state.st_mtime_ns, state.st_size, state.st_ino)


def keep(calibration: Calibration) -> Path | None:
    """Write what was measured where later processes find it: whole, or not at all. Returns the file; None where none is to be
    written. Raises OSError."""
    path = calibration_file()
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = {"tilewright": _FORM, "machine": machine_text(), "values": dict(calibration.values)}
        write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())
    return path


@lru_cache(maxsize=8)
def _read(path: Path, _changed: int, size: int, _number: int) -> Calibration:
    """The content of a file, each state of which is read once."""
    if size > _LARGEST:
        raise _bad(path, f"it is longer than {_LARGEST} bytes")
    try:
        content: Any = plain_json(read_regular(path, _LARGEST), _LARGEST)
    except OSError as error:
        raise _bad(path, _why(error)) from None
    except ValueError as error:
        raise _bad(path, f"it is damaged: {error}") from None
    if not isinstance(content, dict) or cast("dict[str, Any]", content).keys() != {"tilewright", "machine", "values"}:
        raise _bad(path, "it does not hold what was measured of a machine")
    held = cast("dict[str, Any]", content)
    if held["tilewright"] != _FORM:
        raise _bad(path, f"its form is {held['tilewright']!r}, not {_FORM!r}")
    if held["machine"] != machine_text():
        raise _bad(path, f"it is another machine's: {held['machine']!r}, and this is {machine_text()!r}")
    return Calibration(_check_values(path, held["values"]))


def _why(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return f"it cannot be read: {error.strerror or error}"


def _check_values(path: Path, values: Any) -> tuple[tuple[str, float], ...]:
    if not isinstance(values, dict):
        raise _bad(path, "its values are not table")
    held = cast("dict[str, Any]", values)
    for name, value in held.items():
        measure = MEASURES.get(name)
        if measure is None:
            raise _bad(path, f"nothing is known by {name!r}")
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not measure.least <= value <= measure.most:
            raise _bad(
                path, f"{name} is {value!r}; it lies between {measure.least:g} and {measure.most:g} ({measure.unit})"
            )
    return tuple((name, float(held[name])) for name in MEASURES if name in held)


def _bad(path: Path, reason: str) -> BadCalibration:
    return BadCalibration(
        "cannot use what was measured of this machine",
        reason=printable(f"{path}: {reason}"),
        called=user_source(),
        fix=f"measure it again: tilewright doctor --calibrate; or do without: {VARIABLE}=0",
    )

"""What a build is known by, before anything is lowered: everything that its machine code depends on."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import time
from collections.abc import Iterator
from functools import cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from ...arguments import is_sequence
from ...autoschedule.registry import registered
from ...codegen.calibration import calibration_of
from ...codegen.target import Target
from ...ir.expr import Var
from ...ir.stmt import Function
from ...runtime.threads import available_cpus
from ...schedule import Schedule
from ...te import Tensor
from ..compile import Request
from .structure import NoStructure, structure_text

__all__ = ["build_key", "code_version"]


def build_key(request: Request) -> str | None:
    """The key of kernels built together; None where they are not kept: only schedules, lists of tensors and lowered functions for
    this machine's CPU are, of which everything can be written down: not what rules of the user's do."""
    target, options = request.target, request.options
    if not target.is_native or not code_version():
        return None
    try:
        texts = [
            f"{'over ' if program.over else ''}{structure_text(_whole(program.name, program.what, program.args))}"
            for program in request.programs
        ]
    except NoStructure:
        return None
    choices = (
        f"bounds_check={options.bounds_check} fast_math={options.fast_math} fp_contract={options.fp_contract} "
        f"exact={request.exact} bare={request.bare} quick={options.quick} {structure_text(options.passes)} "
        f"{available_cpus()} processors"
    )
    return "\n".join([*_surroundings(), _target_text(target), choices, *texts])


def _whole(name: str, what: Any, args: Any) -> Any:
    """Everything about a function that is lowered, as one graph."""
    if is_sequence(what) and len(what) == 2 and isinstance(what[0], Schedule):
        what, args = what
    if isinstance(what, Schedule) and is_sequence(args):
        return (name, list(what.outputs), list(args), list(what.records))
    if isinstance(what, Function):
        return (name, what)
    if is_sequence(what) and all(isinstance(tensor, (Tensor, Var)) for tensor in what) and not registered():
        return (name, list(what))
    raise NoStructure(type(what).__name__)


def _target_text(target: Target) -> str:
    """The target as it was given, and what it stands for here: every feature of the processor, and what was measured of it."""
    measured = calibration_of(target)
    known = "" if measured is None else f" calibrated {measured.digest}"
    return f"{target} {target.llvm_triple} {target.llvm_cpu} {target.llvm_features}{known}"


@cache
def _surroundings() -> tuple[str, ...]:
    """What of the process takes part: versions, and the layout of Python's objects, which call stubs read."""
    return (
        f"tilewright {code_version()}",
        f"llvmlite {llvmlite.__version__} LLVM {'.'.join(map(str, llvm.llvm_version_info))}",
        f"{platform.python_implementation()} {sys.hexversion:#x} {sys.flags.optimize} numpy {np.__version__} {sys.maxsize:#x}",
    )


_FLOORS = (
    "errors.py",
    "limits.py",
    "arguments.py",
    "untrusted.py",
    "driver",
    "ir",
    "runtime",
    "te",
    "schedule",
    "codegen",
    "topi",
    "autoschedule",
)
"""What of the package a kernel's code depends on."""


@cache
def code_version() -> str:
    """A hash of the sources that a kernel's code depends on; empty where they changed since this process began, so that
    nobody knows which ones it runs."""
    digest, latest = hashlib.sha256(), 0.0
    for path in sorted(path for floor in _FLOORS for path in _files(os.path.join(_ROOT, floor))):
        with open(path, "rb", buffering=0) as file:
            text = file.read()
            state = os.fstat(file.fileno())
            latest = max(latest, state.st_mtime, state.st_ctime)  # who installs may set the one, and nobody the other
        digest.update(f"{path[len(_ROOT) :]} {len(text)} ".encode())
        digest.update(text)
    return digest.hexdigest() if latest < _process_began() and _folders() == _BEGAN_IN else ""


def _folders() -> tuple[int, ...]:
    """Which folders the sources are in: another that takes the place of one brings files that have not changed since long ago."""
    return tuple(os.stat(os.path.join(_ROOT, floor)).st_ino for floor in ("", *_FLOORS) if not floor.endswith(".py"))


_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_BEGAN_IN = _folders()


def _process_began() -> float:
    """Seconds since the epoch; infinity where the system does not say."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return float("inf")
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")


def _files(place: str) -> Iterator[str]:
    """The sources at a place: hundreds of them, read in every process that builds, so without pathlib."""
    if os.path.isfile(place):
        yield place
        return
    with os.scandir(place) as listing:
        for entry in listing:
            if entry.name.endswith((".py", ".h", ".cpp")):
                yield entry.path
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _files(entry.path)

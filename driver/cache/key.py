"""Keys of the cache, made before lowering: everything that a build's machine code depends on."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from ...autoschedule.registry import registered_rules
from ...base.arguments import is_sequence
from ...codegen.calibration import read_calibration
from ...codegen.result import BuildOptions
from ...codegen.target import Target
from ...importing import LOADS, PACKAGE, ROOT, source_digest
from ...ir import Function, Var
from ...runtime.threads import available_cpus
from ...schedule import Schedule
from ...te import Tensor
from ..compile import Request
from .structure import NoStructure, structure_text

__all__ = ["build_key", "code_version", "program_key", "question_key"]


def build_key(request: Request) -> str | None:
    """The key of kernels built together; None where they are not kept: only schedules, lists of tensors and lowered functions for
    this machine's CPU are, of which everything can be written down: not what rules of the user's do."""
    target, options = request.target, request.options
    # code for another machine is not run here, and sources that differ are not known
    if not target.is_native or not code_version():
        return None
    try:
        texts = [
            f"{'over ' if program.over else ''}{structure_text(_total(program.name, program.what, program.args))}"
            for program in request.programs
        ]
    except NoStructure:
        return None
    return "\n".join([*_surroundings(), _target_text(target), _choices(options, request.exact, request.bare), *texts])


def program_key(
    texts: Mapping[str, str], over: Collection[str], target: Target, options: BuildOptions, exact: bool
) -> str | None:
    """The key of all kernels of a program; None where it is not kept. texts: what the program declares each from, by name. over: the
    names of those whose output is put over an input."""
    version = code_version(above=True)
    if not target.is_native or not version or registered_rules():
        return None
    told = [f"{'over ' if name in over else ''}{name}\n{text}" for name, text in sorted(texts.items())]
    choices = _choices(options, exact, bare=True)
    return "\n".join([*_surroundings(), f"program {version}", _target_text(target), choices, *told])


def question_key(question: str) -> str | None:
    """The key of an answer that depends on a text and on nothing else but the package; None where it is not kept."""
    version = code_version(above=True)
    return "\n".join([*_surroundings(), f"question {version}", question]) if version else None


def _choices(options: BuildOptions, exact: bool, bare: bool) -> str:
    return (
        f"bounds_check={options.bounds_check} fast_math={options.fast_math} fp_contract={options.fp_contract} "
        f"exact={exact} bare={bare} quick={options.quick} {structure_text(options.passes)} "
        f"{available_cpus()} processors"
    )


def _total(name: str, what: Any, args: Any) -> Any:
    """Everything about a function that is lowered, as one graph."""
    if is_sequence(what) and len(what) == 2 and isinstance(what[0], Schedule):
        what, args = what
    if isinstance(what, Schedule) and is_sequence(args):
        return (name, list(what.outputs), list(args), list(what.records))
    if isinstance(what, Function):
        return (name, what)
    # rules of the user's cannot be written down
    if is_sequence(what) and all(isinstance(tensor, (Tensor, Var)) for tensor in what) and not registered_rules():
        return (name, list(what))
    raise NoStructure(type(what).__name__)


def _target_text(target: Target) -> str:
    """The target as it was given, and what it stands for here: every feature of the processor, and what was measured of it."""
    measured = read_calibration(target)
    known = "" if measured is None else f" calibrated {measured.digest}"
    return f"{target} {target.llvm_triple} {target.llvm_cpu} {target.llvm_features}{known}"


@cache
def _surroundings() -> tuple[str, ...]:
    """Return what of the process takes part: versions, and the layout of Python's objects, which call stubs read."""
    return (
        f"tilewright {code_version()}",
        f"llvmlite {llvmlite.__version__} LLVM {'.'.join(map(str, llvm.llvm_version_info))}",
        f"{platform.python_implementation()} {sys.hexversion:#x} {sys.flags.optimize} numpy {np.__version__} {sys.maxsize:#x}",
    )


_FLOORS = (
    "base",
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
_ABOVE = ("graph",)
"""What declares kernels beside users."""


class _Sources:
    """The sources that a version covers: those that were loaded when they were counted as they were loaded, the others as they lay on
    the disk. version: a hash of them."""

    def __init__(self, floors: Sequence[str]) -> None:
        loaded = dict(LOADS)
        self._floors = floors  # a module that is loaded counts as it was loaded, not as it lies on the disk now
        paths = sorted(path for floor in floors for path in _files(os.path.join(ROOT, floor)))
        self._digests = {
            name: loaded.get(name) or source_digest(_content(path)) for path in paths for name in [_module_name(path)]
        }
        parts = (f"{name} {digest.hex()}\n" for name, digest in self._digests.items())
        self.version = hashlib.sha256("".join(parts).encode()).hexdigest()
        self._checked = self._modules = 0

    def are_loaded(self) -> bool:
        """Return whether all that this process has loaded up to now is what was counted, and came by our loader."""
        loads, modules = LOADS[self._checked :], len(sys.modules)
        # a source that was edited before it was loaded makes other code
        if any(self._digests.get(name) != digest for name, digest in loads if self._covers(name)):
            return False
        self._checked += len(loads)
        if modules != self._modules:
            known = {name for name, _ in LOADS}
            whole = [name.removeprefix(f"{PACKAGE}.") for name in list(sys.modules) if name.startswith(f"{PACKAGE}.")]
            # loaded by somebody else's loader: its source is not known
            if any(name not in known for name in whole if self._covers(name)):
                return False
            self._modules = modules
        return True

    def _covers(self, name: str) -> bool:
        return name.partition(".")[0] in self._floors


def _module_name(path: str) -> str:
    return path[len(ROOT) + 1 :].removesuffix(".py").replace(os.sep, ".").removesuffix(".__init__")


def _content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


@cache
def _sources(above: bool = False) -> _Sources:
    return _Sources((*_FLOORS, *_ABOVE) if above else _FLOORS)


def code_version(above: bool = False) -> str:
    """A hash of the sources that a kernel's code depends on, as this process runs them; empty once it runs others than were counted:
    one that was edited before it was loaded, or that somebody else's loader loaded. above: also of those that declare kernels of
    models."""
    try:
        sources = _sources(above)
    except OSError:  # they are no files, or there is no descriptor left to read them
        return ""
    return sources.version if sources.are_loaded() else ""


def _files(place: str) -> Iterator[str]:
    """The sources at a place: hundreds of them, read in every process that builds, so without pathlib."""
    if os.path.isfile(f"{place}.py"):
        yield f"{place}.py"
        return
    with os.scandir(place) as listing:
        for entry in listing:
            if entry.name.endswith(".py"):
                yield entry.path
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _files(entry.path)

"""Examination of this machine, part by part: found, or missing and why."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .. import __version__
from ..base import CodegenError, TilewrightError, dataclass
from ..runtime.cache_paths import default_database
from ..runtime.cuda_driver import ask_driver

__all__ = ["Finding", "examine", "report", "time_table"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One part: whether it is there, what exactly was found, or why not and what that costs."""

    part: str
    found: bool
    detail: str


def examine() -> list[Finding]:
    """Every finding, in the order of the report."""
    return [finding for part, look in _LOOKS.items() for finding in _look_up(part, look)]


def _look_up(part: str, look: Callable[[], Iterable[Finding]]) -> Iterable[Finding]:
    try:
        yield from look()
    except TilewrightError as error:  # such as a variable of the environment that is nonsense
        yield Finding(part, False, f"{error.headline}: {error.reason}")


def report(console: Console) -> None:
    """Print the findings as a table."""
    table = Table(box=None, show_header=False, padding=(0, 1))
    for finding in examine():
        mark = Text("ok", style="green") if finding.found else Text("--", style="yellow")
        table.add_row(mark, Text(finding.part, style="bold"), Text(finding.detail))
    console.print(table)


def time_table(times: Mapping[str, float]) -> Table:
    """Seconds by pass, as a table in milliseconds."""
    table = Table(title="compiler passes", title_justify="left", box=None)
    table.add_column("pass")
    table.add_column("ms", justify="right")
    for name, seconds in times.items():
        table.add_row(name, f"{seconds * 1e3:.2f}")
    table.add_row("total", f"{sum(times.values()) * 1e3:.2f}", style="bold")
    return table


def _python() -> Iterable[Finding]:
    yield Finding(
        "Python", True, f"{platform.python_version()} ({platform.python_implementation()}) at {sys.executable}"
    )
    yield Finding("system", True, f"{platform.system()} {platform.release()}, {platform.machine()}")


def _llvm() -> Iterable[Finding]:
    try:
        from llvmlite import binding
    except ImportError as error:
        yield Finding("LLVM", False, f"llvmlite cannot be imported: {error}; nothing can be compiled")
        return
    llvm = ".".join(map(str, binding.llvm_version_info))
    yield Finding("LLVM", True, f"{llvm} in llvmlite {importlib.metadata.version('llvmlite')}")
    yield from _processor(binding.get_process_triple())


def _processor(triple: str) -> Iterable[Finding]:
    from ..codegen.host import VARIABLE, full_processor
    from ..codegen.target import this_processor

    text, whole = os.environ.get(VARIABLE, "").strip(), full_processor()
    try:
        part = this_processor()
    except CodegenError as error:
        yield Finding("CPU", False, str(error))
        return
    features = sorted(name for name, present in part.features.items() if present)
    vectors = [name for name in features if name.startswith(("sse4", "avx", "fma", "f16c", "neon", "sve"))]
    yield Finding(
        "CPU", True, f"{part.cpu}, {triple}" + (f": what {VARIABLE}={text!r} leaves of {whole.cpu}" if text else "")
    )
    yield Finding("CPU features", True, " ".join(vectors) or "no vector extension that we know")


def _threads() -> Iterable[Finding]:
    from ..runtime.threads import describe

    works, detail = describe()
    yield Finding("threads", works, detail)


_CUDA_PACKAGES = {
    "nvidia-cuda-nvrtc": "GPU kernels cannot be compiled",
    "nvidia-cuda-runtime": "its headers are what half needs",
    "nvidia-cuda-crt": "its headers are what half needs",
    "nvidia-cuda-cccl": "its headers are what half needs",
    "nvidia-cuda-cuobjdump": 'f.source("sass") cannot be shown',
    "nvidia-cuda-nvdisasm": 'f.source("sass") cannot be shown',
}


def _cuda_driver() -> Finding:
    try:
        status, count = ask_driver()
    except OSError as error:
        return Finding("CUDA driver", False, f"{error}; GPU kernels cannot run here")
    if status or not count:
        return Finding("CUDA driver", False, f"it finds no GPU (status {status}); GPU kernels cannot run here")
    return Finding("CUDA driver", True, f"{count} GPU{'s' if count > 1 else ''}")


_LAUNCHERS = ("pycuda", "cuda-bindings")


def _package_version(name: str) -> str:
    """A package's name and version, "" where it is not installed."""
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return ""


def _cuda() -> Iterable[Finding]:
    yield _cuda_driver()
    there = [version for name in _LAUNCHERS if (version := _package_version(name))]
    yield Finding(
        " or ".join(_LAUNCHERS), bool(there), there[0] if there else "not installed; GPU kernels cannot run from Python"
    )
    for name, purpose in _CUDA_PACKAGES.items():
        try:
            yield Finding(name, True, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, False, f"not installed: {purpose}; pip install 'tilewright[nvrtc]'")


def _compilers() -> Iterable[Finding]:
    for name in ("cc", "c++", "clang", "ld.lld", "nvcc"):
        path = shutil.which(name)
        if path is None:
            yield Finding(name, False, "not on PATH")
            continue
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=20)
        lines = [line for line in (done.stdout or done.stderr).splitlines() if line.strip()]
        yield Finding(
            name, done.returncode == 0, f"{lines[-1 if name == 'nvcc' else 0] if lines else 'says nothing'} at {path}"
        )
    try:
        yield Finding(
            "ziglang", True, f"{importlib.metadata.version('ziglang')}, links libraries where there is no compiler"
        )
    except importlib.metadata.PackageNotFoundError:
        yield Finding("ziglang", False, "not installed; needed only to link libraries where there is no compiler")


def _versions() -> Iterable[Finding]:
    yield Finding("tilewright", True, __version__)
    for name in ("numpy", "ml_dtypes", "rich"):
        yield Finding(name, True, importlib.metadata.version(name))
    for name in ("xgboost-cpu", "xgboost"):
        try:
            yield Finding("xgboost", True, f"{importlib.metadata.version(name)} ({name})")
            return
        except importlib.metadata.PackageNotFoundError:
            continue
    yield Finding("xgboost", False, "not installed: pip install 'tilewright[tune]'")


def _cache() -> Iterable[Finding]:
    from ..driver.cache.store import off_reason, open_store

    store = open_store()
    if store is None:
        yield Finding("cache", False, f"off: {off_reason()}; every kernel is built anew")
        return
    usage = store.usage()
    held = f"{usage.entries} kernels, {usage.size / 2**20:.1f} of {usage.limit >> 20} MB"
    yield Finding("cache", not usage.problem, usage.problem or f"{usage.folder} ({held})")


def _calibration() -> Iterable[Finding]:
    from ..codegen.calibration import calibration_file, read_calibration
    from ..codegen.target import Target

    measured = read_calibration(Target.parse("llvm"))
    if measured is None:
        yield Finding(
            "calibration",
            False,
            "none: schedules are what any such processor gets; tilewright doctor --calibrate measures this one",
        )
        return
    yield Finding("calibration", True, f"{calibration_file()} ({len(measured.values)} values)")


def _database() -> Iterable[Finding]:
    database = default_database()
    yield Finding("database", True, f"{database}" + ("" if database.exists() else " (not made yet)"))


_LOOKS: Mapping[str, Callable[[], Iterable[Finding]]] = {
    "Python": _python,
    "LLVM": _llvm,
    "threads": _threads,
    "CUDA": _cuda,
    "compilers": _compilers,
    "versions": _versions,
    "cache": _cache,
    "calibration": _calibration,
    "database": _database,
}

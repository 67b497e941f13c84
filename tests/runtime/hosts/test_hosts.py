"""Services of operating systems: what each alone has stands in its own module, and what it lacks has an answer."""

from __future__ import annotations

import ast
import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from exported import scale_add
from tilewright.runtime.hosts import Host, host, linux, macos, windows
from tilewright.runtime.hosts.linux import Linux
from tilewright.runtime.hosts.macos import MacOS
from tilewright.runtime.hosts.windows import Windows

ROOT = Path(__file__).resolve().parents[3]
_NAMES = (
    "sched_",
    "register_at_fork",
    "RTLD_",
    "O_TMPFILE",
    "memfd_create",
    "getauxval",
    "prctl",
    "killpg",
    "uname",
    "geteuid",
)
_NAMES += ("setrlimit", "sysconf", "MAP_", "madvise", "MADV_")
_TEXTS = ("/proc/", "/sys/", "futex", "sched_", "getauxval", "dlopen(")
OWN = {
    "base/forks.py": "hooks, where a system forks",
    "runtime/hosts": "a module for each system",
    "codegen/abi/linux.py": "machine code of the pool of threads",
    "codegen/export/cpu.py": "machine code that asks a processor, for each system that is exported for",
    "codegen/export/gpu_driver.py": "machine code that opens the GPU's driver",
    "graph/large_pages.py": "within hasattr of what it needs",
    "graph/mapped_arrays.py": "within hasattr of what it needs",
    "autotune/board.py": "a shell of another machine",
}
"""Where names of one system may stand, and why."""


def _used(path: Path) -> set[str]:
    """Names of one system that a file uses, in code and in texts that are not docstrings."""
    tree = ast.parse(path.read_text())
    told = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    told |= {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg in ("fix", "reason", "allowed")
        for part in ast.walk(node.value)
    }
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    forks = any(ast.unparse(node) == "os.fork" for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told
    ]
    used = {name for name in names if name.startswith(_NAMES)} | ({"os.fork"} if forks else set())
    return used | {part for part in _TEXTS if any(part in text for text in texts)}


def test_what_one_system_has_is_used_in_its_own_module() -> None:
    skipped = ("tests", "docs", "tutorials", "tools", "out", "build", "dist")
    floors = [path for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "." and path.name not in skipped]
    files = [*ROOT.glob("*.py"), *(path for floor in floors for path in floor.rglob("*.py"))]
    elsewhere = {
        str(path.relative_to(ROOT)): used
        for path in files
        if not any(str(path.relative_to(ROOT)).startswith(place) for place in OWN) and (used := _used(path))
    }
    assert not elsewhere


@pytest.mark.parametrize(("text", "cpus"), [("max 100000", None), ("150000 100000", 1.5), ("nonsense", None)])
def test_the_control_group_quota_is_read(monkeypatch, tmp_path, text, cpus) -> None:
    (tmp_path / "cpu.max").write_text(text)
    monkeypatch.setattr(linux, "Path", lambda path: tmp_path / Path(path).name)
    assert Linux().cpu_quota() == cpus


def test_a_processor_without_a_name_is_told_by_its_cores(monkeypatch) -> None:
    cores = "processor\t: 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x4\nCPU part\t: 0xd0b\n\n"
    other = cores.replace("0xd0b", "0xd05")
    monkeypatch.setattr(linux, "_cpuinfo", lambda: cores + cores + other)
    assert Linux().cpu_model().endswith(" 0x41 0xd05, 0x41 0xd0b")
    monkeypatch.setattr(linux, "_cpuinfo", lambda: "model name\t: Fast One\n")
    assert Linux().cpu_model() == "Fast One"


def test_caches_lie_where_a_system_keeps_them(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    folders = [system.cache_home() for system in (Host(), Linux(), MacOS(), Windows())]
    assert folders == [tmp_path / ".cache", tmp_path / ".cache", tmp_path / "Library" / "Caches", tmp_path / "local"]
    monkeypatch.setenv("HOME", "")
    monkeypatch.setenv("LOCALAPPDATA", "")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert [system.cache_home() for system in (Host(), MacOS(), Windows())] == [None] * 3


@pytest.mark.parametrize("system", [Host(), host()])
def test_copies_of_a_library_are_libraries_of_their_own(system: Host, tmp_path: Path) -> None:
    content = scale_add().export(tmp_path / "libscale_add.so", threads="none")[0].read_bytes()
    before = set(Path("/tmp").glob("tilewright-library-*"))
    first, second = (system.load_copy(content, serial) for serial in (10, 11))
    assert first._handle != second._handle
    assert set(Path("/tmp").glob("tilewright-library-*")) == before


def test_a_system_that_cannot_tell_believes() -> None:
    number = ctypes.c_int(7)
    assert Host().is_mapped(8) and Host().read_memory(ctypes.addressof(number), 1) == b"\x07"
    assert Host().core_cache(1) is None and Host().processor_word("16") is None and not Host().loaded_files("libc")


def test_sysctl_tells_of_a_mac(monkeypatch) -> None:
    told = {
        "machdep.cpu.brand_string": b"Apple M9\0",
        "hw.perflevel0.l1dcachesize": (1 << 17).to_bytes(8, "little"),
        "hw.l2cachesize": (1 << 22).to_bytes(8, "little"),
        "hw.optional.arm.FEAT_DotProd": b"\1\0\0\0",
    }
    monkeypatch.setattr(macos, "_ask", lambda name, most: told.get(name, b""))
    system = MacOS()
    assert (system.cpu_model(), system.core_cache(1), system.core_cache(2)) == ("Apple M9", 1 << 17, 1 << 22)
    features = ("DotProd", "I8MM")
    assert [system.processor_word(f"sysctl.hw.optional.arm.FEAT_{name}") for name in features] == [1, 0]
    assert system.processor_word("16") is None


def test_windows_tells_by_handles(monkeypatch) -> None:
    class Kernel:
        """kernel32 with process 7, which runs, and process 8, which has ended."""

        OpenProcess = staticmethod(lambda rights, inherited, process: process if process in (7, 8) else None)
        CloseHandle = staticmethod(lambda handle: 1)
        IsProcessorFeaturePresent = staticmethod(lambda number: int(number == 43))

        @staticmethod
        def GetExitCodeProcess(handle, status) -> int:
            status._obj.value = 259 if handle.value == 7 else 0
            return 1

    kernel = Kernel()
    kernel.OpenProcess = _with_restype(kernel.OpenProcess)
    monkeypatch.setattr(windows, "_kernel", lambda: kernel)
    assert [Windows().is_alive(process) for process in (7, 8, 9)] == [True, False, False]
    assert [Windows().processor_word(word) for word in ("feature.43", "feature.30", "16")] == [1, 0, None]


def _with_restype(function) -> SimpleNamespace:
    """A callable that takes attributes, as functions of ctypes do."""
    return type("Function", (), {"__call__": staticmethod(function), "restype": None})()


@pytest.mark.skipif(not sys.platform.startswith(("linux", "darwin")), reason="groups of processes are of POSIX")
def test_a_process_ends_with_what_it_has_started() -> None:
    program = "import subprocess, sys; c = subprocess.Popen(['sleep', '60']); print(c.pid, flush=True); c.wait()"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True)
    child = int(process.stdout.readline())
    assert host().is_alive(child)
    host().end_process(process)
    assert host().is_killed(process.wait())
    give_up = time.monotonic() + 10  # a signal is sent, and the child ends when it runs next
    while not _has_ended(child) and time.monotonic() < give_up:
        time.sleep(0.01)
    assert _has_ended(child)


def _has_ended(process: int) -> bool:
    """Return whether a process is gone, or waits for its parent to ask how it ended."""
    if not host().is_alive(process):
        return True
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True

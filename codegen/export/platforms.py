"""Systems that libraries are for: which kinds of file there are, whose threads, where memory comes from, how a processor is asked.

| system | files | threads | memory | processor |
|---|---|---|---|---|
| Linux, Android | .so, .a, .o | all | aligned_alloc | CPUID, getauxval, riscv_hwprobe |
| macOS, iOS | .o, .a | none, hook | aligned_alloc | CPUID, sysctlbyname |
| Windows | .o, .a | none, hook | _aligned_malloc | CPUID, IsProcessorFeaturePresent |
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...base import dataclass, field, user_source
from ..names import machine_and_system
from ..target import Target
from .errors import OtherPlatform

__all__ = ["LINUX", "MACOS", "WINDOWS", "Platform", "check_platform", "find_platform"]

ALL_THREADS = ("openmp", "none", "hook")


@dataclass(frozen=True)
class Platform:
    """Operating system that files are written for.

    kinds: suffixes of files that can be written. threads: as export takes them. functions: of the C library that kernels call and
    the system has not, each with LLVM IR that defines what stands for it, tw_NAME.
    """

    name: str
    kinds: tuple[str, ...]
    threads: tuple[str, ...] = ("none", "hook")
    functions: Mapping[str, str] = field(default_factory=dict[str, str])

    def adapt(self, text: str) -> str:
        """Return LLVM IR that calls what the system has, in place of the functions that it declares."""
        found = [name for name in self.functions if re.search(rf"^declare .*@{name}\(", text, re.MULTILINE)]
        for name in found:  # the declaration goes, since the definition takes its place
            text = re.sub(rf"^declare .*@{name}\(.*$", "", text, flags=re.MULTILINE)
            text = text.replace(f"@{name}(", f"@tw_{name}(") + self.functions[name]
        return text


LINUX = Platform("Linux", (".so", ".a", ".o"), ALL_THREADS)  # Linux alone: .so needs a linker that we call, and libgomp
MACOS = Platform("macOS", (".o", ".a"))
WINDOWS = Platform(
    "Windows",
    (".o", ".a"),
    functions={
        "aligned_alloc": """
declare ptr @_aligned_malloc(i64, i64)
define internal ptr @tw_aligned_alloc(i64 %alignment, i64 %size) nounwind {
  %p = call ptr @_aligned_malloc(i64 %size, i64 %alignment)
  ret ptr %p
}
""",
        "free": """
declare void @_aligned_free(ptr)
define internal void @tw_free(ptr %p) nounwind {
  call void @_aligned_free(ptr %p)
  ret void
}
""",
    },
)
# LLVM's names of systems
_SYSTEMS = {"linux": LINUX, "macosx": MACOS, "darwin": MACOS, "ios": MACOS, "windows": WINDOWS, "win32": WINDOWS}


def find_platform(target: Target) -> Platform | None:
    """The system that a target's triple names; None where libraries for it cannot be written."""
    _, system = machine_and_system(target.llvm_triple)
    # triples end in versions: macosx14.0
    return next((each for name, each in _SYSTEMS.items() if system.startswith(name)), None)


def check_platform(target: Target, suffix: str, threads: str = "none") -> Platform:
    """Raise OtherPlatform (TW0712) for a system for which this kind of library, or these threads, cannot be written."""
    architecture, system = machine_and_system(target.llvm_triple)
    platform = find_platform(target)
    if platform is None:
        raise OtherPlatform(
            f"cannot export code for {target.llvm_triple}",
            called=user_source(),
            allowed="machines with Linux, Android, macOS or Windows",
            reason=f"{'WebAssembly' if architecture.startswith('wasm') else system or 'a machine without a system'} has "
            "libraries of another kind, calls other functions of its system, and asks its processor otherwise",
            fix='tw.build(..., target="c").export("name.c", threads="none") writes C11 that its own compiler takes (emcc or '
            "zig cc for WebAssembly)",
        )
    wrong = (
        suffix if suffix not in platform.kinds else f"threads={threads!r}" if threads not in platform.threads else ""
    )
    if wrong:
        ways = (f"threads={each!r}" for each in platform.threads)
        raise OtherPlatform(
            f"cannot export {wrong} for {target.llvm_triple}",
            called=user_source(),
            reason=f"for {platform.name} objects are written, which its own compiler links, without OpenMP",
            allowed=", ".join((*platform.kinds, *ways)),
            fix=f'f.export("name{platform.kinds[0]}", threads="none")',
        )
    return platform

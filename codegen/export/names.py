"""Identifiers of C."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache

from ...base.errors import user_source
from ...runtime.metadata import LONGEST_NAME
from ...runtime.signature import Signature
from .errors import NameTaken, NotACName

__all__ = ["STREAM", "check_names", "check_parameters", "entry_names", "library_identifier", "parameter_names"]

STREAM = "stream"
"""What the first argument of functions for GPUs is called."""

_KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept auto bitand bitor bool break case catch char
    char8_t char16_t char32_t class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit
    continue decltype default delete do double dynamic_cast else enum explicit export extern false float for friend goto if
    inline int long main mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch synchronized
    template this thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using virtual void
    volatile wchar_t while xor xor_eq DLTensor DLDevice DLDataType linux unix i386
""".split()
)
"""Words of C and C++, and what headers and compilers make of others: no name of ours may be one of these."""
_SPECIAL = re.compile(r".*_t|I|NULL|EOF|errno|assert|std(in|out|err)")  # _t is POSIX's for types
"""Types and macros of the standard library."""
_RESERVED = re.compile(r"tw_|__|_[A-Z]|_(init|fini|start|end|edata|etext)$|GOMP_|omp_")
"""Ours, the compiler's, the linker's, OpenMP's: libraries call the last two by these names."""
_VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,5}((a|b|rc)[0-9]{1,9})?(\.post[0-9]{1,9})?(\.dev[0-9]{1,9})?")
"""Versions of Python's packages, without epochs and local parts."""


def entry_names(name: str) -> tuple[str, str, str]:
    """The C functions of a kernel: plain, checked, error."""
    return name, f"{name}_checked", f"{name}_error"


def check_names(names: Sequence[str], others: Sequence[str], inner: Sequence[str]) -> None:
    """See to it that kernels of these names can be in one library.

    others: further C functions of the library. inner: functions that its code calls or brings along. Raises NotACName,
    NameTaken.
    """
    # first the names that are given, so that a kernel gets the blame
    owners = dict.fromkeys(others, "the library itself")
    owners |= dict.fromkeys(inner, "a function that the code calls or brings along")
    for name in names:
        reason = _why_not(name)
        if reason:
            raise NotACName(
                f"no C function can be called {name!r}",
                reason=reason,
                called=user_source(),
                fix='give the kernel another name: tw.build(..., name="sharpen")',
            )
        for entry in entry_names(name):
            if entry in owners:
                raise NameTaken(
                    f"the C function {entry!r} of kernel {name!r} would be exported twice",
                    reason=f"it belongs to {owners[entry]}",
                    called=user_source(),
                    fix="give the kernel another name",
                )
            owners[entry] = f"kernel {name!r}"


def check_version(version: str) -> None:
    """Raise NotACName for a version that Python, CMake and pkg-config do not all take."""
    if not isinstance(version, str) or not _VERSION.fullmatch(version):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise NotACName(f"no package can have the version {version!r}", called=user_source(), fix='version="1.0.0"')


def check_parameters(signature: Signature) -> None:
    """Return what a library tells of its parameters has their names. Raises NotACName for one that no text holds."""
    for item in (*signature.symbols, *signature.params):
        # JSON and C text are UTF-8, which cannot encode a surrogate alone
        if any(0xD800 <= ord(character) < 0xE000 for character in item.name):
            raise NotACName(
                f"no parameter of a library can be called {item.name!r}",
                called=user_source(),
                reason="it has an unpaired surrogate",
                fix="give the tensor or variable another name",
            )


def _why_not(name: str) -> str:
    if name in _KEYWORDS or _SPECIAL.fullmatch(name):
        return "it is a word of C or C++"
    if _RESERVED.match(name):
        return "names that begin like this are reserved"
    if len(name) > LONGEST_NAME:
        return f"names have at most {LONGEST_NAME} characters"
    # the linker would take ours for theirs in the whole program
    if any(hasattr(library, name) for library in _c_libraries()):
        return "a function of the C library is called so"
    return ""


@cache
def _c_libraries() -> tuple[ctypes.CDLL, ...]:
    opened: list[ctypes.CDLL] = []
    for name in ("libc.so.6", "libm.so.6"):
        with suppress(OSError):  # another C library: nothing is known to be taken
            opened.append(ctypes.CDLL(name))
    return tuple(opened)


def library_identifier(stem: str) -> str:
    """A library's stem as part of C names and macros."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", stem)
    return name if re.match(r"[A-Za-z]", name) else "lib" + name


def parameter_names(signature: Signature) -> list[str]:
    """C names for the free shape symbols and then the parameters, in the order in which the plain function takes them."""
    taken = {STREAM} if signature.on_stream else set[str]()
    names: list[str] = []
    for item in (*signature.symbols, *signature.params):
        stem = re.sub(r"[^A-Za-z0-9_]", "_", item.name)
        if not re.match(r"[A-Za-z]", stem):
            stem = f"p{stem}"  # C names begin with a letter
        elif stem in _KEYWORDS or _SPECIAL.fullmatch(stem):
            stem += "_"
        name, number = stem, 0
        while name in taken:  # symbols and parameters may be called alike once characters are replaced
            number += 1
            name = f"{stem}_{number}"
        taken.add(name)
        names.append(name)
    return names

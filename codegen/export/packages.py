"""Files by which other build systems find a library: a CMake package and a pkg-config file beside it. Both name its place by their own, so
that the folder may be moved.

    find_package(blur 0.1 CONFIG REQUIRED)           cc main.c $(pkg-config --cflags --libs blur)
    target_link_libraries(main blur::blur)
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .names import library_identifier

__all__ = ["package_files"]

OPENMP = "-lgomp"
"""OpenMP's threads: shared, or with -static the archive that comes with gcc."""

_CMAKE = """\
# {library}: made by tilewright. find_package({library} CONFIG REQUIRED) finds this file where CMAKE_PREFIX_PATH names its
# folder; then target_link_libraries(program {target}).
if(NOT TARGET {target})
  add_library({target} {kind} IMPORTED)
  set_target_properties({target} PROPERTIES
    {location} "${{CMAKE_CURRENT_LIST_DIR}}/{file}"
    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}"
    INTERFACE_LINK_LIBRARIES "{needed}")
endif()
"""
_CMAKE_VERSION = """\
# {library}: made by tilewright, for find_package({library} {version}): later versions hold what earlier ones do.
set(PACKAGE_VERSION "{version}")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
"""
_CMAKE_KINDS = {
    ".so": ("SHARED", "IMPORTED_LOCATION"),
    ".a": ("STATIC", "IMPORTED_LOCATION"),
    ".o": ("OBJECT", "IMPORTED_OBJECTS"),
}

_PKG_CONFIG = """\
# {library}: made by tilewright. PKG_CONFIG_PATH names the folder of this file.
Name: {library}
Description: Kernels made by tilewright
Version: {version}
Cflags: -I${{pcfiledir}}
Libs: {libs}
"""


def package_files(library: str, file: str, *, openmp: bool, version: str, opens: bool = False) -> dict[str, bytes]:
    """LIBRARYConfig.cmake, LIBRARYConfigVersion.cmake and LIBRARY.pc by name. library: the file's stem; file: its name; openmp:
    whether loops run on OpenMP's threads; version: of the library; opens: whether functions open a library when they run."""
    suffix = file[file.rindex(".") :]
    # a shared library brings along what it needs
    needed = [] if suffix == ".so" else ["-lm", *([OPENMP] if openmp else []), *(["-ldl"] if opens else [])]
    texts = {
        f"{library}Config.cmake": _cmake_text(library, file, suffix, needed),
        f"{library}ConfigVersion.cmake": _CMAKE_VERSION.format(library=library, version=version),
        f"{library}.pc": _pkg_config_text(library, file, suffix, needed, version),
    }
    return {name: text.encode() for name, text in texts.items()}


def _cmake_text(library: str, file: str, suffix: str, needed: Sequence[str]) -> str:
    kind, location = _CMAKE_KINDS[suffix]
    identifier = library_identifier(library)
    return _CMAKE.format(
        library=library,
        target=f"{identifier}::{identifier}",
        kind=kind,
        location=location,
        file=re.sub(r'([\\"$;])', r"\\\1", file),
        needed=";".join(needed),
    )


def _pkg_config_text(library: str, file: str, suffix: str, needed: Sequence[str], version: str) -> str:
    """A shared library is looked for beside the file when the program runs, too."""
    name = re.sub(r"([^\w.+-])", r"\\\1", file).replace("$", "$$")
    own = f"-L${{pcfiledir}} -Wl,-rpath,${{pcfiledir}} -l:{name}" if suffix == ".so" else f"${{pcfiledir}}/{name}"
    return _PKG_CONFIG.format(library=library.replace("$", "$$"), version=version, libs=" ".join([own, *needed]))

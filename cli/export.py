"""The command `tilewright export`: a library, or a Python package, of a function of a file or of what a file in TOML lists.

What it needs is imported when it runs: other commands start faster so.
"""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..base.arguments import is_sequence
from ..base.errors import TilewrightError, user_source
from ..base.untrusted_input import printable, read_regular
from .scripts import ArgumentsDoNotFit, call_function, run_script

if TYPE_CHECKING:
    from ..driver.library import Library
    from ..driver.lower import Buildable

__all__ = ["add_commands"]

_MOST_BYTES = 16 << 20
"""Of a file that describes a library."""
_LIBRARY: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "version": (str,),
    "target": (str, list),
    "threads": (str,),
    "tuned": (str,),
    "exact": (bool,),
    "bounds_check": (bool,),
    "fast_math": (bool,),
    "fp_contract": (bool,),
    "function": (list,),
}
_FUNCTION: dict[str, tuple[type, ...]] = {"name": (str,), "source": (str,), "arguments": (dict,), "target": (str, list)}
_WORDS = {str: "a text", list: "a list", bool: "true or false", dict: "a table"}


def add_commands(commands: Any) -> None:
    """Add the command to argparse's subparsers."""
    export = commands.add_parser(
        "export",
        help="write a library from functions' kernels",
        description=(
            "Calls FUNCTION of FILE.py, builds what it returns ((schedule, args), a list of tensors, or a dict of names to "
            "these; a list by its name will do), and writes the library with its C header and manifest; or does so for every "
            "function that LIBRARY.toml lists. --python writes a Python package in place of the library, which needs numpy alone."
        ),
    )
    export.add_argument("source", metavar="FILE.py:FUNCTION | LIBRARY.toml")
    export.add_argument(
        "library",
        metavar="LIBRARY",
        nargs="?",
        help="libname.so, libname.a or name.o; with --python, or for LIBRARY.toml, a folder (default: this one)",
    )
    export.add_argument(
        "--target",
        action="append",
        help='target to compile for (default: "llvm", this machine); repeat it for several processors',
    )
    export.add_argument("--name", help="the C function (default: FUNCTION)")
    export.add_argument("--threads", help="openmp (default), none or hook")
    export.add_argument(
        "--tuned", metavar="DATABASE", help="results of autotune, from which lists of tensors take their schedules"
    )
    export.add_argument("--python", action="store_true", help="write a Python package into the folder LIBRARY")
    export.add_argument(
        "--version", default=None, help="of the library, for CMake, pkg-config and pip (default: 0.1.0)"
    )
    export.set_defaults(command=_export)


def _export(options: argparse.Namespace) -> int:
    source = str(options.source)
    if source.endswith(".toml"):
        library, described = _make_library(source, options)
    else:
        made = _find_declared(source)
        if made is None:
            return 2
        # one kernel for one processor is exported without the choice among cases
        if not options.python and options.version is None and len(options.target or ()) < 2:
            return _export_alone(made, options)
        library, described = _library_of_function(made, options), {}
    place = str(options.library or ".")
    if options.python:
        print(library.export_python(place))
        return 0
    if source.endswith(".toml") and not Path(place).suffix:  # a folder, which need not be there yet
        Path(place).mkdir(parents=True, exist_ok=True)
    for path in library.export(place, options.threads or described.get("threads", "openmp")):
        print(path)
    return 0


def _export_alone(made: Any, options: argparse.Namespace) -> int:
    from ..driver.build import build
    from ..ir import Function

    if options.library is None:
        _say("tilewright export: LIBRARY is missing: libname.so, libname.a or name.o")
        return 2
    _require_database(options.tuned)
    kind = type(cast(object, made))
    has_name = issubclass(kind, (Mapping, Function)) or hasattr(kind, "built")  # of its own
    name = options.name or ("main" if has_name else options.source.rpartition(":")[2])
    built = build(cast("Buildable", made), target=(options.target or ["llvm"])[0], name=name, tuned=options.tuned)
    for path in built.export(options.library, threads=options.threads or "openmp"):
        print(path)
    return 0


def _require_database(path: str | None) -> None:
    """Raise NoRecord (TW0633) where there is no such file: its name is wrong, and libraries are not looked at as they are made."""
    from ..autotune.records import Database

    # tw.build would make an empty database under a mistyped name
    if path is not None:
        Database(path, must_exist=True).close()


def _library_of_function(made: Any, options: argparse.Namespace) -> Library:
    """Return what one function returns, as a library."""
    from ..driver.library import Library

    name = options.name or options.source.rpartition(":")[2]
    stem = Path(options.library or name).stem.removeprefix("lib")
    _require_database(options.tuned)
    library = Library(name if options.python else stem or name, tuned=options.tuned, version=options.version or "0.1.0")
    for key, what in cast("Mapping[str, Any]", made).items() if isinstance(made, Mapping) else [(name, made)]:
        library.add(key, what, target=options.target or "llvm")
    return library


# Libraries that a file lists


def _make_library(path: str, options: argparse.Namespace) -> tuple[Library, dict[str, Any]]:
    """The library that a file in TOML lists, and what else it says. Options of the command line come before the file's."""
    from ..driver.library import Library

    described = _read_description(path)
    switches = {
        key: described[key] for key in ("exact", "bounds_check", "fast_math", "fp_contract") if key in described
    }
    tuned = options.tuned or (str(Path(path).parent / described["tuned"]) if "tuned" in described else None)
    _require_database(tuned)
    version = options.version or described.get("version", "0.1.0")
    library = Library(options.name or described["name"], tuned=tuned, version=version, **switches)
    for function in described["function"]:
        # paths in a file are relative to it, wherever the command runs
        source = str(Path(path).parent / function["source"])
        try:
            made = _find_declared(source, function.get("arguments", {}))
        except ArgumentsDoNotFit as error:
            raise _bad(
                path, f"{function['source']} does not take its arguments: {error.reason}", "arguments = { rows = 64 }"
            ) from error
        if made is None:
            raise _bad(
                path,
                f"the source {function['source']!r} of {function.get('name', '')!r} is not a function of a file",
                'source = "kernels.py:blur"',
            )
        name = function.get("name") or source.rpartition(":")[2]
        library.add(name, made, target=options.target or function.get("target") or described.get("target", "llvm"))
    return library, described


def _read_description(path: str) -> dict[str, Any]:
    """Return what the file says, each key of the kind that it has to be. Raises BadLibraryFile."""
    try:
        described = tomllib.loads(read_regular(path, _MOST_BYTES).decode())
    except FileNotFoundError:
        raise _bad(path, "there is no such file", "the path of the file that lists the functions") from None
    except (OSError, ValueError, RecursionError) as error:
        raise _bad(path, str(error), "see docs/libraries.md for one that is read") from None
    _check_table(path, described, _LIBRARY, "name", "function")
    for function in described["function"]:
        if not isinstance(function, dict):
            raise _bad(path, "a function is a table", "[[function]]")
        _check_table(path, cast("dict[str, Any]", function), _FUNCTION, "source")
    return described


def _check_table(path: str, table: Mapping[str, Any], known: Mapping[str, tuple[type, ...]], *needed: str) -> None:
    for key, value in table.items():
        if key not in known:
            # cutoff 0: some suggestion is better than none in a file of a dozen keys
            close = get_close_matches(key, known, 1, 0)
            raise _bad(path, f"it has a key {key!r}", f"{close[0]} = ...", f"the keys {', '.join(known)}")
        given: Any = value
        if type(given) not in known[key] or key == "target" and not all(isinstance(each, str) for each in given):
            raise _bad(path, f"{key} is {value!r}", f"{key} = ...", " or ".join(_WORDS[kind] for kind in known[key]))
    for key in needed:
        if key not in table:
            raise _bad(
                path,
                f"{key} is missing",
                {"function": "[[function]]", "source": 'source = "kernels.py:blur"'}.get(key, f'{key} = "layers"'),
            )


def _bad(path: str, reason: str, fix: str, allowed: str = "") -> TilewrightError:
    from ..codegen.export.errors import BadLibraryFile

    return BadLibraryFile(f"{path!r} lists no library", reason=reason, called=user_source(), fix=fix, allowed=allowed)


# Functions of files


def _find_declared(source: str, arguments: Mapping[str, Any] | None = None) -> Any:
    """Return what FILE.py:NAME returns, or is where it is a list; None, having said why, where there is none."""
    path, _, name = source.rpartition(":")
    made: Any = None
    if path and os.path.isfile(path):
        made = run_script(path, "<run_path>").get(name)
    if callable(made):
        return call_function(made, path, arguments)
    if is_sequence(made) and not arguments:
        return made
    if not path and source.endswith(".py"):
        path = source
    if path and not os.path.isfile(path):
        _say(f"tilewright: there is no file {path!r}; a function is given as FILE.py:FUNCTION")
    else:
        _say(f"tilewright: no function {source!r}; it is given as FILE.py:FUNCTION")
    return None


def _say(text: str) -> None:
    print(printable(text, lines=True), file=sys.stderr)

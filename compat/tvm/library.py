"""export_library and load_module: TVM's files over our libraries.

A .tar holds what `export` writes for a .so; TVM's holds objects, which it would link when loading.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from ...base.untrusted_input import open_regular
from ...runtime import Kernel, Module
from ...runtime.folders import temporary_folder
from ...runtime.load import load

__all__ = ["export_library", "load_kernels", "write_archive"]


def export_library(built: Kernel | Module, file_name: str | PathLike[str]) -> None:
    """Write a .so, .a or .o with its header and manifest, or a .tar of the .so with both."""
    place = Path(file_name)
    if place.suffix == ".tar":
        write_archive(place, built.export)
    else:
        built.export(place, loadable=True)


def write_archive(place: Path, export: Callable[[Path], Sequence[Path]]) -> None:
    """Write a .tar of what is exported as a .so."""
    with temporary_folder("library") as folder:
        written = export(Path(folder, f"{place.stem}.so"))
        with tarfile.open(place, "w") as archive:
            for path in written:
                archive.add(path, path.name)


def load_kernels(path: str | PathLike[str]) -> dict[str, Kernel]:
    """The kernels, by name, of a .so or .tar that export_library wrote."""
    place = Path(path)
    if place.suffix != ".tar":
        return _name_kernels(load(place))
    with temporary_folder("library") as folder:
        library = Path(folder, f"{place.stem}.so")
        with open_regular(place) as file, tarfile.open(fileobj=file) as archive:
            name = next((name for name in archive.getnames() if name.endswith(".so")), "")
            member = archive.extractfile(name) if name else None
            library.write_bytes(member.read() if member else b"")
        return _name_kernels(load(library))


def _name_kernels(loaded: Any) -> dict[str, Kernel]:
    return {loaded.name: loaded} if isinstance(loaded, Kernel) else {name: loaded[name] for name in loaded}

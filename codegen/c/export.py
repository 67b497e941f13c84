"""Writing C kernels for others: the text, its header and manifest, and a shared library where one is asked for."""

from __future__ import annotations

import os
from pathlib import Path

from ...base.dataclass import dataclass
from ...base.errors import user_source
from ..errors import UnsupportedIntrinsic
from ..export.errors import UnknownLibraryKind, UnknownThreads
from ..export.files import check_place, write_together
from ..export.final_kernel import KernelExporter, refuse_callback
from ..export.header import header_text
from ..export.manifest import describe, manifest_text, own_version
from ..export.names import check_names, check_parameters
from ..export.packages import package_files
from ..target import Target
from .module import c_text
from .options import compiler_options
from .source import built_c

__all__ = ["CExporter"]

_KINDS = {".c": "C11 text", ".so": "a shared library, with its text beside it"}
_THREADS = {"openmp": "OpenMP's threads", "none": "one thread"}


@dataclass(frozen=True)
class CExporter(KernelExporter):
    """Write kernels as C."""

    def __call__(self, path: str | os.PathLike[str], threads: str, loadable: bool = False) -> tuple[Path, Path, Path]:
        """Write NAME.c or libNAME.so (and NAME.c), NAME.h and NAME.json beside it; returns what was asked for, the header and
        the manifest. Raises ExportError; NoCompiler and RejectedSource for a library."""
        place = check_place(path)
        self._check(place, threads, loadable)
        stem = place.stem.removeprefix("lib") or place.stem  # libX.so and X.c have the same stem
        programs = tuple(program.take_name(stem) for program in self.programs)
        names = [program.signature.name for program in programs]
        text = c_text(programs, self.fast_math, self.fp_contract)
        check_names(names, (), ())
        parallel = text.parallel and threads == "openmp"
        # serial text keeps the lines in place, as comments
        source = text.text if parallel else text.text.replace("#pragma omp ", "/* serial */ //")
        description = describe(
            stem,
            programs,
            text.messages,
            Target("c"),
            features=(),
            threads=threads,
            is_parallel=parallel,
            is_module=self.is_module,
        )
        for function in description["functions"]:
            del function["declarations"][1]  # there are no _checked functions
        header = header_text(
            # the header names them only where they exist
            stem,
            [p.signature for p in programs],
            target="'c'",
            threads=threads,
            version=own_version(),
            checked=False,
        )
        files = {f"{stem}.c" if place.suffix == ".so" else place.name: source.encode(), f"{stem}.h": header.encode()}
        if place.suffix == ".so":
            options = compiler_options(
                # others may load it on another machine
                fast_math=self.fast_math,
                fp_contract=self.fp_contract,
                parallel=parallel,
                native=False,
            )
            files[place.name] = built_c(
                # a soname without the folder, which may be moved
                source,
                [*options, "-Xlinker", "-soname", "-Xlinker", place.name, "-Wl,--as-needed"],
            )
        files[f"{stem}.json"] = manifest_text(description, files).encode()
        if place.suffix == ".so":
            # a Python package beside it finds the library
            files |= package_files(stem, place.name, openmp=parallel, version=own_version())
        write_together(
            {
                # executable as far as the umask has it
                place.with_name(name): (content, 0o777 if name.endswith(".so") else 0o666)
                for name, content in files.items()
            }
        )
        return place, place.with_name(stem + ".h"), place.with_name(stem + ".json")

    def _check(self, place: Path, threads: str, loadable: bool) -> None:
        if place.suffix not in _KINDS or not place.stem or loadable:
            raise UnknownLibraryKind(
                f"cannot export to {str(place)!r}" + (" for tw.load" if loadable else ""),
                called=user_source(),
                reason='a library exported with target="c" has no Python interface'
                if loadable
                else "its suffix names no kind of file",
                allowed=", ".join(f"{suffix} ({kind})" for suffix, kind in _KINDS.items()),
                fix=f'f.export("{place.stem or "name"}.c"), or build with target="llvm"',
            )
        if threads not in list(_THREADS):
            raise UnknownThreads(
                f"cannot export with threads={threads!r}",
                called=user_source(),
                allowed="; ".join(f"{name!r} ({meaning})" for name, meaning in _THREADS.items()),
                fix='threads="openmp"',
            )
        for program in self.programs:
            check_parameters(program.signature)
            refuse_callback(program.signature.name, program.function)
            if program.function.attrs.get("import_c"):
                raise UnsupportedIntrinsic(  # the text would call what it does not contain
                    f"cannot export {program.signature.name}",
                    called=user_source(),
                    reason="C was imported into it, which is a file of its own",
                    fix="drop import_c, and compile both files",
                )

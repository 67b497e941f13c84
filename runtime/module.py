"""Modules: kernels by name, built or loaded together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path

from ..base.arguments import is_a
from ..base.errors import user_source
from .errors import NoSuchKernel, NothingToExport
from .kernel import Exporting, Kernel

__all__ = ["Module"]


class Module:
    """Kernels by name, built or loaded together: `module["name"]`. Iterating gives the names, len their number, and `in` asks for
    one."""

    def __init__(self, kernels: Mapping[str, Kernel], exporting: Exporting | None = None) -> None:
        self._kernels, self._exporting = dict(kernels), exporting

    def __getitem__(self, name: str) -> Kernel:
        """The kernel of this name. Raises NoSuchKernel."""
        if not is_a(name, str) or name not in self._kernels:
            raise NoSuchKernel(
                f"the module has no kernel {name!r}",
                called=user_source(),
                allowed=", ".join(self._kernels) or "none: it is empty",
                fix=_nearest(name, self._kernels),
            )
        return self._kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __contains__(self, name: object) -> bool:
        return name in self._kernels

    def export(
        self,
        path: str | PathLike[str],
        threads: str = "openmp",
        loadable: bool = False,
    ) -> tuple[Path, Path, Path]:
        """Write one library with all kernels, each a C function of its name, with its header and its manifest.

        Parameters
        ----------
        path : str or PathLike
            As Kernel.export takes it.
        threads : str, default "openmp"
            As Kernel.export takes it.
        loadable : bool, default False
            As Kernel.export takes it.

        Returns
        -------
        tuple of Path
            Library, header and manifest.

        Raises
        ------
        NothingToExport (TW0740)
            A kernel was not built here for a processor.
        ExportError
            What Kernel.export raises.
        """
        if self._exporting is None:
            raise NothingToExport(
                f"cannot export {self!r}",
                called=user_source(),
                reason="only kernels that this process built for a CPU can be exported, not loaded, interpreted or GPU kernels",
                fix='build it from its schedules with target="llvm", and export that',
            )
        return self._exporting(path, threads, loadable)

    def __repr__(self) -> str:
        return f"Module({', '.join(self._kernels)})"


def _nearest(name: object, kernels: Mapping[str, Kernel]) -> str:
    from difflib import get_close_matches  # late: only a mistake needs it

    near = get_close_matches(str(name), kernels, 1, 0)
    return f'module["{near[0]}"]' if near else 'tw.build({"name": [A, B]}) gives a module with kernels'

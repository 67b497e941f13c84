"""tvm.contrib.utils."""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from pathlib import Path

from ....runtime.folders import temporary_folder

__all__ = ["TempDirectory", "tempdir"]


class TempDirectory:
    """A folder that is removed with this object."""

    def __init__(self) -> None:
        with ExitStack() as stack:
            self.temp_dir = stack.enter_context(temporary_folder("tempdir"))
            self._remove = weakref.finalize(self, stack.pop_all().close)

    def relpath(self, name: str) -> str:
        """The path of a file in the folder."""
        return str(Path(self.temp_dir, name))

    path = property(lambda self: self.temp_dir)

    def listdir(self) -> list[str]:
        """The names of the files in the folder."""
        return [path.name for path in Path(self.temp_dir).iterdir()]

    def remove(self) -> None:
        """Remove the folder now."""
        self._remove()

    def __enter__(self) -> TempDirectory:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def tempdir(custom_path: str | None = None, keep_for_debug: bool = False) -> TempDirectory:
    """A folder of one's own."""
    del custom_path, keep_for_debug
    return TempDirectory()

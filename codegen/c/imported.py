"""C of the user's (the pragma import_c), for the kernels that call its functions."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from ...errors import user_source
from ..errors import RejectedSource
from .source import load_c

__all__ = ["imported_c", "load_imported"]


@lru_cache(maxsize=256)
def imported_c(source: str) -> str:
    """LLVM IR of C source, by clang; where there is none, the system's compiler makes a library, which is loaded into this
    process, and there is no IR. Raises NoCompiler and RejectedSource."""
    clang = shutil.which("clang")
    if clang is None:
        load_imported(source)
        return ""
    with tempfile.TemporaryDirectory() as folder:
        place, text = Path(folder, "source.c"), Path(folder, "source.ll")
        place.write_text(source)
        command = [clang, "-x", "c", "-O3", "-S", "-emit-llvm", "-o", str(text), str(place)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RejectedSource("clang refuses the C that was imported", reason=done.stderr.strip()[:1500], called=user_source(),
                                 fix="compile it by itself first: the lines are counted in the text that was passed")
        return text.read_text()


@lru_cache(maxsize=256)
def load_imported(source: str) -> None:
    """Load the functions of C source into this process, once. Raises NoCompiler and RejectedSource."""
    load_c(source)

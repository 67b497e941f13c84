"""The package's own files, wherever the tests run: a checkout also holds a virtual environment and what builds leave."""

from pathlib import Path

import tilewright as tw

ROOT = Path(tw.__file__).parent


def source_files(*left_out: str) -> list[Path]:
    """Every module of the package below its root and its rooms, less the rooms ``left_out``."""
    rooms = sorted(path.parent for path in ROOT.glob("*/__init__.py") if path.parent.name not in left_out)
    return [*sorted(ROOT.glob("*.py")), *(path for room in rooms for path in sorted(room.rglob("*.py")))]

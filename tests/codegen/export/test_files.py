"""What killed exports leave behind."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tilewright.codegen.export.files import write_together


def test_what_killed_writers_left_beside_a_file_goes_with_the_next_one_that_writes_it(tmp_path: Path) -> None:
    """What is an hour old; another process may be writing what is younger, and other names are none of ours."""
    left, young, other = (
        tmp_path / name for name in (".lib.so.0123456789abcdef", ".lib.so.fedcba9876543210", ".lib.so.swp")
    )
    for file in (left, young, other):
        file.write_bytes(b"half")
    for file in (left, other):
        os.utime(file, (time.time() - 7200,) * 2)
    write_together({tmp_path / "lib.so": (b"whole", 0o644)})
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([young.name, other.name, "lib.so"])
    assert (tmp_path / "lib.so").read_bytes() == b"whole"

"""What the demo's network reads of a file."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright.demo.model import ENDS, NOTHING, taken


@pytest.mark.parametrize("content", [b"", b" \n", b"  ab ", b" " * 4096 + b"x", bytes(range(256)) * 31 + b"\n"])
def test_either_end_without_the_spaces_around(content: bytes) -> None:
    row = taken(content)
    assert row.shape == (1, 2 * ENDS) and row.dtype == np.int32
    first, last = content[:4096].lstrip()[:ENDS], content[-4096:].rstrip()[-ENDS:]
    assert bytes(row[0, : len(first)].astype("uint8")) == first and (row[0, len(first) : ENDS] == NOTHING).all()
    assert (
        bytes(row[0, 2 * ENDS - len(last) :].astype("uint8")) == last
        and (row[0, ENDS : 2 * ENDS - len(last)] == NOTHING).all()
    )

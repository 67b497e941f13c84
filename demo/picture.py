"""The demo's picture: a photograph where scikit-image is installed, else a zone plate; and PNG files."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["read_picture", "write_png"]

DRAWN_SIZE = 1024


def read_picture() -> tuple[NDArray[np.uint8], str]:
    """A picture, uint8 (height, width, 3), and what it is."""
    try:
        from skimage import data
    except ImportError:
        return zone_plate(DRAWN_SIZE), "a zone plate (pip install scikit-image for a photograph)"
    return np.ascontiguousarray(data.retina()), "a photograph"


def zone_plate(size: int) -> NDArray[np.uint8]:
    """Rings that grow finer outwards, as sharpness is tested with: uint8 (size, size, 3), a phase for each colour."""
    y, x = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j]
    rings = (x * x + y * y)[..., None] * (size / 4) + np.array([0.0, 0.7, 1.4])
    return np.rint(127.5 + 100 * np.cos(rings)).astype(np.uint8)


def write_png(path: Path, image: NDArray[Any]) -> None:
    """Write uint8 (height, width, 3) as PNG: each row after a filter byte of zero (ISO/IEC 15948)."""
    height, width, _ = image.shape
    rows = b"".join(b"\0" + row.tobytes() for row in image)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

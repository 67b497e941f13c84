"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import secrets
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from ...base.arguments import to_path
from ...base.errors import user_source
from ...runtime.private_files import create_private
from .errors import NotWritten

__all__ = ["check_place", "make_folders", "write_stream", "write_text_file", "write_together"]


def check_place(path: object) -> Path:
    """The path of a library or of another file that is written. A library's name stands in its header, in its manifest and in what
    links with it. Raises NotWritten (TW0705) for what is no path, and for one that texts cannot hold."""
    place = to_path(path)
    if place is None or not place.name.isprintable():
        raise NotWritten(
            f"cannot write {path!r}"[:300],
            reason="the path is not valid on this system, where names have at most 255 bytes and are in "
            f"{sys.getfilesystemencoding()}"
            if place is None
            else "its name has characters that cannot be printed",
            called=user_source(),
            fix="name it by letters, digits, and what is on a keyboard",
        )
    return place


def write_text_file(path: object, text: str) -> Path:
    """Write a text to a file, whole or not at all; returns its absolute path. Raises NotWritten (TW0705)."""
    place = check_place(path).absolute()
    write_stream(place, [text.encode()])
    return place


def write_together(files: Mapping[Path, tuple[bytes, int]]) -> None:
    """Write files (bytes and mode each): all are written beside their places first, then renamed into them, in order.

    Raises NotWritten, with the files of before still in their places, where one cannot be written.
    """
    written: list[tuple[str, Path]] = []
    path = Path()
    _sweep(files)  # rests of killed writers, before new ones are made
    try:
        for path, (content, mode) in files.items():
            if path.is_dir():  # a file cannot take its place, and the others would have taken theirs
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            # all are written before any is renamed: a full disk changes nothing
            written.append((_temporary(path, [content], mode), path))
        for temporary, path in written:
            os.replace(temporary, path)  # rename is atomic within a file system
    except OSError as error:
        raise NotWritten(
            f"cannot write {str(path)!r}",
            reason=error.strerror or str(error),
            called=user_source(),
            fix="export to a folder that exists, may be written to and has room",
        ) from error
    finally:  # after success they have been renamed, and unlink finds nothing
        for temporary, _ in written:
            with suppress(OSError):
                os.unlink(temporary)


def make_folders(folders: Iterable[Path]) -> None:
    """Make folders that are not there yet. Raises NotWritten."""
    for folder in sorted(folders):  # sorted: parents come before what is in them
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NotWritten(
                f"cannot write {str(folder)!r}",
                reason=error.strerror or str(error),
                called=user_source(),
                fix="export to a folder that may be written to and has room",
            ) from error


def write_stream(place: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write one file, part after part, that nobody sees before it is whole. Raises NotWritten."""
    try:
        if place.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        os.replace(_temporary(place, parts, 0o666), place)
    except OSError as error:
        raise NotWritten(
            f"cannot write {str(place)!r}",
            reason=error.strerror or str(error),
            called=user_source(),
            fix="export to a folder that exists, may be written to and has room",
        ) from error


def _sweep(places: Iterable[Path]) -> None:
    """Remove what writers of these files left beside them when they were killed, an hour ago or more."""
    before = time.time() - 3600  # an hour: younger ones may belong to a writer at work
    written = set(places)
    for folder in {place.parent for place in written}:
        with suppress(OSError):
            for entry in os.scandir(folder):
                name, _, token = entry.name.rpartition(".")
                if (
                    name[:1] == "."  # a name of ours in every part, so that nobody else's file is touched
                    and folder / name[1:] in written
                    and _TOKEN.fullmatch(token)
                    and entry.stat().st_mtime < before
                ):
                    with suppress(OSError):
                        os.unlink(entry.path)


_TOKEN = re.compile("[0-9a-f]{16}")


def _temporary(path: Path, parts: Iterable[bytes | memoryview], mode: int) -> str:
    """A file beside `path` with this content, on the disk."""
    # in the same folder, since rename works within one file system only
    name = str(path.with_name(f".{path.name}.{secrets.token_hex(8)}"))
    file = create_private(name, mode)
    try:
        with file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())  # else a crash after the rename may leave an empty file in its place
    except OSError:
        with suppress(OSError):
            os.unlink(name)
        raise
    return name

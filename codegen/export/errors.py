"""Errors of writing a library."""

from __future__ import annotations

from ...base.errors import ExportError


class UnknownLibraryKind(ExportError):
    """A file whose suffix names no kind of library that is written."""

    code = "TW0701"


class UnknownThreads(ExportError):
    """A way to run parallel loops that exported libraries do not have."""

    code = "TW0702"


class NotACName(ExportError):
    """A kernel whose name no C program could call it by."""

    code = "TW0703"


class NameTaken(ExportError):
    """Two functions of one library that would have the same name in C."""

    code = "TW0704"


class NotWritten(ExportError):
    """A file that the system did not let be written."""

    code = "TW0705"


class NoLinker(ExportError):
    """No compiler driver that could link a shared library."""

    code = "TW0706"


class LinkFailed(ExportError):
    """The linker refused what was to become a shared library."""

    code = "TW0707"


class CallsPython(ExportError):
    """A kernel that calls a Python function, which a library does not have."""

    code = "TW0709"


class BadLibraryFile(ExportError):
    """A file that should list a library's functions and does not."""

    code = "TW0711"


class OtherPlatform(ExportError):
    """A system whose libraries are not written here."""

    code = "TW0712"


class NoProcessorCheck(ExportError):
    """A machine whose instruction sets a library cannot ask about when it is loaded."""

    code = "TW0708"


class DoesNotFit(ExportError):
    """A function that does not fit into a library: for another machine, or with other kinds of parameters than it has there."""

    code = "TW0710"

"""Errors of the accelerator, of programs compiled for it and of its simulator: TW0440 to TW0446."""

from __future__ import annotations

from ...base.errors import CodegenError


class ScratchpadOverflow(CodegenError):
    """A stage is kept in a memory of the accelerator that has no room left for it."""

    code = "TW0440"


class NotOnAccelerator(CodegenError):
    """The accelerator has no instruction for what a stage does."""

    code = "TW0441"


class QueueRace(CodegenError):
    """Two queues access the same address, one of them writes it, and no token orders the two."""

    code = "TW0442"


class QueueDeadlock(CodegenError):
    """Every queue that has something left to do waits for a token that nobody will give."""

    code = "TW0443"


class TokenLeft(CodegenError):
    """A token was given and never taken: the tokens behind it are taken for others."""

    code = "TW0444"


class ScratchpadFault(CodegenError):
    """An instruction reaches beyond its buffer, or reads what nobody has written."""

    code = "TW0445"

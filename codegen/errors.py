"""Errors of targets, and of programs that ask too much of one."""

from __future__ import annotations

from ..base.errors import CodegenError


class UnknownTargetKind(CodegenError):
    """A target that tilewright has no code generator for."""

    code = "TW0401"


class UnknownTargetOption(CodegenError):
    """An option that the target's kind does not take."""

    code = "TW0402"


class UnknownProcessor(CodegenError):
    """A processor name, -mcpu, that LLVM does not know."""

    code = "TW0403"


class UnknownFeature(CodegenError):
    """A processor feature, in -mattr, that LLVM does not know."""

    code = "TW0404"


class UnknownTriple(CodegenError):
    """A machine, -mtriple, that LLVM does not know."""

    code = "TW0405"


class UnknownArchitecture(CodegenError):
    """A GPU architecture, -arch, that tilewright makes no code for."""

    code = "TW0406"


class BadCalibration(CodegenError):
    """The calibration of this machine, by `tilewright doctor --calibrate`, cannot be read."""

    code = "TW0407"


class ForeignTarget(CodegenError):
    """Code for another machine can be looked at and exported, not run here."""

    code = "TW0410"


class UnresolvedSymbol(CodegenError):
    """A function that the program calls and nobody defines."""

    code = "TW0411"


class RejectedByCompiler(CodegenError):
    """LLVM refused what the program asked of it by name: an LLVM intrinsic, or a call's types."""

    code = "TW0412"


class UnsupportedIntrinsic(CodegenError):
    """An intrinsic that the target has no row for."""

    code = "TW0413"


class RejectedImport(CodegenError):
    """LLVM IR of the user's that LLVM cannot read, or that does not go together with the program."""

    code = "TW0414"


class ArgumentNotBuildable(CodegenError):
    """Something that no kernel can be built from."""

    code = "TW0420"


class ExtentNotCheckable(CodegenError):
    """An extent of an argument that no call could check."""

    code = "TW0421"


class NameNotAllowed(CodegenError):
    """A name that no function can have."""

    code = "TW0422"


class PackedNotRegistered(CodegenError):
    """A Python function that the program calls, and that nobody has registered."""

    code = "TW0423"


class NoCompiler(CodegenError):
    """C source where the system has no compiler for it."""

    code = "TW0430"


class RejectedSource(CodegenError):
    """C source that the system's compiler refuses."""

    code = "TW0431"


class ToolFailed(CodegenError):
    """A compiler or linker of the system that cannot be started, does not end, or does not write what it should; or a system without room
    for its files."""

    code = "TW0447"

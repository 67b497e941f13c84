"""Errors that only the whole schedule decides, raised by `lower`."""

from __future__ import annotations

from ...base.errors import LoweringError


class MissingArgument(LoweringError):
    """A tensor that is read from outside, or that the schedule computes, but that is not among the arguments."""

    code = "TW0330"


class NotAnArgument(LoweringError):
    """Something among the arguments that is neither a tensor of this schedule nor a scalar symbol, or is there twice."""

    code = "TW0331"


class MissingSymbol(LoweringError):
    """A scalar that the program reads, but that neither is an argument nor follows from the shape of one."""

    code = "TW0332"


class ConsumerOutsideAttach(LoweringError):
    """A stage is computed at a loop that not all its consumers lie under."""

    code = "TW0333"


class AttachCycle(LoweringError):
    """Stages that are computed at each other's loops."""

    code = "TW0334"


class AttachedNowhere(LoweringError):
    """A stage is computed at a loop that the program does not have."""

    code = "TW0335"


class OutputNotAtRoot(LoweringError):
    """An output of the schedule that is computed inside another stage, or inlined."""

    code = "TW0336"


class LoopsNotShared(LoweringError):
    """Stages that are to be computed in the same loops, and cannot be: their loops differ, or something stands between them."""

    code = "TW0342"


class CannotMirror(LoweringError):
    """A mirrored stage of which a part is computed, or that is computed elsewhere than at root."""

    code = "TW0343"


class VectorExtentNotConstant(LoweringError):
    """A vectorized loop whose extent is not a constant."""

    code = "TW0337"


class NestedParallelLoops(LoweringError):
    """A parallel loop inside another."""

    code = "TW0338"


class RacingReduction(LoweringError):
    """A reduction into an argument, within loops whose iterations run at the same time and compute the same elements."""

    code = "TW0344"


class ThreadExtentsDiffer(LoweringError):
    """Loops of one kernel that are bound to one thread axis, with different extents."""

    code = "TW0339"


class InlinedTooOften(LoweringError):
    """Inlined stages whose elements are needed at so many different places that their definitions would fill the kernel."""

    code = "TW0349"


class InitReadsUnrealised(LoweringError):
    """`init=` of a reduction reads a tensor that is computed only inside the reduction."""

    code = "TW0340"


class UnboundThread(LoweringError):
    """An expression reads a thread axis that no loop around it is bound to."""

    code = "TW0341"


class OutsideOfScan(LoweringError):
    """A stage that reads the state of a scan, and is not computed in its steps."""

    code = "TW0346"


class PartOfScan(LoweringError):
    """A stage whose results are a part of a scan's, and that something else wants too."""

    code = "TW0347"


class ReadsOtherSteps(LoweringError):
    """A stage in the step of a scan that would read steps of a state that are not computed before."""

    code = "TW0348"


class ExternBuffer(LoweringError):
    """A tensor lies in memory as the declared buffer of an extern may not: strides, offset, alignment or scope."""

    code = "TW0345"


class StorageNotShared(LoweringError):
    """A stage with a double or rolling buffer, or a pipeline, that is not computed at a loop whose iterations could share it."""

    code = "TW0350"


class CannotComputeAhead(LoweringError):
    """A stage that cannot be computed ahead of the iteration, of the loop that it is computed at, which uses it."""

    code = "TW0351"


class CannotRoll(LoweringError):
    """A stage whose region does not move by constant steps, or of which iterations need nothing that the last one computed."""

    code = "TW0352"


class PrefetchUnread(LoweringError):
    """A prefetch of a tensor that the stage does not read any more."""

    code = "TW0353"


class TensorizeRegion(LoweringError):
    """The part that the loops under a tensorized one compute is not of the intrinsic's shape."""

    code = "TW0380"


class TensorizeBody(LoweringError):
    """The loops under a tensorized one compute something else than the intrinsic."""

    code = "TW0381"


class TensorizeBuffer(LoweringError):
    """A part of a tensor lies in memory as the buffer of the intrinsic may not: strides, offset, alignment or scope."""

    code = "TW0382"


class TensorizeGuard(LoweringError):
    """A condition that changes within a tensorized loop: the intrinsic cannot do a part of its work."""

    code = "TW0383"


class TensorizeReduction(LoweringError):
    """A reduction that goes on outside a tensorized loop, and an intrinsic that cannot go on with one."""

    code = "TW0384"


class TensorizeLoops(LoweringError):
    """Loops under a tensorized one that something else relies on: stages computed there, threads, annotations."""

    code = "TW0385"

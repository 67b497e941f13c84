"""Errors of primitives: TW0201 to TW0259."""

from __future__ import annotations

from ..base.errors import ScheduleError


class UnknownStage(ScheduleError):
    """A tensor or operation that the schedule does not compute."""

    code = "TW0201"


class NotAnAxisOfStage(ScheduleError):
    """An axis that belongs to another stage, or to none."""

    code = "TW0202"


class VectorizeReduction(ScheduleError):
    """Vector lanes over a reduce axis would race on the element that they reduce into."""

    code = "TW0203"


class ParallelReduction(ScheduleError):
    """Threads over a reduce axis would race on the element that they reduce into."""

    code = "TW0204"


class AxisIsNoLoop(ScheduleError):
    """An axis that was split or fused: its loop is gone, others stand in its place."""

    code = "TW0205"


class BadSplit(ScheduleError):
    """A split without exactly one positive integer for factor or nparts."""

    code = "TW0206"


class BadReorder(ScheduleError):
    """A reorder that lists a loop twice."""

    code = "TW0207"


class FuseApart(ScheduleError):
    """Loops that are not directly inside each other cannot become one."""

    code = "TW0208"


class NestedParallel(ScheduleError):
    """A parallel loop within a parallel loop."""

    code = "TW0209"


class CannotInline(ScheduleError):
    """A stage whose value is not an expression that its consumers could hold."""

    code = "TW0210"


class BadThreadBinding(ScheduleError):
    """A loop that cannot run on this thread axis."""

    code = "TW0211"


class ThreadBoundTwice(ScheduleError):
    """A thread axis that two loops of one stage ask for."""

    code = "TW0212"


class AnnotationWouldBeLost(ScheduleError):
    """A loop that carries an annotation would vanish, and the annotation with it."""

    code = "TW0213"


class UnknownPragma(ScheduleError):
    """A pragma that no pass reads, or a value that it does not take."""

    code = "TW0214"


class CannotAttach(ScheduleError):
    """A stage that cannot be computed at the loop asked for."""

    code = "TW0215"


class UnknownScope(ScheduleError):
    """A storage scope that does not exist, or that this tensor cannot have."""

    code = "TW0216"


class BadStorageAlign(ScheduleError):
    """A stride that cannot be aligned as asked."""

    code = "TW0217"


class BadStorePredicate(ScheduleError):
    """A store predicate that is not a condition over the stage's own axes."""

    code = "TW0218"


class BadCacheRead(ScheduleError):
    """A cache without readers, or with readers that do not read the tensor."""

    code = "TW0219"


class BadCacheWrite(ScheduleError):
    """Tensors that no single cache can stand before."""

    code = "TW0220"


class BadRfactor(ScheduleError):
    """A reduction that cannot be factored over this axis."""

    code = "TW0221"


class WrongArgument(ScheduleError):
    """An argument of a kind that the primitive does not take."""

    code = "TW0222"


class BadRecords(ScheduleError):
    """Records that do not fit the operations, or a text that holds no records."""

    code = "TW0223"


class NothingToSchedule(ScheduleError):
    """create_schedule without operations to compute."""

    code = "TW0224"


class BadTensorize(ScheduleError):
    """Something that is not a tensor intrinsic, or a stage that none can compute."""

    code = "TW0240"


class IntrinsicNotGiven(ScheduleError):
    """Records that name a tensor intrinsic of the user's own, which must be passed again."""

    code = "TW0241"


class BadGroup(ScheduleError):
    """Stages that cannot be placed together as one group."""

    code = "TW0250"


class BadPrefetch(ScheduleError):
    """A tensor that the stage does not read, or an offset that is not an integer."""

    code = "TW0251"


class BadOverlap(ScheduleError):
    """A stage whose storage iterations cannot share: it is not computed at a loop of another, or already shares it."""

    code = "TW0252"


class BadEnvThreads(ScheduleError):
    """Threads that cannot stand around a stage: it is not a scan, or they do not say how many they are."""

    code = "TW0260"


class ScanLoopsStay(ScheduleError):
    """A loop over the steps of a scan that would run in another order, or at once."""

    code = "TW0261"


class BadLayout(ScheduleError):
    """An index map that gives no layout, or a tensor whose layout is fixed already."""

    code = "TW0253"


class BadClone(ScheduleError):
    """A tensor that cannot be computed twice, or readers that do not read it, or are all that do."""

    code = "TW0254"


class BadPhases(ScheduleError):
    """A tensor that cannot be computed apart by the remainders of an index."""

    code = "TW0262"


class BadFactors(ScheduleError):
    """A sum that is not one of products, or a path that does not multiply all of its factors."""

    code = "TW0263"


class BadTerms(ScheduleError):
    """A sum whose terms are not to be summed apart, or have no condition by which any could be left out."""

    code = "TW0266"


class BadFourier(ScheduleError):
    """A tensor that is not a Fourier transform, or factors that are not those of its length."""

    code = "TW0264"


class BadAlternative(ScheduleError):
    """A declaration that the operator of a tensor does not offer, or a tensor whose loops are scheduled already."""

    code = "TW0265"


class BadOnline(ScheduleError):
    """A sum that is not weighted by exponentials of which a maximum is taken, or not to be computed chunk by chunk."""

    code = "TW0233"


class UnsplitReduction(ScheduleError):
    """Partial results of a reduction whose combiner is not associative, or whose identity is none."""

    code = "TW0234"


class BadSkew(ScheduleError):
    """Loops of which none can begin elsewhere in each iteration of the other."""

    code = "TW0225"


class CannotComputeWith(ScheduleError):
    """Two stages that cannot be computed in the same loops."""

    code = "TW0229"


class NoSuchPrimitive(ScheduleError, AttributeError):
    """A name that a schedule or a stage does not have."""

    code = "TW0227"


class NotExact(ScheduleError):
    """A schedule that reorders sums, or a build that may round otherwise, where exact results were asked for."""

    code = "TW0226"


class BadMirror(ScheduleError):
    """A stage whose elements are not seen to be the same when two axes are exchanged, or that is no expression for each element."""

    code = "TW0232"


class BadMatrix(ScheduleError):
    """An operation that is no product of matrices, or not with such rows and columns, or whose loops are scheduled already."""

    code = "TW0231"

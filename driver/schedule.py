"""topi.schedule: the best schedule that we know, measured or chosen by rules. The one place that understands `tuned=`."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal

from ..base.arguments import is_a
from ..base.errors import user_source
from ..codegen.errors import UnknownTargetOption
from ..codegen.result import require_switch
from ..codegen.target import Target
from ..schedule import Schedule, create_schedule
from ..te import Operation, Tensor

if TYPE_CHECKING:
    from ..autotune.records import Database

__all__ = ["apply_calibration", "schedule", "tuned_schedule"]


def schedule(
    outputs: Operation | Tensor | Sequence[Operation | Tensor],
    target: str | Target = "llvm",
    tuned: str | PathLike[str] | Database | None = None,
    exact: bool = False,
    calibration: Literal["kept"] | None = "kept",
) -> Schedule:
    """The best schedule that we know for `outputs` and what they are computed from.

    It is an ordinary schedule: `print(s)`, `s.as_python()`, and further primitives on what was left alone. For "interpret", which is
    slow and exact, operations stay as they were declared.

    Parameters
    ----------
    outputs : Tensor, Operation or sequence of these
        The results; tensors that are to be stored as well as read are among them.
    target : str or Target, default "llvm"
        As tw.build takes it.
    tuned : str, PathLike or Database, optional
        A database of autotune's, whose result for these tensors is taken where it has one.
    exact : bool, default False
        Whether sums keep their declared order, so that every bit is that of the program without a schedule (`s.is_exact`): a result
        of the database that reorders them is not taken. Without it they may be reordered.
    calibration : "kept" or None, default "kept"
        None gives what any machine with this processor would, whatever `tilewright doctor --calibrate` measured of this one, as the
        target's flag -uncalibrated does.

    Raises
    ------
    NothingToSchedule (TW0224)
        There is no operation to compute.
    CodegenError
        The target is unknown.
    RecordError
        The database cannot be read.
    BadCalibration (TW0407)
        What was measured of this machine cannot be read.
    """
    from ..autoschedule import scheduler  # what brings its own schedule need not load the rules

    require_switch("exact", exact)
    chosen = apply_calibration(target, calibration)
    if tuned is not None:
        given = [outputs] if isinstance(outputs, (Operation, Tensor)) else list(outputs)
        inputs = [stage.op.output(0) for stage in create_schedule(outputs).stages if stage.op.is_passed]
        args = [*inputs, *(each if isinstance(each, Tensor) else each.output(0) for each in given)]
        best = tuned_schedule(args, chosen, tuned, exact)
        if best is not None:
            return best
    return scheduler.schedule(outputs, chosen, exact=exact)


def apply_calibration(target: str | Target, calibration: str | None) -> Target:
    """The target, with what was measured of this machine where calibration is "kept", and without it where it is None.
    Raises UnknownTargetOption (TW0402) for anything else."""
    chosen = Target.parse(target)
    if not is_a(calibration, (str, type(None))) or calibration not in ("kept", None):
        raise UnknownTargetOption(
            f"unknown calibration {calibration!r}",
            called=user_source(),
            fix="calibration=None",
            allowed='"kept" (what tilewright doctor --calibrate measured), None (nothing that was measured)',
        )
    return (
        # kept calibration is the default of the target
        chosen if calibration or "uncalibrated" not in chosen.backend.flags else Target.parse(f"{chosen} -uncalibrated")
    )


def tuned_schedule(
    args: Sequence[Tensor],
    target: Target,
    database: str | PathLike[str] | Database,
    exact: bool,
) -> Schedule | None:
    """The best schedule that a database has for the function of `args`, inputs then outputs; None where it has no result for it.
    exact: of those that keep every bit. Raises RecordError for a database that cannot be read."""
    from ..autotune.record_lookup import find_schedule  # what schedules by rules need not load what measures

    return find_schedule(args, target, database, exact=exact)

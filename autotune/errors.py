"""Errors of tuning (TW0601 to TW0619) and of records (TW0631 to TW0639)."""

from __future__ import annotations

from ..base.errors import RecordError, TuningError


class NothingToTune(TuningError):
    """Arguments that are neither the tensors of a function nor a template's task."""

    code = "TW0601"


class SymbolicShape(TuningError):
    """A shape that only the call decides: candidates are measured on arrays of one size."""

    code = "TW0602"


class TargetCannotBeTuned(TuningError):
    """A target whose kernels this machine cannot measure."""

    code = "TW0603"


class BadTuningOption(TuningError):
    """An option of the tuner with a value that it does not take."""

    code = "TW0604"


class BadTemplate(TuningError):
    """A template that does not return (schedule, args), or is used outside of one."""

    code = "TW0607"


class NoCandidate(TuningError):
    """Nothing in the search space could be built, run and verified."""

    code = "TW0608"


class WorkerFailed(TuningError):
    """The process that measures did not start, or could not run the unscheduled program."""

    code = "TW0609"


class WrongInputs(TuningError):
    """Arrays to measure on that do not fit the tensors."""

    code = "TW0610"


class MissingPackage(TuningError):
    """A page cannot be written, or a fleet not asked, without a package that is not installed."""

    code = "TW0611"


class BadTuningFile(TuningError):
    """A FILE.py:function of the command line that gives nothing to tune."""

    code = "TW0612"


class RunnerLost(TuningError):
    """The machine that measures, or every machine of the fleet, cannot be reached, or not any more. Every trial so far is kept."""

    code = "TW0613"


class CannotBeChecked(TuningError):
    """A candidate for a GPU that is not here, which the emulator cannot run at smaller sizes, or no GPU could launch."""

    code = "TW0614"


class CorruptDatabase(RecordError):
    """A database whose file is damaged. It is left as it is."""

    code = "TW0631"


class ForeignDatabase(RecordError):
    """A file that is not a database of tilewright's, or one of another version of it."""

    code = "TW0632"


class NoRecord(RecordError):
    """The database holds no verified result for this workload, target, machine and these versions."""

    code = "TW0633"


class BadRecordLine(RecordError):
    """A line of JSON that is not a record."""

    code = "TW0634"


class DatabaseBusy(RecordError):
    """Another process holds the database for too long, or its file cannot be opened or written."""

    code = "TW0635"


class RecordDoesNotFit(RecordError):
    """A record whose schedule cannot be replayed on the tensors of its own workload."""

    code = "TW0636"


class WrongRecord(RecordError):
    """A record that computes something else than its program does, or that does not run here. It is refused."""

    code = "TW0637"

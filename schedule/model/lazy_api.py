"""Schedule methods that higher layers implement, imported on first use.

The types of what they return are in lazy_api.pyi, which names what lives above; nothing here does.
"""

from __future__ import annotations

from typing import Any

from ...importing import import_on_thread

__all__ = ["LazyScheduleMethods"]

_PACKAGE = __name__.rpartition(".")[0]


def _room(name: str) -> Any:
    return import_on_thread(name, _PACKAGE)


class LazyScheduleMethods:
    """Methods that replay, print, lower and inspect a schedule."""

    def normalize(self) -> Any:
        """A copy for lowering: inlined stages put into their readers, loops over root axes counted from 0."""
        return _room("..lowering.normalize").normalize(self)

    @staticmethod
    def replay(records: Any, ops: Any, intrinsics: Any = None) -> Any:
        """A new schedule of `ops` to which the records are applied.

        Parameters
        ----------
        records : iterable of Record
            The primitives, in their order.
        ops : Operation, Tensor or sequence of these
            The operations that they were recorded for, or others of the same make-up.
        intrinsics : dict of str to TensorIntrin, optional
            Tensor intrinsics of one's own by name, for records that were read from a text.

        Returns
        -------
        Schedule
            The schedule.

        Raises
        ------
        BadRecords (TW0223)
            The records do not fit the operations.
        IntrinsicNotGiven (TW0241)
            They name an intrinsic that is not passed.
        ScheduleError
            What the primitives raise.
        """
        return _room(".replay").replay_records(records, ops, intrinsics)

    @property
    def is_exact(self) -> Any:
        """Return whether the results have the bits of the program without a schedule: true or false, and printed with the reason and the
        record since which they may differ.

        They do while the loops over reduce axes run in their declared order, without rfactor of sums, sums across threads or
        tensorized floats, and no script adds to floats by atomic_add; whatever is split, tiled, vectorized, cached, inlined or
        run in parallel. Sums of integers, minima and maxima are exact in any order. A build with fast_math or fp_contract keeps
        no such promise: `is_exact` of the kernel says so.
        """
        return _room(".exactness").exactness(self)

    @property
    def plan(self) -> Any:
        """Return what the rules chose for each group of operations, among what, and by which estimate: a table to print, and a sequence
        of rows (rule, anchor, fused, candidates, chosen, seconds, binds). Schedules by hand for a CPU, and replayed ones, have a row for
        each stage at root, with the time of its loops on the processor at hand; such for GPUs have none.
        """
        return _room("...autoschedule.lowered_nests").build_plan(self)

    def as_python(self) -> str:
        """Python code that makes this schedule again in `s`, given `te` and `ops` (what create_schedule took); and, where
        it uses tensor intrinsics of one's own, `intrinsics`, these by name."""
        return _room(".python_code").as_python(self)

    def explain(self, stage: Any) -> Any:
        """Return what becomes of a stage (or of that of a tensor or operation), to print: which part is computed where and how
        often, the memory that takes, the bytes touched at each loop; with a warning where it is computed several times over.

        Raises LoweringError where the schedule does not hold together, UnknownStage (TW0201).
        """
        return _room("...views.explain").explain(self, stage)

    def options(self, stage: Any, target: str = "llvm") -> Any:
        """Return which primitives a stage (or that of a tensor or operation) can take now, on which of its axes, and why not the
        others, to print. Each is tried on a copy, so what it says is what a call would. target: whose intrinsics, threads and
        memories are tried. Raises UnknownStage (TW0201)."""
        return _room("...views.options").options(self, stage, target)

    def show(self, path: Any = None, target: str = "llvm") -> Any:
        """A page that links the records, the loops with their costs, and the assembly for `target`, a CPU: written to
        `path`; without one displayed in a notebook, or written to a temporary file that the browser opens where there is a
        screen. Returns the file.
        """
        return _room("...views.report").show(self, path, target)

    def verify(self, shapes: Any = None, seed: int = 0, target: str = "llvm") -> Any:
        """Check the schedule against the program without it, on drawn inputs.

        It runs by the interpreter, which also finds accesses out of bounds, unwritten elements and races, and as native code. What is too
        large is cut down: the same operations, scheduled by the same records, on a corner of the outputs and reductions.

        Parameters
        ----------
        shapes : dict of Var or str to int, sequence of such, or None, default None
            A number for each symbol of the shapes (by its te.var or its name), or several such. Where it is None they are chosen: small
            ones, and around 2**15, 2**16 and 2**31 where little is evaluated there; the result names in not_tried those that were not.
        seed : int, default 0
            Of the inputs.
        target : str, default "llvm"
            Of the native code.

        Returns
        -------
        Verification
            The checks that were made, to print.

        Raises
        ------
        ResultsDiffer (TW0258)
            Names an element, what it should be and is, and the primitive since which it is wrong.
        CannotVerify (TW0259)
            `shapes` do not fit the program.
        LoweringError
            What the interpreter finds.
        """
        return _room("...views.verify").verify(self, shapes, seed, target)

    def _repr_html_(self) -> str:
        return _room("...views.report").notebook_html(self)

    def __str__(self) -> str:
        """The loops as they stand now, or, of a schedule that does not hold together yet, what is still open."""
        return _room("..lowering.text").schedule_text(self)

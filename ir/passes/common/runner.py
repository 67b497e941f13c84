"""Running passes in order, with watchers that look on: verifying, dumping, timing."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

from ....base import FAULTS, TilewrightError, dataclass, field, internal_error, is_interruption
from ....base.environment import dump_folder, dumps, is_enabled
from ...contents import keep_results
from ...stmt import Function
from ...text.printer import file_text
from ...visit import deep_recursion

__all__ = [
    "Dumping",
    "Pass",
    "Timing",
    "Verifying",
    "Watcher",
    "environment_watchers",
    "is_watched",
    "pass_times",
    "run_pipeline",
]


@dataclass(frozen=True, slots=True)
class Pass:
    """One step of a pipeline: `run` takes a function to a function that means the same.

    stage_after: the stage that the result is at (attrs["stage"]), empty where the pass does not change it.
    """

    name: str
    run: Callable[[Function], Function]
    stage_after: str = ""


class Watcher(Protocol):
    """Sees the function before the first pass (`name` is "lowered", `seconds` 0) and after each."""

    def __call__(self, name: str, function: Function, seconds: float) -> None: ...


_listening: list[dict[str, float]] = []  # nested measurements each get all times


@contextmanager
def pass_times() -> Generator[dict[str, float]]:
    """Collects {pass: seconds} over every pipeline that runs within, in the order of the passes' first run."""
    times: dict[str, float] = {}
    _listening.append(times)
    try:
        yield times
    finally:
        _listening.remove(times)


def is_watched() -> bool:
    """Return whether somebody waits to see passes run."""
    return bool(_listening) or bool(environment_watchers())


def run_pipeline(function: Function, passes: Iterable[Pass], watchers: Sequence[Watcher] = ()) -> Function:
    """`function` through every pass in order. Each watcher is called before the first and after each of them."""
    with deep_recursion(), keep_results():  # a chain of inlined stages is as deep as it is long
        for watch in watchers:
            watch("lowered", function, 0.0)
        for step in passes:
            began = perf_counter()
            function = _run(step, function)
            # a stage in attrs is what the verifier checks against
            if step.stage_after and function.attrs.get("stage") != step.stage_after:
                function = function.with_attrs(stage=step.stage_after)
            seconds = perf_counter() - began
            for times in _listening:
                times[step.name] = times.get(step.name, 0.0) + seconds
            for watch in watchers:
                watch(step.name, function, seconds)
    return function


def _run(step: Pass, function: Function) -> Function:
    """The pass's result. What it raises that is no error of the user's is a fault, with the function as evidence."""
    try:
        return step.run(function)
    except TilewrightError:
        raise
    except FAULTS as error:
        if is_interruption(error):  # Ctrl-C is not a fault of the pass
            raise
        evidence = {f"before_{step.name}.ir": f"{function}\n"}
        fault = internal_error(error, f"pass '{step.name}' failed on function '{function.name}'", evidence)
        if fault is error:
            raise
        raise fault from error


@dataclass(slots=True)
class Verifying:
    """Verify the function at the stage it claims, so that breakage shows at the guilty pass. sound: the expressions that passes
    have left as they are. verified: the function that the last pass left, which is most often the one that the next leaves."""

    sound: dict[str, Any] = field(default_factory=dict[str, Any])
    verified: Function | None = None

    def __call__(self, name: str, function: Function, seconds: float) -> None:
        from ...errors import NotWellFormed
        from ...verify import verify  # most builds never verify, and need not import it

        if function is self.verified:  # most passes change nothing, and return the same object
            return
        try:
            verify(function, sound=self.sound)
            self.verified = function
        except NotWellFormed as error:
            error.add_note(f"found after pass '{name}' on function '{function.name}'")
            raise


@dataclass(slots=True)
class Dumping:
    """Write the text of the function after every pass: FOLDER/FUNCTION/00_lowered.ir, 01_simplify.ir ..."""

    folder: Path
    count: int = 0

    def __call__(self, name: str, function: Function, seconds: float) -> None:
        place = self.folder / function.name
        with dumps():
            place.mkdir(parents=True, exist_ok=True)
            if name == "lowered":
                self.count = 0
                for old in place.glob("[0-9][0-9]_*.ir"):  # a shorter pipeline must not leave texts of a longer one
                    old.unlink()
            (place / f"{self.count:02}_{name}.ir").write_text(file_text(function))
        self.count += 1


@dataclass(slots=True)
class Timing:
    """Collects the seconds that each pass took, {pass: seconds}. A pass that runs twice is listed once, with the sum."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def __call__(self, name: str, function: Function, seconds: float) -> None:
        if name != "lowered":
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds


def environment_watchers() -> list[Watcher]:
    """The watchers that the environment asks for: TILEWRIGHT_VERIFY=1, TILEWRIGHT_DUMP=folder."""
    watchers: list[Watcher] = []
    folder = dump_folder()
    if folder is not None:
        watchers.append(Dumping(folder))
    if is_enabled("TILEWRIGHT_VERIFY"):
        watchers.append(Verifying())
    return watchers

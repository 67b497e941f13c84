"""Kernels compiled together: by this process, LLVM on a thread of its own, and by helpers where there is enough to do."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from ..base.dataclass import dataclass
from .cache.store import Entry
from .helpers import Helper, HelperGone, compile_jobs, helper_at_work, helper_idle
from .progress import Progress

__all__ = ["Task", "compile_batch"]

T = TypeVar("T")

_WORTH = 1.0
"""Estimated seconds of work that is left from which on a helper, which takes half as long to start, is worth while; as many helpers
as there are of them."""
_AHEAD = 2
"""Kernels that are prepared for LLVM before it has compiled those before."""


@dataclass(frozen=True)
class Task(Generic[T]):
    """A kernel to be compiled. prepare: does Python's half, and gives what does LLVM's. recipe: what a helper is asked, nothing where
    it cannot be. accept: what is made of a helper's answer; None where that is of no use."""

    prepare: Callable[[], Callable[[], T]]
    recipe: Callable[[], Mapping[str, Any] | None]
    accept: Callable[[Entry], T | None]


def compile_batch(tasks: Sequence[Task[T]], module: str) -> list[T]:
    """The results of tasks, in order. module: the main of helpers, empty where there are to be none. Raises what `prepare` and what it
    gives raise."""
    batch = _Batch(tasks, module)
    try:
        return batch.run()
    finally:
        batch.stop()


class _Batch(Generic[T]):
    def __init__(self, tasks: Sequence[Task[T]], module: str) -> None:
        self.tasks, self.module = tasks, module
        self.left = deque(range(len(tasks)))
        self.results: dict[int, T] = {}
        self.refused: list[int] = []
        """What no helper can do."""
        self.busy: set[Helper] = set()
        self.most = compile_jobs() - 1 if module else 0  # this process is one of the jobs
        self.llvm = ThreadPoolExecutor(1, "tilewright-llvm")  # which begins no thread before it has work
        self.others = ThreadPoolExecutor(max(self.most, 1), "tilewright-helper")
        self.helping: list[Future[None]] = []
        self.began = time.perf_counter()
        self.progress = Progress(len(tasks))

    def run(self) -> list[T]:
        """Compile everything."""
        self._work_off()
        for future in self.helping:
            while not future.done():
                self._tell()
                time.sleep(0.005)
            future.result()
        self.left.extend(self.refused)  # what no helper could do is done here, with nobody to help
        self.most = 0
        self._work_off()
        return [self.results[at] for at in range(len(self.tasks))]

    def _work_off(self) -> None:
        """Compile here what is left, beside helpers that take from the other end."""
        coming: deque[tuple[int, Future[T]]] = deque()
        while self.left:
            try:
                at = self.left.popleft()
            except IndexError:  # a helper took the last
                break
            # Python prepares here while LLVM compiles on its thread
            coming.append((at, self.llvm.submit(self.tasks[at].prepare())))
            # only a few wait: prepared modules take memory
            while len(coming) > _AHEAD or coming and coming[0][1].done():
                self._take(*coming.popleft())
            self._find_help()
        while coming:
            self._take(*coming.popleft())

    def _take(self, at: int, result: Future[T]) -> None:
        self.results[at] = result.result()
        self._tell()

    def _tell(self) -> None:
        self.progress.tell(len(self.results))

    def _find_help(self) -> None:
        """Start helpers, where what is left is worth it, by the time that what is done has taken."""
        # helpers are asked for once, when there is something to estimate by
        if len(self.helping) >= self.most or not self.results or not self.left:
            return
        estimate = (time.perf_counter() - self.began) / len(self.results) * len(self.left)
        wanted = min(self.most, int(estimate / _WORTH), len(self.left)) if not self.helping else 0
        self.helping += [self.others.submit(self._be_helped) for _ in range(wanted)]
        if self.helping:
            self.most = len(self.helping)

    def _be_helped(self) -> None:
        """Have a helper compile from the end of what is left. Whatever it does not do is done here."""
        try:
            helper = helper_at_work(self.module)  # starting a process may fail: then this one does all
        except OSError:
            return
        self.busy.add(helper)
        at, is_whole = -1, False
        try:
            while self.left:
                at = self.left.pop()
                result = self._ask(self.tasks[at], helper)
                if result is None:
                    self.refused.append(at)
                else:
                    self.results[at] = result
            is_whole = True
        except IndexError:  # another took the last
            is_whole = True
        except HelperGone:
            self.refused.append(at)
        finally:
            self.busy.discard(helper)
            helper_idle(helper) if is_whole else helper.end()

    @staticmethod  # a helper that failed in the middle of an answer is not used again
    def _ask(task: Task[T], helper: Helper) -> T | None:
        recipe = task.recipe()
        entry = None if recipe is None else helper.ask(recipe)
        return None if entry is None else task.accept(entry)

    def stop(self) -> None:
        """Leave everything; helpers that are still at work, whose answers nobody waits for, end."""
        self.left.clear()
        self.llvm.shutdown(cancel_futures=True)
        self.others.shutdown(wait=False, cancel_futures=True)
        for helper in list(self.busy):  # nobody reads the answers of helpers that are still at work
            helper.kill()
        self.progress.close()

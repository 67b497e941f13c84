"""Ctrl-C, or any exception, at any line of a build or a call: no crash, no half-done work that counts as done, no lock that stays
held, and everything works afterwards.

Each experiment runs in a process of its own, since the first thing that goes wrong here is a segmentation fault. By default a few
lines are struck; TILEWRIGHT_SOAK=1 strikes every line, and by timer 500 times.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import drawn
import pytest
from sources import ROOT

SOAK = bool(os.environ.get("TILEWRIGHT_SOAK"))
POSIX = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks and timers are of POSIX")

PROGRAM = r'''
import gc, json, os, pathlib, random, signal, sys, tempfile, threading, time
import numpy as np
import tilewright as tw
from tilewright import te

KIND = sys.argv[1]
LIMIT = sys.getrecursionlimit()

def program(salt):
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: te.sqrt(A[i]) * 2 + salt, name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], 8)
    s[B].vectorize(inner)
    s[B].parallel(outer)
    return s, [A, B]

def build_and_call(salt, target):
    a, b = np.arange(64, dtype="float32"), np.full(64, np.nan, "float32")
    f = tw.build(*program(salt), target=target)
    f(a, b)
    np.testing.assert_allclose(b, np.sqrt(a) * 2 + np.float32(salt), rtol=1e-6)

def in_time(work):
    """Whether another thread can do it too, so that no lock is held."""
    done = []
    thread = threading.Thread(target=lambda: done.append(work()), daemon=True)
    thread.start()
    thread.join(60)
    return bool(done)

def quiet_threads():
    """Whatever an interrupted build left on its way comes to its end."""
    from tilewright.runtime import critical_section
    deadline = time.monotonic() + 60
    while critical_section._running and time.monotonic() < deadline:
        time.sleep(0.001)

def look(place):
    assert sys.getrecursionlimit() == LIMIT, f"{place}: the recursion limit is {sys.getrecursionlimit()}"
    quiet_threads()
    left = [p.name for p in pathlib.Path(tempfile.gettempdir()).glob("*") if not p.name.startswith("tilewright-emulator-")]
    assert left == [], f"{place}: left behind {left}"
    parts = list(pathlib.Path(os.environ["XDG_CACHE_HOME"]).rglob("*.part"))
    assert parts == [], f"{place}: half an entry {parts}"

class Struck(BaseException):
    pass
'''

BY_LINE = (
    PROGRAM
    + r"""
COUNT, SEED = int(sys.argv[2]), int(sys.argv[3])
sys.unraisablehook = lambda _: None

def traced(work, trace):
    sys.settrace(trace)
    try:
        work()
        return True
    except (Struck, KeyboardInterrupt, tw.TilewrightError, tw.InternalError) as error:
        if isinstance(error, tw.InternalError) and not isinstance(error.__cause__ or error.__context__, Struck):
            raise
        return False
    finally:
        sys.settrace(None)

places = {}

def note(frame, event, _):
    if event == "line" and "importlib" not in frame.f_code.co_filename:
        places[frame.f_code.co_filename, frame.f_lineno] = None
    return note

build_and_call(0.25, KIND)
traced(lambda: build_and_call(0.5, KIND), note)
drawn = list(places)
random.Random(SEED).shuffle(drawn)
struck = 0
for number, place in enumerate(drawn[:COUNT]):
    armed = [True]

    def trace(frame, event, _):
        if armed[0] and event == "line" and (frame.f_code.co_filename, frame.f_lineno) == place:
            armed[0] = False
            raise Struck(place)
        return trace

    traced(lambda: build_and_call(number + 1, KIND), trace)
    struck += not armed[0]
    look(place)
    if number % 50 == 0:
        assert in_time(lambda: build_and_call(-number - 1, KIND) or True), f"a lock is held since {place} or the 50 before"
        gc.collect()
build_and_call(1e6, KIND)
assert in_time(lambda: build_and_call(1e6 + 1, KIND) or True), "a lock is held"
look("the end")
print(json.dumps({"lines": len(drawn), "struck": struck}))
"""
)

BY_TIMER = (
    PROGRAM
    + r"""
COUNT = int(sys.argv[2])
build_and_call(0.25, KIND)
begin = time.perf_counter()
build_and_call(0.5, KIND)
whole = time.perf_counter() - begin
draws, hits, armed = random.Random(5), 0, [False]

def strike(*_):
    if armed[0]:
        armed[0] = False
        raise KeyboardInterrupt

signal.signal(signal.SIGALRM, strike)
for number in range(COUNT):
    try:
        armed[0] = True
        signal.setitimer(signal.ITIMER_REAL, max(1e-5, draws.random() * whole * 1.1))
        build_and_call(number + 1, KIND)
        armed[0] = False
    except (KeyboardInterrupt, tw.CallError):
        hits += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    if number % 20 == 0:
        look(number)
        assert in_time(lambda: build_and_call(-number - 1, KIND) or True), f"a lock is held, {number}"
build_and_call(1e6, KIND)
look("the end")
print(json.dumps({"hits": hits}))
"""
)

FIRST_USE = r"""
import json, os, random, signal, sys
import llvmlite.binding, numpy as np  # of which numpy cannot be imported again once that was interrupted

COUNT, SEED, SOURCES = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]

class Struck(BaseException):
    pass

def first_use(target, direct):
    import tilewright as tw
    if direct:  # on this thread
        import tilewright.te
        import tilewright.driver.build
    te = tw.te
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: te.sqrt(A[i]) * 2 + 1, name="B")
    a, b = np.arange(64, dtype="float32"), np.full(64, np.nan, "float32")
    tw.build([A, B], target=target)(a, b)
    np.testing.assert_allclose(b, np.sqrt(a) * 2 + 1, rtol=1e-6)

def by_line(number, work):
    raised, left = Struck(number), [number]

    def trace(frame, event, _):
        if frame.f_code.co_filename.startswith(SOURCES) and event == "line":
            left[0] -= 1
            if not left[0]:
                raise raised
        return trace

    sys.settrace(trace)
    try:
        work()
    except BaseException as error:
        sys.settrace(None)
        assert raised in (error, error.__cause__), repr(error)
    sys.settrace(None)
    return number - left[0]

def by_timer(seconds, kind, work):
    raised = kind("struck")

    def strike(signal, frame):
        raise raised

    signal.signal(signal.SIGALRM, strike)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        work()
    except BaseException as error:
        assert raised in (error, error.__cause__), repr(error)  # Python's own, of __set_name__ in a class statement
    signal.setitimer(signal.ITIMER_REAL, 0)

def in_child(work):
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.write(writing, json.dumps(work()).encode())
            code = 0
        except BaseException as error:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as file:
        answer = file.read()
    assert os.waitpid(child, 0)[1] == 0
    return json.loads(answer)

def clock():
    import time
    begin = time.perf_counter()
    first_use("llvm", True)
    return time.perf_counter() - begin

draws = random.Random(SEED)
seconds = in_child(clock)
lines = {direct: in_child(lambda: by_line(10**9, lambda: first_use("llvm", direct))) for direct in (False, True)}
for _ in range(COUNT):
    direct, target = draws.random() < 0.7, draws.choice(["llvm", "interpret"])
    kind = draws.choice([KeyboardInterrupt, ValueError, KeyError, RuntimeError, TypeError, AttributeError, OSError])
    at, after, by = draws.randrange(1, lines[direct]), draws.random() * seconds, draws.random() < 0.5

    def experiment():
        work = lambda: first_use(target, direct)
        by_line(at, work) if by else by_timer(after, kind, work)
        work()

    print("line" if by else "timer", at if by else after, kind.__name__, target, direct, file=sys.stderr)
    in_child(experiment)
print(json.dumps(lines))
"""


def run(tmp_path: Path, program: str, *args: object, timeout: float = 300) -> dict[str, int]:
    """What a program printed last, with a cache and a temporary folder of its own. It came to a good end."""
    for name in ("cache", "tmp"):
        (tmp_path / name).mkdir()
    place = tmp_path / "program.py"
    place.write_text(program)
    places = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "tmp"), "TILEWRIGHT_CACHE": "1"}
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(place), *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **places},
        timeout=timeout if not SOAK else 6 * 3600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("target", "lines"), [("llvm", 40), ("interpret", 20), ("c", 8)])
def test_an_exception_at_any_line_of_build_and_call(tmp_path: Path, target: str, lines: int) -> None:
    found = run(tmp_path, BY_LINE, target, 10**9 if SOAK else lines, 7)
    assert found["lines"] > 500
    assert found["struck"] >= lines // 2


@POSIX
def test_what_strikes_a_first_use_passes_and_the_next_one_works(tmp_path: Path) -> None:
    """Lines of imports too, and exceptions of signal handlers of every kind, each in a child that has imported nothing of ours."""
    found = run(tmp_path, FIRST_USE, drawn.count(3, 1000), drawn.SEED, f"{ROOT}{os.sep}")
    assert found["true"] > 10_000, f"lines of {ROOT}"


@POSIX
@pytest.mark.parametrize("target", ["llvm", "interpret"])
def test_an_interrupt_at_any_time_of_build_and_call(tmp_path: Path, target: str) -> None:
    assert run(tmp_path, BY_TIMER, target, 500 if SOAK else 20)["hits"] >= (100 if SOAK else 1)

"""The pool's protocol (codegen/abi/pool.py), all interleavings of a small model: nobody waits for ever, no wake-up is lost, and no
slot is given back while somebody is inside.

An owner offers jobs in one slot, a thread and a reserve join or sleep. A step is one atomic access or one system call of the text;
futexes compare and queue in one step. The owner's waits have no time limits here, so that nothing depends on those.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

OPEN, ASLEEP, OWNED = 1 << 10, 1 << 9, 1 << 8
COUNT = OWNED - 1
JOBS = 3


@dataclass(frozen=True)
class State:
    """slot, epoch, sleepers, spare: the shared words. owner, workers: (where in its text, what it has read). jobs: offered so far."""

    slot: int = 0
    epoch: int = 0
    sleepers: int = 0
    spare: bool = False
    jobs: int = 0
    owner: tuple[str, int] = ("idle", 0)
    workers: tuple[tuple[str, int], ...] = (("begin", 0), ("begin", 0))


def owner_steps(s: State, double: bool) -> list[State]:
    """What the owner may do next."""
    at, seen = s.owner
    to = lambda at, seen=0, **more: [replace(s, owner=(at, seen), **more)]
    if at == "idle":
        return to("offer", slot=OWNED, spare=False) if s.jobs < JOBS else []
    if at == "offer":
        return to("announce", slot=OWNED | OPEN)
    if at == "announce":
        return to("ask", epoch=s.epoch + 1, jobs=s.jobs + 1)
    if at == "ask":
        return to("reserve") if s.sleepers or double else to("close")
    if at == "reserve":
        return to("wake", spare=True)
    if at == "wake":
        return to(
            "close", workers=tuple(("woken", 0) if where == "asleep" else (where, read) for where, read in s.workers)
        )
    if at == "close":
        return to("wait" if s.slot & COUNT else "leave", slot=s.slot & ~OPEN)
    if at == "wait":
        return to("say", s.slot) if s.slot & COUNT else to("leave")
    if at == "say":
        told = seen | ASLEEP
        return to("sleep", told, slot=told) if s.slot == seen else to("wait")
    if at == "sleep":
        return to("asleep") if s.slot == seen else to("wait")
    if at == "woken":
        return to("wait")
    if at == "leave":
        assert not s.slot & COUNT, "a slot is given back while somebody is inside"
        return to("idle", slot=0)
    return []


def worker_steps(s: State, who: int) -> list[State]:
    """What a thread (0) or a reserve (1) may do next."""
    at, seen = s.workers[who]

    def to(at: str, seen: int = 0, **more: object) -> list[State]:
        workers = list(s.workers)
        workers[who] = (at, seen)
        return [replace(s, workers=tuple(workers), **more)]  # type: ignore[arg-type]

    if at == "begin":
        return to("look", s.epoch)
    if at == "look":
        joins = s.slot & OPEN and (who == 0 or s.spare)
        tired = to("sleep" if who else "count", seen)
        return to("join", s.slot) if joins else tired
    if at == "join":
        return to("help", slot=s.slot + 1) if s.slot == seen else to("begin")
    if at == "help":
        return to("go", slot=s.slot & ~OPEN)
    if at == "go":
        last = s.slot == OWNED | ASLEEP | 1
        return to("wake_owner" if last else "begin", slot=s.slot - 1)
    if at == "wake_owner":
        return to("begin", owner=("woken", 0) if s.owner[0] == "asleep" else s.owner)
    if at == "count":
        return to("sleep", seen, sleepers=s.sleepers + 1)
    if at == "sleep":
        return to("asleep", seen) if s.epoch == seen else to("woken")
    if at == "woken":
        return to("begin", sleepers=s.sleepers - (who == 0))
    return []


def check(s: State) -> None:
    """What holds in every state."""
    at, _ = s.owner
    where, read = s.workers[0]
    lost = where == "asleep" and read != s.epoch and at in ("close", "wait", "say", "sleep", "asleep", "leave", "idle")
    assert not lost, f"a thread sleeps although it was offered a job: {s}"


def explore(double: bool) -> int:
    """All states; how many."""
    start = State()
    known, rest = {start}, [start]
    while rest:
        state = rest.pop()
        check(state)
        nexts = owner_steps(state, double) + worker_steps(state, 0) + worker_steps(state, 1)
        if not owner_steps(state, double) and state.owner != ("idle", 0):
            assert nexts, f"the owner waits for ever: {state}"
        if not nexts:
            assert state.owner == ("idle", 0) and state.jobs == JOBS, f"nobody can go on: {state}"
            assert all(where == "asleep" for where, _ in state.workers)
        for new in nexts:
            if new not in known:
                known.add(new)
                rest.append(new)
    return len(known)


@pytest.mark.parametrize("double", [False, True])
def test_no_wakeup_is_lost_and_nobody_waits_for_ever(double: bool) -> None:
    """double: an offer wakes also where nobody sleeps, as every 256th does."""
    assert explore(double) > 1000


def test_the_model_sees_a_lost_wakeup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a sleeper is counted after it has slept, an offer in between wakes nobody."""
    steps = worker_steps

    def late(s: State, who: int) -> list[State]:
        at, seen = s.workers[who]
        if at == "count":
            return [replace(s, workers=(("sleep", seen), s.workers[1]))]
        return [replace(n, sleepers=max(0, n.sleepers)) for n in steps(s, who)]

    monkeypatch.setitem(globals(), "worker_steps", late)
    with pytest.raises(AssertionError, match="a thread sleeps although"):
        explore(False)

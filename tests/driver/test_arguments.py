"""Arguments of the public functions that mean nothing where they stand: errors that say what was meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import autotune, te, topi

A = te.placeholder((10,), name="A")
B = te.compute((10,), lambda i: A[i] + 1, name="B")


def schedule() -> Any:
    return te.create_schedule(B.op)


@pytest.mark.parametrize(
    "what",
    [
        lambda: [A, B],
        lambda: (A, B),
        lambda: tw.lower(schedule(), [A, B]),
        lambda: {"f": [A, B]},
        lambda: (schedule(), [A, B]),
        lambda: tw.graph.parse("graph g {\n  input x: float32[4]\n  y: float32[4] = relu(x)\n  output y\n}\n"),
    ],
)
@pytest.mark.parametrize("target", ["llvm -mcpu=haswell", "nonsense"])
def test_a_target_in_the_place_of_arguments(what: Callable[[], Any], target: str) -> None:
    """It was ignored, and the kernel built for this machine."""
    with pytest.raises(tw.TilewrightError, match=rf'(?s)TW0420.*fix: target="{target}"'):
        tw.build(what(), target)
    if not isinstance(what(), dict) and not hasattr(what(), "nodes"):
        with pytest.raises(tw.TilewrightError, match="TW0420"):
            tw.lower(what(), target)


def test_a_schedule_with_a_target_for_its_arguments() -> None:
    with pytest.raises(tw.TilewrightError, match=r'(?s)TW0420.*fix: tw.build\(s, \[A, B, C\], target="llvm"\)'):
        tw.build(schedule(), "llvm")


def test_arguments_beside_what_has_its_own() -> None:
    for what in ([A, B], tw.lower(schedule(), [A, B]), (schedule(), [A, B])):
        with pytest.raises(tw.TilewrightError, match=r"(?s)TW0420.*fix: leave out args"):
            tw.build(what, [A, B])  # pyright: ignore[reportArgumentType, reportCallIssue]


CALLS: dict[str, tuple[str, Callable[[], Any]]] = {
    "a switch of build": ("TW0420.*fast_math is 'off'", lambda: tw.build([A, B], fast_math="off")),
    "exact of build": ("TW0420.*exact is 'no'", lambda: tw.build([A, B], exact="no")),
    "a switch of jit": ("TW0420.*bounds_check is 1", lambda: tw.jit(bounds_check=1)(lambda x: x + 1)(np.ones(3))),
    "exact of topi.schedule": ("TW0420.*exact is 2", lambda: topi.schedule([B], "llvm", exact=2)),
    "a database of build": ("TW0633.*no database 5", lambda: tw.build([A, B], tuned=5)),
    "a database of topi.schedule": ("TW0633.*no database 5", lambda: topi.schedule([B], "llvm", 5)),
    "a database of autoschedule": ("TW0633.*no database 5", lambda: tw.autoschedule.schedule([B], "llvm", 5)),
    "a database of best": ("TW0633.*no database 5", lambda: autotune.best([A, B], "llvm", 5)),
    "a database of tune": ("TW0633.*no database 5", lambda: autotune.tune([A, B], "llvm", 1, 5)),
    "a target of build": ("TW0401", lambda: tw.build([A, B], target=5)),
    "a target of topi.schedule": ("TW0401", lambda: topi.schedule([B], 5)),
    "dynamic dimensions": ("TW0530.*of 'x' as dynamic", lambda: tw.jit(dynamic="x")(lambda x: x + 1)),
    "a device for a dtype": ("TW0504.*not a dtype", lambda: tw.empty((2,), tw.cpu())),
    "a number for a dtype": ("TW0504.*not a dtype", lambda: tw.empty((2,), 5)),
    "a dtype for a device": ("TW0525", lambda: tw.array(np.ones(3, "float32"), "float32")),
}


@pytest.mark.parametrize("case", CALLS)
def test_arguments_of_wrong_kinds(case: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    message, call = CALLS[case]
    with pytest.raises(tw.TilewrightError, match=f"(?s){message}"):
        call()


LOWERED = tw.lower(te.create_schedule(B.op), [A, B])
GRAPH = "graph g {\n  input x: float32[4]\n  y: float32[4] = relu(x)\n  output y\n}\n"
WITHOUT_USE: dict[str, tuple[str, Callable[[], Any]]] = {
    "a name beside a dict": ("name='f' has no use.*keys", lambda: tw.build({"g": [A, B]}, name="f")),
    "a name beside a graph": ("name='f' has no use", lambda: tw.build(tw.graph.parse(GRAPH), name="f")),
    "tuned beside a schedule": ("tuned has no use", lambda: tw.build(schedule(), [A, B], tuned="t.sqlite")),
    "tuned beside a pair": ("tuned has no use", lambda: tw.build((schedule(), [A, B]), tuned="t.sqlite")),
    "tuned beside a lowered function": ("tuned has no use", lambda: tw.build(LOWERED, tuned="t.sqlite")),
    "tuned beside a dict of schedules": (
        "tuned has no use",
        lambda: tw.build({"f": (schedule(), [A, B])}, tuned="t.sqlite"),
    ),
    "exact beside a lowered function": ("exact=True has no use", lambda: tw.build(LOWERED, exact=True)),
    "exact beside a dict with one": (
        "exact=True has no use",
        lambda: tw.build({"f": LOWERED, "g": [A, B]}, exact=True),
    ),
}


@pytest.mark.parametrize("case", WITHOUT_USE)
def test_options_that_could_change_nothing(case: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    message, call = WITHOUT_USE[case]
    with pytest.raises(tw.TilewrightError, match=f"(?s)TW0420: {message}"):
        call()


def test_options_of_tuning_that_could_change_nothing(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(tw.TilewrightError, match=r"TW0604: inputs are of one function"):
        autotune.tune(tw.graph.parse(GRAPH), trials=1, inputs=[np.zeros(4, "float32")])  # pyright: ignore
    task = autotune.Task.of([A, B], "llvm -mcpu=x86-64-v3")
    for call in (autotune.best, autotune.tune):
        with pytest.raises(tw.TilewrightError, match=r"TW0604: B is a task for .*v3.*, not for .*v2"):
            call(task, "llvm -mcpu=x86-64-v2")


def test_a_lowered_function_takes_another_name() -> None:
    assert tw.build(LOWERED, name="other").name == "other" and tw.build(LOWERED).name == "main"

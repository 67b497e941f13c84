"""Processes that compile kernels of a model beside this one: what they make is what this one makes, and whatever happens to them is
made up for here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.cli.command import main
from tilewright.codegen.result import BuildOptions
from tilewright.codegen.target import Target
from tilewright.driver import batch, helpers
from tilewright.driver.cache.key import build_key
from tilewright.driver.progress import Progress
from tilewright.driver.recipes import Recipes, make_recipe, part_request
from tilewright.driver.serving import entry_of_recipe
from tilewright.graph import Builder, helper
from tilewright.graph.kernels import declared_kernel, step_as_json, step_from_json
from tilewright.graph.plan import Plan
from tilewright.ir.visit import deep_recursion

from tests.net.programs import load_models

COUNT = 10


def chain(count: int = COUNT) -> Any:
    """A graph of so many kernels, no two of them equal."""
    b = Builder("chain")
    x = b.input("x", (4, 3))
    for at in range(count):
        weight = b.param(f"w{at}", np.full((3 + at, 4 + at), 0.25 + at, "float32"))
        x = b.node("relu", b.node("matmul", x, weight))
    b.output("y", x)
    return b.graph()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Generator[list[str]]:
    """Helpers are worth while from the first kernel on; what they were asked for and answered."""
    names: list[str] = []
    plain = helpers.Helper.ask

    def ask(self: helpers.Helper, request: Any) -> Any:
        entry = plain(self, request)
        names.extend([] if entry is None else [request["name"]])
        return entry

    monkeypatch.setenv("TILEWRIGHT_JOBS", "2")
    monkeypatch.setattr(batch, "_WORTH", 1e-9)
    monkeypatch.setattr(helpers.Helper, "ask", ask)
    yield names
    helpers._end_all()


def wait_for_helpers(monkeypatch: pytest.MonkeyPatch, done: Any) -> None:
    """This process compiles a kernel or two, and then nothing before `done()`."""
    plain = batch._Batch._take

    def take(self: Any, *args: Any) -> None:
        stop = time.monotonic() + 60.0
        while self.results and not done() and time.monotonic() < stop:
            time.sleep(0.01)
        plain(self, *args)

    monkeypatch.setattr(batch._Batch, "_take", take)


def test_helpers_make_the_same(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    g, x = chain(), np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3)
    monkeypatch.setenv("TILEWRIGHT_JOBS", "1")
    alone = tw.build(g)(x)
    assert not asked
    monkeypatch.setenv("TILEWRIGHT_JOBS", "2")
    wait_for_helpers(monkeypatch, lambda: asked)
    model = tw.build(g)
    assert asked, "no helper took part"
    np.testing.assert_array_equal(model(x), alone)
    first = helpers._idle[-1]
    assert helpers.helper_at_work(first.module) is first, "one that is there serves again"
    first.end()


def test_libraries_are_the_same_whoever_compiles(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model, x = tmp_path / "chain.safetensors", np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3)
    chain().save(model)
    command = ["compile", str(model), "-o"]
    assert main([*command, str(tmp_path / "libone.so"), "--jobs", "1"]) == 0
    assert not asked
    wait_for_helpers(monkeypatch, lambda: asked)
    monkeypatch.setenv("TILEWRIGHT_JOBS", "1")  # which the option outranks
    assert main([*command, str(tmp_path / "libtwo.so"), "--jobs", "2"]) == 0
    assert asked, "no helper took part"
    results = [tw.load(str(tmp_path / name))(x) for name in ("libone.so", "libtwo.so")]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_allclose(results[0], chain().run(x)[0], rtol=1e-5)


def test_helpers_that_die_are_made_up_for(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    wait_for_helpers(monkeypatch, lambda: killed)
    plain = helpers.Helper.ask

    def ask(self: helpers.Helper, request: Any) -> Any:
        if asked:
            os.kill(self._process.pid, signal.SIGKILL)
            killed.append(self._process.pid)
        return plain(self, request)

    monkeypatch.setattr(helpers.Helper, "ask", ask)
    g, x = chain(8), np.ones((4, 3), "float32")
    np.testing.assert_allclose(tw.build(g)(x), g.run(x)[0], rtol=1e-5)
    assert len(asked) == 1 and killed and not helpers._idle


def test_helpers_that_do_not_start_are_made_up_for(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/python-of-nobody")
    g, x = chain(3), np.ones((4, 3), "float32")
    np.testing.assert_allclose(tw.build(g)(x), g.run(x)[0], rtol=1e-5)
    assert not asked


def test_no_helper_for_little_work_or_one_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(module: str) -> helpers.Helper:
        raise AssertionError("a helper was started")

    monkeypatch.setattr(batch, "helper_at_work", never)
    monkeypatch.setenv("TILEWRIGHT_JOBS", "4")
    tw.build(chain(1))
    monkeypatch.setenv("TILEWRIGHT_JOBS", "1")
    monkeypatch.setattr(batch, "_WORTH", 1e-9)
    tw.build(chain(2))
    monkeypatch.setattr(sys, "executable", "/opt/program")  # which embeds Python
    assert helpers.compile_jobs() == 1


def test_errors_of_kernels_end_the_build(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """And what helpers are doing then: their answers are nobody's."""

    def refuse(*_: Any) -> Any:
        raise tw.TilewrightError("refused")

    g = chain(4)
    tw.build(g)
    monkeypatch.setattr("tilewright.driver.linking.prepared_request", refuse)
    with pytest.raises(tw.TilewrightError, match="refused"):
        tw.build(g)


def recipe(name: str) -> dict[str, Any]:
    plan = Plan.of(chain(1))
    (step, types), *_ = plan.steps_by_name().values()
    recipes = Recipes(helper.__name__, {plan.names[0]: step_as_json(step, types)}, {})
    (kernel, tensors), *_ = plan.kernels().items()
    made = make_recipe(part_request(kernel, tensors, Target(), BuildOptions(), False, False), recipes)
    assert made is not None
    return json.loads(json.dumps(made)) | ({} if not name else {"key": name})


def test_a_kernel_that_is_known_by_another_key_is_not_made() -> None:
    assert entry_of_recipe(recipe("0" * 64), helper.declare) is None
    entry = entry_of_recipe(recipe(""), helper.declare)
    assert entry is not None and entry.code[:4] == b"\x7fELF"


def test_steps_come_back_from_json() -> None:
    """Of the frozen models: the kernel that is declared from a step's text has the same key."""
    models, seen = load_models(), set[str]()
    for make in models.values():
        g = make()
        plan = Plan.of(g.transform())
        for name, step in zip(plan.names, plan.steps, strict=True):
            text = step_as_json(step, plan.graph.types)
            if name in seen or text is None:
                continue
            seen.add(name)
            with deep_recursion():
                keys = {
                    build_key(part_request(name, declared_kernel(*given), Target(), BuildOptions(), False, False))
                    for given in ((step, plan.graph.types), step_from_json(json.loads(json.dumps(text))))
                }
            assert len(keys) == 1, name
    assert len(seen) > 50


def test_helpers_end_with_their_parent() -> None:
    """Though it ends by a signal, and a child of its own has the pipe."""
    program = (
        "import os, sys, time\nfrom tilewright.driver import helpers\n"
        "one = helpers.Helper('tilewright.graph.helper')\nprint(one._process.pid, flush=True)\n"
        "time.sleep(0.5)\nos.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    pid = int(done.stdout)
    for _ in range(600):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("the helper is still there")


def test_progress_is_told_to_terminals_that_wait(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    progress = Progress(3)
    progress.tell(1)
    assert progress._shown is None, "it is quick so far"
    progress._began -= 3.0
    progress.tell(2)
    progress.close()
    assert "2/3" in capsys.readouterr().err

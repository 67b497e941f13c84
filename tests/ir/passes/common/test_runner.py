"""The runner and its watchers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tilewright.codegen.llvm.pipeline import cpu_pipeline
from tilewright.ir import contents
from tilewright.ir.contents import contains, keep_results
from tilewright.ir.errors import NotWellFormed
from tilewright.ir.expr import BufferLoad, Var
from tilewright.ir.passes.common.runner import (
    Dumping,
    Pass,
    Timing,
    Verifying,
    environment_watchers,
    pass_times,
    run_pipeline,
)
from tilewright.ir.passes.common.simplify import simplify
from tilewright.ir.passes.common.unroll import unroll
from tilewright.ir.stmt import BufferStore, For, Function, If, LoopKind
from tilewright.ir.text.parser import parse
from tilewright.ir.visit import children
from tilewright.schedule.lowering.lower import lower
from tilewright.tools.benchmarks.programs import PROGRAMS

TEXT = """
@attrs(stage="loops")
def copy(A: float32[4, 8], C: out float32[4, 8]):
    for i in 4:
        for j in vectorized(8):
            C[i, j] = A[i, j]
"""


def test_stages_are_recorded() -> None:
    seen: list[tuple[str, str]] = []
    result = run_pipeline(
        parse(TEXT), cpu_pipeline(), [lambda name, function, _: seen.append((name, function.attrs["stage"]))]
    )
    assert result.attrs["stage"] == "final"
    assert seen[0] == ("lowered", "loops")
    assert ("flatten", "flat") in seen
    assert seen[-1] == ("remove_likely", "final")


def test_the_order_is_data() -> None:
    names = [step.name for step in cpu_pipeline(bounds_check=True)]
    assert names.index("bound_checks") < names.index("loop_partition") < names.index("flatten")
    assert names.index("lane_races") < names.index("flatten") < names.index("vectorize") < names.index("unroll")
    assert "bound_checks" not in [step.name for step in cpu_pipeline()]


def test_contents_are_known_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []
    monkeypatch.setattr(contents, "children", lambda node: looked.append(node) or children(node))
    outer = parse(TEXT).body
    assert isinstance(outer, For)
    with keep_results():
        assert contains(outer, LoopKind.VECTORIZED) and not contains(outer, If, "exp", (BufferLoad, 1))
        changed = replace(outer, kind=LoopKind.PARALLEL)
        assert contains(changed, LoopKind.PARALLEL) and contains(changed, "float32", "float")
        assert looked == [outer, outer.body, changed]
    assert contains(outer, BufferLoad) and looked[3:] == [outer, outer.body]  # nothing is kept beyond a pipeline


def test_passes_that_are_not_run_had_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = [lower(*PROGRAMS[name]()) for name in ("blocked_matmul", "depthwise", "attention")]
    texts = [str(run_pipeline(function, cpu_pipeline())) for function in functions]
    monkeypatch.setattr(contents, "contains", lambda *_: True)
    assert [str(run_pipeline(function, cpu_pipeline())) for function in functions] == texts


def test_dumping_numbers_the_texts(tmp_path: Path) -> None:
    run_pipeline(parse(TEXT), [Pass("simplify", simplify), Pass("unroll", unroll)], [Dumping(tmp_path)])
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == [
        "00_lowered.ir",
        "01_simplify.ir",
        "02_unroll.ir",
    ]
    assert parse((tmp_path / "copy" / "02_unroll.ir").read_text()).name == "copy"


def test_dumping_numbers_each_function(tmp_path: Path) -> None:
    watcher = Dumping(tmp_path)
    for text in (TEXT, TEXT.replace("def copy", "def other")):
        run_pipeline(parse(text), [Pass("simplify", simplify)], [watcher])
    assert (tmp_path / "other" / "01_simplify.ir").exists()


def test_times() -> None:
    timing = Timing()
    with pass_times() as outer:
        run_pipeline(parse(TEXT), cpu_pipeline(), [timing])
        run_pipeline(parse(TEXT), [Pass("simplify", simplify)])
    assert list(timing.seconds) == [step.name for step in cpu_pipeline()]
    assert outer["simplify"] > timing.seconds["simplify"] > 0
    run_pipeline(parse(TEXT), [Pass("later", simplify)])
    assert "later" not in outer


def test_verifying_names_the_guilty_pass() -> None:
    def spoil(function: Function) -> Function:
        stray = Var("stray")
        return function.with_body(BufferStore(function.outputs[0], function.body.body.body.value, (stray, stray)))  # pyright: ignore

    with pytest.raises(NotWellFormed, match="stray") as caught:
        run_pipeline(parse(TEXT), [Pass("simplify", simplify), Pass("spoil", spoil)], [Verifying()])
    assert "after pass 'spoil' on function 'copy'" in "\n".join(caught.value.__notes__)


def test_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TILEWRIGHT_DUMP", raising=False)
    monkeypatch.setenv("TILEWRIGHT_VERIFY", "0")
    assert environment_watchers() == []
    monkeypatch.setenv("TILEWRIGHT_DUMP", str(tmp_path))
    monkeypatch.setenv("TILEWRIGHT_VERIFY", "1")
    assert [type(watcher) for watcher in environment_watchers()] == [Dumping, Verifying]


def test_a_failing_pass_is_named() -> None:
    from tilewright.ir.passes.common.errors import UnrollNotConstant

    function = parse(TEXT.replace("for i in 4", "for i in unrolled(n)").replace("(A", "(n: int32, A"))
    with pytest.raises(UnrollNotConstant, match="cannot unroll 'i'"):
        run_pipeline(replace(function, name="named"), cpu_pipeline())

"""Every error of the core: a program that raises it, the whole message, and the same program after the fix, which runs."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import tilewright as tw

DOCS = Path(__file__).resolve().parent.parent / "docs"
sys.path.insert(0, str(DOCS))
import make_errors  # noqa: E402

sys.path.remove(str(DOCS))

ERRORS = {code: error for code, error in make_errors.load_every_error().items() if code < "TW06"}
EXAMPLES = make_errors.examples()

NO_LOOPS = {
    "TW0201": "there is no stage",
    "TW0210": "the whole stage, not a loop",
    "TW0216": "a tensor, not a loop",
    "TW0219": "tensors, not loops",
    "TW0220": "tensors, not loops",
    "TW0223": "records",
    "TW0224": "nothing is scheduled yet",
    "TW0226": "the loops by name, in both orders",
    "TW0227": "the name that was asked for",
    "TW0228": "a rule, not a loop",
    "TW0229": "the loops that there are",
    "TW0240": "the argument, not the loop",
    "TW0282": "the whole stage, not a loop",
    "TW0241": "records",
    "TW0202": "the loops that there are: the axis is none of them",
    "TW0222": "the loops that there are",
    "TW0215": "the loops that there are",
    "TW0218": "the stage's loops: the condition names no loop",
    "TW0250": "stages, not loops",
    "TW0254": "tensors, not loops",
    "TW0252": "the whole stage",
    "TW0253": "the whole tensor",
    "TW0260": "the whole scan",
    "TW0257": "no schedule is at fault",
    "TW0258": "the whole program",
    "TW0259": "the arguments",
}
"""Errors of primitives that have no loop to point at, and why."""
NEEDS_A_COMPILER = {"TW0430", "TW0431"}


TOLD_IN_PART = {
    "TW0411": "which function was meant is the user's to know",
    "TW0412": "which intrinsic was meant is the user's to know",
}


@cache
def raised(code: str) -> tw.TilewrightError:
    """What the example of this code raises."""
    return EXAMPLES[code].error()


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Examples may change the number of threads and the environment."""
    monkeypatch.setenv("CC", "cc")
    monkeypatch.delenv("CC")
    before = tw.num_threads()
    yield
    tw.set_num_threads(before)


def test_documentation_names_errors_by_their_codes() -> None:
    named = {
        (name, code, str(path.relative_to(DOCS.parent)))
        for path in sorted(DOCS.parent.glob("te/**/*.py"))
        for name, code in re.findall(r"\b([A-Z]\w+) \((TW\d{4})\)", path.read_text())
    }
    assert len(named) > 20 and not [row for row in named if ERRORS[row[1]].__name__ != row[0]]


def test_every_error_has_an_example() -> None:
    missing = [f"{code} {error.__name__}" for code, error in ERRORS.items() if code not in EXAMPLES]
    assert not missing, (
        f"docs/error_examples/ has no program that raises {', '.join(missing)}; then run docs/make_errors.py"
    )
    assert not sorted(set(EXAMPLES) - set(make_errors.load_every_error())), "examples of codes that no class has"


@pytest.mark.parametrize("code", sorted(set(EXAMPLES) & set(ERRORS)))
def test_the_example_raises_it_and_the_fix_holds(code: str) -> None:
    if code in NEEDS_A_COMPILER and not shutil.which("cc"):
        pytest.skip("this machine has no C compiler")
    example = EXAMPLES[code]
    error = raised(code)
    assert type(error) is ERRORS[code]
    page = DOCS / "errors" / f"{code}.md"
    assert page.read_text() == make_errors.render_page(code, type(error), example, error), (
        "run python docs/make_errors.py"
    )
    assert f"tilewright explain {code}" in "".join(error.__notes__), "the message names its page"
    assert error.fix, "it says what to write instead"
    assert error.called is not None
    assert error.called.file == example.file
    assert error.called.text, "the user's line is shown"
    if error.declared is not None:
        assert error.declared.file == example.file
    assert example.removed or example.added, "the example says what is changed"
    make_errors.run(example.fixed, example.file)


@pytest.mark.parametrize("code", sorted(code for code in ERRORS if code.startswith("TW02") and code in EXAMPLES))
def test_a_refused_primitive_shows_the_declaration_and_points_at_the_loop(code: str) -> None:
    error = raised(code)
    if code not in NO_LOOPS:
        assert error.declared is not None
        assert "^" in error.loops
        pointed = [line for line in error.loops.splitlines() if "^" in line]
        assert all(line.strip(" ^") == "" for line in pointed)


@pytest.mark.parametrize("code", sorted(set(EXAMPLES) & set(ERRORS) - set(TOLD_IN_PART)))
def test_the_fix_that_is_applied_is_the_one_that_is_told(code: str) -> None:
    """Of the words that the fix brings into the program, the message says at least one, unless it only takes words away."""
    example = EXAMPLES[code]
    error = raised(code)
    old, new = (set(re.findall(r"[A-Za-z_]\w*", "\n".join(lines))) for lines in (example.wrong, tuple(example.added)))
    brought = new - old - set(dir(__builtins__))
    told = f"{error.fix} {error.allowed} {error.reason}"
    assert not brought or any(re.search(rf"\b{word}\b", told) for word in brought), f"{sorted(brought)} not in: {told}"


def test_the_pages_are_those_of_the_catalogue() -> None:
    known = {f"{code}.md" for code in make_errors.load_every_error()}
    assert {path.name for path in (DOCS / "errors").glob("*.md")} == known, "run python docs/make_errors.py"
    for code, error in make_errors.load_every_error().items():
        text = (DOCS / "errors" / f"{code}.md").read_text()
        assert text.startswith(f"# {code}: {error.__name__}\n\n{make_errors.summary(error)}\n")

"""What the documents show works, and shows what they say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zlib
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import tilewright as tw
from tilewright import te, topi

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("path", sorted((ROOT / "tutorials").glob("[0-9]*.py")), ids=lambda path: path.stem)
def test_tutorials_run_away_from_the_checkout(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, path], cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"COLUMNS": "120"}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "a tutorial shows something"


def test_the_readmes_first_kernel_prints_the_loops_that_it_shows() -> None:
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    program = next(text for language, text in blocks if language == "python")
    shown = next(text for language, text in blocks if language == "text")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == shown.strip()
    assert len([line for line in program.splitlines() if line.strip()]) <= 10, "a first kernel takes at most ten lines"


def test_the_page_of_benchmarks_has_the_readmes_figures() -> None:
    readme, page = ((ROOT / name).read_text().splitlines() for name in ("README.md", "docs/benchmarks.md"))
    page_rows, readme_rows = ([line for line in lines if line.startswith("|")] for lines in (page, readme))
    assert readme_rows and page_rows[: len(readme_rows)] == readme_rows


def test_the_page_of_errors_lists_every_error_as_its_class_says() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        make_errors = import_module("make_errors")
    finally:
        sys.path.remove(str(ROOT / "docs"))
    assert (ROOT / "docs" / "errors.md").read_text() == make_errors.render_index(), "run python docs/make_errors.py"


_SHOWN = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
_RUN_PAGE = """
import io, json, sys
from contextlib import redirect_stdout
names = {"__name__": "__main__"}
for number, (program, shown) in enumerate(json.load(sys.stdin)):
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(program, f"program {number}", "exec"), names)
    assert not shown or printed.getvalue().strip() == shown.strip(), f"program {number} prints:\\n{printed.getvalue()}"
"""
"""Runs the programs of a page one after the other; what stands below one as text is what it prints."""


@pytest.mark.parametrize("name", ["start", "concepts", "choosing", "running-kernels", "libraries", "boundaries", "ir"])
def test_the_programs_of_a_page_run_in_turn_and_print_what_it_shows(name: str, tmp_path: Path) -> None:
    programs = _SHOWN.findall((ROOT / "docs" / f"{name}.md").read_text())
    assert programs, "a page without programs"
    done = subprocess.run(
        [sys.executable, "-c", _RUN_PAGE], input=json.dumps(programs), cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_pictures_are_what_schedules_draw_now() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        make_pictures = import_module("make_pictures")
    finally:
        sys.path.remove(str(ROOT / "docs"))
    written = {path.stem: path.read_text() for path in (ROOT / "docs" / "pictures").glob("*.svg")}
    assert written == make_pictures.pictures(), "run python docs/make_pictures.py"


def test_the_site_is_made_without_a_warning(tmp_path: Path) -> None:
    """Links between pages, to headings and to pictures included; tutorials run in their own test. All pages are read, a few are
    written: `make docs` writes all. A folder of an earlier version stands beside them, as a server keeps it."""
    pytest.importorskip("sphinx", reason="the package sphinx, which makes the site, is not installed")
    sites, site = tmp_path / "site", tmp_path / "site" / tw.__version__
    (sites / "0.9.0").mkdir(parents=True)
    (sites / "0.9.0" / "index.html").write_text("an earlier version")
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "make_site.py"), str(sites), "--unrun", "--sample"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "split" in (site / "primitives.html").read_text()
    assert (site / "tutorials" / "01_first_kernel.html").is_file()
    assert f'TILEWRIGHT_VERSIONS = ["{tw.__version__}", "0.9.0"]' in (sites / "versions.js").read_text()
    redirect = (sites / "latest" / "tutorials" / "01_first_kernel.html").read_text()
    assert f'href="../../{tw.__version__}/tutorials/01_first_kernel.html"' in redirect
    assert 'href="../0.9.0/index.html"' in (sites / "stable" / "index.html").read_text(), "no candidate of a release"
    assert "_static/versions.js" in (site / "index.html").read_text()
    remote = re.compile(r'(?:src|href)="https?://[^"]*"')
    links = remote.findall((site / "index.html").read_text())
    assert not [link for link in links if link.startswith("src") or ".css" in link], (
        "a page from the disk asks no other machine"
    )
    listed = zlib.decompress((site / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode().splitlines()
    told = {line.partition(" ")[0] for line in listed}
    rooms = {"tilewright": tw, "tilewright.te": te, "tilewright.te.hybrid": te.hybrid, "tilewright.topi.nn": topi.nn}
    public = [
        (room, name) for room, module in rooms.items() for name in getattr(module, "__all__", None) or dir(module)
    ]
    assert not [
        f"{room}.{name}"
        for room, name in public
        if not name.startswith("_")
        and f"{room}.{name}" not in told
        and not isinstance(getattr(rooms[room], name), ModuleType)
    ], "the reference has every public name"


def test_the_programs_of_the_page_on_numbers_print_what_it_says() -> None:
    blocks = BLOCK.findall((ROOT / "docs" / "numerics.md").read_text())
    zeros, exactness = [text for language, text in blocks if language == "python"]
    (shown,) = [text for language, text in blocks if language == "text"]
    for program, expected in ((zeros, "llvm 0\nc 0\ninterpret 0\n"), (exactness, shown)):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert done.stdout == expected, done.stderr


def test_the_programs_of_the_page_on_rules_print_a_plan_and_take_a_rule() -> None:
    page = (ROOT / "docs" / "autoschedule.md").read_text()
    plan, rule = [text for language, text in BLOCK.findall(page) if language == "python"]
    done = subprocess.run([sys.executable, "-c", plan], capture_output=True, text=True)
    title, row, *candidates = done.stdout.splitlines()
    assert title.split() == ["rule", "anchor", "fused", "chosen", "of", "time", "bound", "by"], done.stderr
    assert re.match(r"sums +C +D +\d vectors of .* \d+ +[\d.]+ us +\w+ ", row) and len(candidates) == 3
    done = subprocess.run([sys.executable, "-c", rule], capture_output=True, text=True)
    assert done.stdout == "rows of mine | 32 partial sums | 2\nTrue True\n", done.stderr


def test_the_programs_of_the_page_on_operators_run(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "operators.md").read_text()
    first, known, second = [text for language, text in BLOCK.findall(page) if language == "python"]
    done = subprocess.run([sys.executable, "-c", first], capture_output=True, text=True)
    assert done.stdout == "301.0 0\n", done.stderr
    done = subprocess.run([sys.executable, "-c", known], capture_output=True, text=True, cwd=tmp_path)
    assert "w.global is a constant" in done.stdout and (tmp_path / "layer.h").exists(), done.stderr
    done = subprocess.run([sys.executable, "-c", second], capture_output=True, text=True)
    assert "cache_read" in done.stdout and "vectorized(" in done.stdout, done.stderr


_RUN_EACH = """
import json, sys
from tilewright.compat import tvm
sys.modules |= {"tvm": tvm, "tvm.te": tvm.te}
for number, program in enumerate(json.load(sys.stdin)):
    print("program", number, file=sys.stderr)
    exec(compile(program, f"program {number}", "exec"), {"__name__": "__main__"})
"""
"""Runs the programs of a page. What a program that is shown as it was calls tvm is ours: no line of it is changed."""


def test_the_programs_of_the_page_on_migrating_run(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "migrating-from-tvm.md").read_text()
    blocks = [text for language, text in BLOCK.findall(page) if language == "python"]
    before, imports = blocks[:2]
    after = before.replace("import tvm\nfrom tvm import te\n", imports)
    assert "import tvm" in before
    assert after != before
    programs = json.dumps([*blocks, after])
    done = subprocess.run(
        [sys.executable, "-c", _RUN_EACH], input=programs, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr

"""Makes the site: `python docs/make_site.py out/docs`, or `make docs`.

It lies in a folder of its version, `out/docs/1.0.0`, beside those of earlier versions that are there; each page has a choice of
them. `latest` and `stable` lead to the newest version, and to the newest that is no pre-release, page by page.

The pages of docs/, the tutorials, each with what it prints, and a reference from the docstrings, as files that are opened from the
disk. Warnings of the generator, links that lead nowhere among them, are errors. `--unrun` leaves out what tutorials print;
`--sample` reads all pages and follows all links, and writes a few of them.
"""

from __future__ import annotations

import ast
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import tilewright
from packaging.version import InvalidVersion, Version  # of Sphinx

ROOT = Path(__file__).resolve().parent.parent


def tutorial_page(path: Path, run: bool = True) -> str:
    """A tutorial as a page: what it says first, its program, and what that prints."""
    text = path.read_text()
    tree = ast.parse(text)
    title, _, introduction = (ast.get_docstring(tree) or path.stem).partition("\n")
    first = tree.body[1].lineno if len(tree.body) > 1 else 1
    program = "\n".join(text.splitlines()[first - 1 :]).strip()
    page = [f"# {title.rstrip('.')}", introduction.strip(), f"```python\n{program}\n```"]
    if run:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, path], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{path.name} fails:\n{done.stderr}")
        page += ["It prints, on the machine that made this page:", f"```text\n{done.stdout.rstrip()}\n```"]
    return "\n\n".join(page) + "\n"


def site_source(folder: Path, run: bool = True) -> None:
    """Writes what the generator reads."""
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("make_*.py", "__pycache__"))
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text().replace("](docs/", "](")  # its pages lie beside it there
        (folder / "docs" / name.lower()).write_text(text)
    tutorials = sorted((ROOT / "tutorials").glob("[0-9]*.py"))
    (folder / "docs" / "tutorials").mkdir()
    for at, path in enumerate(tutorials):
        print(f"[{at + 1}/{len(tutorials)}] {path.stem}", flush=True)
        (folder / "docs" / "tutorials" / f"{path.stem}.md").write_text(tutorial_page(path, run))


SAMPLE = ("index.md", "primitives.md", "tutorials/01_first_kernel.md")
"""Pages that `--sample` writes: one of its own, one that is made from the code, one that is a program."""


def make(target: Path, run: bool = True, sample: bool = False) -> int:
    """Makes the site in a folder, or a sample of it. Returns the generator's exit status."""
    with tempfile.TemporaryDirectory() as folder:
        site_source(Path(folder), run)

        def generated(builder: str, options: Sequence[str], pages: Sequence[str] = ()) -> int:
            command = [
                sys.executable,
                "-m",
                "sphinx",
                "-q",
                "-b",
                builder,
                *options,
                "-d",
                f"{folder}/doctrees",
                f"{folder}/docs",
                str(target),
                *(f"{folder}/docs/{page}" for page in pages),
            ]
            return subprocess.run(command, check=False).returncode

        strictly = "-W", "--keep-going"
        if sample:
            return generated("dummy", strictly) or generated("html", (), SAMPLE)
        return generated("html", strictly)


def find_versions(folder: Path) -> list[Version]:
    """The versions whose sites lie in a folder, the newest first."""
    found: list[Version] = []
    for site in folder.iterdir():
        with contextlib.suppress(InvalidVersion):
            found += [Version(site.name)] if (site / "index.html").is_file() else []
    return sorted(found, reverse=True)


_REDIRECT = """<!DOCTYPE html>
<meta charset="utf-8"><title>tilewright</title>
<meta http-equiv="refresh" content="0; url={target}"><link rel="canonical" href="{target}">
<a href="{target}">{target}</a>
"""


def write_versions(folder: Path) -> None:
    """Write the list that pages choose from, the pages that lead to the newest and the newest stable version, and index.html."""
    versions = find_versions(folder)
    folder.joinpath("versions.js").write_text(
        f"window.TILEWRIGHT_VERSIONS = {json.dumps([str(each) for each in versions])};\n"
    )
    stable = next((each for each in versions if not each.is_prerelease), versions[0])
    for name, version in (("latest", versions[0]), ("stable", stable)):
        shutil.rmtree(folder / name, ignore_errors=True)
        site = folder / str(version)
        for page in site.rglob("*.html"):
            path = page.relative_to(site)
            to_root = "../" * len(path.parts)
            redirect = folder / name / path
            redirect.parent.mkdir(parents=True, exist_ok=True)
            redirect.write_text(_REDIRECT.format(target=f"{to_root}{version}/{path.as_posix()}"))
    folder.joinpath("index.html").write_text(_REDIRECT.format(target="stable/index.html"))


if __name__ == "__main__":
    options = {"--unrun", "--sample"}
    arguments = [argument for argument in sys.argv[1:] if argument not in options]
    place = Path(arguments[0] if arguments else "out/docs").absolute()
    status = make(place / tilewright.__version__, "--unrun" not in sys.argv, "--sample" in sys.argv)
    if not status:
        write_versions(place)
    print(f"the site is {place / tilewright.__version__ / 'index.html'}" if not status else "the site has errors")
    raise SystemExit(status)

"""The net of frozen programs, as a command.

    python -m tests.net.net --check [WORD ...]     compare every text with hashes.json; exit status 1 where one differs
    python -m tests.net.net --update               write hashes.json anew
    python -m tests.net.net --show NAME            print the texts of one program, to compare two trees by diff
    python -m tests.net.net --list                 the names

WORD: only the programs whose name contains one of the words.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import linecache
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

os.environ["TILEWRIGHT_CACHE"] = "0"  # what is made now is compared

import ml_dtypes
import numpy as np
import tilewright as tw
from tilewright import te
from tilewright.schedule import from_json

from .texts import c_source, cpu_sources
from .written import WRITTEN

__all__ = ["TARGETS", "Program", "differences", "hashes_of", "load_programs", "recorded_hashes", "texts_of"]

HERE = Path(__file__).parent
HASHES = HERE / "hashes.json"
TARGETS = {name: f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={name}" for name in ("znver4", "haswell")}
"""The processors that code is made for: one with vectors of 512 bits and masks, one with neither."""
CUDA = "cuda -arch=sm_90"

Program = Callable[[], tuple[Any, list[Any]]]
"""Makes a schedule and its arguments."""


def load_programs() -> dict[str, Program]:
    """All frozen programs by name, GROUP/NAME."""
    programs: dict[str, Program] = {}
    for path in sorted((HERE / "frozen").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            frozen = json.loads(line)
            programs[f"{path.stem}/{frozen['name']}"] = lambda frozen=frozen: _replayed(frozen)
    return programs | {f"written/{name}": program for name, program in WRITTEN.items()}


def _replayed(frozen: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Declares the operations by the frozen source, and replays the records on them."""
    source: str = frozen["source"]
    place = f"<frozen {frozen['name']}>"
    linecache.cache[place] = (
        len(source),
        None,
        source.splitlines(True),
        place,
    )  # hybrid scripts look for their own source
    scope: dict[str, Any] = {"te": te, "tw": tw, "np": np, "base64": base64, "ml_dtypes": ml_dtypes}
    exec(compile(source, place, "exec"), scope)
    return te.Schedule.replay(from_json(json.dumps(frozen["records"])), scope["ops"]), scope["args"]


def texts_of(program: Program) -> dict[str, str]:
    """Every text of a program by kind; where it is refused, the code of the refusal.

    lowered: the loop IR of tw.lower. final PROCESSOR, llvm PROCESSOR: the loop IR right before code generation, and the LLVM IR
    before the optimiser. c: the C text. cuda: the CUDA C text, where loops are bound to threads.
    """
    s, args = program()
    try:
        function = tw.lower(s, args)
    except tw.TilewrightError as error:
        return {"lowered": _refusal(error)}
    texts = {"lowered": str(function)}
    for name, target in TARGETS.items():
        try:
            texts[f"final {name}"], texts[f"llvm {name}"] = cpu_sources(function, target)
        except tw.TilewrightError as error:
            texts[f"llvm {name}"] = _refusal(error)
    others = {"c": lambda: c_source(function)}
    if "threadIdx" in texts["lowered"] or "blockIdx" in texts["lowered"]:
        others["cuda"] = lambda: tw.build(s, args, target=CUDA).source("cuda")
    for kind, text in others.items():
        try:
            texts[kind] = text()
        except tw.TilewrightError as error:
            texts[kind] = _refusal(error)
    return texts


def _refusal(error: Any) -> str:
    return f"refused: {error.code}"


def hashes_of(program: Program) -> dict[str, str]:
    """The first digits of each text's SHA-256."""
    return {kind: hashlib.sha256(text.encode()).hexdigest()[:12] for kind, text in texts_of(program).items()}


def recorded_hashes() -> dict[str, dict[str, str]]:
    """What hashes.json holds: by program, the hash of each kind of text."""
    return json.loads(HASHES.read_text())


def differences(found: dict[str, dict[str, str]], recorded: dict[str, dict[str, str]]) -> list[str]:
    """A line for each program of `found` that differs, with the kinds of text that do."""
    lines = list[str]()
    for name, hashes in found.items():
        known = recorded.get(name, {})
        kinds = [kind for kind in hashes | known if hashes.get(kind) != known.get(kind)]
        if kinds:
            lines.append(f"{name}: {', '.join(kinds)}")
    return lines


def _named_hashes(name: str) -> tuple[str, dict[str, str]]:
    """In a worker: an error that is not the program's refusal is a difference too."""
    try:
        return name, hashes_of(_worker_programs()[name])
    except Exception as error:  # noqa: BLE001 - reported, with the others
        return name, {"error": f"{type(error).__name__}: {error}"[:300]}


_loaded: dict[str, Program] = {}


def _worker_programs() -> dict[str, Program]:
    if not _loaded:
        _loaded.update(load_programs())
    return _loaded


def all_hashes(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """The hashes of these programs, made by two processes."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        return dict(pool.map(_named_hashes, names, chunksize=8))


def _check(names: Sequence[str], whole: bool) -> int:
    recorded, found = recorded_hashes(), all_hashes(names)
    lines = differences(found, recorded)
    lines += [f"{name}: the program is gone" for name in recorded if whole and name not in found]
    lines += [f"{name}: {hashes['error']}" for name, hashes in found.items() if "error" in hashes]
    print(
        "\n".join(
            [*lines, f"{len(names) - len(differences(found, recorded))} of {len(names)} programs have the same texts"]
        )
    )
    return int(bool(lines))


def _update(names: Sequence[str], whole: bool) -> int:
    found = ({} if whole else recorded_hashes()) | all_hashes(names)
    failed = [f"{name}: {hashes['error']}" for name, hashes in found.items() if "error" in hashes]
    if failed:
        print("\n".join(failed))
        return 1
    changed = differences(found, recorded_hashes() if HASHES.exists() else {})
    HASHES.write_text(
        "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(hashes)}" for name, hashes in found.items()) + "\n}\n"
    )
    print("\n".join([*changed, f"{len(found)} programs written, {len(changed)} of them changed"]))
    return 0


def _show(name: str) -> int:
    for kind, text in texts_of(load_programs()[name]).items():
        print(f"==== {name}: {kind}\n{text}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 1 where a text differs or a program fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.net.net", description="The net of frozen programs.")
    asked = parser.add_mutually_exclusive_group(required=True)
    for flag in ("check", "update", "list"):
        asked.add_argument(f"--{flag}", action="store_true")
    asked.add_argument("--show", metavar="NAME")
    parser.add_argument("words", nargs="*", metavar="WORD")
    options = parser.parse_args(arguments)
    if options.show:
        return _show(options.show)
    names = [name for name in load_programs() if not options.words or any(word in name for word in options.words)]
    if options.list:
        print("\n".join(names))
        return 0
    if options.update:
        return _update(names, not options.words)
    return _check(names, not options.words)


if __name__ == "__main__":
    sys.exit(main())

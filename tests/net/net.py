"""The nets of frozen programs, as a command.

    python -m tests.net.net --check [WORD ...]     compare with what is recorded; exit status 1 where one differs
    python -m tests.net.net --update               write what is recorded anew
    python -m tests.net.net --show NAME            print the texts of one program, to compare two trees by diff
    python -m tests.net.net --list                 the names

--net NAME: kernels (the default), choices, models, results, or all. WORD: only the programs whose name contains one of the words.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

os.environ["TILEWRIGHT_CACHE"] = "0"  # what is made now is compared

from .choices import choices_of, declarations
from .kernels import programs, texts_of
from .models import models, plan_facts
from .results import computed, result_facts

__all__ = ["NETS", "Net", "differences"]

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Net:
    """Programs, and the texts of each by kind that must stay as they are.

    file: where their hashes are recorded. names: of its programs. texts: of one program, by kind.
    sample: the test of the suite looks at one program of so many.
    """

    file: str
    names: Iterable[str]
    texts: Callable[[str], dict[str, str]]
    sample: int

    def record(self, name: str) -> dict[str, str]:
        """The texts of a program as they are recorded: short ones whole, of others the first digits of the SHA-256."""
        return {kind: _short(text) for kind, text in self.texts(name).items()}

    def recorded(self) -> dict[str, dict[str, str]]:
        """The content of its file."""
        path = HERE / self.file
        return json.loads(path.read_text()) if path.exists() else {}


def _short(text: str) -> str:
    return text if len(text) <= 16 else hashlib.sha256(text.encode()).hexdigest()[:12]


NETS = {
    "kernels": Net("hashes.json", programs, texts_of, 23),
    "choices": Net("choices.json", declarations, choices_of, 31),
    "models": Net("models.json", models, plan_facts, 7),
    "results": Net("results.json", computed, result_facts, 30),
}


def differences(found: dict[str, dict[str, str]], recorded: dict[str, dict[str, str]]) -> list[str]:
    """A line for each program of `found` that differs, with the kinds of text that do."""
    lines = list[str]()
    for name, hashes in found.items():
        known = recorded.get(name, {})
        kinds = [kind for kind in hashes | known if hashes.get(kind) != known.get(kind)]
        if kinds:
            lines.append(f"{name}: {', '.join(kinds)}")
    return lines


def _record(net: str, name: str) -> tuple[str, dict[str, str]]:
    """In a worker: an error that is not the program's refusal is a difference too."""
    try:
        return name, NETS[net].record(name)
    except Exception as error:  # noqa: BLE001 - reported, with the others
        return name, {"error": f"{type(error).__name__}: {error}"[:300]}


def _records(net: str, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """The records of these programs, made by two processes."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        return dict(pool.map(partial(_record, net), names, chunksize=8))


def _errors(found: dict[str, dict[str, str]]) -> list[str]:
    return [f"{name}: {kinds['error']}" for name, kinds in found.items() if "Error: " in kinds.get("error", "")]


def _check(net: str, names: Sequence[str], whole: bool) -> int:
    recorded, found = NETS[net].recorded(), _records(net, names)
    lines = differences(found, recorded)
    equal = len(names) - len(lines)
    lines += [f"{name}: the program is gone" for name in recorded if whole and name not in found]
    lines += _errors(found)
    print("\n".join([*lines, f"{net}: {equal} of {len(names)} programs are as recorded"]))
    return int(bool(lines))


def _update(net: str, names: Sequence[str], whole: bool) -> int:
    recorded, made = NETS[net].recorded(), _records(net, names)
    if failed := _errors(made):
        print("\n".join(failed))
        return 1
    found = ({} if whole else recorded) | made
    changed = differences(found, recorded)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(kinds)}" for name, kinds in found.items())
    (HERE / NETS[net].file).write_text("{\n" + lines + "\n}\n")
    print("\n".join([*changed, f"{net}: {len(found)} programs written, {len(changed)} of them changed"]))
    return 0


def _show(net: str, name: str) -> int:
    for kind, text in NETS[net].texts(name).items():
        print(f"==== {name}: {kind}\n{text}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 1 where a text differs or a program fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.net.net", description="The nets of frozen programs.")
    asked = parser.add_mutually_exclusive_group(required=True)
    for flag in ("check", "update", "list"):
        asked.add_argument(f"--{flag}", action="store_true")
    asked.add_argument("--show", metavar="NAME")
    parser.add_argument("--net", choices=[*NETS, "all"], default="kernels")
    parser.add_argument("words", nargs="*", metavar="WORD")
    options = parser.parse_args(arguments)
    if options.show:
        return _show(options.net, options.show)
    status = 0
    for net in NETS if options.net == "all" else [options.net]:
        names = [name for name in NETS[net].names if not options.words or any(word in name for word in options.words)]
        if options.list:
            print("\n".join(names))
        else:
            status |= (_update if options.update else _check)(net, names, not options.words)
    return status


if __name__ == "__main__":
    sys.exit(main())

"""Rules know machines by their rows alone: no word of a processor's instructions, and schedules for each row build."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import drawn
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.codegen.machine import MACHINES, find_machine
from tilewright.codegen.target import Target

ROOT = Path(tw.__file__).parent
WORDS = re.compile(r"x86|\bavx|\bsse\d|\bamx|vnni|\b[xyz]mm|\bneon|\bsve|\brvv|aarch64|riscv", re.IGNORECASE)
TRIPLES = {"aarch64": "aarch64-unknown-linux-gnu", "riscv64": "riscv64-unknown-linux-gnu"}


def test_no_rule_names_a_processor() -> None:
    found: list[str] = []
    for path in (ROOT / "autoschedule").rglob("*.py"):
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
            is_text = token.type == tokenize.STRING and not token.string.startswith('"""')
            if (is_text or token.type == tokenize.NAME) and WORDS.search(token.string):
                found.append(f"{path.relative_to(ROOT)}:{token.start[0]}: {token.string}")
    assert found == []


@pytest.mark.parametrize(
    "cpu", drawn.part([row.cpus[0] for row in MACHINES if row.architecture in TRIPLES and row.cpus], 4)
)
def test_schedules_of_a_row_build(cpu: str) -> None:
    """A product, an image filter and rows, for another line of the cache and another length of vectors."""
    row = next(row for row in MACHINES if cpu in row.cpus)
    target = f"llvm -mtriple={TRIPLES[row.architecture]} -mcpu={cpu}"
    a, b = te.placeholder((64, 96), name="A"), te.placeholder((96, 80), name="B")
    image, w = te.placeholder((1, 16, 14, 14), name="X"), te.placeholder((16, 16, 3, 3), name="W")
    for args in ([a, b, topi.matmul(a, b)], [image, w, topi.nn.conv2d(image, w, padding=1)], [a, topi.nn.softmax(a)]):
        s = tw.autoschedule.schedule(args[-1], target)
        assert tw.build(s, args, target=target).source("asm")
    assert find_machine(Target.parse(target)).line == row.line

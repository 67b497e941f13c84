"""How hard LLVM tries for a test. Half of a test's time is LLVM's, spent on speed that tests of meaning do not look at.

Each of these tests is built with LLVM's O3, as users build, in some runs, and with little effort in the others, as the seed draws
it: the bits are the same either way, which is one more thing that the suite checks. Whoever looks at the machine code sees what O3
makes of it in any run, and `make soak` builds everything with O3.
"""

from __future__ import annotations

from dataclasses import replace

import drawn
import pytest
from tilewright.codegen.llvm.jit import CompiledModule
from tilewright.codegen.result import BuildOptions

__all__ = ["FOLDERS", "is_little", "with_little_effort"]

FOLDERS = ("autoschedule", "compat", "graph", "schedule", "te", "topi")
"""Whose tests ask what programs mean."""

_SHARE = 0.9
"""Of the tests that are built with little effort."""


def is_little(test: pytest.Item) -> bool:
    """Whether the test's kernels are made with little effort in this run."""
    folder = test.nodeid.removeprefix("tests/").partition("/")[0]
    return not drawn.SOAK and folder in FOLDERS and drawn.rng(f"effort of {test.nodeid}").random() < _SHARE


def with_little_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds take LLVM's quick way where they are not asked for another; what is shown of the code is O3's."""
    *others, quick = BuildOptions.__init__.__defaults__ or ()
    assert quick is False, "quick is the last option of a build"
    monkeypatch.setattr(BuildOptions.__init__, "__defaults__", (*others, True))
    for name in ("asm", "llvm_text_optimized"):
        shown = getattr(CompiledModule, name)
        monkeypatch.setattr(CompiledModule, name, lambda code, shown=shown: shown(replace(code, quick=False)))

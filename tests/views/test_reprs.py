"""What a session or a notebook shows of objects: a line, or a table, never the objects inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.autoschedule.groups import Group


def test_what_rules_and_schedules_show(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    choose = Group.choose

    def watched(group: Group, rule: str, candidates: Any) -> None:
        shown.extend([repr(group), *map(repr, candidates)])
        choose(group, rule, candidates)

    monkeypatch.setattr(Group, "choose", watched)
    A, B = te.placeholder((65, 33), name="A"), te.placeholder((17, 65), name="B")
    C = topi.nn.relu(topi.matmul(B, A))
    s = tw.autoschedule.schedule([A, B, C], target="llvm -mcpu=haswell")
    assert shown[0] == "Group(matmul -> T_relu)" and shown[1].startswith("Candidate(rows i, columns j: tile ")
    row = s.plan[0]
    shown += [repr(row), repr(row.machine), repr(s), repr(s[C])]
    assert repr(row).startswith(f"Decision({row.rule} of matmul: {row.description}, of ")
    assert max(map(len, shown)) < 200
    assert repr(s.plan) == str(s.plan) and repr(tw.autoschedule.rules()) == str(tw.autoschedule.rules())


def test_what_models_show() -> None:
    text = """graph net {
      input x: float32[2, 3]
      a: float32[2, 3] = relu(x)    # first<
      y: float32[2] = sum(a, axes=(1,), keepdims=false)
      output y
    }"""
    g = tw.graph.parse(text)
    assert repr(g.nodes[0]) == "Node(a: float32[2, 3] = relu(x), from first<)"
    assert repr(g.nodes[1]) == "Node(y: float32[2] = sum(a, axes=(1,), keepdims=False))"
    html = g._repr_html_()
    assert "graph net: 2 nodes, 0 params" in html and "first&lt;" in html and "float32[2, 3]" in html
    m = tw.build(g)
    assert "2 kernels a call" in m._repr_html_()
    assert repr(m.plan) == "<ModelPlan: 2 kernels, 2 runs a call>" and "bound by" in m.plan._repr_html_()
    profile = m.profile(np.ones((2, 3), "float32"))
    assert repr(profile) == str(profile) and "first&lt;" in profile._repr_html_()

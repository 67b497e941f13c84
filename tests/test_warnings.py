"""Warnings: classes of their own, at the user's line, once."""

from __future__ import annotations

import warnings

import pytest
import tilewright as tw
from tilewright.base.errors import SourceLine, user_source, warn_user


@pytest.mark.parametrize("category", [tw.PerformanceWarning, tw.TilewrightDeprecationWarning])
def test_every_warning_can_be_filtered_by_the_packages_class(category: type[tw.TilewrightWarning]) -> None:
    assert issubclass(category, tw.TilewrightWarning) and issubclass(tw.TilewrightWarning, UserWarning)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", tw.TilewrightWarning)
        warn_user(user_source(), "slow", category)
    assert caught == []


def test_deprecations_are_those_of_python_too() -> None:
    with pytest.warns(DeprecationWarning, match=r"^f is now g$"):
        warn_user(user_source(), "f is now g", tw.TilewrightDeprecationWarning)


def test_a_line_is_warned_once() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for line in (3, 3, 4):
            warn_user(SourceLine("program.py", line), "slow", tw.PerformanceWarning)
    assert [(each.filename, each.lineno) for each in caught] == [("program.py", 3), ("program.py", 4)]


def test_long_work_is_logged_below_the_packages_name(caplog: pytest.LogCaptureFixture) -> None:
    graph = tw.graph.parse("graph g {\n  input x: float32[4]\n  y: float32[4] = exp(x)\n  output y\n}\n")
    with caplog.at_level("INFO", "tilewright"):
        tw.build(graph)
    assert [each.name for each in caplog.records][:1] == ["tilewright.driver.linking"]
    assert "1 kernels" in caplog.messages[0]

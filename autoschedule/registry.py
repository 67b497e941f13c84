"""Rules of one's own.

    class Mine(tw.autoschedule.Rule):
        name, does = "rows of mine", "one row a task, 16 columns in lanes"

        def matches(self, group):
            return group.anchor.name == "blur"

        def apply(self, group):
            y, x = group.s[group.output].op.axis
            ...

    with tw.autoschedule.register(Mine()):
        s = tw.autoschedule.schedule([blur])

A rule is asked before those that come with tilewright, the one registered last first, for every group that a program is cut into
(groups.Group says what it is given), on every target. It schedules the group's operations by primitives on `group.s`; errors of
those are errors of its lines. Where sums are to keep their order and a rule reorders them, its work is taken back.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, cast

from ..base.errors import user_source
from .errors import BadRule

if TYPE_CHECKING:
    from .groups import Group
    from .plan import Candidate

__all__ = ["Registration", "Rule", "register", "registered_rules"]

_rules: list[Rule] = []


class Rule:
    """A rule of one's own. name: as `s.plan` and `rules()` show it. what: which groups it matches, in a few
    words; does: what it does, in one line. Either `apply` or `candidates` is defined, and `matches`."""

    name: str = ""
    what: str = ""
    does: str = ""

    def matches(self, group: Group) -> bool:
        """Return whether the rule schedules this group. Nothing may be changed here."""
        return False

    def apply(self, group: Group) -> None:
        """Schedules the group, where there is one way."""

    def candidates(self, group: Group) -> Sequence[Candidate]:
        """The ways there are: the one with the least estimate is taken, the first where estimates are missing."""
        from .plan import Candidate

        return [Candidate(self.does or "its one way", lambda: self.apply(group))]


class Registration:
    """A rule that is asked until `unregister()`, or until the `with` ends."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    def unregister(self) -> None:
        """The rule is no longer asked. Doing it twice changes nothing."""
        if self.rule in _rules:
            _rules.remove(self.rule)

    def __enter__(self) -> Registration:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unregister()


def register(rule: Rule) -> Registration:
    """Register a rule of one's own, which is asked before all others. Kernels of lists of tensors are not taken from the cache as long as
    there is one, since what it does is in no key. Raises BadRule (TW0228) for what is no rule, or one whose name is taken."""
    fix = "class Mine(tw.autoschedule.Rule) with a name, matches(self, group), and apply(self, group) or candidates(self, group)"
    if not isinstance(cast(object, rule), Rule):
        reason = "it is not a tw.autoschedule.Rule"
        if isinstance(rule, type) and issubclass(rule, Rule):
            reason, fix = "it is the class of a rule", f"tw.autoschedule.register({rule.__name__}())"
        raise BadRule(f"cannot register {rule!r}"[:200], reason=reason, called=user_source(), fix=fix)
    kind = type(rule)
    missing = [] if rule.name else ["a name"]
    missing += ["matches"] if kind.matches is Rule.matches else []
    missing += ["apply or candidates"] if kind.apply is Rule.apply and kind.candidates is Rule.candidates else []
    if missing:
        raise BadRule(
            f"cannot register {kind.__name__}", reason=f"it has not {', '.join(missing)}", called=user_source(), fix=fix
        )
    if any(other.name == rule.name for other in _rules):
        raise BadRule(
            f"cannot register {rule.name!r}",
            reason="a rule of this name is registered",
            called=user_source(),
            fix="registration.unregister() first, or use `with tw.autoschedule.register(rule):`",
        )
    _rules.append(rule)
    return Registration(rule)


def registered_rules() -> tuple[Rule, ...]:
    """The rules of one's own, in the order in which they are asked."""
    return tuple(reversed(_rules))

"""Rules that choose schedules: how, for what topi and users declare.

    s = tw.autoschedule.schedule([C], target="llvm", exact=True)        # also topi.schedule
    print(s.plan)                                                       # what was chosen, among what, and what binds it
    print(tw.autoschedule.rules())                                      # which rules there are; register(rule) adds one

What measures is above; `schedule` is a door to the one place that knows both rules and measured results.
"""

from __future__ import annotations

from ..topi.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "schedule": "..driver.schedule",
        "rules": "rules",
        "Rule": "registry",
        "register": "registry",
        "Candidate": "plan",
        "Estimate": "cost.estimate",
        "Plan": "plan",
    },
)

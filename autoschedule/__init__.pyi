"""The operators of tilewright.autoschedule; written by docs/make_faces.py."""

from ..driver.schedule import schedule as schedule
from .cost.estimate import Estimate as Estimate
from .plan import Candidate as Candidate, Plan as Plan
from .registry import Rule as Rule, register as register
from .rules import rules as rules

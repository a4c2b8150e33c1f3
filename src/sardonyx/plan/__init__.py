"""From liveness to offsets: timelines, plans, the planner, and the checker of every plan.

The definitions are in docs/machine.md, sections 4 to 7.
"""

from sardonyx.plan.bound import lower_bound
from sardonyx.plan.check import Violation, check_plan, check_timeline
from sardonyx.plan.place import plan
from sardonyx.plan.timeline import ALIGNMENT, Plan, Step, Timeline, padded

__all__ = [
    "ALIGNMENT",
    "Plan",
    "Step",
    "Timeline",
    "Violation",
    "check_plan",
    "check_timeline",
    "lower_bound",
    "padded",
    "plan",
]

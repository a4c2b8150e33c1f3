"""From liveness to offsets: timelines, plans, the planner, and the checker of every plan.

The definitions are in docs/machine.md, sections 4 to 7.
"""

from sardonyx.plan.bound import lower_bound
from sardonyx.plan.check import Violation, check_plan, check_timeline
from sardonyx.plan.kernels import in_place, step_of, steps, timeline_of
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
    "in_place",
    "lower_bound",
    "padded",
    "plan",
    "step_of",
    "steps",
    "timeline_of",
]

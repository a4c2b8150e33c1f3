"""From liveness to offsets: programs, plans, the planner, and the checker of every plan.

The definitions are in docs/machine.md, sections 4 to 7.
"""

from sardonyx.plan.bound import lower_bound
from sardonyx.plan.check import Violation, check_plan, check_program
from sardonyx.plan.place import plan
from sardonyx.plan.program import ALIGNMENT, Plan, Program, Step, padded
from sardonyx.plan.steps import in_place, program, steps

__all__ = [
    "ALIGNMENT",
    "Plan",
    "Program",
    "Step",
    "Violation",
    "check_plan",
    "check_program",
    "in_place",
    "lower_bound",
    "padded",
    "plan",
    "program",
    "steps",
]

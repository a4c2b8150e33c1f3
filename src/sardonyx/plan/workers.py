"""Plans for several threads: what each thread but the first needs lies after the plan for one.

    M of n threads = M of one thread, then n - 1 times the scratch of a worker

The tensors lie where they lie for one thread, so that one compiled program serves every number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sardonyx.errors import InternalError
from sardonyx.plan.bound import lower_bound
from sardonyx.plan.guard import violations
from sardonyx.plan.timeline import Plan, Timeline


def with_workers(
    plan: Plan, timeline: Timeline, needed: Sequence[int], workers: int
) -> tuple[Plan, Timeline]:
    """The plan for so many threads, and the timeline in which each step has the scratch of all of
    them. needed: the bytes that each thread but the first needs for itself in each step, a
    multiple of the alignment.

    Raises InternalError where that is not a valid plan.
    """
    starts = [plan.size + i * max(needed, default=0) for i in range(workers - 1)]
    steps, scratch = [], []
    for step, given, size in zip(timeline.steps, plan.scratch, needed, strict=True):
        some = starts if size else []
        steps.append(replace(step, scratch=(*step.scratch, *(size for _ in some))))
        scratch.append((*given, *some))
    wide = replace(timeline, steps=tuple(steps))
    size = plan.size + (workers - 1) * max(needed, default=0)
    made = replace(plan, scratch=tuple(scratch), size=size, lower_bound=lower_bound(wide))
    broken = violations(made, wide)
    if broken:
        raise InternalError(f"a plan for {workers} threads is not valid: {broken[0]}")
    return made, wide

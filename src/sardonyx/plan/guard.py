"""What every plan must pass before it is handed out: the extracted checker, or its Python twin.

The extracted checker is C (plan_check.c), made of formal/checker.mlw. What compiles and calls
it, sardonyx.proved, stands above this layer, so it is found by name when the first plan is made.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TypeAlias, cast

from sardonyx.errors import InternalError
from sardonyx.plan.check import Violation, check_plan
from sardonyx.plan.timeline import Plan, Timeline

Verdict: TypeAlias = Callable[[Plan, Timeline], "bool | None"]


@cache
def _proved() -> Verdict:
    return cast(Verdict, import_module("sardonyx.proved").is_valid)


def violations(plan: Plan, timeline: Timeline) -> list[Violation]:
    """What is wrong with a plan of a timeline; nothing if and only if it is valid.

    The twin answers where there is no C compiler, and says what is wrong. Raises InternalError
    where the extracted checker rejects a plan that its twin accepts.
    """
    valid = _proved()(plan, timeline)
    if valid:
        return []
    found = check_plan(plan, timeline)
    if valid is False and not found:
        raise InternalError("the extracted checker rejects a plan that its Python twin accepts")
    return found

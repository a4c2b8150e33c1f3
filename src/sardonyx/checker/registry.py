"""The list of rules. A rule is a page: what it says, why, an example, its limits; then code.

    @rule("Conv.1", "two spatial axes", TRANSIENT, "Conv [R1]", "", good=GOOD, bad=BAD)
    def conv_rank(check: Context) -> Found:
        '''X and W have rank 4.

        Why: ...
        Example: ...
        Limits: ...
        '''
        for node in check.of("Conv"):
            if check.rank(node.input(0)) not in (4, None):
                yield at(node, "rank 3", "rank 4")

good and bad are the rule's models (see `samples`): the first is clean, of the second the report
names this rule and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Literal, TypeAlias

from sardonyx.checker.context import Context
from sardonyx.checker.finding import Decided, Severity
from sardonyx.checker.nodes import Node
from sardonyx.checker.samples import Sample
from sardonyx.errors import InternalError

FAMILIES = (
    "container", "parameters", "metadata", "types", "shapes", "names", "use", "operators",
    "attributes", "elementwise", "domains", "conv", "pool", "layers", "layout", "slice", "lstm",
    "hazards", "founding",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seen:
    """What a rule saw at one place. severity: where it is not the rule's own."""

    observed: str
    expected: str
    node: str = ""
    operator: str = ""
    tensor: str = ""
    attribute: str = ""
    severity: Severity | None = None
    decided: Decided = Decided.STATICALLY
    monitor: str = ""


Found: TypeAlias = Iterator[Seen]
Check: TypeAlias = Callable[[Context], Found]
Stage: TypeAlias = Literal["bytes", "file", "graph"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. stage: what it needs: a decoded protobuf, one whose names are text, or G. blocks:
    a model that breaks it may be one that cannot be resolved, so that M01 need not say so too.
    implies: the rules that a model which breaks this one breaks as well, by their wording."""

    id: str
    title: str
    severity: Severity
    reference: str
    fix: str
    check: Check
    good: Sample
    bad: Sample
    stage: Stage
    blocks: bool
    implies: tuple[str, ...]
    dialect: str
    options: tuple[str, ...]


_RULES: dict[str, Rule] = {}


def rule(
    id: str,
    title: str,
    severity: Severity,
    reference: str,
    fix: str = "",
    *,
    good: Sample,
    bad: Sample,
    stage: Stage = "file",
    blocks: bool = False,
    implies: Sequence[str] = (),
    dialect: str = "sonnx",
    options: Sequence[str] = (),
) -> Callable[[Check], Check]:
    """Adds a rule. dialect, options: the profile and options under which its models are checked."""

    def register(check: Check) -> Check:
        if id in _RULES:
            raise InternalError(f"the rule {id} is there twice")
        _RULES[id] = Rule(
            id, title, severity, reference, fix, check, good, bad, stage, blocks,
            tuple(implies), dialect, tuple(options),
        )  # fmt: skip
        return check

    return register


@cache
def _load() -> None:
    for family in FAMILIES:
        import_module(f"sardonyx.checker.rules.{family}")


def all_rules() -> tuple[Rule, ...]:
    """All rules, in the order of their families."""
    _load()
    return tuple(sorted(_RULES.values(), key=_family))


def _family(rule: Rule) -> int:
    return FAMILIES.index(rule.check.__module__.rpartition(".")[2])


def at(
    node: Node,
    observed: object,
    expected: object,
    *,
    tensor: str = "",
    attribute: str = "",
    severity: Severity | None = None,
    decided: Decided = Decided.STATICALLY,
    monitor: str = "",
) -> Seen:
    """What was seen at a node."""
    return Seen(
        str(observed), str(expected), node.name, node.op, tensor, attribute, severity, decided,
        monitor,
    )  # fmt: skip


def of(
    tensor: str, observed: object, expected: object, *, severity: Severity | None = None
) -> Seen:
    """What was seen of a tensor."""
    return Seen(str(observed), str(expected), tensor=tensor, severity=severity)

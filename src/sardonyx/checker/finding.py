"""What the checker says: findings, and the report that holds them.

severity   an error: not a model of the profile; transient: an error of a restriction that the
           profile means to lift; warning: a recommendation; dynamic: an obligation that is left
           to the run-time monitor; info: a fact
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    ERROR = "error"
    TRANSIENT = "transient"
    WARNING = "warning"
    DYNAMIC = "dynamic"
    INFO = "info"


class Decided(StrEnum):
    """How a finding was reached: from the model alone, or only when it runs."""

    STATICALLY = "statically"
    AT_RUN_TIME = "at run time"


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule broken (or one obligation, or one fact) at one place.

    reference: the requirement, restriction or tag of SONNX. node: the node's name, or its index in
    the main graph as "#3"; "" where the finding is about the model. fix: the legalizer's fix that
    would mend it, "" where there is none. monitor: the kind under which `sardonyx monitor` sees
    what is left to run time, "" where it does not.
    """

    rule: str
    title: str
    reference: str
    severity: Severity
    observed: str
    expected: str
    node: str = ""
    operator: str = ""
    tensor: str = ""
    attribute: str = ""
    fix: str = ""
    decided: Decided = Decided.STATICALLY
    monitor: str = ""

    @property
    def where(self) -> str:
        """The place, for people."""
        parts = [f"{self.operator} '{self.node}'" if self.node else ""]
        parts += [f"attribute '{self.attribute}'" if self.attribute else ""]
        parts += [f"tensor '{self.tensor}'" if self.tensor else ""]
        return ", ".join(filter(None, parts)) or "model"

    @property
    def violates(self) -> bool:
        """Whether the model is not one of the profile because of this."""
        return self.severity in (Severity.ERROR, Severity.TRANSIENT)


@dataclass(frozen=True, slots=True)
class Report:
    """The findings on one model under one profile, worst first.

    skipped: the rules that could not be decided, and why. facts: digests, resolved operators and
    sizes, for traceability.
    """

    model: str
    profile: str
    findings: tuple[Finding, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def conforms(self) -> bool:
        """Whether no finding is an error."""
        return not any(f.violates for f in self.findings)

    @property
    def violations(self) -> tuple[Finding, ...]:
        """The findings that are errors."""
        return tuple(f for f in self.findings if f.violates)

    def of(self, rule: str) -> tuple[Finding, ...]:
        """The findings of one rule."""
        return tuple(f for f in self.findings if f.rule == rule)

"""The profile checker: rules on the raw model and on G, findings, reports.

    report = check("net.onnx", profile="sonnx@wg-2026-08")
    report.conforms; report.violations; report.of("G08")

Each rule is a page in rules/; docs/profile.md is made of them. A profile is data (profiles/).
"""

from sardonyx.checker.engine import check
from sardonyx.checker.finding import Decided, Finding, Report, Severity
from sardonyx.checker.profile import DEFAULT, Profile, dialects, find_profile
from sardonyx.checker.registry import Rule, all_rules

__all__ = [
    "DEFAULT",
    "Decided",
    "Finding",
    "Profile",
    "Report",
    "Rule",
    "Severity",
    "all_rules",
    "check",
    "dialects",
    "find_profile",
]

"""A report for people, and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict

from sardonyx.checker.finding import Decided, Report, Severity
from sardonyx.errors import shown


def text(report: Report) -> str:
    """One paragraph per finding, then a line that counts them."""
    lines = []
    for f in report.findings:
        watched = f": {f.monitor}" if f.monitor else ", which does not see it"
        later = f" (left to the run-time monitor{watched})"
        later = later if f.decided == Decided.AT_RUN_TIME else ""
        fix = f"; fix {f.fix}" if f.fix else ""
        lines.append(f"{f.severity}: {f.rule}: {f.title}: {f.where}{later}")
        lines.append(f"    found {f.observed}; expected {f.expected}")
        lines.append(f"    {f.reference}{fix}")
    if report.skipped:
        lines.append(
            f"not decided: {', '.join(report.skipped)}: {next(iter(report.skipped.values()))}"
        )
    lines.append(_verdict(report))
    return "\n".join(map(shown, lines))


def _verdict(report: Report) -> str:
    counts = Counter(f.severity for f in report.findings)
    found = ", ".join(f"{counts[s]} {s}" for s in Severity if counts[s])
    word = "conforms" if report.conforms else "does not conform"
    return f"{report.model}: {word} to {report.profile}" + (f" ({found})" if found else "")


def as_json(report: Report) -> str:
    """The report as one JSON object."""
    found = {
        "model": report.model,
        "profile": report.profile,
        "conforms": report.conforms,
        "findings": [asdict(f) for f in report.findings],
        "skipped": dict(report.skipped),
        "facts": dict(report.facts),
    }
    return json.dumps(found, indent=2)

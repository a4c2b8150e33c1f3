"""A report as SARIF 2.1.0 (OASIS), which code scanners and editors read.

A finding's place is a logical location (the node or tensor) in the model's file. An obligation that
is left to the run-time monitor is a result of the kind "open".
"""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from sardonyx.checker.finding import Decided, Finding, Report, Severity
from sardonyx.checker.registry import Rule, all_rules
from sardonyx.errors import shown

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
LEVEL = {
    Severity.ERROR: "error",
    Severity.TRANSIENT: "error",
    Severity.WARNING: "warning",
    Severity.DYNAMIC: "none",  # SARIF asks for it where the kind is not "fail"
    Severity.INFO: "none",
}


def sarif(report: Report) -> str:
    """The report as a SARIF log of one run."""
    listed = list(all_rules())
    index = {rule.id: i for i, rule in enumerate(listed)}
    run = {
        "tool": {
            "driver": {
                "name": "sardonyx check",
                "version": version("sardonyx"),
                "rules": [_descriptor(rule) for rule in listed],
            }
        },
        "artifacts": [{"location": {"uri": _uri(report.model)}}],
        "results": [_result(f, index[f.rule], report) for f in report.findings],
        "properties": {
            "profile": report.profile,
            "conforms": report.conforms,
            "skipped": dict(report.skipped),
            "facts": dict(report.facts),
        },
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _descriptor(rule: Rule) -> dict[str, Any]:
    first, _, rest = (rule.check.__doc__ or rule.title).partition("\n\n")
    return {
        "id": rule.id,
        "name": "".join(w[:1].upper() + w[1:] for w in rule.title.replace("'", "").split()),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": " ".join(first.split())},
        "help": {"text": " ".join(rest.split()) or rule.title},
        "defaultConfiguration": {"level": LEVEL[rule.severity]},
        "properties": {"reference": rule.reference, "fix": rule.fix},
    }


def _result(f: Finding, index: int, report: Report) -> dict[str, Any]:
    kind = "open" if f.decided == Decided.AT_RUN_TIME else "fail"
    level = LEVEL[f.severity] if kind == "fail" else "none"
    text = f"{f.title}: {f.where}: found {f.observed}; expected {f.expected}"
    place: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": _uri(report.model), "index": 0}},
        "logicalLocations": [_logical(f)],
    }
    return {
        "ruleId": f.rule,
        "ruleIndex": index,
        "kind": kind,
        "level": level if kind == "open" or level != "none" else "note",
        "message": {"text": shown(text)},
        "locations": [place],
        "properties": {
            "severity": str(f.severity),
            "reference": f.reference,
            "observed": f.observed,
            "expected": f.expected,
            "fix": f.fix,
            "decided": str(f.decided),
            "monitor": f.monitor,
        },
    }


def _logical(f: Finding) -> dict[str, str]:
    if f.node:
        name = f"{f.node}.{f.attribute}" if f.attribute else f.node
        return {"name": f.node, "fullyQualifiedName": name, "kind": "element"}
    if f.tensor:
        return {"name": f.tensor, "fullyQualifiedName": f.tensor, "kind": "value"}
    return {"name": "model", "kind": "document"}


def _uri(model: str) -> str:
    return quote(os.fsencode(PurePath(model).as_posix()))

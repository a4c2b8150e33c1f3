"""The profile checker: each rule on its two models, profiles, intervals, reports."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from sardonyx.checker import Report, Rule, all_rules, check
from sardonyx.checker.samples import Sample, build

RULES = all_rules()
BY_ID = {rule.id: rule for rule in RULES}


def checked(rule: Rule, sample: Sample, folder: Path) -> Report:
    """The report on a rule's model, under the rule's dialect."""
    files = build(sample)
    (folder / "model.onnx").write_bytes(files.model)
    for name, data in files.beside.items():
        (folder / name).write_bytes(data)
    return check(folder / "model.onnx", rule.dialect)


def named(report: Report) -> set[str]:
    return {finding.rule for finding in report.findings}


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.id)
def test_a_rule_is_silent_about_its_first_model(rule: Rule, tmp_path: Path) -> None:
    report = checked(rule, rule.good, tmp_path)
    assert not report.findings
    assert not report.skipped


@pytest.mark.parametrize("rule", [r for r in RULES if r.id != "M11"], ids=lambda r: r.id)
def test_the_report_on_a_rules_second_model_names_that_rule(rule: Rule, tmp_path: Path) -> None:
    assert named(checked(rule, rule.bad, tmp_path)) == {rule.id, *rule.implies}


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.id)
def test_a_rule_is_a_page(rule: Rule) -> None:
    """What, Why, Example and Limits."""
    text = inspect.getdoc(rule.check) or ""
    assert re.match(r"\S.*?\.\n", text, re.S), text
    for word in ("Why: ", "Example: ", "Limits: "):
        assert text.count(f"\n{word}") == 1, f"{rule.id}: {word}"

"""The operators' documents: what the formulas say, and that the pages are current."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from sardonyx.checker import all_rules, find_profile
from sardonyx.cli import main
from sardonyx.documents import document, page, tags
from sardonyx.documents.conditions import conditions
from sardonyx.documents.formula import formula

ROOT = Path(__file__).parents[1]
PROFILE = find_profile("sonnx@ej-2026-10")
NAMES = sorted(PROFILE.operators)
TAG = re.compile(r"E_[A-Z0-9]+_(FLOAT|INT|UINT|BOOL)_(FUNC|CONSTR_\w+)_\d{3,4}")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Relu", "y0[i0] = max(X[i0], 0.0)    for i0 < N"),
        ("MatMul", "y0[i0, i1] = Σ[r0 < K] A[i0, r0] · B[r0, i1]    for i0 < M, i1 < N"),
        ("Sigmoid", "y0[i0] = sigmoid(X[i0])    for i0 < N"),
        ("Less", "y0[i0] = A[i0] < B[i0]    for i0 < N"),
        ("Where", "y0[i0] = X[i0] if condition[i0] else Y[i0]    for i0 < N"),
        ("Transpose", "y0[i0, i1, i2] = data[i1, i2, i0]    for i0 < C, i1 < A, i2 < B"),
        ("Slice", "y0[i0, i1] = data[(i0 * 2) + 1, (i1 * -1) + 5]    for i0 < 3, i1 < 5"),
        ("LeakyRelu", "y0[i0] = (X[i0] * 0.1) if X[i0] < 0.0 else X[i0]    for i0 < N"),
    ],
)
def test_a_formula_says_what_the_kernel_does(name: str, said: str) -> None:
    kernel = document(name, PROFILE).kernel
    assert formula(kernel, {b: f"y{i}" for i, b in enumerate(kernel.outputs)}) == said


def test_conditions_are_those_of_the_kernel() -> None:
    found = {c.what for c in conditions(document("Div", PROFILE).kernel)}
    assert "x / 0 (IEEE 754, 7.3)" in found
    assert not conditions(document("Transpose", PROFILE).kernel)
    traps = conditions(document("Gather", PROFILE).kernel)
    assert [c.disposition for c in traps] == ["error"]


@pytest.mark.parametrize("name", NAMES)
def test_tags_follow_the_grammar_and_name_rules(name: str) -> None:
    found = tags(name, PROFILE)
    known = {rule.id for rule in all_rules()}
    assert len({tag.tag for tag in found}) == len(found)
    for tag in found:
        assert TAG.fullmatch(tag.tag), tag
        assert tag.rule in known or (not tag.rule and "_FUNC_" in tag.tag)


def test_every_rule_about_an_operator_is_in_a_document() -> None:
    general = re.compile(r"[MTGAV]\d|N0")
    named = {tag.rule for name in NAMES for tag in tags(name, PROFILE)}
    assert {r.id for r in all_rules() if not general.match(r.id) and r.id[0] != "V"} <= named


def test_the_pages_are_current() -> None:
    """Else: python tools/operator_pages.py"""
    made = runpy.run_path(str(ROOT / "tools" / "operator_pages.py"))["pages"]()
    folder = ROOT / "docs" / "operators"
    assert {p.name for p in folder.iterdir()} == set(made)
    for name, text in made.items():
        assert (folder / name).read_text() == text, name


def test_the_command_prints_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["operators", "--sonnx", "Conv"]) == 0
    assert capsys.readouterr().out == page("Conv", find_profile("sonnx"))
    assert main(["operators", "--sonnx", "Nonsense"]) == 2
    assert "has no document of 'Nonsense'" in capsys.readouterr().err

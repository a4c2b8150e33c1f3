"""docs/compliance.md: each tag of SONNX with its definition, its evidence, and the result.

    python -m tests.compliance            prints it
    python -m tests.compliance --update   rewrites docs/compliance.md

A function's tag is tried on ONNX's node vectors of its family of types, run by the interpreter that
the machine steps with, and on the sweeps of tests/test_sonnx_sweeps.py; a constraint's tag on the
two models of the rule that checks it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from onnx.backend.test.case.test_case import TestCase

from sardonyx.checker import Profile, check, find_profile
from sardonyx.checker.registry import Rule, all_rules
from sardonyx.checker.samples import Sample, build
from sardonyx.documents import document, tags
from sardonyx.documents.page import Tag
from sardonyx.ops.registry import find
from tests.node_cases import array, cases, since
from tests.node_cases import check as run_case
from tests.test_sonnx_references import COMPARED
from tests.test_sonnx_sweeps import SWEPT

PAGE = Path(__file__).parents[1] / "docs" / "compliance.md"
KINDS = {"FLOAT": "f", "INT": "i", "UINT": "u", "BOOL": "b"}
HEAD = """# Compliance with SONNX, tag by tag

Made by `python -m tests.compliance --update`. A function is defined once, and every engine
evaluates that definition. Its evidence: ONNX's node vectors of the family of types, run by the
machine's interpreter (the backend suite runs them on both engines, which agree to the bit),
exhaustive sweeps (`tests/test_sonnx_sweeps.py`), and NumPy where ONNX has no vectors of the type
(`tests/test_sonnx_references.py`). A constraint's evidence: the rule of
`sardonyx check` that reports its violation, on a model that keeps it and on one that does not.

"""


@dataclass(frozen=True)
class Line:
    """One tag. result: "pass", "FAIL" or "untried"."""

    tag: Tag
    definition: str
    evidence: str
    result: str


def profile_of(name: str) -> Profile:
    """The dialect whose document an operator has."""
    default = find_profile("sonnx")
    return default if name in default.operators else find_profile("sonnx@ej-2026-10")


def lines(name: str) -> Iterator[Line]:
    """The tags of one operator."""
    doc = document(name, profile_of(name))
    where = doc.operator.define.__module__.replace(".", "/") + ".py"
    for tag in tags(name, doc.profile):
        if not tag.rule:
            yield _function(tag, name, where)
            continue
        rule = next(r for r in all_rules() if r.id == tag.rule)
        module = rule.check.__module__.replace(".", "/") + ".py"
        evidence = f"`{rule.id}`: two models"
        yield Line(tag, module, evidence, "pass" if holds(rule.id) else "FAIL")


def _function(tag: Tag, name: str, where: str) -> Line:
    family = tag.tag.split("_")[2]
    found = vectors(name, family)
    passed = sum(found)
    swept = [what for what, names in SWEPT.items() if (name, family) in names]
    swept += ["NumPy, every type"] * ((name, family) in COMPARED)
    evidence = ", ".join(filter(None, (f"{passed} of {len(found)} vectors", *swept)))
    result = "FAIL" if passed < len(found) else "pass" if found or swept else "untried"
    return Line(tag, where, evidence, result)


@cache
def _cases(name: str) -> tuple[TestCase, ...]:
    return tuple(cases(name))


def vectors(name: str, family: str) -> list[bool]:
    """Whether each node vector of an operator and a family passes; those of versions and types that
    Sardonyx does not have fail."""
    return [_passes(case) for case in _cases(name) if _family(case) == family]


def _family(case: TestCase) -> str:
    """The family of a vector's data."""
    (node,) = case.model.graph.node
    inputs, outputs = case.data_sets[0]
    place = 1 if node.op_type == "Where" else 0
    if node.op_type == "Constant" or not inputs:
        data = np.asarray(array(outputs[0]))
    else:
        data = np.asarray(array(inputs[min(place, len(inputs) - 1)]))
    kinds = {kind: family for family, kind in KINDS.items()}
    return kinds.get(data.dtype.kind, "other")


def _passes(case: TestCase) -> bool:
    (node,) = case.model.graph.node
    if find("", node.op_type, since(node, case.model)) is None:
        return False
    try:
        run_case(case)
    except Exception:
        return False
    return True


@cache
def holds(rule_id: str) -> bool:
    """Whether a rule is silent about its first model and names itself on its second."""
    rule = next(r for r in all_rules() if r.id == rule_id)
    return not _named(rule, rule.good) and _named(rule, rule.bad) == {rule.id, *rule.implies}


def _named(rule: Rule, sample: Sample) -> set[str]:
    files = build(sample)
    with tempfile.TemporaryDirectory() as folder:
        for name, data in {"model.onnx": files.model, **files.beside}.items():
            (Path(folder) / name).write_bytes(data)
        return {f.rule for f in check(Path(folder) / "model.onnx", rule.dialect).findings}


def page() -> str:
    """The whole report."""
    found = {n: list(lines(n)) for n in sorted(find_profile("sonnx@ej-2026-10").operators)}
    every = [line for one in found.values() for line in one]
    counts = {word: sum(x.result == word for x in every) for word in ("pass", "FAIL", "untried")}
    total = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    parts = [f"{HEAD}{len(every)} tags of {len(found)} operators: {total}.\n"]
    for name, one in found.items():
        rows = "\n".join(
            f"| `{x.tag.tag}` | {x.tag.what} | `{x.definition}` | {x.evidence} | {x.result} |"
            for x in one
        )
        head = "| tag | what | definition | evidence | result |\n|---|---|---|---|---|"
        parts.append(f"## [{name}](operators/{name}.md)\n\n{head}\n{rows}\n")
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--update", action="store_true", help="rewrite docs/compliance.md")
    text = page()
    if parser.parse_args().update:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()

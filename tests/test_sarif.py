"""The SARIF that `sardonyx check` writes has the form of SARIF 2.1.0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import onnx
import pytest
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema as Official

from sardonyx.checker import Rule, all_rules, check
from sardonyx.checker.samples import build, model
from sardonyx.checker.sarif import sarif
from sardonyx.cli import main

Shell = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(model("g (float[2] x) => (float[2] y) { y = Relu (x) }"), "clean.onnx")
    broken = "g (float[2] x, float[2] z) => (float[2] y) { y = Softmax (x) }"
    onnx.save(model(broken), "broken.onnx")
    return tmp_path


# The part of SARIF 2.1.0 that a report uses, with the words, forms and references that the
# standard's text (sections 3.13 to 3.58) asks for, and nothing that it does not have.
TEXT = {
    "type": "object", "required": ["text"], "additionalProperties": False,
    "properties": {"text": {"type": "string", "minLength": 1}},
}  # fmt: skip
LEVEL = {"enum": ["none", "note", "warning", "error"]}
BAG = {"type": "object"}
URI = {"type": "string", "format": "uri-reference", "minLength": 1}


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "additionalProperties": False,
            "properties": properties}  # fmt: skip


RESULT = closed(
    ["message", "ruleId"],
    ruleId={"type": "string"},
    ruleIndex={"type": "integer", "minimum": -1},
    kind={"enum": ["notApplicable", "pass", "fail", "review", "open", "informational"]},
    level=LEVEL,
    message=TEXT,
    locations={
        "type": "array",
        "items": closed(
            [],
            physicalLocation=closed(
                ["artifactLocation"],
                artifactLocation=closed([], uri=URI, index={"type": "integer", "minimum": -1}),
            ),
            logicalLocations={
                "type": "array",
                "items": closed(
                    [],
                    name={"type": "string"},
                    fullyQualifiedName={"type": "string"},
                    kind={"type": "string"},
                ),
            },
        ),
    },
    properties=BAG,
)
RULE = closed(
    ["id"],
    id={"type": "string"},
    name={"type": "string"},
    shortDescription=TEXT,
    fullDescription=TEXT,
    help=TEXT,
    defaultConfiguration=closed([], level=LEVEL),
    properties=BAG,
)
SARIF = closed(
    ["version", "runs"],
    version={"const": "2.1.0"},
    runs={
        "type": "array",
        "minItems": 1,
        "items": closed(
            ["tool"],
            tool=closed(
                ["driver"],
                driver=closed(
                    ["name"],
                    name={"type": "string"},
                    version={"type": "string"},
                    rules={"type": "array", "uniqueItems": True, "items": RULE},
                ),
            ),
            artifacts={"type": "array", "items": closed([], location=closed([], uri=URI))},
            results={"type": "array", "items": RESULT},
            properties=BAG,
        ),
    },
) | {"type": "object"}
SARIF["properties"]["$schema"] = {"type": "string", "format": "uri"}


def formed(text: str) -> dict[str, Any]:
    """The log, which has the form of the text of the standard, and of its schema, from which the
    package pydantic-sarif is generated."""
    log: dict[str, Any] = json.loads(text)
    jsonschema.validate(log, SARIF, format_checker=jsonschema.FormatChecker())
    Official.model_validate_json(text)
    (run,) = log["runs"]
    listed = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    for result in run["results"]:
        assert listed[result["ruleIndex"]] == result["ruleId"]
        assert result["kind"] == "fail" or result["level"] == "none"  # 3.27.10
    return log


def test_sarif_has_the_form_that_the_standard_asks_for(folder: Path, capsys: Shell) -> None:
    onnx.save(model("g (int8[1] x) => (int8[1] y) { y = Abs (x) }"), "open.onnx")
    Path("a name, 100% #1.onnx").write_bytes(Path("broken.onnx").read_bytes())
    for name in ("broken", "open", "clean", "a name, 100% #1"):
        main(["check", f"{name}.onnx", "--format", "sarif"])
        formed(capsys.readouterr().out)


@pytest.mark.parametrize("rule", all_rules(), ids=lambda r: r.id)
def test_the_finding_of_every_rule_is_sarif(rule: Rule, tmp_path: Path) -> None:
    files = build(rule.bad)
    (tmp_path / "model.onnx").write_bytes(files.model)
    for name, data in files.beside.items():
        (tmp_path / name).write_bytes(data)
    log = formed(sarif(check(tmp_path / "model.onnx", rule.dialect)))
    assert rule.id in {result["ruleId"] for result in log["runs"][0]["results"]} or rule.id == "M11"


@pytest.mark.parametrize(
    "wrong",
    [{"version": "2.0.0"}, {"runs": [{}]}, {"extra": 1}, {"runs": [{"tool": {"driver": {}}}]}],
    ids=str,
)
def test_a_log_of_another_form_is_refused(wrong: dict[str, Any], folder: Path) -> None:
    log = json.loads(sarif(check(folder / "clean.onnx", "sonnx")))
    Official.model_validate(log)
    with pytest.raises(ValueError, match="validation error"):
        Official.model_validate({**log, **wrong})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**log, **wrong}, SARIF)

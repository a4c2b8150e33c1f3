"""Rules about what a model says of itself."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

from onnx import ModelProto, helper

from sardonyx.checker.context import Context
from sardonyx.checker.finding import Severity
from sardonyx.checker.registry import Found, Seen, of, rule
from sardonyx.checker.samples import model

RELU = "g (float[2] x) => (float[2] y) { y = Relu (x) }"


@rule("M09", "no extraneous content", Severity.WARNING, "ED-324 (h)", "F10", good=RELU,
      bad="g (float[2] x) => (float[2] y) <float[1] w = {1.0}> { y = Relu (x) }")  # fmt: skip
def content(check: Context) -> Found:
    """No doc_string, other metadata, unused initializer, or type of a tensor that is not there.

    Why: what is no part of the description may be taken for one.
    Example: an initializer that no node reads.
    Limits: only of the model and its main graph; allowed keys are data of the profile. Keys
    that the metadata sonnx.extraneous lists (JSON) are marked as no part of the description.
    """
    proto = check.proto
    allowed = check.profile.option("allowed_metadata")
    marked = next((p.value for p in proto.metadata_props if p.key == "sonnx.extraneous"), "[]")
    for entry in proto.metadata_props:
        if allowed and entry.key not in (*allowed, *_list(marked)):
            yield Seen(f"the metadata key {entry.key}", f"one of {', '.join(allowed)}")
    graph = proto.graph
    for what, message in (("model", proto), ("graph", graph)):
        if message.doc_string:
            yield Seen(f"a doc_string of the {what}", "none")
    read = {*check.consumers, *check.outputs}
    for name in sorted(check.initializers - read):
        yield of(name, "an initializer that nothing reads", "none")
    there = {*check.inputs, *check.outputs, *check.initializers, *check.producers}
    for info in graph.value_info:
        if info.name not in there:
            yield of(info.name, "a type of a tensor that is not there", "none")


def _bad_json() -> ModelProto:
    made = model(RELU)
    helper.set_model_props(made, {"sonnx.profile": "sonnx", "sonnx.io": "{}"})
    return made


@rule("M10", "metadata of the profile", Severity.WARNING,
      "AI-000, THAV-001, REQ-FO-040, REQ-FO-050", "F16", good=RELU, bad=_bad_json)  # fmt: skip
def metadata(check: Context) -> Found:
    """The keys sonnx.profile, sonnx.replication and sonnx.io are there and well-formed.

    Why: who replicates the model must know the profile, how close is close enough, and what the
    inputs and outputs mean. sonnx.replication is "exact" or a JSON object of max_abs, max_rel, ulp;
    sonnx.io is a JSON object from each input's and output's name to its meaning.
    Example: no sonnx.replication.
    Limits: the meaning itself is a text that nothing checks.
    """
    found = {entry.key: entry.value for entry in check.proto.metadata_props}
    for key in check.profile.option("metadata"):
        if key not in found:
            yield Seen(f"no metadata {key}", key)
    text = found.get("sonnx.replication", "exact")
    tolerance = _object(text)
    if text != "exact" and (not tolerance or set(tolerance) - {"max_abs", "max_rel", "ulp"}):
        yield Seen(f"sonnx.replication = {text}", '"exact", or {"max_abs": ..., "ulp": ...}')
    if "sonnx.io" in found:
        meaning = _object(found["sonnx.io"])
        missing = [n for n in (*check.inputs, *check.outputs) if n not in (meaning or {})]
        if meaning is None or (missing and meaning):
            yield Seen(f"sonnx.io without {missing or 'an object'}", "a text for each of them")


def _list(text: str) -> list[str]:
    try:
        found = json.loads(text)
    except ValueError:
        return []
    return [str(key) for key in found] if isinstance(found, list) else []


def _object(text: str) -> dict[str, object] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


@rule("M11", "fingerprint", Severity.INFO, "AI-005, AI-006", stage="bytes", good=RELU,
      bad=RELU)  # fmt: skip
def fingerprint(check: Context) -> Found:
    """The SHA-256 of the model, of each initializer, and the operators with their versions.

    Why: a report must say of which model it speaks; a change of the model must be seen.
    Example: sha256 of the model: 9f86d0...
    Limits: a fact, never a violation. The model's digest is of its protobuf, written in the one
    deterministic order of protobuf's own serialisation, and does not cover external files.
    """
    data = check.model.proto.SerializeToString(deterministic=True)
    yield Seen(hashlib.sha256(data).hexdigest(), "sha256 of the model")
    if check.graph is None:
        return
    for name, value in sorted(check.graph.initializers.items()):
        if value.dtype != object:
            digest = hashlib.sha256(value.tobytes()).hexdigest()
            yield Seen(digest, "sha256 of its elements", tensor=name)
    counts = Counter((op.op_type, op.since) for op in check.graph.operations)
    for (name, since), count in sorted(counts.items()):
        yield Seen(str(count), f"operations {name}-{since}")

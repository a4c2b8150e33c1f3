"""Runs the rules of a profile over a model.

    report = check("net.onnx", profile="sonnx@wg-2026-08")
    report.conforms, report.violations

What cannot be resolved is a finding (M01), not an exception; only what cannot be read at all is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import onnx.inliner

from sardonyx.checker.context import Context
from sardonyx.checker.finding import Finding, Report, Severity
from sardonyx.checker.interval import Interval
from sardonyx.checker.profile import Profile, find_profile
from sardonyx.checker.registry import Rule, Seen, all_rules
from sardonyx.errors import FeedError, ModelError, SardonyxError
from sardonyx.graph import Graph
from sardonyx.model import Limits, Model, Source
from sardonyx.model.load import check_form, decode
from sardonyx.resolve import resolve
from sardonyx.resolve.shapes import unstated

ORDER = list(Severity)


@dataclass(frozen=True, slots=True)
class Options:
    """allow: "transient" makes errors of transient restrictions warnings. ranges: name -> (low,
    high) of graph inputs. batch: the first dim of inputs and outputs may be symbolic. strict_tbc:
    restrictions that are "to be confirmed" are errors."""

    allow: frozenset[str] = frozenset()
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    batch: bool = False
    strict_tbc: bool = False


def check(
    source: Source,
    profile: str | Profile = "sonnx",
    *,
    allow: Iterable[str] = (),
    ranges: Mapping[str, tuple[float, float]] | None = None,
    batch: bool = False,
    strict_tbc: bool = False,
    limits: Limits | None = None,
) -> Report:
    """The report on a model (a path, bytes or a ModelProto) under a profile.

    Raises InvalidModel where the file cannot be read or is no protobuf, SardonyxError for an
    unknown profile, FeedError for a range of what is no input.
    """
    chosen = find_profile(profile) if isinstance(profile, str) else profile
    options = Options(frozenset(allow), ranges or {}, batch, strict_tbc)
    model = decode(source, limits)
    context, form = _context(model, chosen, options)
    held = [rule for rule in all_rules() if chosen.has(rule.id)]
    skipped = {rule.id: why for rule in held if (why := _undecidable(rule, context, form))}
    blocked = {rule.id for rule in held if rule.blocks}
    findings: list[Finding] = []
    for rule in sorted(held, key=lambda r: r.id == "M01"):
        said = rule.id == "M01" and any(f.rule in blocked and f.violates for f in findings)
        if rule.id not in skipped and not said:
            findings += _run(rule, context, options)
    facts = {f"{f.where}: {f.expected}": f.observed for f in findings if f.severity == "info"}
    rest = [f for f in findings if f.severity != Severity.INFO]
    rest.sort(key=lambda f: ORDER.index(f.severity))
    return Report(model.name, str(chosen), tuple(rest), skipped, facts)


def _undecidable(rule: Rule, context: Context, form: str) -> str:
    """Why a rule cannot be decided, "" where it can."""
    if rule.stage != "bytes" and form:
        return "the file's form is broken"
    if rule.stage == "graph" and context.graph is None:
        return "the model cannot be resolved"
    return ""


def _context(model: Model, profile: Profile, options: Options) -> tuple[Context, str]:
    """The context, and why the file's form is broken ("" where it is not)."""
    context = Context(
        model, model.proto, profile, batch=options.batch, strict_tbc=options.strict_tbc
    )
    try:
        check_form(model)
    except ModelError as error:
        context.refusal = str(error)
        return context, context.refusal
    context.graph, context.refusal = _resolved(model)
    if context.graph is not None and model.proto.functions:
        context.proto = onnx.inliner.inline_local_functions(model.proto)
    context.ranges = _ranges(context, options)
    return context, ""


def _resolved(model: Model) -> tuple[Graph | None, str]:
    """G and why it is not that of the file as it stands: where only the types that the file states
    are wrong, it is the G of the model without them."""
    try:
        return resolve(model), ""
    except SardonyxError as error:
        refusal = str(error)
    bare = unstated(model.proto)
    try:
        return resolve(Model(bare, model.name, model.folder, model.limits, True)), refusal
    except SardonyxError:
        return None, refusal


def _ranges(context: Context, options: Options) -> dict[str, Interval]:
    found = {}
    for name, (low, high) in options.ranges.items():
        if name not in context.inputs:
            there = ", ".join(context.inputs) or "none"
            raise FeedError(f"a range is given for '{name}'; the model's inputs are {there}")
        if not low <= high:
            raise FeedError(f"the range of '{name}' is {low} to {high}, which is empty")
        found[name] = Interval(float(low), float(high))
    return found


def _run(rule: Rule, context: Context, options: Options) -> Iterable[Finding]:
    for seen in rule.check(context):
        yield _finding(rule, seen, context, options)


def _finding(rule: Rule, seen: Seen, context: Context, options: Options) -> Finding:
    severity = seen.severity or context.profile.severity(rule.id, rule.severity)
    if severity == Severity.TRANSIENT and "transient" in options.allow:
        severity = Severity.WARNING
    return Finding(
        rule.id, rule.title, rule.reference, severity, seen.observed, seen.expected, seen.node,
        seen.operator, seen.tensor, seen.attribute, rule.fix, seen.decided, seen.monitor,
    )  # fmt: skip

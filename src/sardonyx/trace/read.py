"""Traces read back, and whether they are whole.

    read(text)          the trace; InvalidTrace where a byte of it was changed
    disclose(text, 3)   one step that can be shown and checked without the others
    disclosed(text)     the same read back

A trace is taken for whole when every line is the body and the chain that its place demands, the
last line is a footer, and the footer's root and count are those of the lines. Whoever rewrites a
trace from its start can make it whole again: keep the footer's chain, or its root, elsewhere, and
hand it over as `expected`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sardonyx import types as t
from sardonyx.errors import FeedError
from sardonyx.trace.digest import chained, dumps, of_bytes, path, root, root_by_path
from sardonyx.trace.form import START, VERSION
from sardonyx.trace.grammar import BODY, FOOTER, HEADER, LAYOUT, PLANNED, STEP, misfit
from sardonyx.types import DType

_LINE = re.compile(r'(\{.*),"chain":"([0-9a-f]{64})"\}', re.DOTALL)


CONTAINERS = ("sequence", "map", "none")  # what lies outside of M besides tensors
Scope: TypeAlias = tuple[tuple[tuple[int, ...], str, int], ...]  # operation, attribute, iteration


class InvalidTrace(FeedError):
    """The text is not a whole trace."""


@dataclass(frozen=True, slots=True)
class Touched:
    """A tensor as a line has it; `before` of what is only read is its digest, `after` is "" then,
    and where the step trapped."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    offset: int
    size: int
    before: str
    after: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """A step as its line has it."""

    number: int
    operation: Mapping[str, Any]
    reads: tuple[Touched, ...]
    writes: tuple[Touched, ...]
    flags: Mapping[str, int]
    scope: Scope = ()
    layout: int | None = None

    def __str__(self) -> str:
        op = self.operation
        name = op["name"] or "#" + ".".join(map(str, op["path"]))
        return f"step {self.number}, {op['op_type']} '{name}'"


@dataclass(frozen=True, slots=True)
class Layout:
    """M laid out anew for a part of a graph in stages."""

    number: int
    scope: Scope
    plan: str
    memory: int
    initial: tuple[Touched, ...]


@dataclass(frozen=True, slots=True)
class Entered:
    """A subgraph that begins: with its inputs, with what it captures, with its initializers."""

    scope: Scope
    inputs: tuple[Touched, ...]
    captured: tuple[Touched, ...]
    initial: tuple[Touched, ...]
    outputs: tuple[str, ...]


Line: TypeAlias = Record | Layout | Entered


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace. `header` and `footer` are as in trace/form.py; lines: what is between them."""

    header: Mapping[str, Any]
    initial: tuple[Touched, ...]
    steps: tuple[Record, ...]
    footer: Mapping[str, Any]
    lines: tuple[Line, ...] = ()

    @property
    def staged(self) -> bool:
        """Whether the graph was executed in stages: trace/stages.py has the form."""
        return bool(self.header.get("stages"))

    @property
    def complete(self) -> bool:
        return bool(self.footer["end"] == "complete")


def read(text: str | bytes, expected: str | None = None) -> Trace:
    """The trace in `text`, which is as the file has it, no line ends translated.

    expected: the footer's chain or root, where it is known. Raises InvalidTrace, which names the
    line.
    """
    bodies, chain = _bodies(text)
    footer = _parsed(f"{bodies[-1]}}}", len(bodies))
    _fit(footer, FOOTER, len(bodies))
    header = _header(bodies[0])
    lines = tuple(_line(f"{body}}}", i + 2) for i, body in enumerate(bodies[1:-1]))
    steps = tuple(line for line in lines if isinstance(line, Record))
    if footer.get("root") != root(bodies[:-1]) or footer.get("steps") != len(steps):
        raise InvalidTrace("the last line is not the footer of the lines before it")
    if expected is not None and expected not in (chain, footer["root"]):
        raise InvalidTrace(f"the trace ends with the chain {chain}, expected {expected}")
    if [s.number for s in steps] != list(range(len(steps))):
        raise InvalidTrace("the steps are not numbered from 0 on")
    found = Trace(header, initial_of(header), steps, footer, lines)
    if len(steps) != len(lines) and not found.staged:
        raise InvalidTrace("the graph is not executed in stages, and a line is no step")
    return found


def _bodies(given: str | bytes) -> tuple[list[str], str]:
    """The bodies of all lines, and the last chain."""
    lines = _ascii(given).split("\n")
    if len(lines) < 3 or lines.pop() != "":
        raise InvalidTrace("the trace is cut off: a header, a footer, and an end of line are there")
    bodies, chain = [], START
    for number, line in enumerate(lines, 1):
        found = _LINE.fullmatch(line)
        if found is None or not line.isascii():
            raise InvalidTrace(f"line {number} is not a line of a trace")
        chain = chained(chain, found[1])
        if chain != found[2]:
            raise InvalidTrace(f"line {number} was changed: its chain is {chain}")
        bodies.append(found[1])
    return bodies, chain


def _ascii(text: str | bytes) -> str:
    try:
        return text if isinstance(text, str) else text.decode("ascii")
    except UnicodeDecodeError as error:
        raise InvalidTrace(f"byte {error.start} is not ASCII") from error


def _parsed(text: str, number: int) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidTrace(f"line {number} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise InvalidTrace(f"line {number} is not an object")
    return found


def _header(body: str) -> Mapping[str, Any]:
    header = _parsed(f"{body}}}", 1)
    if header.get("trace") != VERSION:
        raise InvalidTrace(f"the header is of version {header.get('trace')}, expected {VERSION}")
    _fit(header, HEADER if header.get("stages") else PLANNED, 1)
    return header


def _fit(line: Mapping[str, Any], form: Mapping[str, Any], number: int) -> None:
    if wrong := misfit(line, form):
        raise InvalidTrace(f"line {number} is not a line of a trace: {wrong}")


def initial_of(header: Mapping[str, Any]) -> tuple[Touched, ...]:
    """The tensors that have a value at the start."""
    return _held(header["initial"])


def _step(text: str, number: int) -> Record:
    found = _line(text, number)
    if not isinstance(found, Record):
        raise InvalidTrace(f"line {number} is not a step")
    return found


def line_of(body: str) -> Line:
    """What a line without its chain says."""
    return _line(f"{body}}}", 0)


def _line(text: str, number: int) -> Line:
    found = _parsed(text, number)
    form = BODY if "body" in found else STEP if "step" in found else LAYOUT
    _fit(found, form, number)
    scope = tuple((tuple(path), name, i) for path, name, i in found.get("scope", ()))
    if form is BODY:
        parts = [_held(found[key]) for key in ("inputs", "captured", "initial")]
        return Entered(scope, parts[0], parts[1], parts[2], tuple(found["outputs"]))
    if form is LAYOUT:
        places = _held(found["initial"])
        return Layout(found["layout"], scope, found["plan"], found["memory"], places)
    return Record(
        found["step"],
        found["operation"],
        _held(found["reads"]),
        tuple(_touched(x, x["before"], x["after"]) for x in found["writes"]),
        found["flags"],
        scope,
        found.get("layout"),
    )


def _held(places: Sequence[Mapping[str, Any]]) -> tuple[Touched, ...]:
    return tuple(_touched(x, x["sha256"]) for x in places)


def _touched(x: Mapping[str, Any], before: str, after: str = "") -> Touched:
    shape = tuple(x["shape"])
    try:
        dtype = t.string if x["dtype"] in CONTAINERS else t.by_name(x["dtype"])
    except KeyError as error:
        raise InvalidTrace(f"'{x['name']}' has the type {error}, which there is not") from error
    return Touched(x["name"], dtype, shape, x["offset"], x["size"], before, after)


@dataclass(frozen=True, slots=True)
class Disclosed:
    """One step of a trace, shown without the others."""

    header: Mapping[str, Any]
    step: Record
    root: str
    values: Mapping[str, bytes]


def disclose(text: str | bytes, number: int, values: Mapping[str, bytes] | None = None) -> str:
    """The header and step `number` of a trace with their paths to the root, and the values that
    are to be shown: one line of JSON. Raises InvalidTrace, FeedError where there is no such step.
    """
    whole = read(text)
    bodies, _ = _bodies(text)
    if not 0 <= number < len(whole.steps):
        raise FeedError(f"there is no step {number}: the trace has {len(whole.steps)}")
    leaves, at = bodies[:-1], whole.lines.index(whole.steps[number]) + 1
    made = {
        "disclosed": number,
        "of": len(whole.steps),
        "root": whole.footer["root"],
        "header": [leaves[0], path(leaves, 0)],
        "line": at,
        "step": [leaves[at], path(leaves, at)],
        "values": {digest: data.hex() for digest, data in (values or {}).items()},
    }
    return f"{dumps(made)}\n"


def disclosed(text: str | bytes, expected: str | None = None) -> Disclosed:
    """What `disclose` made, checked against its root, and that against the `expected` one."""
    found = _parsed(_ascii(text), 1)
    try:
        number, claimed = found["disclosed"], found["root"]
        for (leaf, beside), index in ((found["header"], 0), (found["step"], found["line"])):
            _leads(leaf, index, beside, claimed)
        step = _step(f"{found['step'][0]}}}", 1)
        values = {digest: bytes.fromhex(data) for digest, data in found["values"].items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidTrace(f"this is no step of a trace: {error}") from error
    if expected is not None and claimed != expected:
        raise InvalidTrace(f"the root is {claimed}, expected {expected}")
    if step.number != number:
        raise InvalidTrace(f"the line is step {step.number}, shown as {number}")
    if other := [digest for digest, data in values.items() if of_bytes(data) != digest]:
        raise InvalidTrace(f"the value shown as {other[0]} has another digest")
    return Disclosed(_header(found["header"][0]), step, claimed, values)


def _leads(leaf: str, index: int, beside: Sequence[str], claimed: str) -> None:
    if root_by_path(leaf, index, beside) != claimed:
        raise InvalidTrace(f"line {index + 1} does not lead to the root {claimed}")

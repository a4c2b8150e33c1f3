"""The memory discipline of a run in stages, checked from its trace alone (docs/machine.md, 10).

    check(trace)   what is wrong, in words, of any trace; [] for a run that kept the rules

Each layout of M is checked as a run of its own (trace/discipline.py), whose outputs are what is
needed after it. Between them, values lie outside of M, by scope:

- what a layout begins with, what the host reads and what a subgraph captures is the value that was
  given or written last, in the same scope or the one around it;
- single assignment, in each execution of a subgraph;
- the executions of a subgraph are counted from 0 on, and end with all of its outputs;
- the outputs are what was written last.

That an operation hands its subgraph the right values, and takes its results, shows when it is
executed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sardonyx.trace import discipline
from sardonyx.trace.read import Entered, Layout, Line, Record, Scope, Touched, Trace

Held = dict[str, Touched]


@dataclass(slots=True)
class _Scopes:
    """What a reader knows: the values of each scope, and what is wrong."""

    held: dict[Scope, Held]
    outputs: dict[Scope, tuple[str, ...]] = field(default_factory=dict)
    times: Counter[tuple[Scope, tuple[int, ...], str]] = field(default_factory=Counter)
    inner: dict[tuple[Scope, tuple[int, ...]], list[Scope]] = field(default_factory=dict)
    layouts: int = 0
    found: list[str] = field(default_factory=list)

    def same(self, who: str, scope: Scope, x: Touched) -> None:
        """Whether a value is the one that the scope knows."""
        known = self.held.get(scope, {}).get(x.name)
        if known is None:
            self.found.append(f"{who}: '{x.name}' is read and has no value")
        elif (x.dtype, x.shape, x.before) != (known.dtype, known.shape, known.after):
            self.found.append(f"{who}: the read of '{x.name}' does not see the last write")

    def assign(self, who: str, scope: Scope, written: Iterable[Touched]) -> None:
        """What a step writes has a value from then on."""
        held = self.held.setdefault(scope, {})
        for x in written:
            if x.name in held:
                self.found.append(f"{who}: '{x.name}' is assigned again")
            held[x.name] = x


def check(trace: Trace) -> list[str]:
    """Every rule that the run broke, with the step."""
    return _check_stages(trace) if trace.staged else discipline.check(trace)


def _check_stages(trace: Trace) -> list[str]:
    scopes = _Scopes({(): _values(trace.initial)}, {(): tuple(trace.header["outputs"])})
    uses = _uses(trace)
    at = 0
    while at < len(trace.lines):
        line = trace.lines[at]
        end = _end(trace.lines, at) if isinstance(line, Layout) else at + 1
        match line:
            case Layout():
                later = {n for n, last in uses.get(line.scope, {}).items() if last >= end}
                steps = [x for x in trace.lines[at + 1 : end] if isinstance(x, Record)]
                _layout(scopes, line, steps, later)
            case Entered():
                _entered(scopes, line)
            case Record():
                _performed(scopes, line)
        at = end
    for x in trace.footer["outputs"]:
        known = scopes.held[()].get(x["name"])
        if known is None or known.after != x["sha256"]:
            scopes.found.append(f"the footer: '{x['name']}' is not what was written last")
    return scopes.found


def _values(given: Iterable[Touched]) -> Held:
    """Values as if they had been written."""
    return {
        x.name: Touched(x.name, x.dtype, x.shape, x.offset, x.size, x.before, x.before)
        for x in given
    }


def _end(lines: tuple[Line, ...], at: int) -> int:
    """Where the steps of a layout end."""
    layout, end = lines[at], at + 1
    assert isinstance(layout, Layout)
    while end < len(lines):
        line = lines[end]
        if not isinstance(line, Record) or line.layout != layout.number:
            break
        end += 1
    return end


def _uses(trace: Trace) -> dict[Scope, dict[str, int]]:
    """For each scope, tensor -> the last line for which it has to be there, outside of M."""
    found: dict[Scope, dict[str, int]] = {}
    for i, line in enumerate(trace.lines):
        found.setdefault(line.scope, {}).update(dict.fromkeys(_needed(line), i))
        if isinstance(line, Entered):
            captured = dict.fromkeys((x.name for x in line.captured), i)
            found.setdefault(line.scope[:-1], {}).update(captured)
            found[line.scope].update(dict.fromkeys(line.outputs, len(trace.lines)))
    found.setdefault((), {}).update(dict.fromkeys(trace.header["outputs"], len(trace.lines)))
    return found


def _needed(line: Line) -> Iterator[str]:
    match line:
        case Layout():
            yield from (x.name for x in line.initial)
        case Record() if line.layout is None:
            yield from (x.name for x in line.reads)


def _layout(scopes: _Scopes, layout: Layout, steps: list[Record], later: set[str]) -> None:
    """A part in its own M."""
    who = f"layout {layout.number}"
    if layout.scope not in scopes.held:
        scopes.found.append(f"{who}: it is of a subgraph that was not entered")
    if layout.number != scopes.layouts:
        scopes.found.append(f"{who}: there were {scopes.layouts} before it")
    scopes.layouts += 1
    for x in layout.initial:
        scopes.same(who, layout.scope, x)
    written = {x.name for s in steps for x in s.writes}
    for s in steps:
        if s.scope != layout.scope:
            scopes.found.append(f"{s}: it is of another scope than its layout")
    scopes.found += discipline.check_memory(
        layout.memory, layout.initial, steps, sorted(written & later), who
    )
    for s in steps:
        if not s.flags["index"]:
            scopes.assign(str(s), s.scope, s.writes)


def _entered(scopes: _Scopes, line: Entered) -> None:
    """A subgraph begins."""
    if not line.scope:
        scopes.found.append("a subgraph is entered that belongs to no operation")
        return
    path, name, time = line.scope[-1]
    around, key = line.scope[:-1], (line.scope[:-1], path, name)
    who = f"'{name}' of #{'.'.join(map(str, path))}, execution {time}"
    if time != scopes.times[key]:
        scopes.found.append(f"{who}: it was executed {scopes.times[key]} times before")
    scopes.times[key] += 1
    for x in line.captured:
        scopes.same(who, around, x)
    if line.scope in scopes.held:
        scopes.found.append(f"{who}: it is entered again")
    scopes.inner.setdefault((around, path), []).append(line.scope)
    given = (*line.initial, *line.inputs, *line.captured)
    scopes.held[line.scope] = _values(given)
    scopes.outputs[line.scope] = line.outputs


def _performed(scopes: _Scopes, step: Record) -> None:
    """A step of the host."""
    who = str(step)
    if step.layout is not None:
        scopes.found.append(f"{who}: M is not laid out as it says")
        return
    for x in (*step.reads, *step.writes):
        if x.offset != -1:
            scopes.found.append(f"{who}: '{x.name}' lies outside of M for the host")
    for x in step.reads:
        scopes.same(who, step.scope, x)
    if step.flags["index"]:
        return
    path = tuple(step.operation["path"])
    for scope in scopes.inner.pop((step.scope, path), ()):
        for name in scopes.outputs.get(scope, ()):
            if name not in scopes.held.get(scope, {}):
                scopes.found.append(f"{who}: its '{scope[-1][1]}' ends without '{name}'")
        scopes.held.pop(scope, None)
    scopes.assign(who, step.scope, step.writes)

"""What the lines of a trace look like: templates, whose holes the machine or the C fills.

    header   {"trace":3,"numerics":{..},"model":{..},"profile":..,"graph":..,"plan":..,"memory":N,
              "initial":[place with sha256, ..],"outputs":[names],"chain":..}
    step     {"step":k,"operation":{..},"reads":[place with sha256, ..],
              "writes":[place with before and after, ..],"flags":{..},"chain":..}
    footer   {"end":"complete"|"trapped","steps":n,"outputs":[{name, sha256}, ..],"root":..,
              "chain":..}
    place    {"name":..,"dtype":..,"shape":[..],"offset":..,"size":..}

A line without its chain is its body. The chain of a line is sha256 of the chain before it (32
bytes; zeros before the header) and its body; root is the Merkle root of the bodies of the header
and of all steps. A step that traps has "" for what it would have written, and is the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sardonyx.graph import Graph, Operation
from sardonyx.kernel import NUMERICS_REVISION
from sardonyx.machine import Access, Machine, Segment, StepRecord
from sardonyx.monitor import KINDS
from sardonyx.ops.registry import INTERNAL
from sardonyx.ops.winograd import NAME as WINOGRAD
from sardonyx.trace.digest import dumps, of_attributes, of_graph, of_table

VERSION = 3
START = "00" * 32  # the chain before the header
HoleKind: TypeAlias = Literal["initial", "read", "before", "after", "flag", "output", "count"]


@dataclass(frozen=True, slots=True)
class Hole:
    """What is filled in as the graph runs: a digest of the numbered tensor, a flag, a count."""

    kind: HoleKind
    index: int = 0


Template: TypeAlias = tuple[str | Hole, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """The lines of the traces of one model on inputs of one shape."""

    header: Template
    initial: tuple[Access, ...]
    steps: tuple[tuple[StepRecord, Template], ...]
    outputs: tuple[Access, ...]
    memory: int
    plan: str


@dataclass(frozen=True, slots=True)
class Subject:
    """What is traced: the model's file name and digest, and the profile that its metadata claim."""

    name: str = ""
    sha256: str = ""
    profile: str | None = None
    fused: bool = True


def form(machine: Machine | Segment, subject: Subject) -> Form:
    """The lines for a machine that was started on a graph of known sizes and takes no step."""
    state, graph = machine.state, machine.state.graph
    initial = tuple(
        Access(n, e.offset, e.dtype, e.shape) for n, e in state.table.items() if e.first == -1
    )
    records = machine.records()
    outputs = tuple(
        Access(n, e.offset, e.dtype, e.shape)
        for n in dict.fromkeys(graph.outputs)
        for e in (state.table[n],)
    )
    plan = of_table(state.table, machine.plan.size)
    head = {
        "trace": VERSION,
        "numerics": numerics(graph, subject.fused),
        "model": {"name": subject.name, "sha256": subject.sha256},
        "profile": subject.profile,
        "graph": of_graph(graph),
        "plan": plan,
        "memory": machine.plan.size,
    }
    header = joined(
        f'{dumps(head)[:-1]},"initial":[',
        *_listed(
            (_place(a), '"sha256":"', Hole("initial", i), '"}') for i, a in enumerate(initial)
        ),
        f'],"outputs":{dumps(list(graph.outputs))}',
    )
    steps = tuple((r, step_template(r)) for r in records)
    return Form(header, initial, steps, outputs, machine.plan.size, plan)


def numerics(graph: Graph, fused: bool) -> dict[str, object]:
    """What fixes the bits besides the graph's operators; named definitions where there are any."""
    found: dict[str, object] = {"revision": NUMERICS_REVISION, "fused": fused}
    return {**found, "conv": "winograd"} if _has_winograd(graph) else found


def _has_winograd(graph: Graph) -> bool:
    bodies = (body for op in graph.operations for body in op.subgraphs.values())
    here = any((op.domain, op.op_type) == (INTERNAL, WINOGRAD) for op in graph.operations)
    return here or any(map(_has_winograd, bodies))


def step_template(record: StepRecord) -> Template:
    """The body of a step's line, without the brace that closes it."""
    return joined(
        f'{{"step":{record.number},"operation":{dumps(described(record.operation))},"reads":[',
        *_listed(
            (_place(a), '"sha256":"', Hole("read", i), '"}') for i, a in enumerate(record.reads)
        ),
        '],"writes":[',
        *_listed(
            (_place(a), '"before":"', Hole("before", i), '","after":"', Hole("after", i), '"}')
            for i, a in enumerate(record.writes)
        ),
        '],"flags":{',
        *_listed((f'"{kind}":', Hole("flag", i)) for i, kind in enumerate(KINDS)),
        "}",
    )


def footer_template(outputs: Sequence[Access], end: str) -> Template:
    """The body of the footer up to the root; a trapped run has no outputs."""
    names = outputs if end == "complete" else ()
    return joined(
        f'{{"end":"{end}","steps":',
        Hole("count"),
        ',"outputs":[',
        *_listed(
            (f'{{"name":{dumps(a.name)},"sha256":"', Hole("output", i), '"}')
            for i, a in enumerate(names)
        ),
        '],"root":"',
    )


def described(op: Operation) -> dict[str, object]:
    """An operation as a record has it."""
    return {
        "name": op.origin.name,
        "path": list(op.origin.path),
        "domain": op.domain,
        "op_type": op.op_type,
        "since": op.since,
        "attributes": of_attributes(op),
        "inputs": list(op.inputs),
        "outputs": list(op.outputs),
    }


def filled(template: Template, values: Mapping[Hole, str]) -> str:
    """The text of a template."""
    return "".join(p if isinstance(p, str) else values[p] for p in template)


def joined(*pieces: str | Hole) -> Template:
    """A template in which no two texts stand side by side."""
    out: list[str | Hole] = []
    for p in pieces:
        last = out[-1] if out else None
        if isinstance(p, str) and isinstance(last, str):
            out[-1] = last + p
        else:
            out.append(p)
    return tuple(out)


def _listed(items: Iterable[Sequence[str | Hole]]) -> list[str | Hole]:
    found: list[str | Hole] = []
    for i, item in enumerate(items):
        found += [","] if i else []
        found += item
    return found


def _place(a: Access) -> str:
    return f"{dumps(placed(a))[:-1]},"


def placed(a: Access) -> dict[str, object]:
    """A tensor and its place, as a line has it."""
    return {
        "name": a.name,
        "dtype": a.dtype.name,
        "shape": list(a.shape),
        "offset": a.offset,
        "size": a.size,
    }

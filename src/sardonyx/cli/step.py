"""sardonyx step: the machine, step by step."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from sardonyx.cli.common import (
    dims_of,
    feed_arguments,
    memory_text,
    model_arguments,
    reading,
    say,
    some,
    statistics,
    type_of,
)
from sardonyx.cli.feeds import completed, read
from sardonyx.errors import FeedError
from sardonyx.graph import Graph, Operation
from sardonyx.loading import open_model
from sardonyx.machine import Access, Machine, StepRecord
from sardonyx.plan import Plan


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    model_arguments(parser)
    feed_arguments(parser)
    parser.add_argument("--until", metavar="NODE", help="stop after this node (or its number)")
    parser.add_argument(
        "--show", action="append", default=[], metavar="TENSOR", help="print this tensor's value"
    )


def execute(args: argparse.Namespace) -> int:
    """Prints each step: the operation, what it reads and writes, and what it wrote."""
    opened = open_model(args.model, dims=dims_of(args.dim), **reading(args), seed=args.seed)
    graph = opened.graph
    _check(graph, args.until, args.show)
    machine = Machine(graph).start(completed(graph, read(graph, args.input), args.seed))
    plan: Plan | None = None
    shown = set()
    for name in args.show:
        if name in (*graph.inputs, *graph.initializers):
            shown.add(name)
            _value(machine, name)
    while (ahead := machine.peek()) is not None:
        found = machine.laid_out
        if found is not None and found is not plan:
            print(f"N: {memory_text(found.size, found.lower_bound)}")
        plan = found
        record = machine.step() or ahead
        _step(machine, record)
        for access in record.writes:
            if access.name in args.show:
                shown.add(access.name)
                _value(machine, access.name)
        if args.until is not None and _is(record, args.until):
            break
    else:
        machine.step()  # says which outputs have no value
    hidden = [name for name in args.show if name not in shown]
    if hidden:
        say(f"not reached: {', '.join(hidden)}")
    return 0


def _check(graph: Graph, until: str | None, show: Sequence[str]) -> None:
    """FeedError for a node or tensor that is not there."""
    if until is not None and not any(
        _named(op, until) or until == str(i) for i, op in enumerate(graph.operations)
    ):
        there = some(str(op.origin) for op in graph.operations)
        raise FeedError(f"--until {until}: no node has this name, number or output; {there}")
    for name in show:
        if name not in graph.types:
            raise FeedError(f"--show {name}: the graph has no such tensor; {some(graph.types)}")


def _named(op: Operation, name: str) -> bool:
    return name in (str(op.origin), op.origin.name, *op.outputs) and bool(name)


def _is(record: StepRecord, name: str) -> bool:
    return _named(record.operation, name) or name == str(record.number)


def _step(machine: Machine, record: StepRecord) -> None:
    say(f"{record.number}: {record.operation}")
    for access in record.reads:
        say(f"   reads  {_place(access)}")
    for access in record.writes:
        say(f"   writes {_place(access)}: {statistics(machine.value(access.name))}")
    known = {access.name for access in record.writes}
    for name in filter(None, record.operation.outputs):
        if name not in known:
            say(f"   writes {name}: {type_of(machine.graph, name)}")


def _place(access: Access) -> str:
    shape = ", ".join(map(str, access.shape))
    return f"{access.name} at {access.offset} {access.dtype.name}[{shape}]"


def _value(machine: Machine, name: str) -> None:
    text = np.array2string(machine.value(name), separator=", ", prefix="   ")
    say(f"   {name} =")
    print(f"   {text}")

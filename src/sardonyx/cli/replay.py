"""sardonyx replay: whether a trace is whole, keeps the memory discipline, and can be repeated."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from sardonyx.cli.common import dims_of, kept_values, reading, refuse_beside, say, seed_argument
from sardonyx.errors import FeedError
from sardonyx.graph import Graph
from sardonyx.loading import open_model
from sardonyx.stages import is_staged
from sardonyx.trace import (
    InvalidTrace,
    Replayed,
    Store,
    Trace,
    check,
    disclosed,
    machine_of,
    matches,
    matches_stages,
    replay,
    replay_stages,
)
from sardonyx.trace import read as read_trace
from sardonyx.trace.read import Disclosed, Record, initial_of
from sardonyx.trace.replay import Find


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("trace", type=Path, metavar="TRACE", help="a trace, or a step shown of one")
    parser.add_argument("--model", metavar="MODEL", help="execute the steps again")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE")
    parser.add_argument("--qdq", choices=["integer", "float"], default="integer")
    parser.add_argument("--numerics", choices=["default", "winograd"], default="default")
    seed_argument(parser, "as it was for `sardonyx trace`")
    parser.add_argument("--values", type=Path, metavar="DIR", help="the tensors, by their digests")
    parser.add_argument("--step", type=int, metavar="STEP", help="execute only this step again")
    parser.add_argument("--expect", metavar="HEX", help="the root, or the last chain, it must have")


def execute(args: argparse.Namespace) -> int:
    """Prints what is wrong; 1 if anything is."""
    if args.model is None:
        refuse_beside(args, ("dim", "values", "step"), "where no step is executed (--model MODEL)")
    elif args.values is not None:
        kept_values(args.values)
    data = args.trace.read_bytes()
    try:
        if data.startswith(b'{"disclosed"'):
            return _shown(args, disclosed(data, args.expect))
        return _whole(args, read_trace(data, args.expect))
    except InvalidTrace as error:
        say(f"{args.trace}: {error}")
        return 1


def _whole(args: argparse.Namespace, trace: Trace) -> int:
    say(f"whole: {len(trace.steps)} steps, {trace.footer['end']}, root {trace.footer['root']}")
    wrong = check(trace)
    for line in wrong or ("memory: every read sees the last write",):
        say(line)
    if args.model is None:
        return 1 if wrong else 0
    if args.step is not None and not 0 <= args.step < len(trace.steps):
        raise FeedError(f"--step {args.step}: the trace has {len(trace.steps)} steps")
    find: Find = Store(args.values).find if args.values is not None else lambda digest: None
    graph = open_model(args.model, dims=dims_of(args.dim), **reading(args), seed=args.seed).graph
    steps = trace.steps if args.step is None else (trace.steps[args.step],)
    other, again = _again(graph, trace, steps, find)
    plan = "" if trace.staged else " and the plan"
    for line in other or (f"model: the graph, the weights{plan} are those of the trace",):
        say(line)
    outcomes = Counter[str]()
    for done in again:
        outcomes[done.outcome] += 1
        if done.why:
            say(f"{done.step}: {done.why}")
    print("replayed: " + ", ".join(f"{n} {what}" for what, n in sorted(outcomes.items())))
    if outcomes["unknown"] and args.values is None:
        print("with --values DIR, which `sardonyx trace` fills, all steps can be executed again")
    return 1 if wrong or other or outcomes["differs"] else 0


def _again(
    graph: Graph, trace: Trace, steps: tuple[Record, ...], find: Find
) -> tuple[list[str], Iterator[Replayed]]:
    """What of a trace is not of the graph, and its steps executed again."""
    fused = trace.header["numerics"]["fused"]
    if trace.staged != is_staged(graph):
        return ["the trace is of another graph"], iter(())
    if trace.staged:
        again = replay_stages(graph, trace.lines, steps, fused, find)
        return matches_stages(graph, trace), again
    machine = machine_of(graph, trace.header, trace.initial, find)
    return matches(machine, trace), replay(machine, steps, fused, find)


def _shown(args: argparse.Namespace, shown: Disclosed) -> int:
    refuse_beside(args, ("values", "step"), "for one step with its values, which is shown")
    say(f"{shown.step} leads to the root {shown.root}")
    if args.model is None:
        return 0
    graph = open_model(args.model, dims=dims_of(args.dim), **reading(args), seed=args.seed).graph
    fused, find = shown.header["numerics"]["fused"], shown.values.get
    if shown.header.get("stages"):
        (done,) = replay_stages(graph, None, (shown.step,), fused, find)
    else:
        machine = machine_of(graph, shown.header, initial_of(shown.header), find)
        (done,) = replay(machine, (shown.step,), fused, find)
    say(f"replayed: {done.outcome}{done.why and ', ' + done.why}")
    return 0 if done.outcome == "equal" else 1

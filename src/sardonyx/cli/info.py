"""sardonyx info: what a model is made of, and what it needs."""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np

from sardonyx.cli.common import (
    concrete,
    dims_of,
    memory_text,
    model_arguments,
    reading,
    say,
    size_text,
    table,
    type_of,
)
from sardonyx.errors import SardonyxError, Undetermined
from sardonyx.graph import Graph, Operation
from sardonyx.loading import open_model
from sardonyx.measure.costs import Costs, costs
from sardonyx.opened import Opened
from sardonyx.ops.registry import form_of
from sardonyx.types import Array, in_memory


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    model_arguments(parser)


def execute(args: argparse.Namespace) -> int:
    """Prints the model's face, its operators, and what it costs."""
    opened = open_model(args.model, dims=dims_of(args.dim), **reading(args))
    graph = opened.graph
    _head(opened)
    for what, names in (
        ("inputs", graph.inputs),
        ("outputs", graph.outputs),
        ("overridable initializers", graph.overridable),
    ):
        if names:
            say(f"{what}:")
            print(table([(name, type_of(graph, name)) for name in names]))
    _operators(graph)
    _weights(graph)
    _costs(graph)
    return 0


def _head(opened: Opened) -> None:
    about = opened.metadata
    opsets = ", ".join(f"{d or 'ai.onnx'} {v}" for d, v in sorted(opened.graph.opsets.items()))
    maker = " ".join(filter(None, (about.producer_name, about.producer_version)))
    say(f"model: {opened.name} (IR version {about.ir_version}, graph '{about.graph_name}')")
    say(f"opsets: {opsets}" + (f"; producer: {maker}" if maker else ""))
    for key, value in about.custom.items():
        say(f"metadata: {key} = {value if len(value) <= 60 else value[:57] + '...'}")


def _operators(graph: Graph) -> None:
    counts = Counter((op.domain, op.op_type, op.since) for op in graph.operations)
    say(f"operations: {len(graph.operations)}")
    rows = [
        (f"{domain + '::' if domain else ''}{name}-{since}", count, _there(domain, name, since))
        for (domain, name, since), count in sorted(counts.items())
    ]
    if rows:
        print(table(rows))


def _there(domain: str, name: str, since: int) -> str:
    form = form_of(domain, name, since)
    return {"kernel": "", None: "Sardonyx does not have it"}.get(form, form or "")


def _weights(graph: Graph) -> None:
    constants = [x for op in graph.operations if (x := _constant(op)) is not None]
    used = [*graph.initializers.values(), *constants]
    count, size = sum(x.size for x in used), sum(in_memory(x).nbytes for x in used)
    where = f"{len(graph.initializers)} initializers"
    where += f" and {len(constants)} constants" if constants else ""
    say(f"parameters: {count:,} in {where}, {size_text(size)}")
    small = sum(map(_subnormal, used))
    if small:
        say(
            f"subnormal: {small:,} of these; a product with one takes Intel's processors a hundred "
            "cycles more (0 in its place does not, and is another model)"
        )


def _constant(op: Operation) -> Array | None:
    value = op.attributes.get("value") if op.op_type == "Constant" and not op.domain else None
    return value if isinstance(value, np.ndarray) else None


def _subnormal(x: Array) -> int:
    """How many elements of float32 or float64 are not 0 and have less than all digits."""
    if x.dtype not in (np.float32, np.float64):
        return 0
    return int(np.count_nonzero((x != 0) & (np.abs(x) < np.finfo(x.dtype).smallest_normal)))


def _costs(graph: Graph) -> None:
    bound, ones = concrete(graph, {})
    where = f" (at {', '.join(f'{k}={v}' for k, v in ones.items())})" if ones else ""
    try:
        found: Costs = costs(bound)
    except Undetermined as error:
        say(f"MACs and N: not known before the model runs: {error}")
    except SardonyxError as error:
        say(f"MACs and N: {error}")
    else:
        say(f"MACs: {found.macs:,}{where}")
        say(f"N of the machine: {memory_text(found.size, found.lower_bound)}{where}")

"""Fixes of the graph's form: order, names, functions, constants, dead parts, outputs, metadata."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from itertools import count

import numpy as np
import onnx.inliner
from onnx import NodeProto, TensorProto, helper, numpy_helper

from sardonyx.checker.context import OVERRIDE_IR
from sardonyx.checker.rules.use import drawn, is_fixed
from sardonyx.legalize.work import (
    Work,
    attribute,
    drop,
    from_array,
    given,
    is_of,
    label,
    put,
)
from sardonyx.machine import Machine
from sardonyx.model import Decoder
from sardonyx.model.files import Folder
from sardonyx.model.load import subgraphs
from sardonyx.resolve import resolve
from sardonyx.resolve.names import graph_captures, node_reads, order
from sardonyx.types import Array

IR_VERSION = 10
LARGEST = 1 << 22  # elements of a folded constant


def stored_order(work: Work) -> Iterator[str]:
    """F15: nodes in a topological order, as close to theirs as can be."""
    nodes = work.nodes
    makers = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    late = any(makers.get(name, -1) >= i for i, n in enumerate(nodes) for name in node_reads(n))
    if late:
        work.replace_nodes([nodes[i] for i in order(nodes)])
        yield "nodes put in topological order"


def node_names(work: Work) -> Iterator[str]:
    """F15: every node has a name of its own, made of its operator and a number."""
    taken = {n.name for n in work.proto.graph.node if n.name}
    seen: set[str] = set()
    for node in work.proto.graph.node:
        if node.name and node.name not in seen:
            seen.add(node.name)
            continue
        stem = node.name or node.op_type.lower()
        node.name = next(name for i in count() if (name := f"{stem}_{i}") not in taken)
        taken.add(node.name)
        seen.add(node.name)
        yield f"node of {node.output[0] if node.output else '?'} named '{node.name}'"


def functions(work: Work) -> Iterator[str]:
    """F3: model-local functions inlined, by ONNX's inliner, which leaves those that import another
    version of an operator set than the model."""
    before = {f"{f.domain}::{f.name}" for f in work.proto.functions}
    domains = {f.domain for f in work.proto.functions}
    if before:
        work.proto.CopyFrom(onnx.inliner.inline_local_functions(work.proto))
    names = sorted(before - {f"{f.domain}::{f.name}" for f in work.proto.functions})
    if names:
        used = {n.domain for n in work.proto.graph.node}
        kept = [o for o in work.proto.opset_import if o.domain in used or o.domain not in domains]
        del work.proto.opset_import[:]
        work.proto.opset_import.extend(kept)
        yield f"inlined {', '.join(names)}"


def early_inputs(work: Work) -> Iterator[str]:
    """F10: before IR version 4 every initializer is an input that cannot be fed: a later version,
    without these inputs."""
    proto = work.proto
    if proto.ir_version >= IR_VERSION:
        return
    if proto.ir_version < OVERRIDE_IR:
        fixed = {t.name for t in proto.graph.initializer}
        for info in [v for v in proto.graph.input if v.name in fixed]:
            proto.graph.input.remove(info)
    yield f"IR version {proto.ir_version} became {IR_VERSION}"
    proto.ir_version = IR_VERSION


def constant_form(work: Work) -> Iterator[str]:
    """F13: Constant's value_float, value_ints, ..., sparse_value become `value`."""
    for node in work.of("Constant"):
        if attribute(node, "value") is not None or not node.attribute:
            continue
        name = node.attribute[0].name
        value = _constant(node)
        if value is not None:
            drop(node, name)
            put(node, "value", value)
            yield f"{label(node)}: {name} became value"


def _constant(node: NodeProto) -> TensorProto | None:
    found = node.attribute[0]
    match found.name:
        case "value_float":
            return from_array(np.array(found.f, np.float32), "")
        case "value_floats":
            return from_array(np.array(list(found.floats), np.float32), "")
        case "value_int":
            return from_array(np.array(found.i, np.int64), "")
        case "value_ints":
            return from_array(np.array(list(found.ints), np.int64), "")
        case "value_string" | "value_strings":
            texts = [found.s] if found.name == "value_string" else list(found.strings)
            dims = [] if found.name == "value_string" else [len(texts)]
            return helper.make_tensor("", TensorProto.STRING, dims, texts)
        case "sparse_value":
            return from_array(Decoder(Folder(None)).sparse(found.sparse_tensor, "a Constant"), "")
    return None


def identities(work: Work) -> Iterator[str]:
    """F10: inner Identity nodes, and Dropout as it is in inference, are taken out, but for what a
    subgraph reads by its name."""
    stay = {v.name for v in work.proto.graph.output}
    stay |= {n for node in work.nodes for _, _, g in subgraphs([node]) for n in graph_captures(g)}
    readers = work.readers()
    renamed: dict[str, str] = {}
    kept = []
    for node in work.nodes:
        for i, name in enumerate(node.input):
            node.input[i] = renamed.get(name, name)
        plain = _is_identity(work, node, readers) and node.output[0] not in stay
        if plain and node.input[0]:
            renamed[node.output[0]] = node.input[0]
            yield f"{label(node)} taken out"
        else:
            kept.append(node)
    if renamed:
        work.replace_nodes(kept)


def _is_identity(work: Work, node: NodeProto, readers: dict[str, int]) -> bool:
    if is_of(node, "Identity"):
        return True
    if not is_of(node, "Dropout") or any(n in readers for n in node.output[1:] if n):
        return False
    mode = work.constant(node.input[2]) if len(node.input) > 2 and node.input[2] else np.array(0)
    return mode is not None and not mode.any() and not given(node, "is_test", 0)


def fold(work: Work) -> Iterator[str]:
    """F10: what depends on constants alone, or on shapes that are known, is computed once."""
    folded, found = _foldable(work)
    if not folded:
        return
    outputs = {v.name for v in work.proto.graph.output}
    wanted = [n for node in folded for n in node.output if n and n not in found]
    found.update(_computed(work, wanted, found))
    gone = {n for node in folded for n in node.output}
    kept = [n for n in work.nodes if not gone & set(n.output) or outputs & set(n.output)]
    made = {n for node in kept for n in node.output}
    work.replace_nodes(kept)
    for name, value in found.items():
        if name not in made:
            work.proto.graph.initializer.append(from_array(np.asarray(value), name))
            yield f"'{name}' computed once"


def _foldable(work: Work) -> tuple[list[NodeProto], dict[str, Array]]:
    """The nodes whose values are the same in every run, and the values known from shapes."""
    graph = work.proto.graph
    fixed = {t.name for t in graph.initializer} - {v.name for v in graph.input}
    chance = drawn(work.nodes)
    values = work.graph.values.items()
    known = {n: v for n, v in values if v.dtype != object and n not in chance}
    folded: list[NodeProto] = []
    found: dict[str, Array] = {}
    for node in work.nodes:
        if node.op_type == "Constant":
            fixed.update(node.output)
        elif is_fixed(node, fixed) and _small(work, node):
            folded.append(node)
        elif node.output and all(n in known for n in node.output if n):
            found.update({n: known[n] for n in node.output if n})
            folded.append(node)
        if folded and folded[-1] is node:
            fixed.update(node.output)
    return folded, found


def _small(work: Work, node: NodeProto) -> bool:
    shapes = [work.shape(n) for n in node.output if n]
    return all(s is not None and int(np.prod(s, dtype=float)) <= LARGEST for s in shapes)


def _computed(work: Work, names: list[str], known: dict[str, Array]) -> dict[str, Array]:
    """The values of tensors that depend on initializers and on what is known alone."""
    if not names:
        return {}
    twin = work.copy()
    graph = twin.proto.graph
    wanted, kept = set(names), []
    for node in reversed(twin.nodes):
        if wanted.intersection(node.output) and not set(node.output) & set(known):
            kept.append(node)
            wanted.update(node_reads(node))
    graph.initializer.extend(from_array(np.asarray(v), n) for n, v in known.items())
    twin.replace_nodes(reversed(kept))
    for field in (graph.output, graph.input, graph.value_info):
        del field[:]
    for name in names:
        graph.output.add(name=name)
    return Machine(resolve(twin.proto)).run({})


def unused(work: Work) -> Iterator[str]:
    """F10: nodes, outputs, initializers, inputs and types that nothing depends on are dropped."""
    graph = work.proto.graph
    wanted = {v.name for v in graph.output}
    kept = []
    for node in reversed(work.nodes):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(node_reads(node))
        else:
            yield f"{label(node)} dropped: it reaches no output"
    if len(kept) != len(graph.node):
        work.replace_nodes(reversed(kept))
    readers = work.readers()
    for node in graph.node:
        for i, name in enumerate(node.output):
            if name and name not in readers:
                node.output[i] = ""
                yield f"{label(node)}: output '{name}' left out"
        while node.output and not node.output[-1]:
            del node.output[-1]
    yield from _unread(work, readers)


def _unread(work: Work, readers: dict[str, int]) -> Iterator[str]:
    graph = work.proto.graph
    for what, field in (("initializer", graph.initializer), ("input", graph.input)):
        gone = [x for x in field if x.name not in readers]
        for item in gone:
            yield f"{what} '{item.name}' dropped: nothing reads it"
            field.remove(item)
    there = work.names() - {v.name for v in graph.value_info} | set(readers)
    for info in [v for v in graph.value_info if v.name not in there]:
        graph.value_info.remove(info)
    for what, message in (("model", work.proto), ("graph", graph)):
        if message.doc_string:
            message.ClearField("doc_string")
            yield f"doc_string of the {what} dropped"


def outputs(work: Work) -> Iterator[str]:
    """F14: a graph output that is an initializer or a graph input gets an Identity before it; of an
    input the output gets another name."""
    graph = work.proto.graph
    made = {n for node in graph.node for n in node.output}
    inputs = {v.name for v in graph.input}
    for info in graph.output:
        name = info.name
        if name in made:
            continue
        if name in inputs:
            info.name = work.fresh(f"{name}_output")
            graph.node.append(helper.make_node("Identity", [name], [info.name]))
            yield f"output '{name}', an input, is now '{info.name}', by an Identity"
            continue
        tensor = next((t for t in graph.initializer if t.name == name), None)
        if tensor is not None:
            tensor.name = work.fresh(f"{name}_value")
            for node in graph.node:
                for i, read in enumerate(node.input):
                    node.input[i] = tensor.name if read == name else read
            graph.node.insert(0, helper.make_node("Identity", [tensor.name], [name]))
            yield f"output '{name}', an initializer, is made by an Identity"


def metadata(work: Work) -> Iterator[str]:
    """F16: the profile, the criterion of replication, inputs and outputs, and the SHA-256 of each
    initializer's elements, as metadata; other metadata are marked as no part of the description."""
    found = {p.key: p.value for p in work.proto.metadata_props}
    about = {
        "sonnx.profile": str(work.profile),
        "sonnx.replication": found.get("sonnx.replication", "exact"),
        "sonnx.io": found.get("sonnx.io") or json.dumps(_faces(work)),
        "sonnx.manifest": json.dumps(_digests(work)),
    }
    rest = [key for key in found if not key.startswith("sonnx.")]
    if rest:
        about["sonnx.extraneous"] = json.dumps(rest)
    changed = [key for key, value in about.items() if found.get(key) != value]
    if changed:
        helper.set_model_props(work.proto, {**found, **about})
        yield f"metadata {', '.join(changed)}"


def _faces(work: Work) -> dict[str, str]:
    graph = work.proto.graph
    types = work.graph.types
    return {
        v.name: v.doc_string or str(types.get(v.name, "?")) for v in (*graph.input, *graph.output)
    }


def _digests(work: Work) -> dict[str, str]:
    return {
        t.name: hashlib.sha256(numpy_helper.to_array(t).tobytes()).hexdigest()
        for t in work.proto.graph.initializer
        if t.data_type != TensorProto.STRING
    }

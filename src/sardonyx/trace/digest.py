"""Digests: of the elements of a tensor, of attributes, graphs and tables; chain and Merkle tree.

All are sha256 in lower-case hexadecimal. Elements are row-major and little-endian, so that neither
a plan nor a layout nor the order of bytes in memory shows. Everything else is digested as the text
that `canonical` gives.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from sardonyx.graph import Graph, Operation
from sardonyx.machine import Entry
from sardonyx.types import Array

LEAF, NODE = b"\0", b"\1"  # before what is hashed: a leaf cannot pass for a node


def dumps(value: object) -> str:
    """JSON in one form: no spaces, ASCII."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)


def elements(value: Array) -> bytes:
    """The elements row-major and little-endian."""
    data = np.ascontiguousarray(value)
    if sys.byteorder == "big" and data.dtype.itemsize > 1:
        data = data.view(f"u{data.dtype.itemsize}").byteswap()
    return data.tobytes()


def of_bytes(data: bytes) -> str:
    return sha256(data).hexdigest()


def of_tensor(value: Array) -> str:
    """The digest of a tensor's elements."""
    return of_bytes(elements(value))


def of_attributes(op: Operation) -> str:
    """The digest of an operation's attributes and subgraphs."""
    return of_bytes(dumps([canonical(op.attributes), canonical(op.subgraphs)]).encode())


def of_graph(graph: Graph) -> str:
    """The digest of a graph: its operations, its initializers, its inputs and outputs."""
    return of_bytes(dumps(canonical(graph)).encode())


def of_table(table: Mapping[str, Entry], size: int) -> str:
    """The digest of a plan: N and the tensor table."""
    rows = [
        [n, e.offset, e.dtype.name, list(e.shape), e.first, e.last]
        for n, e in sorted(table.items())
    ]
    return of_bytes(dumps([size, rows]).encode())


def canonical(value: Any) -> object:
    """A value as JSON in which different values differ."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return {"float": value.hex()}
        case bytes():
            return {"bytes": value.hex()}
        case np.ndarray():
            return {"tensor": [value.dtype.name, list(value.shape), of_tensor(value)]}
        case np.generic():
            return canonical(np.asarray(value))
        case Graph():
            return _graph(value)
        case Mapping():
            return {"map": [[str(k), canonical(v)] for k, v in sorted(value.items())]}
        case Sequence():
            return [canonical(v) for v in value]
    return {type(value).__name__: str(value)}


def _graph(graph: Graph) -> object:
    operations = [
        [op.domain, op.op_type, op.since, list(op.inputs), list(op.outputs), of_attributes(op)]
        for op in graph.operations
    ]
    types = [[n, str(graph.types.get(n))] for n in (*graph.inputs, *graph.overridable)]
    weights = canonical(graph.initializers)
    return {"graph": [types, list(graph.outputs), weights, operations]}


def chained(before: str, body: str) -> str:
    """The chain's digest after a line with this body."""
    return of_bytes(bytes.fromhex(before) + body.encode("ascii"))


def root(leaves: Sequence[str]) -> str:
    """The Merkle root of lines: RFC 6962's tree."""
    level = [of_bytes(LEAF + leaf.encode("ascii")) for leaf in leaves]
    while len(level) > 1:
        level = _above(level)
    return level[0]


def path(leaves: Sequence[str], index: int) -> list[str]:
    """The digests beside the way from a leaf to the root; "" where there is none."""
    level, found = [of_bytes(LEAF + leaf.encode("ascii")) for leaf in leaves], []
    while len(level) > 1:
        beside = index ^ 1
        found.append(level[beside] if beside < len(level) else "")
        level, index = _above(level), index // 2
    return found


def root_by_path(leaf: str, index: int, beside: Sequence[str]) -> str:
    """The root that a leaf and its path lead to."""
    at = of_bytes(LEAF + leaf.encode("ascii"))
    for other in beside:
        if other:
            at = _node(other, at) if index % 2 else _node(at, other)
        index //= 2
    return at


def _above(level: Sequence[str]) -> list[str]:
    pairs = [_node(a, b) for a, b in zip(level[::2], level[1::2], strict=False)]
    return pairs + ([level[-1]] if len(level) % 2 else [])


def _node(a: str, b: str) -> str:
    return of_bytes(NODE + bytes.fromhex(a) + bytes.fromhex(b))

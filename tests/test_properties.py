"""For every operator, every element type that it takes, and values at the edges: the printed C
gives the interpreter's bytes, or the same trap.

The shapes and attributes are those of ONNX's smallest node cases, or of our own where it has none
(ai.onnx.ml), and for elementwise operators rank 0, empty dims and broadcasting; hypothesis draws
the values, from those where arithmetic goes wrong first. What is no kernel of its own (functions,
control flow, sequences, strings) is in test_generated_runs.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import node_cases
import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from kernels import call, compile_all, edges
from ml_cases import ML
from test_ml_ops import LINEAR, OTHERS, SVM
from test_ml_trees import CASES

from sardonyx import types as t
from sardonyx.errors import RunError, SardonyxError, Undetermined
from sardonyx.kernel import interpret
from sardonyx.kernel.build import operand
from sardonyx.kernel.c99.print_c import print_c
from sardonyx.kernel.ir import Kernel
from sardonyx.kernel.verify import settle
from sardonyx.ops.registry import Operator, find, lower, operators
from sardonyx.types import Array, DType

SMALL = 4096  # elements of the operands of a case
SHAPES: dict[int, list[tuple[tuple[int, ...], ...]]] = {
    1: [((),), ((2, 0, 3),), ((3, 5),)],
    2: [((), ()), ((2, 1, 3), (4, 1)), ((0, 3), (1, 3)), ((5,), ())],
}
QUICK = ("float32", "float16", "int32", "bool")
NO_KERNEL = ("ai.onnx.Constant",)  # its kernel has neither inputs nor free values
ELEMENTWISE = ("elementwise", "activation")


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A kernel and its operands; `free` are the positions whose values may be anything."""

    name: str
    kernel: Kernel
    operands: tuple[Array | None, ...]
    free: tuple[int, ...]


def newest() -> dict[tuple[str, str], Operator]:
    return {(op.domain, op.name): op for op in operators() if op.domain in onnx_domains()}


@cache
def onnx_domains() -> frozenset[str]:
    return frozenset({schema.domain for schema in onnx.defs.get_all_schemas()})


def templates() -> Iterator[tuple[Operator, list[Array | None], dict[str, Any], int]]:
    """The smallest node case of each operator: its operands, attributes, number of outputs."""
    best: dict[tuple[str, str], tuple[int, Any]] = {}
    for case in node_cases.all_cases():
        (node, *more), key = case.model.graph.node, None
        key = (node.domain, node.op_type)
        if more or key not in newest() or not case.data_sets:
            continue
        version = node_cases.since(node, case.model)
        op = find(node.domain, node.op_type, version)
        named = dict(
            zip((i.name for i in case.model.graph.input), case.data_sets[0][0], strict=False)
        )
        if op is None or any(isinstance(x, list | dict | None) for x in named.values()):
            continue
        feeds = [node_cases.array(named[i]) if i else None for i in node.input]
        if len(feeds) == 1 and feeds[0] is not None and is_elementwise(op):
            feeds = [feeds[0].reshape(-1)[:16]]
        every = [x for x in feeds if x is not None]
        given = [*every, *map(node_cases.array, case.data_sets[0][1])]
        size = sum(x.size for x in every) + SMALL // 2 * any(map(is_packed, given))
        strings = any(x.dtype == object for x in every)
        if not strings and size <= SMALL and size < best.get(key, (SMALL + 1, None))[0]:
            best[key] = size, (op, feeds, node_cases.attributes(node), list(node.output))
    for _, (op, feeds, attributes, outputs) in best.values():
        yield op, feeds, attributes, len(outputs)
    own = sorted((*LINEAR, *SVM, *OTHERS, *CASES), key=lambda c: sum(x.size for x in c.feeds))
    for ml in {c.op: c for c in own[::-1] if (ML, c.op) not in best}.values():
        op = find(ML, ml.op, ml.since())
        assert op is not None
        yield op, list(ml.feeds), node_cases.attributes(ml.node()), ml.outputs


def is_packed(x: Array) -> bool:
    dtype = t.by_numpy(x.dtype)
    return dtype is not None and dtype.is_packed


def is_elementwise(op: Operator) -> bool:
    return op.define.__module__.rsplit(".", 1)[-1] in ELEMENTWISE


def retyped(op: Operator, feeds: list[Array | None]) -> Iterator[tuple[str, list[Array | None]]]:
    """The operands in every element type that the schema's first type variable may be."""
    schema = onnx.defs.get_schema(op.name, op.since, op.domain)
    variable = schema.inputs[0].type_str if schema.inputs else ""
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    kinds = allowed.get(variable, ())
    last = schema.inputs[-1] if schema.inputs else None
    for dtype in t.DTYPES:
        text = {"float32": "float", "float64": "double"}.get(dtype.name, dtype.name)
        if f"tensor({text})" not in kinds:
            continue
        changed = []
        for i, x in enumerate(feeds):
            formal = schema.inputs[i] if i < len(schema.inputs) else last
            same = formal is not None and formal.type_str == variable
            with np.errstate(all="ignore"):
                changed.append(x.astype(dtype.numpy) if same and x is not None else x)
        yield dtype.name, changed


def shaped(op: Operator, feeds: list[Array | None]) -> Iterator[list[Array | None]]:
    """The operands, and for an elementwise operator in the shapes of SHAPES too."""
    yield feeds
    arity = len(feeds)
    if is_elementwise(op) and all(x is not None for x in feeds):
        for shapes in SHAPES.get(arity, ()):
            yield [np.ones(s, x.dtype) for s, x in zip(shapes, feeds, strict=True) if x is not None]


def lowered(
    op: Operator, feeds: list[Array | None], attributes: dict[str, Any], outputs: int, name: str
) -> Subject | None:
    """The kernel for operands of which as many as possible are unknown; None if it is refused."""
    known: set[int] = set()
    while True:
        operands = [
            None if x is None else operand(f"x{i}", _dtype(x), x.shape, x if i in known else None)
            for i, x in enumerate(feeds)
        ]
        try:
            kernel, _ = settle(lower(op, operands, attributes, [True] * outputs))
        except Undetermined as error:
            wanted = int((error.tensor or "x-1")[1:])
            if wanted in known or wanted < 0:
                return None
            known.add(wanted)
        except SardonyxError:
            return None
        else:
            free = tuple(i for i, x in enumerate(feeds) if x is not None and i not in known)
            return Subject(name, kernel, tuple(feeds), free)


def _dtype(x: Array) -> DType:
    found = t.by_numpy(x.dtype)
    assert found is not None
    return found


@cache
def by_name() -> dict[str, tuple[Operator, list[Array | None], dict[str, Any], int]]:
    """The templates by operator."""
    return {f"{found[0].domain or 'ai.onnx'}.{found[0].name}": found for found in templates()}


def subjects(name: str, kinds: Sequence[str]) -> list[Subject]:
    """What is tried of an operator, in the element types of `kinds`."""
    op, feeds, attributes, outputs = by_name()[name]
    typed = [(kind, x) for kind, x in retyped(op, feeds) if kind in kinds]
    return [
        subject
        for kind, x in typed or [("as it is", feeds)]
        for i, operands in enumerate(shaped(op, x))
        if (subject := lowered(op, operands, attributes, outputs, f"{kind} {i}")) is not None
    ]


def values(dtype: DType, shape: Sequence[int]) -> st.SearchStrategy[Array]:
    """Arrays of the edges of a type."""
    if dtype.kind == "c":
        parts = edges(t.float32 if dtype.bits == 64 else t.float64)
        every = np.stack([parts, parts[::-1]], -1).copy().view(dtype.numpy)[:, 0]
    else:
        every = edges(dtype).astype(dtype.numpy)
    indices = hnp.arrays(np.int64, tuple(shape), elements=st.integers(0, len(every) - 1))
    return indices.map(lambda at: every[at])


@pytest.mark.parametrize("name", by_name())
def test_the_printed_c_gives_the_bytes_of_the_interpreter(name: str, tmp_path: Path) -> None:
    _holds(name, QUICK, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", by_name())
def test_it_does_in_every_element_type(name: str, tmp_path: Path) -> None:
    _holds(name, [d.name for d in t.DTYPES], tmp_path)


def _holds(name: str, kinds: Sequence[str], folder: Path) -> None:
    found = subjects(name, kinds)
    assert found or name in NO_KERNEL
    texts = [print_c(s.kernel).text.replace("@", f"f{i}") for i, s in enumerate(found)]
    library = compile_all(texts, folder, "gcc", ["-O1"])
    for i, subject in enumerate(found):
        _equal(subject, getattr(library, f"f{i}"))


def _equal(subject: Subject, code: Any) -> None:
    strategies = [
        values(_dtype(x), x.shape) for i in subject.free if (x := subject.operands[i]) is not None
    ]

    @settings(max_examples=8, database=None, derandomize=True,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.tuples(*strategies))
    def holds(drawn: tuple[Array, ...]) -> None:
        operands = list(subject.operands)
        for i, x in zip(subject.free, drawn, strict=True):
            operands[i] = x
        compare(subject.kernel, operands, code)

    holds()


def compare(kernel: Kernel, operands: Sequence[Array | None], code: Any) -> None:
    """The same bytes, or a trap in both."""
    expected = None
    with suppress(RunError):
        expected = interpret.evaluate(kernel, operands)
    pairs = zip(kernel.inputs, operands, strict=False)
    arrays = {b: np.ascontiguousarray(x) for b, x in pairs if b is not None and x is not None}
    arrays |= {b: b.data for b in kernel.constants if b.data is not None}
    for b in (*kernel.outputs, *kernel.temporaries):
        arrays[b] = np.full(interpret.extents(b), 77, np.uint8).astype(b.dtype.numpy)
    arrays = {b: t.in_memory(x) for b, x in arrays.items()}
    try:
        call(print_c(kernel), code, arrays)
    except RunError:
        assert expected is None
        return
    assert expected is not None
    for b, want in zip(kernel.outputs, expected, strict=True):
        assert arrays[b].tobytes() == t.in_memory(want).tobytes()

"""Operations of ai.onnx.ml for tests: against onnxruntime, and as C against the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import node_cases
import numpy as np
import onnx
import pytest
from kernels import call, compile_all
from onnx import helper
from op_runs import as_operand

from sardonyx.kernel import interpret
from sardonyx.kernel.c99.print_c import print_c
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.kernel.ir import Kernel
from sardonyx.kernel.verify import settle
from sardonyx.ops.registry import find, lower
from sardonyx.types import Array

ML = "ai.onnx.ml"


@dataclass(frozen=True)
class Case:
    """One operation, what it is fed, and how far onnxruntime may be (None: it has no such kernel,
    or a disagreement is listed in docs/disagreements.md)."""

    name: str
    op: str
    feeds: tuple[Array, ...]
    attributes: dict[str, Any]
    tolerance: float | None = 0.0
    version: int = 3
    outputs: int = 1

    def node(self) -> onnx.NodeProto:
        given = {a: v for a, v in self.attributes.items() if v is not None}
        names = [f"x{i}" for i in range(len(self.feeds))]
        results = [f"y{i}" for i in range(self.outputs)]
        return helper.make_node(self.op, names, results, domain=ML, **given)

    def since(self) -> int:
        return int(onnx.defs.get_schema(self.op, self.version, ML).since_version)

    def kernel(self) -> Kernel:
        op = find(ML, self.op, self.since())
        assert op is not None
        operands = [as_operand(i, x) for i, x in enumerate(self.feeds)]
        attributes = node_cases.attributes(self.node())
        return settle(lower(op, operands, attributes, [True] * self.outputs))[0]

    def run(self) -> list[Array]:
        return interpret.evaluate(self.kernel(), self.feeds)


def reference(case: Case) -> list[Array]:
    """The outputs of onnxruntime."""
    ort = pytest.importorskip("onnxruntime")
    kind = helper.np_dtype_to_tensor_dtype
    inputs = [
        helper.make_tensor_value_info(f"x{i}", kind(x.dtype), x.shape)
        for i, x in enumerate(case.feeds)
    ]
    outputs = [helper.make_empty_tensor_value_info(f"y{i}") for i in range(case.outputs)]
    graph = helper.make_graph([case.node()], "one", inputs, outputs)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(ML, case.version)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found: list[Array] = session.run(None, {f"x{i}": x for i, x in enumerate(case.feeds)})
    return found


def agree(case: Case) -> None:
    """Asserts that a case agrees with onnxruntime within its tolerance."""
    assert case.tolerance is not None
    for ours, theirs in zip(case.run(), reference(case), strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(ours, theirs, rtol=case.tolerance, atol=case.tolerance)


def same_bytes(cases: Sequence[Case], folder: Path) -> None:
    """Asserts that plain and scheduled C give the interpreter's bytes."""
    kernels = [case.kernel() for case in cases]
    printed = [(print_c(k), print_scheduled(k)) for k in kernels]
    texts = [f.named(f"k{i}_{j}") for i, pair in enumerate(printed) for j, f in enumerate(pair)]
    library = compile_all(texts, folder, "gcc", ["-O2", "-march=native"])
    for i, (case, kernel) in enumerate(zip(cases, kernels, strict=True)):
        expected = interpret.evaluate(kernel, case.feeds)
        for j, function in enumerate(printed[i]):
            given = zip(kernel.inputs, case.feeds, strict=True)
            arrays = {b: np.ascontiguousarray(x) for b, x in given if b is not None}
            arrays |= {b: b.data for b in kernel.constants if b.data is not None}
            for b in (*kernel.outputs, *kernel.temporaries):
                arrays[b] = np.full(interpret.extents(b), 77, b.dtype.numpy)
            call(function, getattr(library, f"k{i}_{j}"), arrays)
            for b, want in zip(kernel.outputs, expected, strict=True):
                assert arrays[b].tobytes() == want.tobytes(), (case.name, j)

"""The kernels of ONNX's node cases: every load is proven, and C gives the interpreter's bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import node_cases
import pytest
from kernels import Case, check, compile_all
from onnx.backend.test.case.test_case import TestCase
from op_runs import as_operand

from sardonyx import types as t
from sardonyx.errors import SardonyxError
from sardonyx.kernel.c99.print_c import print_c
from sardonyx.kernel.verify import settle
from sardonyx.ops.registry import find, lower

PRINTED = """
    Adagrad Adam AffineGrid BitCast Col2Im ConvInteger CumProd CumSum DFT DequantizeLinear Det GRU
    LSTM LinearAttention MatMulInteger MelWeightMatrix Momentum QLinearConv QLinearMatMul
    QuantizeLinear RNN RoiAlign STFT TensorScatter
""".split()  # noqa: SIM905  # a list of names


def by_operator() -> dict[str, list[TestCase]]:
    found = defaultdict(list)
    for case in node_cases.all_cases():
        nodes = case.model.graph.node
        if len(nodes) == 1 and nodes[0].domain in ("", "ai.onnx.preview.training"):
            found[nodes[0].op_type].append(case)
    return dict(sorted(found.items()))


CASES = by_operator()


def kernels(cases: list[TestCase]) -> Iterator[tuple[str, Case, int]]:
    """The name, the settled kernel with what it is fed, and how many loads are not proven, of each
    case that is a kernel (the host performs the others)."""
    for case in cases:
        (node,) = case.model.graph.node
        op = find(node.domain, node.op_type, node_cases.since(node, case.model))
        inputs, _ = case.data_sets[0]
        named = dict(zip((i.name for i in case.model.graph.input), inputs, strict=True))
        if op is None or any(isinstance(x, list) for x in inputs):
            continue
        feeds = [node_cases.array(named[i]) if i else None for i in node.input]
        if any(x is not None and t.by_numpy(x.dtype) in (None, t.string) for x in feeds):
            continue
        operands = [None if x is None else as_operand(i, x) for i, x in enumerate(feeds)]
        given = node_cases.attributes(node)
        try:
            kernel = lower(op, operands, given, [bool(o) for o in node.output])
        except SardonyxError:
            continue
        settled, unproven = settle(kernel)
        yield case.name, (settled, feeds), unproven


@pytest.mark.parametrize("name", CASES)
def test_every_load_of_the_node_cases_is_proven(name: str) -> None:
    assert [case for case, _, unproven in kernels(CASES[name]) if unproven] == []


def test_printed_c_gives_the_interpreter_s_bytes(tmp_path: Path) -> None:
    found = [case for name in PRINTED for _, case, _ in kernels(CASES[name])]
    texts = [print_c(kernel).named(f"k{i}") for i, (kernel, _) in enumerate(found)]
    library = compile_all(texts, tmp_path, "gcc", ["-O1"])
    for i, case in enumerate(found):
        check(case, library[f"k{i}"])

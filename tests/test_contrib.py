"""The operators of com.microsoft: onnxruntime's results, one byte on both engines."""

from __future__ import annotations

from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import node_cases
import numpy as np
import onnx
import pytest
from contrib_attention import attention_cases, grouped_cases
from contrib_cases import (
    BIAS,
    DOMAIN,
    NH,
    OPSETS,
    TOLERANCE,
    B,
    Case,
    H,
    K,
    Q,
    S,
    V,
    make,
    norm_cases,
    other_cases,
    product_cases,
    quantised_cases,
)
from contrib_recurrent import recurrent_cases
from kernels import check, compile_all
from onnx import helper
from op_runs import as_operand

from sardonyx.engines import make_engine
from sardonyx.errors import SardonyxError
from sardonyx.kernel.c99.print_c import print_c
from sardonyx.kernel.ir import Kernel
from sardonyx.kernel.verify import settle
from sardonyx.ops.registry import find, lower, operators
from sardonyx.resolve import graph_from_nodes
from sardonyx.types import Array, TensorType, by_numpy

CASES = [
    *attention_cases(), *grouped_cases(), *product_cases(), *norm_cases(), *quantised_cases(),
    *other_cases(),
    *recurrent_cases(),
]  # fmt: skip


def reference(case: Case) -> list[Array]:
    """The outputs of onnxruntime."""
    ort = pytest.importorskip("onnxruntime")
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in case.named().items()
    ]
    node = case.node()
    outputs = [helper.make_empty_tensor_value_info(o) for o in node.output]
    graph = helper.make_graph([node], "one", inputs, outputs)
    opsets = [helper.make_opsetid(d, v) for d, v in OPSETS.items()]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # of some, results depend on it (docs/disagreements.md)
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, case.named()))


def name(case: Case) -> str:
    return case.op


@pytest.mark.parametrize("case", CASES, ids=name)
def test_the_result_is_onnxruntime_s(case: Case) -> None:
    found = node_cases.run_node(case.node(), 1, list(case.feeds))
    op = find(case.domain, case.op, 1)
    assert op is not None
    within = case.tolerance if case.tolerance is not None else TOLERANCE[op.accuracy]
    for i, (ours, theirs) in enumerate(zip(found, reference(case), strict=True)):
        if case.compared is not None and i not in case.compared:
            continue
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if ours.dtype.kind in "iu":
            apart = np.abs(ours.astype(np.int64) - theirs)
            assert apart.max() <= case.steps
            assert (apart != 0).mean() < 0.05
        else:
            np.testing.assert_allclose(ours, theirs, rtol=within, atol=within)


def test_packed_heads_are_those_of_separate_tensors() -> None:
    """onnxruntime's CPU kernel does not have them."""
    parts = [x.reshape(B, S, NH, 1, H) for x in (Q, K, V)]
    separate = node_cases.run_node(
        make("MultiHeadAttention", Q, K, V, BIAS, num_heads=NH).node(), 1, [Q, K, V, BIAS]
    )
    for feeds in (
        [np.concatenate(parts, 3), None, None, BIAS],
        [Q, np.concatenate(parts[1:], 3), None, BIAS],
    ):
        case = make("MultiHeadAttention", *feeds, num_heads=NH)
        assert node_cases.run_node(case.node(), 1, feeds)[0].tobytes() == separate[0].tobytes()


def test_what_is_past_the_padding_counts_as_onnxruntime_has_it() -> None:
    """Where padding counts; AveragePool between bytes divides by what is in the padded input."""
    x = np.array([[[[10, 20, 30]]]], np.uint8)
    step, zero = np.array(1, np.float32), np.array(0, np.uint8)
    window = {"kernel_shape": [1, 2], "strides": [1, 2], "ceil_mode": 1, "count_include_pad": 1}
    for op, domain, last in (("QLinearAveragePool", DOMAIN, 15), ("QAveragePool", "sardonyx", 30)):
        case = make(op, x, step, zero, step, zero, domain=domain, **window)
        found = node_cases.run_node(case.node(), 1, list(case.feeds))
        assert found[0].tolist() == [[[[15, last]]]]


def schemas() -> dict[tuple[str, str], Any]:
    """onnxruntime's schemas by domain and name."""
    state = pytest.importorskip("onnxruntime.capi._pybind_state")
    return {(s.domain, s.name): s for s in state.get_all_operator_schema() if s.since_version == 1}


def stated(attribute: Any) -> Any:
    """The default that a schema of onnxruntime's states; Parameter.empty where it is required."""
    if attribute.required:
        return Parameter.empty
    if not attribute._default_value:
        return None
    default = onnx.AttributeProto.FromString(attribute._default_value)
    value = helper.get_attribute_value(default)
    return value.decode() if isinstance(value, bytes) else value


def test_signatures_are_onnxruntime_s_schemas() -> None:
    """Attributes with their defaults; inputs, those that are required behind optional ones being
    optional in ours."""
    known = schemas()
    for op in operators():
        schema = known.get((op.domain, op.name))
        if op.domain != DOMAIN or schema is None:
            continue
        parameters = list(signature(op.define).parameters.values())[1:]
        attributes = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        defaults = {
            a: float(np.float32(d)) if type(d) is float else d for a, d in attributes.items()
        }
        assert defaults == {a: stated(s) for a, s in schema.attributes.items()}, op
        inputs = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
        assert len(inputs) == len(schema.inputs), op
        for ours, theirs in zip(inputs, schema.inputs, strict=True):
            if "Optional" in str(theirs.option):
                assert ours.default is None, (op, ours)


def test_both_engines_give_the_same_bytes() -> None:
    nodes = [case.node(f"n{i}_") for i, case in enumerate(CASES)]
    feeds = {n: x for i, case in enumerate(CASES) for n, x in case.named(f"n{i}_").items()}
    types = {n: TensorType(by_numpy(x.dtype), x.shape) for n, x in feeds.items()}
    graph = graph_from_nodes(nodes, types=types, opsets=OPSETS, ir_version=8)
    machine = make_engine(graph, "machine").run(feeds)
    native = make_engine(graph, "native").run(feeds)
    for output, value in machine.items():
        assert value.tobytes() == native[output].tobytes(), output


def settled(case: Case) -> tuple[Kernel, int]:
    op = find(case.domain, case.op, 1)
    assert op is not None
    operands = [None if x is None else as_operand(i, x) for i, x in enumerate(case.feeds)]
    return settle(lower(op, operands, node_cases.attributes(case.node()), [True] * case.outputs))


def test_every_load_is_proven() -> None:
    """Those that data decide are written as traps."""
    assert not {case.op for case in CASES if settled(case)[1]}


def test_printed_c_gives_the_interpreter_s_bytes(tmp_path: Path) -> None:
    """Without a warning of the strictest settings."""
    kernels = [(settled(case)[0], list(case.feeds)) for case in CASES]
    texts = [print_c(kernel).named(f"k{i}") for i, (kernel, _) in enumerate(kernels)]
    library = compile_all(texts, tmp_path, "gcc", ["-O1"])
    for i, (kernel, feeds) in enumerate(kernels):
        check((kernel, feeds), getattr(library, f"k{i}"))


def test_every_operator_of_the_domain_has_a_case() -> None:
    tried = {case.op for case in CASES}
    ours = {op.name for op in operators() if op.domain == DOMAIN}
    assert ours - tried <= {"LayerNormalization", "SimplifiedLayerNormalization"}


@pytest.mark.parametrize(
    ("at", "other", "message"),
    [
        (1, np.zeros((6, 16), np.int8), "W is .directions, terms, gates., found rank 2"),
        (2, np.zeros((1, 5, 16), np.int8), "R"),
        (8, np.ones(2, np.float32), "the sizes of W_scale"),
        (9, np.zeros((1, 4), np.int8), "the sizes of W_zero_point"),
        (10, np.float32(1), "R_scale has the rank 0"),
        (11, np.zeros(1, np.uint8), "R is int8, its zero point uint8"),
        (11, None, "R_zero_point is required"),
    ],
)
def test_bad_weights_of_a_quantised_lstm(at: int, other: Any, message: str) -> None:
    case = recurrent_cases()[0]
    feeds = [None if x is None else np.asarray(x) for x in case.feeds]
    feeds[at] = other if other is None else np.asarray(other)
    node = Case(case.op, feeds, outputs=3, attributes=case.attributes).node()
    with pytest.raises(SardonyxError, match=message):
        node_cases.run_node(node, 1, feeds)

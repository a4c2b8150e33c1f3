"""AffineGrid, LinearAttention, TensorScatter: ONNX's vectors, and the same bytes in C."""

from __future__ import annotations

from pathlib import Path

import node_cases
import numpy as np
import pytest
from kernels import Case, check, compile_all
from onnx.backend.test.case.test_case import TestCase
from op_runs import lowered, normal, run

from sardonyx.dims import symbol
from sardonyx.errors import InvalidModel, RunError
from sardonyx.kernel.print_c import print_c
from sardonyx.kernel.verify import settle

CASES = list(node_cases.cases("AffineGrid", "LinearAttention", "TensorScatter"))
N = symbol("N")


def case_name(case: TestCase) -> str:
    return str(case.name)


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_node_case(case: TestCase) -> None:
    node_cases.check(case)


def kernel_and_feeds(case: TestCase) -> Case:
    (node,) = case.model.graph.node
    inputs, _ = case.data_sets[0]
    named = dict(zip((i.name for i in case.model.graph.input), inputs, strict=True))
    feeds = [node_cases.array(named[i]) if i else None for i in node.input]
    kernel = lowered(
        node.op_type,
        *feeds,
        opset=28,
        outputs=len(node.output),
        **node_cases.attributes(node),
    )
    settled, unproven = settle(kernel)
    assert unproven == 0
    return settled, feeds


def test_printed_c_gives_the_interpreter_s_bytes(tmp_path: Path) -> None:
    cases = [kernel_and_feeds(case) for case in CASES]
    texts = [print_c(kernel).named(f"k{i}") for i, (kernel, _) in enumerate(cases)]
    library = compile_all(texts, tmp_path, "gcc", ["-O1"])
    for i, case in enumerate(cases):
        check(case, library[f"k{i}"])


def test_tensor_scatter_beyond_the_cache_is_a_run_time_error() -> None:
    cache, update = normal(1, 4, 2), normal(1, 2, 2)
    at = np.array([3])
    with pytest.raises(RunError, match="outside"):
        run("TensorScatter", cache, update, at, opset=24)
    found = run("TensorScatter", cache, update, at, opset=24, mode="circular")
    np.testing.assert_array_equal(found[:, [3, 0]], update)
    np.testing.assert_array_equal(found[:, 1:3], cache[:, 1:3])


def test_affine_grid_of_an_only_pixel_with_align_corners_is_at_minus_one() -> None:
    theta = np.eye(2, 3, dtype=np.float32)[None]
    found = run("AffineGrid", theta, np.array([1, 1, 1, 3]), align_corners=1)
    np.testing.assert_array_equal(found, [[[[-1, -1], [0, -1], [1, -1]]]])


def test_affine_grid_follows_symbolic_sizes() -> None:
    kernel = lowered("AffineGrid", (N, 2, 3), [N, 1, 5, N])
    assert kernel.outputs[0].shape == (N, 5, N, 2)


def test_linear_attention_checks_what_its_rule_needs() -> None:
    q = normal(1, 2, 4)
    heads = {"kv_num_heads": 1, "q_num_heads": 1}
    with pytest.raises(InvalidModel, match="decay"):
        run("LinearAttention", q, q, q, outputs=2, opset=27, **heads)
    with pytest.raises(InvalidModel, match="beta"):
        run("LinearAttention", q, q, q, outputs=2, opset=27, update_rule="delta", **heads)
    with pytest.raises(InvalidModel, match="multiple"):
        run(
            "LinearAttention", q, q, q, outputs=2, opset=27, update_rule="linear",
            kv_num_heads=3, q_num_heads=4,
        )  # fmt: skip

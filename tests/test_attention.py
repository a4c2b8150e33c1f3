"""Linear attention; Attention against the function body in onnx's schema; both in C."""

from __future__ import annotations

from pathlib import Path

import node_cases
import numpy as np
import pytest
from backend_suite import cases
from kernels import Case, check, compile_all
from op_runs import lowered, normal, run

from sardonyx.backend import prepare
from sardonyx.dims import symbol
from sardonyx.errors import InvalidModel, Undetermined
from sardonyx.kernel.c99.print_c import print_c
from sardonyx.kernel.verify import settle
from sardonyx.model import Limits

NAMES = [
    n for n in cases() if n.startswith("test_attention") and f"{n}_expanded" in cases()
]  # fmt: skip
NARROW = ("fp16", "bf16", "softmax_precision")
N = symbol("N")


@pytest.mark.parametrize("name", [n for n in NAMES[::3] if not n.endswith(NARROW)])
def test_float32_has_the_bits_of_the_body(name: str) -> None:
    limits = Limits(type_seconds=0)
    one, body = (
        prepare(cases()[n].model(), engine="machine", limits=limits)
        for n in (name, f"{name}_expanded")
    )
    for feeds, _ in cases()[name].data(cases()[name].model()):
        for a, b in zip(one.run(feeds), body.run(feeds), strict=True):
            assert a.tobytes() == b.tobytes()


def test_16_bit_floats_round_once() -> None:
    """Within a half of the last place, and a little for float32's roundings, of the true value."""
    q, key, value = (normal(1, 2, 5, 8).astype(np.float16) for _ in range(3))
    found = run("Attention", q, key, value, opset=23).astype(np.float64)
    scores = q.astype(np.float64) @ key.astype(np.float64).swapaxes(2, 3) / np.sqrt(8)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    exact = weights / weights.sum(-1, keepdims=True) @ value.astype(np.float64)
    place = np.spacing(np.abs(exact).astype(np.float16)).astype(np.float64)
    assert (np.abs(found - exact) <= 0.501 * place).all()


def test_a_query_that_sees_no_key_gets_zeros() -> None:
    q, key, value = normal(1, 1, 2, 4), normal(1, 1, 3, 4), normal(1, 1, 3, 4)
    mask = np.array([[True, False, True], [False, False, False]])
    y = run("Attention", q, key, value, mask, opset=23)
    assert (y[0, 0, 1] == 0).all()
    assert (y[0, 0, 0] != 0).any()


def test_operands_are_checked() -> None:
    q = normal(1, 3, 2, 4)
    with pytest.raises(InvalidModel, match="share"):
        run("Attention", q, q[:, :2], q[:, :2], opset=23)
    with pytest.raises(InvalidModel, match="go together"):
        run("Attention", q, q, q, None, q, opset=23)
    with pytest.raises(InvalidModel, match="q_num_heads"):
        run("Attention", q[0], q[0], q[0], opset=23)


def test_sizes_may_be_symbolic() -> None:
    kernel = lowered("Attention", (N, 4, N, 8), (N, 2, 7, 8), (N, 2, 7, 8), opset=23, is_causal=1)
    settle(kernel)
    assert kernel.outputs[0].shape == (N, 4, N, 8)


def test_whether_a_mask_broadcasts_must_be_known() -> None:
    operands = (2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8)
    with pytest.raises(Undetermined):
        lowered("Attention", *operands, (N, 7), opset=23)
    with pytest.raises(InvalidModel, match="keys"):
        lowered("Attention", *operands, (5, 8), opset=23)
    settle(lowered("Attention", *operands, (5, 6), opset=23))


def test_printed_c_gives_the_interpreter_s_bytes(tmp_path: Path) -> None:
    made: list[Case] = []
    for name in NAMES[::4]:
        case = cases()[name]
        (node,) = case.model().graph.node
        (feeds, _), = case.data(case.model())  # fmt: skip
        named = dict(zip((i.name for i in case.model().graph.input), feeds, strict=True))
        given = [named[i] if i else None for i in node.input]
        version = case.model().opset_import[0].version
        outputs = len(node.output)
        if not all(node.output):
            continue
        kernel = lowered(
            "Attention", *given, opset=version, outputs=outputs, **node_cases.attributes(node)
        )
        made.append((settle(kernel)[0], given))
    texts = [print_c(kernel).named(f"k{i}") for i, (kernel, _) in enumerate(made)]
    library = compile_all(texts, tmp_path, "gcc", ["-O1"])
    for i, case_ in enumerate(made):
        check(case_, library[f"k{i}"])


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

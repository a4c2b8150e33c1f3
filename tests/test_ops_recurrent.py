"""RNN, GRU and LSTM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_runs import compare, normal, run

from sardonyx.errors import InvalidModel

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, INPUT, HIDDEN = 5, 3, 4, 6


def recurrent(op: str, directions: int, lengths: Any = None, states: bool = False) -> list[Any]:
    rows = GATES[op] * HIDDEN
    feeds: list[Any] = [
        normal(STEPS, BATCH, INPUT),
        normal(directions, rows, INPUT),
        normal(directions, rows, HIDDEN),
        normal(directions, 2 * rows),
        lengths,
    ]
    if states:
        feeds.append(normal(directions, BATCH, HIDDEN))
        if op == "LSTM":
            feeds += [normal(directions, BATCH, HIDDEN), normal(directions, 3 * HIDDEN)]
    return feeds


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", list(GATES))
def test_recurrent_cells_agree_with_onnxruntime(op: str, direction: str) -> None:
    """With states, peepholes, biases; with and without lengths."""
    directions, outputs = 1 + (direction == "bidirectional"), 2 + (op == "LSTM")
    for lengths in (None, np.array([5, 2, 3], np.int32)):
        feeds = recurrent(op, directions, lengths, states=True)
        compare(op, *feeds, outputs=outputs, direction=direction, hidden_size=HIDDEN)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("RNN", {"clip": 0.3}),
        ("GRU", {"clip": 0.3}),
        ("GRU", {"linear_before_reset": 1}),
        ("LSTM", {"input_forget": 1}),
        ("RNN", {"activations": ["HardSigmoid"], "activation_alpha": [0.3]}),
        ("RNN", {"activations": ["Elu"]}),
        ("RNN", {"activations": ["ThresholdedRelu"], "activation_alpha": [0.5]}),
        ("GRU", {"activations": ["Softsign", "Softplus"]}),
        (
            "LSTM",
            {
                "activations": ["HardSigmoid", "Affine", "LeakyRelu"],
                "activation_alpha": [0.3, 0.7, 0.2],
                "activation_beta": [0.4, 0.6],
            },
        ),
    ],
)
def test_attributes_of_recurrent_cells_agree_with_onnxruntime(
    op: str, attributes: dict[str, Any]
) -> None:
    outputs, feeds = 2 + (op == "LSTM"), recurrent(op, 1)
    feeds[2] *= np.float32(0.25)  # a state that Softplus makes grow is infinite for onnxruntime
    compare(op, *feeds, outputs=outputs, hidden_size=HIDDEN, **attributes)


@pytest.mark.parametrize("op", list(GATES))
def test_layout_1_is_layout_0_with_the_batch_first(op: str) -> None:
    outputs, feeds = 2 + (op == "LSTM"), recurrent(op, 2, np.array([1, 5, 0], np.int32), True)
    y, *last = run(op, *feeds, outputs=outputs, direction="bidirectional")
    feeds[0] = np.swapaxes(feeds[0], 0, 1)
    feeds[5] = np.swapaxes(feeds[5], 0, 1)
    if op == "LSTM":
        feeds[6] = np.swapaxes(feeds[6], 0, 1)
    y1, *last1 = run(op, *feeds, outputs=outputs, direction="bidirectional", layout=1)
    np.testing.assert_array_equal(y1, np.transpose(y, (2, 0, 1, 3)))
    for a, b in zip(last1, last, strict=True):
        np.testing.assert_array_equal(a, np.swapaxes(b, 0, 1))


def test_the_cell_of_lstm_is_clipped_where_the_last_activation_takes_it() -> None:
    """Weights of zero leave C' = C / 2 = 4; H' is sigmoid(0) * tanh(clip)."""
    w, r = np.zeros((1, 4, 1), np.float32), np.zeros((1, 4, 1), np.float32)
    start = np.zeros((1, 1, 1), np.float32)
    _, h, c = run("LSTM", start, w, r, None, None, start, start + 8, outputs=3, clip=0.5)
    assert c[0, 0, 0] == 4
    assert h[0, 0, 0] == pytest.approx(0.5 * np.tanh(0.5), rel=1e-6)


def test_an_unknown_activation_or_direction_is_refused() -> None:
    for attributes in ({"activations": ["Sin"]}, {"direction": "up"}, {"layout": 2}):
        with pytest.raises(InvalidModel):
            run("RNN", *recurrent("RNN", 1), outputs=2, **attributes)

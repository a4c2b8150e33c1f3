"""Rules about LSTM."""

from __future__ import annotations

from onnx import ModelProto, helper, numpy_helper

from sardonyx.checker.context import Context
from sardonyx.checker.finding import Severity
from sardonyx.checker.registry import Found, at, rule
from sardonyx.checker.samples import model

NAMES = ("W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")
TRIPLES = (("Sigmoid", "Tanh", "Tanh"), ("Relu", "Tanh", "Tanh"))
GIVEN = ("activations", "direction", "hidden_size", "input_forget", "layout")


def _lstm(all_inputs: bool) -> ModelProto:
    import numpy as np

    made = model("g (float[2,1,3] x) => (float[2,1,1,2] y) { y = LSTM (x) }", opset=22)
    shapes = {"w": (1, 8, 3), "r": (1, 8, 2), "b": (1, 16), "h": (1, 1, 2), "c": (1, 1, 2),
              "p": (1, 6)}  # fmt: skip
    values = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    values["n"] = np.full(1, 2, np.int32)
    if not all_inputs:
        del values["p"]
    made.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in values.items())
    node = made.graph.node[0]
    node.input.extend(["w", "r", "b", "n", "h", "c", *(["p"] if all_inputs else [])])
    for name, value in (("activations", list(TRIPLES[0])), ("direction", "forward"),
                        ("hidden_size", 2), ("input_forget", 0), ("layout", 0)):  # fmt: skip
        node.attribute.append(helper.make_attribute(name, value))
    return made


@rule("LSTM.1", "everything of an LSTM is given", Severity.ERROR, "LSTM, restrictions", "F7",
      good=lambda: _lstm(True), bad=lambda: _lstm(False))  # fmt: skip
def lstm(check: Context) -> Found:
    """All eight inputs are given, all but X as constants; activations, direction, hidden_size,
    input_forget = 0 and layout = 0 are given; the activations are Sigmoid or Relu, Tanh, Tanh.

    Why: no default values; zeros stand where nothing is meant.
    Example: LSTM without its last input, the peepholes P.
    Limits: activation_alpha, activation_beta and clip may be absent: these activations have none.
    """
    for node in check.of("LSTM"):
        for i, what in enumerate(NAMES, 1):
            name = node.input(i)
            if not name:
                yield at(node, f"no {what}", f"input {i}, {what}")
            elif check.constant(name) is None:
                yield at(node, f"{what} is no constant", "a constant", tensor=name)
        for name in GIVEN:
            if name not in node.given:
                yield at(node, "not given", "given", attribute=name)
        for name in ("input_forget", "layout"):
            if node.given.get(name, 0) != 0:
                yield at(node, node.given[name], 0, attribute=name)
        used = tuple(node.given.get("activations", TRIPLES[0]))
        if used[:3] not in TRIPLES or used[3:] not in ((), *TRIPLES):
            yield at(node, used, " or ".join(map(str, TRIPLES)), attribute="activations")

"""Rotary position embeddings: the bits of the function body that onnx's schema carries."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from test_passes import values

from sardonyx.engines import make_engine
from sardonyx.loading import load
from sardonyx.types import Array

HEADS, SIZE, LENGTH, ROOM = 3, 8, 5, 16
POSITIONS = np.array([[4, 0, 15, -1, 2], [1, 1, 3, 8, 0]], np.int64)


def model(kind: type, whole: int, placed: bool, how: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A RotaryEmbedding and its feeds; whole: the elements of a head that are turned. placed: there
    are positions."""
    shape = (2, LENGTH, HEADS * SIZE) if "num_heads" in how else (2, HEADS, LENGTH, SIZE)
    rows = (ROOM, whole // 2) if placed else (2, LENGTH, whole // 2)
    feeds = {"x": values(1, *shape).astype(kind)}
    feeds |= {name: values(i, *rows).astype(kind) for i, name in ((2, "cos"), (3, "sin"))}
    feeds |= {"at": POSITIONS} if placed else {}
    info = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in feeds.items()
    ]
    node = helper.make_node("RotaryEmbedding", list(feeds), ["y"], **how)
    graph = helper.make_graph([node], "g", info, [helper.make_empty_tensor_value_info("y")])
    graph.output[0].CopyFrom(
        helper.make_tensor_value_info("y", info[0].type.tensor_type.elem_type, None)
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)]), feeds


def as_function(made: onnx.ModelProto) -> onnx.ModelProto:
    """The model whose node calls the schema's own body as a function of the model."""
    schema: Any = onnx.defs.get_schema("RotaryEmbedding", 23)
    node = made.graph.node[0]
    types = [x.type.SerializeToString() for x in made.graph.input]
    body = onnx.FunctionProto.FromString(
        schema.get_context_dependent_function(node.SerializeToString(), types)
    )
    body.domain, body.name = "local", "Body"
    del body.attribute[:]
    called = helper.make_node("Body", list(node.input), ["y"], domain="local")
    graph = helper.make_graph([called], "g", made.graph.input, made.graph.output)
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=[body], ir_version=10)


def ran(made: onnx.ModelProto, feeds: dict[str, Array], engine: str) -> bytes:
    return make_engine(load(made.SerializeToString()), engine).run(feeds)["y"].tobytes()


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("whole", "placed", "how"),
    [
        (8, True, {}),
        (8, False, {}),
        (4, True, {"rotary_embedding_dim": 4}),
        (8, True, {"num_heads": HEADS}),
        (4, False, {"num_heads": HEADS, "rotary_embedding_dim": 4}),
    ],
)
def test_rotary_embedding_has_the_bits_of_its_body(
    kind: type, whole: int, placed: bool, how: dict[str, Any], interleaved: int
) -> None:
    made, feeds = model(kind, whole, placed, how | {"interleaved": interleaved})
    expected = ran(as_function(made), feeds, "machine")
    assert ran(made, feeds, "machine") == expected
    assert ran(made, feeds, "native") == expected


def test_positions_beyond_the_caches_are_an_error_of_the_run() -> None:
    made, feeds = model(np.float32, 8, True, {})
    feeds["at"] = POSITIONS + 1
    for engine in ("machine", "native"):
        with pytest.raises(Exception, match="RotaryEmbedding"):
            ran(made, feeds, engine)

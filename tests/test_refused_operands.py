"""Operands and attributes of one operation that do not fit are refused, and named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from op_runs import as_operand, version

from sardonyx import types as t
from sardonyx.dims import evaluate, symbol
from sardonyx.engines import make_engine
from sardonyx.errors import InvalidModel, RunError, UnsupportedModel
from sardonyx.kernel.build import Builder, operand
from sardonyx.loading import load
from sardonyx.ops.registry import find, lower
from sardonyx.ort import InferenceSession

MICROSOFT = "com.microsoft"
HEADS = {"q_num_heads": 2, "kv_num_heads": 2}
LSTM = ((5, 2, 4), (1, 12, 4), (1, 12, 3))

WRONG: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("Conv", [(1, 4, 5, 5), (2, 4, 1, 1), (3,)], {}, r"shape of B is \(3\), not \(2\)"),
    ("Conv", [(1, 4, 5, 5), (2, 4, 1, 1), (1,)], {}, r"shape of B is \(1\), not \(2\)"),
    ("ConvTranspose", [(1, 4, 5, 5), (4, 2, 1, 1), (3,)], {}, "shape of B"),
    ("ConvTranspose", [(1, 1, 2), (1, 2, 3)], {"strides": [3], "output_shape": [10]}, "reaches 6"),
    ("DeformConv", [(1, 1, 3, 3), (1, 1, 2, 2), (1, 1, 8, 2, 2)], {}, "shape of offset"),
    ("DeformConv", [(1, 1, 3, 3), (1, 1, 2, 2), (1, 8, 2, 2), None, (4, 2, 2)], {}, "of mask"),
    ("BatchNormalization", [(1, 4, 5), (4,), (3,), (4,), (4,)], {}, "shape of B"),
    ("InstanceNormalization", [(1, 4, 5), (5,), (4,)], {}, "shape of scale"),
    ("GroupNormalization", [(1, 4, 5), (4, 1), (4,)], {"num_groups": 2}, "shape of scale"),
    ("LayerNormalization", [(2, 5), (6,)], {}, r"Scale, \(6\), does not broadcast to \(2, 5\)"),
    ("LayerNormalization", [(2, 5), (5,), (1, 2, 5)], {}, r"of B, \(1, 2, 5\), does not broadcast"),
    ("RMSNormalization", [(2, 5), (4,)], {}, r"scale, \(4\), does not broadcast"),
    ("QLinearMatMul", [(2, 4), (3,), (3,), (4, 5), (), (), (), ()], {}, "3 is not 2"),
    ("LSTM", [*LSTM, (1, 12)], {"hidden_size": 3}, r"shape of B is \(1, 12\), not \(1, 24\)"),
    ("LSTM", [*LSTM, (2, 24)], {"hidden_size": 3}, "shape of B"),
    ("LSTM", [*LSTM, None, (3,)], {"hidden_size": 3}, "shape of sequence_lens"),
    ("LSTM", [*LSTM, None, None, (1, 3, 3)], {"hidden_size": 3}, "an initial state"),
    ("LSTM", [*LSTM, *[None] * 4, (1, 12)], {"hidden_size": 3}, r"P is \(1, 12\), not \(1, 9\)"),
    ("ConvTranspose", [(1, 4, 5), (4, 2, 1)], {"auto_pad": "SAME"}, "auto_pad 'SAME' is not one"),
    ("DepthToSpace", [(1, 4, 5, 5)], {"blocksize": 2, "mode": "rdc"}, "mode 'rdc' is not one of"),
    ("SpaceToDepth", [(1, 4, 6, 6)], {"blocksize": 2, "mode": ""}, "mode '' is not one of"),
    ("ReverseSequence", [(4, 4), (4,)], {"batch_axis": 0}, "batch_axis and time_axis are both 0"),
    ("LpPool", [(1, 2, 5)], {"kernel_shape": [2], "p": 0}, "p is 0, expected more than 0"),
    ("MaxUnpool", [(1, 1, 2, 2), (1, 1, 2, 2, 1)], {"kernel_shape": [2, 2]}, "shape of I"),
    ("ReverseSequence", [(4, 3), (4,)], {}, r"sequence_lens is \(4\), not \(3\)"),
    ("TopK", [(4,), [2, 2]], {}, "shape of K"),
    ("DequantizeLinear", [(2, 3), (3,), ()], {}, "shape of the zero point"),
    ("QuantizeLinear", [(2, 3), (), (3,)], {}, "shape of the zero point"),
    ("Attention", [(1, 2, 4, 9), (1, 2, 6, 8), (1, 2, 6, 8)], {}, "9 and 8 differ"),
    ("Attention", [(1, 2, 4, 8), (1, 2, 6, 8), (1, 2, 5, 8)], {}, "6 and 5 differ"),
    ("Attention", [(1, 2, 4, 8), (2, 2, 6, 8), (2, 2, 6, 8)], {}, "1 and 2 differ"),
    ("Attention", [(1, 4, 16), (1, 2, 6, 8), (1, 2, 6, 8)], HEADS, "ranks 3, 4, 4"),
    ("CausalConvWithState", [(1, 4, 5), (4, 1, 3), (3,)], {}, "shape of B"),
    ("CausalConvWithState", [(1, 4, 5), (4, 1, 3), None, (2, 4, 2)], {}, "shape of past_state"),
    ("CausalConvWithState", [(1, 4, 5), (4, 1, 3)], {"activation": "relu"}, "'relu' is not one of"),
    ("RotaryEmbedding", [(2, 3, 5, 8), (9, 4), (9, 4), (1, 5)], {}, "shape of position_ids"),
    ("RotaryEmbedding", [(2, 3, 5, 8), (9, 3), (9, 3), (2, 5)], {}, "3 and 4 differ"),
    ("RotaryEmbedding", [(2, 3, 5, 8), (2, 4, 4), (2, 4, 4)], {}, "shape of cos_cache"),
    ("RotaryEmbedding", [(2, 3, 5, 8), (2, 5, 4), (1, 5, 4)], {}, "shape of sin_cache"),
    ("RotaryEmbedding", [(2, 5, 24), (2, 5, 4), (2, 5, 4)], {}, "num_heads is needed"),
    ("RotaryEmbedding", [(2, 3, 5, 7), (9, 3), (9, 3), (2, 5)], {}, "7 of the 7 elements"),
    (
        "Attention",
        [(1, 2, 4, 8), (1, 2, 6, 8), (1, 2, 6, 8), None, (1, 2, 3, 7), (1, 2, 3, 8)],
        {},
        r"past keys or values is \(1, 2, 3, 7\), not \(1, 2, 3, 8\)",
    ),
]

WRONG_OF_MICROSOFT: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("Attention", [(2, 5, 6), (6, 24), (25,)], {"num_heads": 2}, "shape of bias"),
    ("Attention", [(2, 5, 6), (6, 24), None, None, (3, 2, 2, 1, 4)], {"num_heads": 2}, "past is"),
    ("MultiHeadAttention", [(2, 5, 8), (3, 5, 8), (3, 5, 8)], {"num_heads": 2}, "2 and 3 differ"),
    ("MultiHeadAttention", [(2, 5, 8), (2, 5, 8), (2, 4, 8)], {"num_heads": 2}, "5 and 4 differ"),
    ("MultiHeadAttention", [*[(2, 5, 8)] * 3, (20,)], {"num_heads": 2}, "shape of bias"),
    (
        "GroupQueryAttention",
        [(3, 5, 8), (3, 5, 8), (3, 5, 8), None, None, (2,), [5]],
        {"num_heads": 2, "kv_num_heads": 2},
        "the elements of seqlens_k and the batch: 2 and 3 differ",
    ),
    ("RotaryEmbedding", [(2, 5, 8), (1, 5), (16, 2), (16, 2)], {}, "shape of position_ids"),
    ("RotaryEmbedding", [(2, 5, 8), (2, 5), (16, 2), (15, 2)], {}, "shape of sin_cache"),
    ("RotaryEmbedding", [(2, 2, 5, 2), (2, 5), (16, 2), (16, 2)], {}, "4 of the 2 elements"),
    ("BiasGelu", [(2, 3, 8, 1), (8,)], {}, "shape of B"),
    ("FastGelu", [(2, 8), (7,)], {}, "shape of bias"),
    ("FusedConv", [(2, 4, 5), (3, 4, 1), None, (1, 3, 5)], {}, "shape of Z"),
    ("SkipLayerNormalization", [(2, 8), (2, 8), (1,)], {}, "shape of gamma"),
    ("SkipLayerNormalization", [(3, 2, 8), (2, 2, 8), (8,)], {}, "shape of skip"),
    (
        "EmbedLayerNormalization",
        [(2, 3), (1, 3), (9, 8), (4, 8), (2, 8), (8,), (8,)],
        {},
        "shape of segment_ids",
    ),
    (
        "MatMulNBits",
        [(2, 64), (6, 2, 16), (12,), None, None, (5,)],
        {"K": 64, "N": 6, "block_size": 32},
        "shape of bias",
    ),
    (
        "MatMulNBits",
        [(2, 64), (6, 2, 16), (12,), None, (63,)],
        {"K": 64, "N": 6, "block_size": 32},
        "shape of g_idx",
    ),
    ("GatherBlockQuantized", [(7, 16), (2,), (6, 1)], {"block_size": 16}, "shape of scales"),
    ("QGemm", [(3, 7), (), (), (8, 5), (), ()], {}, "7 and 8 differ"),
]


@pytest.mark.parametrize(
    ("domain", "op_type", "operands", "attributes", "message"),
    [("", *case) for case in WRONG] + [(MICROSOFT, *case) for case in WRONG_OF_MICROSOFT],
)
def test_what_does_not_fit_is_named(
    domain: str, op_type: str, operands: list[Any], attributes: dict[str, Any], message: str
) -> None:
    op = find(domain, op_type, 1 if domain else version(op_type, 27))
    assert op is not None
    given = [as_operand(i, x) for i, x in enumerate(operands)]
    with pytest.raises(InvalidModel, match=message):
        lower(op, given, attributes, [True])


@pytest.mark.parametrize("bits", [-1, 0, 3, 2**62])
def test_numbers_of_other_bits_are_not_supported(bits: int) -> None:
    op = find(MICROSOFT, "GatherBlockQuantized", 1)
    assert op is not None
    given = [operand("x", t.uint8, (7, 16)), as_operand(1, (2,)), as_operand(2, (7, 1))]
    with pytest.raises(UnsupportedModel, match=f"of {bits} bits"):
        lower(op, given, {"bits": bits, "block_size": 16}, [True])


@pytest.mark.parametrize("value", [-1, 2, 2**62])
def test_a_flag_is_0_or_1(value: int) -> None:
    """ONNX Runtime takes some of them for 0, some for 1."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("ReduceMax", ["x"], ["y"], keepdims=value)
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]))
    with pytest.raises(InvalidModel, match=rf"'keepdims' is {value}, expected 0 or 1"):
        load(model.SerializeToString())


@pytest.mark.parametrize("equation", ["i,i-", "i,i->i>", "i..,i", "i,i->,", "i1,i", "ï,i", ""])
def test_an_equation_of_einsum_is_one(equation: str) -> None:
    """ONNX's inference does not come back from some of them."""
    x, z = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "xz")
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("Einsum", ["x", "z"], ["y"], equation=equation)
    model = helper.make_model(helper.make_graph([node], "g", [x, z], [y]))
    with pytest.raises(InvalidModel, match=r"[Ee]insum"):
        load(model.SerializeToString())


def test_what_symbols_leave_open_is_asked_of_each_run() -> None:
    """A shape that may be equal is no error yet; its pair of sizes is kept."""
    k, n, c = Builder(1), symbol("n"), symbol("c")
    k.need_shape(operand("s", t.float32, (4,)), (c,), "scale")
    k.need_equal(n, n, "the same")
    assert k.kernel("K", [], []).equal == ((4, c),)


def normalization(path: Path) -> None:
    """A BatchNormalization of c channels, c a symbol, whose statistics are of 3."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "c", 5])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("BatchNormalization", ["x", *"sbmv"], ["y"], "bn")
    one = [onnx.numpy_helper.from_array(np.ones(3, np.float32), name) for name in "sbmv"]
    graph = helper.make_graph([node], "g", [x], [y], one)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


@pytest.mark.parametrize("channels", [2, 4])
@pytest.mark.parametrize("engine", ["machine", "native"])
def test_both_engines_refuse_a_size_that_a_symbol_left_open(
    engine: str, channels: int, tmp_path: Path
) -> None:
    """More channels than statistics, and fewer, which would be read in part."""
    normalization(tmp_path / "bn.onnx")
    made = make_engine(load(tmp_path / "bn.onnx"), engine)
    assert np.shape(made.run({"x": np.ones((2, 3, 5), np.float32)})["y"]) == (2, 3, 5)
    with pytest.raises(InvalidModel, match=r"'bn'.*scale is \(3\), not \(" + str(channels)):
        made.run({"x": np.ones((2, channels, 5), np.float32)})


def test_a_session_from_the_cache_refuses_it_too(tmp_path: Path) -> None:
    normalization(tmp_path / "bn.onnx")
    for _ in range(2):
        session = InferenceSession(tmp_path / "bn.onnx")
        session.run(None, {"x": np.ones((2, 3, 5), np.float32)})
        with pytest.raises(Exception, match=r"'bn'.*scale is \(3\), not \(2\)"):
            session.run(None, {"x": np.ones((2, 2, 5), np.float32)})


def padded(mode: str, pads: list[int]) -> bytes:
    """A Pad of n x c, both symbols."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "c"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("Pad", ["x", "pads"], ["y"], "pad", mode=mode)
    given = helper.make_tensor("pads", TensorProto.INT64, [4], pads)
    graph = helper.make_graph([node], "g", [x], [y], [given])
    opsets = [helper.make_opsetid("", 19)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@pytest.mark.parametrize(
    ("pads", "columns"), [([0, 1, 0, 1], 0), ([0, 0, 0, 1], 0), ([0, -3, 0, 1], 3)]
)
def test_both_engines_say_that_an_empty_axis_has_nothing_to_repeat(
    mode: str, pads: list[int], columns: int
) -> None:
    """The axis is empty, or so after the cut; where nothing is written nothing is asked."""
    said = []
    for engine in ("machine", "native"):
        made = make_engine(load(padded(mode, pads)), engine)
        assert made.run({"x": np.ones((2, 5), np.float32)})["y"].size
        assert made.run({"x": np.ones((0, columns), np.float32)})["y"].shape[0] == 0
        with pytest.raises(InvalidModel) as raised:
            made.run({"x": np.ones((2, columns), np.float32)})
        said.append(str(raised.value))
    assert said[0] == said[1]
    rule = f"Pad 'pad': mode '{mode}' repeats what is left of axis 1: "
    assert said[0].startswith(f"{rule}its size is 0, expected at least 1; where x0 = 'x' float32[2")


FED = [
    ("float[1,3] x, int64[1] v", "y, i = TopK(x, v)", [4]),
    ("float[1,3] x, int64[1] v", "y, i = TopK(x, v)", [2**62]),
    ("float[N,M] x, int64[1] v", "y, i = TopK(x, v)", [4]),
    ("float[1,3] x, int64[2] v", 'y = Resize<mode = "nearest">(x, , , v)', [2**63 - 1, 3]),
    ("float[1,3] x, int64[2] v", "y = Reshape(x, v)", [2, 2]),
    ("float[1,3] x, int64[2] v", "y = Tile(x, v)", [2**40, 2**40]),
]


@pytest.mark.parametrize(("inputs", "node", "value"), FED)
def test_a_value_that_does_not_fit_is_an_error_of_the_run(
    inputs: str, node: str, value: list[int]
) -> None:
    head = f'<ir_version: 10, opset_import: ["": 21]> g ({inputs}) => (y)'
    graph = load(onnx.parser.parse_model(f"{head} {{ {node} }}").SerializeToString())
    said = []
    for engine in ("machine", "native"):
        with pytest.raises(RunError) as raised:
            make_engine(graph, engine).run({"x": np.ones((1, 3), np.float32), "v": value})
        said.append(str(raised.value))
    assert said[0] == said[1]


BIN = "nodes_modes = ['BRANCH_LEQ', 'LEAF', 'LEAF'], nodes_treeids = [0, 0, 0]"
TREE = f"""ai.onnx.ml.TreeEnsembleRegressor<n_targets = 1, {BIN}, nodes_nodeids = [0, 1, 2],
    nodes_featureids = [2, 0, 0], nodes_values = [0.5, 0.0, 0.0], nodes_truenodeids = [1, 0, 0],
    nodes_falsenodeids = [2, 0, 0], target_treeids = [0, 0], target_nodeids = [1, 2],
    target_ids = [0, 0], target_weights = [1.0, 2.0]>(x)""".replace("'", '"')
LINEAR = "ai.onnx.ml.LinearRegressor<coefficients = [1.0, 2.0, 3.0]>(x)"
SUPPORT = """ai.onnx.ml.SVMRegressor<coefficients = [1.0], kernel_params = [0.5, 0.0, 3.0],
    n_supports = 1, rho = [0.0], support_vectors = [1.0, 2.0, 3.0]>(x)"""
LISTS = "[1.0, 2.0, 3.0]"
HEADS_OF_2 = "q_num_heads = 2, kv_num_heads = 2"
OPEN: list[tuple[str, str, list[tuple[int, ...]], list[tuple[int, ...]]]] = [
    # inputs, node, sizes that fit, sizes that do not
    ("float[N,F] x", LINEAR, [(2, 3)], [(2, 2), (2, 4), (0, 2)]),
    ("float[N,F] x", SUPPORT, [(2, 3)], [(2, 2), (2, 4), (0, 2)]),
    ("float[N,F] x", TREE, [(2, 3), (2, 4)], [(2, 2), (0, 2)]),
    ("float[N,F] x", f"ai.onnx.ml.Scaler<scale = {LISTS}>(x)", [(2, 3)], [(2, 2), (0, 2)]),
    (
        "float[N,F] x",
        f"ai.onnx.ml.Imputer<imputed_value_floats = {LISTS}>(x)",
        [(2, 3)],
        [(2, 2), (0, 2)],
    ),
    ("int64[N] x, float[F] v", "OneHot(x, two, v)", [(3, 2)], [(3, 1), (3, 3), (0, 3)]),
    (
        "float[1,1,H,4] x, float[R,F] r, int64[I] i",
        "RoiAlign(x, r, i)",
        [(5, 2, 4, 2)],
        [(5, 2, 3, 2), (5, 2, 5, 2), (5, 2, 4, 1), (5, 2, 4, 3), (5, 0, 3, 0)],
    ),
    (
        "float[1,1,H,4] x, float[R,F] r",
        "MaxRoiPool<pooled_shape = [1, 1]>(x, r)",
        [(5, 2, 5)],
        [(5, 2, 4), (5, 2, 6), (5, 0, 4)],
    ),
    (
        "uint8[M,4] x, uint8[4,N] w, uint8[P] p",
        "MatMulInteger(x, w, p)",
        [(3, 2, 3), (3, 2, 1), (1, 2, 1)],
        [(3, 2, 2), (1, 2, 3), (0, 2, 3)],
    ),
    ("float[M,4] x, float[P] p", "PRelu(x, p)", [(3, 4), (3, 1)], [(3, 2), (3, 5), (0, 5)]),
    (
        "float[M,N] x, float[P] p",
        "LayerNormalization(x, p)",
        [(3, 4, 4), (3, 4, 1)],
        [(3, 4, 2), (3, 4, 5), (0, 4, 5)],
    ),
    (
        "float[M,4] x, float[P] p",
        "RMSNormalization<axis = 0>(x, p)",
        [(3, 4), (3, 1)],
        [(3, 2), (3, 5), (0, 5)],
    ),
    (
        "float[N,C,2] x, float[C] s",
        "GroupNormalization<num_groups = 2>(x, s, s)",
        [(3, 4), (3, 6)],
        [(3, 5), (0, 5)],
    ),
    ("float[2,N,C] x", f"Attention<{HEADS_OF_2}>(x, x, x)", [(3, 4), (3, 6)], [(3, 5)]),
    (
        "float[2,N,C] x",
        "com.microsoft.MultiHeadAttention<num_heads = 2>(x, x, x)",
        [(3, 4), (3, 6)],
        [(3, 5)],
    ),
    (
        "float[2,1,C] x, int32[2] n, int32[1] m, float[9,P] c",
        """com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 1, do_rotary = 1>
           (x, , , , , n, m, c, c)""",
        [(16, 2)],
        [(15, 2)],
    ),
    (
        "float[B,1,16] x, int32[B] n, int32[1] m, float[P,H,1,1] c",
        """com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 1>
           (x, , , , , n, m, , , , c)""",
        [(2, 2, 2), (2, 1, 1)],
        [(2, 3, 1), (2, 1, 3)],
    ),
    (
        "float[B,2,4] x, int32[M] m",
        "com.microsoft.MultiHeadAttention<num_heads = 2>(x, x, x, , m)",
        [(2, 2), (2, 4)],
        [],
    ),
    (
        "int32[B,S] x, int32[P,S] p, float[9,4] w, float[4] g",
        "com.microsoft.EmbedLayerNormalization(x, , w, w, , g, g, , p)",
        [(2, 3, 2), (2, 3, 1)],
        [(2, 3, 3)],
    ),
    (
        "float[B,2,4] x, float[B,2,P] b",
        """y, s = LinearAttention<q_num_heads = 2, kv_num_heads = 2, update_rule = "delta">
           (x, x, x, , , b)""",
        [(2, 2), (2, 1)],
        [(2, 3)],
    ),
    ("int8[2,3] x, float[N] s, int8 z", "DequantizeLinear(x, s, z)", [(1,)], [(3,)]),
    ("float[2,3] x, float s, int8[N] z", "QuantizeLinear(x, s, z)", [(1,)], [(3,)]),
    (
        "float[1,N,2] x",
        "DFT<inverse = 1, onesided = 1>(x, , one)",
        [(3,), (2,)],
        [(1,)],
    ),
    (
        "float[N,H,2] x, float[N,K,2] c",
        "s = Shape<start = 1, end = 2>(c) r = Shape<start = 1, end = 2>(x) q = Div(r, s)"
        " i = Concat<axis = 0>(q, s, two) v = Reshape(x, i) y = Neg(v)",
        [(1, 4, 2), (1, 2, 2), (1, 4, 0)],  # 4 / 0 is 0, which keeps the size
        [(1, 3, 2)],
    ),
]


@pytest.mark.parametrize(("inputs", "node", "fit", "wrong"), OPEN)
def test_both_engines_decide_alike_what_symbols_left_open(
    inputs: str, node: str, fit: list[tuple[int, ...]], wrong: list[tuple[int, ...]]
) -> None:
    """What would be read in part, and what would be read past its end."""
    made = node if " y = " in f" {node}" or node.startswith("y") else f"y = {node}"
    head = '<ir_version: 10, opset_import: ["": 27, "ai.onnx.ml": 3, "com.microsoft": 1]>'
    body = f"g ({inputs}) => (y) <int64 one = {{1}}, int64[1] two = {{2}}> {{ {made} }}"
    graph = load(onnx.parser.parse_model(f"{head} {body}").SerializeToString())
    names = list(graph.symbols)
    machine, native = make_engine(graph, "machine"), make_engine(graph, "native")
    for sizes in (*fit, *wrong):
        given = dict(zip(names, sizes, strict=True))
        feeds = {}
        for name in graph.inputs:
            kind = graph.types[name]
            shape = [evaluate(d, given) for d in kind.shape]
            feeds[name] = np.zeros(shape, kind.dtype.numpy)
        if sizes in fit:
            assert machine.run(feeds)["y"].tobytes() == native.run(feeds)["y"].tobytes()
            continue
        for engine in (machine, native):
            with pytest.raises(InvalidModel):
                engine.run(feeds)

"""Models in which what surrounds the arithmetic decides: tiny ones, chains, trees."""

from __future__ import annotations

import numpy as np
import onnx

from benchmarks.net import Net

TREES, LEVELS, FEATURES, LABELS = 100, 8, 32, 4


def mlp() -> onnx.ModelProto:
    """32 numbers, two layers of 64, 10 classes."""
    net, x = Net(), "x"
    for rows, columns in ((32, 64), (64, 64)):
        x = net.op("Relu", net.linear(x, rows, columns))
    y = net.op("Softmax", net.linear(x, 64, 10))
    return net.model({"x": [1, 32]}, {y: [1, 10]})


def chain() -> onnx.ModelProto:
    """100 elementwise operations on 1024 numbers."""
    net, x = Net(), "x"
    for i in range(100):
        match i % 5:
            case 0 | 2:
                x = net.op("Add", x, net.scalar(0.1 * (1 - i % 5)))
            case 1:
                x = net.op("Mul", x, net.scalar(-0.99))
            case 3:
                x = net.op("LeakyRelu", x, alpha=0.9)
            case _:
                x = net.op("Sub", x, net.weight(net.normal((1, 1024), 0.1)))
    return net.model({"x": [1, 1024]}, {x: [1, 1024]})


def boosted(rows: int) -> onnx.ModelProto:
    """TREES full trees of three levels whose scores add up, for so many rows."""
    return forest(rows, 3, "LOGISTIC")


def forest(rows: int, levels: int = LEVELS, transform: str = "NONE") -> onnx.ModelProto:
    """TREES full trees of so many levels that classify so many rows."""
    net = Net()
    inner, nodes = 2**levels - 1, 2 ** (levels + 1) - 1
    numbers, is_leaf = np.arange(nodes), np.arange(nodes) >= inner
    leaves, trees = numbers[is_leaf], range(TREES)
    children = np.where(is_leaf, 0, 2 * numbers + 1), np.where(is_leaf, 0, 2 * numbers + 2)
    _, scores = net.ops(
        "TreeEnsembleClassifier",
        "x",
        count=2,
        domain="ai.onnx.ml",
        nodes_treeids=[t for t in trees for _ in numbers],
        nodes_nodeids=[*map(int, numbers)] * TREES,
        nodes_modes=["LEAF" if leaf else "BRANCH_LEQ" for leaf in is_leaf] * TREES,
        nodes_featureids=net.random.integers(0, FEATURES, TREES * nodes).tolist(),
        nodes_values=net.normal((TREES * nodes,), 1).tolist(),
        nodes_truenodeids=children[0].tolist() * TREES,
        nodes_falsenodeids=children[1].tolist() * TREES,
        class_treeids=[t for t in trees for _ in leaves],
        class_nodeids=leaves.tolist() * TREES,
        class_ids=net.random.integers(0, LABELS, TREES * len(leaves)).tolist(),
        class_weights=[1 / TREES] * (TREES * len(leaves)),
        classlabels_int64s=[*range(LABELS)],
        post_transform=transform,
    )
    return net.model({"x": [rows, FEATURES]}, {scores: [rows, LABELS]}, ai_onnx_ml=3)

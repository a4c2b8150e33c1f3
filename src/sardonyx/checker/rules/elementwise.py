"""Rules about operators that work element by element: shapes, types, bounds."""

from __future__ import annotations

from sardonyx.checker.context import Context
from sardonyx.checker.finding import Severity
from sardonyx.checker.nodes import Node
from sardonyx.checker.registry import Found, at, rule

# operator: the inputs that are to have one shape, those that are to have one element type
BINARY = {
    "Add": ((0, 1), (0, 1)), "Sub": ((0, 1), (0, 1)), "Mul": ((0, 1), (0, 1)),
    "Div": ((0, 1), (0, 1)), "Less": ((0, 1), (0, 1)), "Pow": ((0, 1), ()),
    "Where": ((0, 1, 2), (1, 2)),
}  # fmt: skip
ADD = "g (float[2] x, float[2] z) => (float[2] y) { y = Add (x, z) }"
CLIP = """g (float[2] x) => (float[2] y) <float l = {0.0}, float h = {1.0}>
          { y = Clip (x, l, h) }"""


@rule("EW.1", "operands of one shape", Severity.ERROR,
      "E_ADD_*_CONSTR_A_0010 and its like for Sub, Mul, Div, Less, Pow, Where", "F4",
      good=ADD, bad="g (float[2,3] x, float[3] z) => (float[2,3] y) { y = Add (x, z) }",
      blocks=True)  # fmt: skip
def same_shape(check: Context) -> Found:
    """The operands of Add, Sub, Mul, Div, Less, Pow and Where have one shape.

    Why: no implicit broadcasting: what is repeated, and how often, is written down.
    Example: Add of float[2, 3] and float[3].
    Limits: the dialect ej-2026-10 allows broadcasting in Add, Sub and Mul; where the shapes are not
    even compatible it is an error there as well.
    """
    free = check.profile.option("broadcast")
    for node in check.of(*BINARY):
        shapes = [check.shape(node.input(i)) for i in BINARY[node.op][0]]
        known = [s for s in shapes if s is not None]
        if len(set(known)) > 1 and (node.op not in free or broadcast(known) is None):
            yield at(node, " and ".join(str(list(s)) for s in known), "one shape")


def broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The shape that NumPy's broadcasting gives, None where there is none."""
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        wide = {d for d in sizes if d != 1}
        if len(wide) > 1:
            return None
        result.append(wide.pop() if wide else 1)
    return tuple(result)


@rule("EW.2", "operands of one element type", Severity.ERROR,
      "E_ADD_*_CONSTR_A_0020 and its like", "F5", good=ADD,
      bad="g (float[2] x, double[2] z) => (float[2] y) { y = Add (x, z) }",
      blocks=True)  # fmt: skip
def same_type(check: Context) -> Found:
    """The operands of Add, Sub, Mul, Div, Less and Where (2nd, 3rd) have one element type.

    Why: GR3: no implicit conversion.
    Example: Add of float32 and float64.
    Limits: such a model is no ONNX model either. Pow is T06's.
    """
    for node in check.of(*BINARY):
        names = [node.input(i) for i in BINARY[node.op][1]]
        found = {check.stated_element(n) or check.element(n) for n in names} - {""}
        if len(found) > 1:
            yield at(node, " and ".join(sorted(found)), "one element type")


@rule("EW.3", "element types of the operator", Severity.ERROR, "type families of the documents",
      good=ADD, bad="g (bool[2] c, bool[2] x, bool[2] z) => (bool[2] y) { y = Where (c, x, z) }",
      blocks=True)  # fmt: skip
def families(check: Context) -> Found:
    """The data that an operator computes with has a type that its document covers.

    Why: a document gives the meaning for each family of types; for others it gives none.
    Example: Where of bool, where the document has floats and integers.
    Limits: the type of the first input speaks for the node (of Where the second, of Constant its
    value); the list is data of the profile. Types outside of the profile are T03's.
    """
    for node in check.nodes:
        entry = check.profile.operators.get(node.op)
        if entry is None or entry.types is None or node.domain:
            continue
        found = check.stated_element(_data(node)) or check.element(_data(node))
        if found and found in check.profile.types and found not in entry.types:
            yield at(node, found, ", ".join(sorted(entry.types)), tensor=_data(node))


def _data(node: Node) -> str:
    if node.op == "Constant":
        return node.output()
    return node.input(1 if node.op == "Where" else 0)


@rule("Max.1", "operands of Max broadcast", Severity.ERROR, "Max, constraints", blocks=True,
      good="g (float[2,3] x, float[3] z) => (float[2,3] y) { y = Max (x, z) }",
      bad="g (float[2,3] x, float[2] z) => (float[2,3] y) { y = Max (x, z) }")  # fmt: skip
def max_operands(check: Context) -> Found:
    """Max and Min have at least one operand, and their operands' shapes broadcast.

    Why: Max is the one elementwise operator of the documents that broadcasts.
    Example: Max of float[2, 3] and float[2].
    Limits: element types are T06's.
    """
    for node in check.of("Max", "Min"):
        shapes = [check.shape(name) for name in node.inputs]
        known = [s for s in shapes if s is not None]
        if not node.inputs or broadcast(known) is None:
            yield at(node, [list(s) for s in known], "shapes that broadcast")


@rule("Clip.1", "Clip has both bounds", Severity.ERROR, "Clip, constraints; GR4", "F7", good=CLIP,
      bad="g (float[2] x) => (float[2] y) <float l = {0.0}> { y = Clip (x, l) }")  # fmt: skip
def clip_bounds(check: Context) -> Found:
    """Clip has min and max, scalars of the type of its data.

    Why: an absent bound is a default value.
    Example: Clip without max.
    Limits: another element type is no ONNX, and T06's.
    """
    for node in check.of("Clip"):
        for i, what in ((1, "min"), (2, "max")):
            name = node.input(i)
            if not name:
                yield at(node, f"no {what}", f"input {i}, {what}")
            elif check.rank(name) not in (0, None):
                yield at(node, f"{what} of rank {check.rank(name)}", "rank 0", tensor=name)

"""Rules about BatchNormalization, MatMul, Gemm, LeakyRelu, Softmax, ArgMax and Concat."""

from __future__ import annotations

import math

from sardonyx.checker.context import Context
from sardonyx.checker.finding import Severity
from sardonyx.checker.registry import Found, at, rule


def _bn(mode: str = "training_mode=0", epsilon: str = "0.001", s: int = 2) -> str:
    return f"""g (float[1,2,3] x, float[{s}] s, float[{s}] b, float[{s}] m, float[{s}] v)
               => (float[1,2,3] y)
               {{ y = BatchNormalization <epsilon={epsilon}, {mode}> (x, s, b, m, v) }}"""


@rule("BN.1", "BatchNormalization infers", Severity.TRANSIENT, "BatchNormalization [R1]", "F1",
      good=_bn(), bad=_bn("momentum=0.9"))  # fmt: skip
def bn_mode(check: Context) -> Found:
    """training_mode is given, as 0, and there is one output.

    Why: the profile is of inference.
    Example: BatchNormalization without training_mode.
    Limits: an absent training_mode is an error (GR4), not a transient one.
    """
    for node in check.of("BatchNormalization"):
        mode = node.given.get("training_mode")
        if mode is None:
            yield at(node, "not given", 0, attribute="training_mode", severity=Severity.ERROR)
        elif mode != 0:
            yield at(node, mode, 0, attribute="training_mode")
        if any(node.outputs[1:]):
            yield at(node, f"{len(node.outputs)} outputs", "one output")


@rule("BN.2", "BatchNormalization's operands", Severity.ERROR, "BatchNormalization, constraints",
      "F1", good=_bn(), bad=_bn(epsilon="0.0"), blocks=True)  # fmt: skip
def bn_operands(check: Context) -> Found:
    """epsilon is given and above 0; scale, B, mean and var have one element per channel; var >= 0.

    Why: the root of var + epsilon divides.
    Example: epsilon = 0.
    Limits: var is asked where it is a constant.
    """
    for node in check.of("BatchNormalization"):
        epsilon = node.given.get("epsilon")
        if not isinstance(epsilon, float) or not epsilon > 0:
            yield at(node, "not given" if epsilon is None else epsilon, "above 0",
                     attribute="epsilon")  # fmt: skip
        x = check.shape(node.input(0))
        for name in node.inputs[1:5]:
            shape = check.shape(name)
            if x is not None and len(x) > 1 and shape is not None and shape != (x[1],):
                yield at(node, f"shape {list(shape)}", [x[1]], tensor=name)
        var = check.constant(node.input(4))
        if var is not None and not bool((var >= 0).all()):
            yield at(node, "a negative variance", "at least 0", tensor=node.input(4))


@rule("MatMul.1", "matrices", Severity.TRANSIENT, "MatMul [R1]", "F11",
      good="g (float[2,3] x, float[3,4] z) => (float[2,4] y) { y = MatMul (x, z) }",
      bad="g (float[1,2,3] x, float[3,4] z) => (float[1,2,4] y) { y = MatMul (x, z) }",
      blocks=True)  # fmt: skip
def matmul(check: Context) -> Found:
    """A and B have rank 2, and A has as many columns as B has rows.

    Why: a restriction to save the working group's effort.
    Example: A of shape [1, 2, 3].
    Limits: transient for the ranks; that the sizes do not fit is an error.
    """
    for node in check.of("MatMul"):
        ranks = [check.rank(node.input(i)) for i in (0, 1)]
        if any(r not in (2, None) for r in ranks):
            yield at(node, f"ranks {ranks[0]} and {ranks[1]}", "2 and 2")
            continue
        a, b = check.shape(node.input(0)), check.shape(node.input(1))
        if a is not None and b is not None and a[1] != b[0]:
            yield at(node, f"{a[1]} columns and {b[0]} rows", "equal", severity=Severity.ERROR)


def _gemm(c: str = "2,4", alpha: str = "1.0", a: str = "2,3", names: str = "a, b, c",
          trans: str = "0") -> str:  # fmt: skip
    return f"""g (float[{a}] a, float[3,4] b, float[{c}] c) => (float[2,4] y)
               {{ y = Gemm <alpha={alpha}, beta=1.0, transA={trans}, transB=0> ({names}) }}"""


def _tbc(check: Context) -> Severity | None:
    return Severity.ERROR if check.strict_tbc else None


@rule("Gemm.1", "matrices", Severity.WARNING, "Gemm [R1] (to be confirmed)", good=_gemm(),
      bad="g (float[6] a, float[3,4] b, float[2,4] c) => (float[2,4] y)"
          " { y = Gemm <alpha=1.0, beta=1.0, transA=0, transB=0> (a, b, c) }",
      blocks=True)  # fmt: skip
def gemm_rank(check: Context) -> Found:
    """A and B have rank 2.

    Why: restriction R1 of the draft; ONNX asks for it as well.
    Example: A of rank 1.
    Limits: a warning while it is to be confirmed; with --strict-tbc an error.
    """
    for node in check.of("Gemm"):
        for name in node.inputs[:2]:
            if check.rank(name) not in (2, None):
                yield at(node, f"rank {check.rank(name)}", 2, tensor=name, severity=Severity.ERROR)


@rule("Gemm.2", "no scaling, no transposition", Severity.WARNING, "Gemm [R2] (to be confirmed)",
      "F12", good=_gemm(), bad=_gemm(alpha="2.0"))  # fmt: skip
def gemm_attributes(check: Context) -> Found:
    """alpha and beta are given as 1, transA and transB as 0.

    Why: restriction R2 of the draft: these attributes are not supported.
    Example: alpha = 2.
    Limits: a warning while it is to be confirmed. That one is not given at all is an error (GR4).
    """
    for node in check.of("Gemm"):
        for name, wanted in (("alpha", 1.0), ("beta", 1.0), ("transA", 0), ("transB", 0)):
            if name not in node.given:
                yield at(node, "not given", wanted, attribute=name, severity=Severity.ERROR)
            elif node.given[name] != wanted:
                yield at(node, node.given[name], wanted, attribute=name, severity=_tbc(check))


@rule("Gemm.3", "C is not broadcast", Severity.WARNING, "Gemm [R3] (to be confirmed)", "F4",
      good=_gemm(), bad=_gemm(c="4"))  # fmt: skip
def gemm_shape(check: Context) -> Found:
    """C has the shape of Y.

    Why: restriction R3 of the draft: no implicit broadcasting.
    Example: C of shape [4] where Y has [2, 4].
    Limits: a warning while it is to be confirmed; with --strict-tbc an error.
    """
    for node in check.of("Gemm"):
        c, y = check.shape(node.input(2)), check.shape(node.output())
        if c is not None and y is not None and c != y:
            yield at(node, f"C of shape {list(c)}", list(y), tensor=node.input(2),
                     severity=_tbc(check))  # fmt: skip


@rule("Gemm.4", "C is given", Severity.WARNING, "Gemm [R4] (to be confirmed)", "F7", good=_gemm(),
      bad=_gemm(names="a, b").replace(", float[2,4] c)", ")"))  # fmt: skip
def gemm_c(check: Context) -> Found:
    """C is given.

    Why: restriction R4 of the draft; an absent C is a default value.
    Example: Gemm of A and B alone.
    Limits: a warning while it is to be confirmed; with --strict-tbc an error.
    """
    for node in check.of("Gemm"):
        if not node.input(2):
            yield at(node, "no C", "a C of the shape of Y", severity=_tbc(check))


def _unary(op: str, attributes: str) -> str:
    return f"g (float[2,3] x) => (float[2,3] y) {{ y = {op} <{attributes}> (x) }}"


@rule("LeakyRelu.1", "alpha is given", Severity.ERROR, "LeakyRelu [R1]", "F1",
      good=_unary("LeakyRelu", "alpha=0.1"),
      bad="g (float[2] x) => (float[2] y) { y = LeakyRelu (x) }")  # fmt: skip
def leaky(check: Context) -> Found:
    """alpha is given, and finite.

    Why: no default values; an infinite slope makes NaN of zero.
    Example: LeakyRelu without alpha.
    Limits: none.
    """
    for node in check.of("LeakyRelu"):
        alpha = node.given.get("alpha")
        if not isinstance(alpha, float) or not math.isfinite(alpha):
            found = "not given" if alpha is None else alpha
            yield at(node, found, "a finite number", attribute="alpha")


@rule("Softmax.1", "Softmax's axis", Severity.TRANSIENT, "Softmax [R1]", "F1, F8",
      good=_unary("Softmax", "axis=1"), bad=_unary("Softmax", "axis=-1"))  # fmt: skip
def softmax(check: Context) -> Found:
    """axis is given and not negative.

    Why: one way to say it. (The document's constraint cites [R4], a slip.)
    Example: axis = -1.
    Limits: transient for the sign; an absent axis is an error (GR4); the range is A04's.
    """
    for node in check.of("Softmax"):
        axis = node.integer("axis")
        if axis is None:
            yield at(node, "not given", "given", attribute="axis", severity=Severity.ERROR)
        elif axis < 0:
            yield at(node, axis, "at least 0", attribute="axis")


def _argmax(attributes: str, x: str = "2,3") -> str:
    return f"g (float[{x}] x) => (int64[2,1] y) {{ y = ArgMax <{attributes}> (x) }}"


FULL = "axis=1, keepdims=1, select_last_index=0"


@rule("ArgMax.1", "ArgMax's attributes are given", Severity.ERROR, "ArgMax [R1], [R2], [R3]", "F1",
      good=_argmax(FULL), bad=_argmax("axis=1, keepdims=1"))  # fmt: skip
def argmax_given(check: Context) -> Found:
    """axis, keepdims and select_last_index are given; the two switches are 0 or 1.

    Why: no default values.
    Example: ArgMax without select_last_index.
    Limits: the range of axis is A04's.
    """
    for node in check.of("ArgMax"):
        for name in ("axis", "keepdims", "select_last_index"):
            found = node.given.get(name)
            if found is None or (name != "axis" and found not in (0, 1)):
                yield at(node, "not given" if found is None else found,
                         "given" if name == "axis" else "0 or 1", attribute=name)  # fmt: skip


@rule("ArgMax.2", "ArgMax's axis is not negative", Severity.TRANSIENT, "ArgMax [R4]", "F8",
      good=_argmax(FULL), bad=_argmax(FULL.replace("axis=1", "axis=-1")))  # fmt: skip
def argmax_axis(check: Context) -> Found:
    """axis is at least 0.

    Why: one way to say it.
    Example: axis = -1.
    Limits: transient.
    """
    for node in check.of("ArgMax"):
        axis = node.integer("axis")
        if axis is not None and axis < 0:
            yield at(node, axis, "at least 0", attribute="axis")


@rule("ArgMax.3", "there is a maximum", Severity.ERROR, "ArgMax [R5]", good=_argmax(FULL),
      bad=_argmax(FULL, "2,0"), blocks=True)  # fmt: skip
def argmax_some(check: Context) -> Found:
    """The axis that is reduced has a size above 0.

    Why: the largest of nothing is not defined.
    Example: float[2, 0] along axis 1.
    Limits: that Y is int64 and of the right shape is T05's.
    """
    for node in check.of("ArgMax"):
        axis, shape = node.value("axis"), check.shape(node.input(0))
        if shape is None or not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
            continue
        if shape[axis] == 0:
            yield at(node, f"shape {list(shape)}", "a size above 0", attribute="axis")


def _concat(axis: str, y: str, z: str = "2,3") -> str:
    return f"""g (float[2,3] x, float[{z}] z) => (float[{y}] y)
               {{ y = Concat <axis={axis}> (x, z) }}"""


@rule("Concat.1", "Concat's axis is not negative", Severity.TRANSIENT, "Concat [R1]", "F8",
      good=_concat("1", "2,6"), bad=_concat("-1", "2,6"))  # fmt: skip
def concat_axis(check: Context) -> Found:
    """axis is given and at least 0.

    Why: one way to say it.
    Example: axis = -1.
    Limits: transient; the range is A04's.
    """
    for node in check.of("Concat"):
        axis = node.integer("axis")
        if axis is None or axis < 0:
            yield at(node, "not given" if axis is None else axis, "at least 0", attribute="axis")


@rule("Concat.2", "Concat's operands fit together", Severity.ERROR, "Concat, constraints",
      good=_concat("1", "2,6"), bad=_concat("1", "2,6", "4,3"), blocks=True)  # fmt: skip
def concat_operands(check: Context) -> Found:
    """The operands have one rank, and one size along each axis but the one they are joined along.

    Why: the constraints of the document.
    Example: float[2, 3] and float[4, 3] along axis 1.
    Limits: element types are T06's; that the stated dims of Y are right is T05's.
    """
    for node in check.of("Concat"):
        shapes = [s for s in (check.shape(n) for n in node.inputs) if s is not None]
        axis = node.integer("axis")
        if not shapes or axis is None or not -len(shapes[0]) <= axis < len(shapes[0]):
            continue
        place = axis % len(shapes[0])
        rests = {(*s[:place], -1, *s[place + 1 :]) for s in shapes}
        if len(rests) > 1:
            yield at(node, " and ".join(str(list(s)) for s in shapes), "equal but along the axis")

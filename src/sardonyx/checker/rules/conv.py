"""Rules about Conv, and the arithmetic of windows."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.checker.context import Context
from sardonyx.checker.finding import Severity
from sardonyx.checker.nodes import Node
from sardonyx.checker.registry import Found, at, rule

ATTRIBUTES = ("strides", "pads", "dilations", "kernel_shape")


def sample(
    x: str = "1,1,4,4",
    w: str = "1,1,2,2",
    y: str = "1,1,3,3",
    b: str = "1",
    auto_pad: str = 'auto_pad="NOTSET", ',
    group: str = "group=1, ",
    kernel: str = "2,2",
    strides: str = "1,1",
    pads: str = "pads=[0,0,0,0], ",
    dilations: str = "1,1",
    names: str = "x, w, b",
) -> str:
    """A Conv as text; each argument is a part of it."""
    return f"""g (float[{x}] x, float[{w}] w, float[{b}] b) => (float[{y}] y) {{
        y = Conv <{auto_pad}{group}{pads}kernel_shape=[{kernel}], strides=[{strides}],
                  dilations=[{dilations}]> ({names}) }}"""  # fmt: skip


def shapes(check: Context, node: Node) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The shapes of X and W where both are known and of one rank."""
    x, w = check.shape(node.input(0)), check.shape(node.input(1))
    if x is None or w is None or len(x) != len(w) or len(x) < 3:
        return None
    return x, w


def reach(kernel: int, dilation: int) -> int:
    """How many places a dilated kernel spans."""
    return dilation * (kernel - 1) + 1


def sizes(
    extents: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:
    """How many places a window has along each axis: floor((X + pads - reach) / stride) + 1."""
    half = len(extents)
    return [
        (x + pads[i] + pads[half + i] - reach(kernel[i], dilations[i])) // strides[i] + 1
        for i, x in enumerate(extents)
    ]  # fmt: skip


def lists(node: Node, names: Sequence[str], spatial: int) -> dict[str, list[int]] | None:
    """The attributes that are lists, None where one is absent or of another length."""
    found = {}
    for name in names:
        given = node.ints(name)
        if given is None or len(given) != (2 * spatial if name == "pads" else spatial):
            return None
        found[name] = given
    return found


@rule("Conv.1", "two spatial axes", Severity.TRANSIENT, "Conv [R1]", good=sample(),
      bad=sample(x="1,1,4", w="1,1,2", y="1,1,3", kernel="2", strides="1", dilations="1",
                 pads="pads=[0,0], "))  # fmt: skip
def conv_rank(check: Context) -> Found:
    """X and W have rank 4.

    Why: a restriction to save the working group's effort.
    Example: X of shape [1, 1, 4].
    Limits: transient: --allow transient makes a warning of it.
    """
    for node in check.of("Conv"):
        for i, what in ((0, "X"), (1, "W")):
            rank = check.rank(node.input(i))
            if rank not in (4, None):
                yield at(node, f"{what} of rank {rank}", "rank 4", tensor=node.input(i))


@rule("Conv.2", "no automatic padding", Severity.ERROR, "Conv [R2]", "F6", good=sample(),
      bad=sample(auto_pad='auto_pad="VALID", ', pads=""))  # fmt: skip
def conv_auto_pad(check: Context) -> Found:
    """auto_pad is given, as NOTSET.

    Why: the padding is written down, not derived.
    Example: auto_pad = VALID.
    Limits: none.
    """
    for node in check.of("Conv"):
        if node.given.get("auto_pad") != "NOTSET":
            yield at(node, node.given.get("auto_pad", "not given"), "NOTSET", attribute="auto_pad")


@rule("Conv.3", "plain or depthwise groups", Severity.TRANSIENT, "Conv [R3]",
      good=sample(), bad=sample(x="1,4,4,4", w="2,2,2,2", y="1,2,3,3", b="2",
                                group="group=2, "))  # fmt: skip
def conv_group(check: Context) -> Found:
    """group is given, and is 1 or the number of channels of X.

    Why: a restriction to save the working group's effort.
    Example: 4 channels in 2 groups.
    Limits: that group is not given is an error (no default values), not a transient one.
    """
    for node in check.of("Conv"):
        group, x = node.integer("group"), check.shape(node.input(0))
        if group is None:
            yield at(node, "not given", "given", attribute="group", severity=Severity.ERROR)
        elif x is not None and len(x) > 1 and group not in (1, x[1]):
            yield at(node, group, f"1 or {x[1]}", attribute="group")


@rule("Conv.4", "strides, pads, dilations, kernel_shape are given", Severity.ERROR,
      "Conv, constraints; GR4", "F1", good=sample(), bad=sample(pads=""), blocks=True)  # fmt: skip
def conv_lists(check: Context) -> Found:
    """The four lists are given, of length 2, 4, 2 and 2, above 0 (pads: at least 0).

    Why: no default values.
    Example: Conv without pads.
    Limits: lengths follow the rank of X. Pads may be left out where auto_pad is not NOTSET, which
    Conv.2 reports.
    """
    for node in check.of("Conv"):
        yield from window_lists(check, node, ATTRIBUTES)


def window_lists(check: Context, node: Node, names: Sequence[str]) -> Found:
    """What is wrong with the attributes of a window."""
    rank = check.rank(node.input(0)) or 4
    automatic = node.given.get("auto_pad", "NOTSET") != "NOTSET"
    for name in names:
        found = node.ints(name)
        if found is None:
            if not (name == "pads" and automatic):
                yield at(node, "not given", "given", attribute=name)
            continue
        length = (rank - 2) * (2 if name == "pads" else 1)
        if len(found) != length or min(found, default=0) < (name != "pads"):
            least = 0 if name == "pads" else 1
            yield at(node, found, f"{length} numbers, at least {least}", attribute=name)


@rule("Conv.5", "operands fit together", Severity.ERROR, "Conv, constraints; BOSCH-001", "F7",
      good=sample(), bad=sample(names="x, w").replace(", float[1] b)", ")"),
      blocks=True)  # fmt: skip
def conv_operands(check: Context) -> Found:
    """kernel_shape is W's, W has C/group channels, group divides W's first dim, B is given.

    Why: the constraints of the document; a bias is always given: one way to say it.
    Example: Conv without B.
    Limits: ONNX itself has B as optional.
    """
    for node in check.of("Conv"):
        if not node.input(2):
            yield at(node, "no B", "a bias for each output channel")
        found = shapes(check, node)
        group = node.value("group") or 1
        if found is None:
            continue
        x, w = found
        kernel = node.ints("kernel_shape")
        if kernel is not None and kernel != list(w[2:]):
            yield at(node, kernel, list(w[2:]), attribute="kernel_shape")
        if w[1] * group != x[1]:
            yield at(node, f"{w[1]} channels in W for {x[1]} in X", f"{x[1]} / {group}")
        if group < 1 or w[0] % group:
            yield at(node, f"{w[0]} output channels", f"a multiple of {group}")
        bias = check.shape(node.input(2))
        if bias is not None and bias != (w[0],):
            yield at(node, f"B of shape {list(bias)}", [w[0]], tensor=node.input(2))


@rule("Conv.6", "the output is not empty", Severity.ERROR, "Conv, output dims", good=sample(),
      bad=sample(x="1,1,4,4", w="1,1,5,5", kernel="5,5", y="1,1,0,0"), blocks=True)  # fmt: skip
def conv_output(check: Context) -> Found:
    """floor((X + pads - (dilation * (kernel - 1) + 1)) / stride) + 1 is above 0 along each axis.

    Why: a kernel larger than the padded input has no place to be.
    Example: a kernel of 5 over an input of 4.
    Limits: the document's formula has dilation * kernel - 1 + 1, a slip; this is the one of its
    formal specification. A size of exactly 0 is an empty tensor, for runtimes that allow it: a
    warning. That the stated dims are these is T05's.
    """
    for node in check.of("Conv"):
        found = shapes(check, node)
        parts = found and lists(node, ATTRIBUTES, len(found[0]) - 2)
        if found is None or not parts or min(parts["strides"]) < 1:
            continue
        made = sizes(found[0][2:], parts["kernel_shape"], parts["strides"], parts["pads"],
                     parts["dilations"])  # fmt: skip
        if min(made) <= 0:
            severity = Severity.WARNING if min(made) == 0 else None
            yield at(node, f"output sizes {made}", "at least 1", severity=severity)

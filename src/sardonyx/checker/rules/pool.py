"""Rules about MaxPool."""

from __future__ import annotations

from sardonyx.checker.context import Context
from sardonyx.checker.finding import Severity
from sardonyx.checker.registry import Found, at, rule
from sardonyx.checker.rules.conv import ATTRIBUTES, lists, reach, sizes, window_lists


def sample(
    x: str = "1,1,4,4",
    y: str = "1,1,3,3",
    auto_pad: str = 'auto_pad="NOTSET", ',
    ceil: str = "0",
    pads: str = "pads=[0,0,0,0], ",
    kernel: str = "2,2",
    strides: str = "1,1",
    dilations: str = "1,1",
    order: str = "storage_order=0, ",
    outputs: str = "y",
) -> str:
    """A MaxPool as text; each argument is a part of it."""
    return f"""g (float[{x}] x) => (float[{y}] y) {{
        {outputs} = MaxPool <{auto_pad}{pads}{order}ceil_mode={ceil}, kernel_shape=[{kernel}],
                       strides=[{strides}], dilations=[{dilations}]> (x) }}"""  # fmt: skip


@rule("MaxPool.1", "two spatial axes", Severity.TRANSIENT, "MaxPool [R1]", good=sample(),
      bad=sample(x="1,1,4", y="1,1,3", kernel="2", strides="1", dilations="1",
                 pads="pads=[0,0], "))  # fmt: skip
def pool_rank(check: Context) -> Found:
    """X has rank 4; in the dialect ej-2026-10 at least rank 3.

    Why: a restriction to save the working group's effort.
    Example: X of shape [1, 1, 4].
    Limits: transient: --allow transient makes a warning of it.
    """
    free = "any rank" in check.profile.option("maxpool")
    for node in check.of("MaxPool"):
        rank = check.rank(node.input(0))
        if rank is not None and (rank < 3 if free else rank != 4):
            yield at(node, f"rank {rank}", "at least 3" if free else "4", tensor=node.input(0))


@rule("MaxPool.2", "every attribute is given", Severity.ERROR, "MaxPool [R2]; GR4", "F1",
      good=sample(), bad=sample(order=""), blocks=True)  # fmt: skip
def pool_given(check: Context) -> Found:
    """auto_pad, ceil_mode, dilations, kernel_shape, pads, storage_order and strides are given.

    Why: no default values.
    Example: MaxPool without storage_order.
    Limits: pads may be left out where auto_pad is not NOTSET, which MaxPool.3 reports.
    """
    for node in check.of("MaxPool"):
        for name in ("auto_pad", "ceil_mode", "storage_order"):
            if name not in node.given:
                yield at(node, "not given", "given", attribute=name)
        yield from window_lists(check, node, ATTRIBUTES)


def _equals(number: int, name: str, expected: object, fix: str, bad: str, why: str) -> None:
    @rule(f"MaxPool.{number}", f"{name} is {expected}", Severity.TRANSIENT,
          f"MaxPool [R{number}]", fix, good=sample(), bad=bad)  # fmt: skip
    def check_value(check: Context) -> Found:
        for node in check.of("MaxPool"):
            if name in node.given and node.given[name] != expected:
                yield at(node, node.given[name], expected, attribute=name)

    check_value.__doc__ = f"""{name} is {expected}.

    Why: {why}
    Example: {name} with another value.
    Limits: transient. That it is not given at all is MaxPool.2's.
    """


_equals(3, "auto_pad", "NOTSET", "F6", sample(auto_pad='auto_pad="VALID", ', pads=""),
        "the padding is written down, not derived.")  # fmt: skip
_equals(4, "ceil_mode", 0, "", sample(ceil="1"),
        "a window that hangs over the edge is not specified.")  # fmt: skip
_equals(5, "storage_order", 0, "", sample(order="storage_order=1, "),
        "Indices count in row-major order.")  # fmt: skip


@rule("MaxPool.6", "the kernel is larger than the padding", Severity.ERROR,
      "MaxPool, constraints", good=sample(),
      bad=sample(pads="pads=[2,0,0,0], ", y="1,1,5,3"), blocks=True)  # fmt: skip
def pool_pads(check: Context) -> Found:
    """dilation * (kernel - 1) + 1 is above the padding on either side, along each axis.

    Why: a window that lies in the padding alone has no maximum.
    Example: a kernel of 2 with 2 pads before.
    Limits: the dialect ej-2026-10 asks for pads <= kernel_shape. A padding that ONNX Runtime
    refuses (pad >= kernel, undilated) is a warning.
    """
    by_kernel = "kernel" in check.profile.option("maxpool")
    for node in check.of("MaxPool"):
        spatial = (check.rank(node.input(0)) or 4) - 2
        parts = lists(node, ATTRIBUTES, spatial)
        for axis in range(spatial if parts else 0):
            assert parts is not None
            kernel, pads = parts["kernel_shape"][axis], parts["pads"]
            pad = max(pads[axis], pads[spatial + axis])
            span = reach(kernel, parts["dilations"][axis])
            if (pad > kernel) if by_kernel else (pad >= span):
                bound = f"at most {kernel}" if by_kernel else f"below {span}"
                yield at(node, f"{pad} pads along axis {axis}", bound, attribute="pads")
            elif pad >= kernel:
                yield at(node, f"{pad} pads along axis {axis}", f"below {kernel} (ONNX Runtime)",
                         attribute="pads", severity=Severity.WARNING)  # fmt: skip


@rule("MaxPool.7", "outputs", Severity.ERROR, "MaxPool, outputs; MaxPool [R6] (SAIV), [R5] (EJ)",
      good=sample(), bad=sample(x="1,1,1,4", y="1,1,0,3"), blocks=True)  # fmt: skip
def pool_outputs(check: Context) -> Found:
    """The sizes of Y are above 0; in the dialect ej-2026-10 Indices is absent.

    Why: a kernel larger than the padded input has no place to be.
    Example: a kernel of 2 over a size of 1.
    Limits: a size of 0 is an empty tensor; that the stated dims are right is T05's.
    """
    alone = "no indices" in check.profile.option("maxpool")
    for node in check.of("MaxPool"):
        if alone and node.output(1):
            yield at(node, "Indices", "no second output", tensor=node.output(1))
        x = check.shape(node.input(0))
        parts = None if x is None else lists(node, ATTRIBUTES, len(x) - 2)
        if x is None or not parts or min(parts["strides"]) < 1:
            continue
        made = sizes(x[2:], parts["kernel_shape"], parts["strides"], parts["pads"],
                     parts["dilations"])  # fmt: skip
        if min(made) <= 0:
            yield at(node, f"output sizes {made}", "at least 1")

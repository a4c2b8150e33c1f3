"""Pools with ceil_mode, as ONNX's inference counts them rightly.

Before opset 22 it counts a window that starts in the padding at the end or past the input (from 22
on where there are two), which is none: not here (`_places` in ops/window.py), in PyTorch nor in
ONNX Runtime. So its copy of such a node states what gives the same places without ceil_mode.

Along an axis of n, with padding b and e, windows of `reach` that move by s have
min(ceil((n + b + e - reach) / s) + 1, ceil((n + b) / s)) places. That is
floor((n + b + p - reach) / s) + 1 with p = min(e + s, reach) - 1 in the place of e.
"""

from __future__ import annotations

from onnx import AttributeProto, NodeProto
from onnx.helper import make_attribute

from sardonyx.model.load import canonical

POOLS = "AveragePool", "LpPool", "MaxPool"
LARGEST = 1 << 31  # of a size that is stated anew; what is larger is for ONNX to refuse


def restate_window(node: NodeProto) -> bool:
    """States a pool without ceil_mode; False where ONNX counts its places as they are."""
    given = {a.name: a for a in node.attribute}
    ceil = given.get("ceil_mode")
    if node.op_type not in POOLS or canonical(node.domain) or ceil is None or ceil.i != 1:
        return False
    auto_pad = given["auto_pad"].s if "auto_pad" in given else b"NOTSET"
    pads = _pads(given, auto_pad == b"NOTSET")
    if pads is None:
        return False
    ceil.i = 0
    if auto_pad in (b"NOTSET", b"VALID"):  # SAME is ceil(n / s) places, with ceil_mode or without
        kept = [a for n, a in given.items() if n not in ("auto_pad", "pads")]
        stated = [*kept, make_attribute("pads", pads)]
        del node.attribute[:]
        node.attribute.extend(stated)
    return True


def _pads(given: dict[str, AttributeProto], explicit: bool) -> list[int] | None:
    """The padding that stands for ceil_mode; None where no window can start in padding."""

    def of(name: str, count: int, default: int) -> list[int]:
        return list(given[name].ints) if name in given else [default] * count

    kernel = of("kernel_shape", 0, 1)
    rank = len(kernel)
    strides, dilations = of("strides", rank, 1), of("dilations", rank, 1)
    pads = of("pads", 2 * rank, 0) if explicit else [0] * (2 * rank)
    sizes = [*kernel, *strides, *dilations]
    if len(sizes) != 3 * rank or len(strides) != rank or len(pads) != 2 * rank:
        return None
    if min(sizes, default=0) < 1 or min(pads) < 0 or max(*sizes, *pads) > LARGEST:
        return None
    reach = [(n - 1) * d + 1 for n, d in zip(kernel, dilations, strict=True)]
    last = [e + s for e, s in zip(pads[rank:], strides, strict=True)]
    if all(a <= r for a, r in zip(last, reach, strict=True)):
        return None
    return [*pads[:rank], *(min(a, r) - 1 for a, r in zip(last, reach, strict=True))]

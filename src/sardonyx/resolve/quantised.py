"""What the rewriting of QDQ islands sees: one graph, its constants, and what is quantised there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from sardonyx.graph import Graph, Operation
from sardonyx.types import Array, TensorType, by_numpy

DOMAINS = ("", "com.microsoft")
NORMAL = 2.0**-100, 2.0**100  # scales within which x / s of a number q * s rounds to q


@dataclass(frozen=True, slots=True)
class Quantised:
    """A quantised tensor: names of the integers, the scale and the zero point, and the values of
    the latter; axis says which one they are for, None if they are for the whole tensor."""

    name: str
    scale_name: str
    zero_name: str
    scale: Array
    zero: Array
    axis: int | None

    def same_as(self, other: Quantised) -> bool:
        """Whether equal integers stand for equal numbers."""
        return bool(
            self.axis is None
            and other.axis is None
            and self.scale.item() == other.scale.item()
            and self.zero.dtype == other.zero.dtype
            and self.zero.item() == other.zero.item()
        )


@dataclass(slots=True, eq=False)
class Rewriter:
    """One graph being rewritten. constants, types, dequantizing (the DequantizeLinear, by result)
    are its own and those of the graphs around it; made: the initializers that are new; replaced:
    what stands for the operations."""

    graph: Graph
    producers: Mapping[str, int]
    consumers: Mapping[str, list[int]]
    constants: Mapping[str, Array]
    types: Mapping[str, TensorType]
    dequantizing: Mapping[str, Operation]
    made: dict[str, Array] = field(default_factory=dict)
    replaced: dict[int, list[Operation]] = field(default_factory=dict)

    def constant(self, name: str) -> Array | None:
        """The value of a tensor that no run can change."""
        found = self.made.get(name, self.constants.get(name))
        return None if found is None or found.dtype == object else found

    def operation(self, name: str) -> Operation | None:
        """The operation that makes a tensor."""
        index = self.producers.get(name)
        return None if index is None else self.graph.operations[index]

    def only_here(self, name: str) -> bool:
        """Whether a tensor has one reader and is no output."""
        return len(self.consumers.get(name, ())) == 1 and name not in self.graph.outputs

    def new(self, stem: str, value: Array) -> str:
        """The name of a new initializer; equal ones share it."""
        name = self.unused(f"sardonyx.{stem}.{value.dtype}.{value.tobytes().hex()}")
        self.made[name] = value
        return name

    def unused(self, stem: str) -> str:
        """A name for a new tensor: the stem, unless the model has chosen it."""
        while stem in self.types:
            stem += "_"
        return stem


def type_of(value: Array) -> TensorType | None:
    """The type of an array."""
    dtype = by_numpy(value.dtype)
    return None if dtype is None else TensorType(dtype, value.shape)


def quantised_number(x: Array, y: Quantised) -> Array:
    """QuantizeLinear of one number."""
    info = np.iinfo(y.zero.dtype)
    scaled = np.rint(x / y.scale.reshape(())).astype(np.float32) + np.float32(y.zero.item())
    found: Array = np.clip(scaled, info.min, info.max).astype(y.zero.dtype)
    return found.reshape(())


def dequantized(r: Rewriter, name: str, bits: int = 8) -> Quantised | None:
    """What a tensor is dequantised from, if constants say how; integers of `bits`."""
    op = r.dequantizing.get(name)
    if op is None:
        return None
    return parameters(r, op, op.inputs[0], bits)


def parameters(r: Rewriter, op: Operation, integers: str, bits: int = 8) -> Quantised | None:
    """The constant scale and zero point of a QuantizeLinear or DequantizeLinear, or None."""
    known = r.types.get(integers)
    special = [op.attributes.get(a) for a in ("block_size", "output_dtype", "precision")]
    scale = r.constant(op.inputs[1])
    if known is None or known.dtype.bits != bits or not known.dtype.is_integer or scale is None:
        return None
    if scale.dtype != np.float32 or (any(special) and op.op_type == "DequantizeLinear"):
        return None
    if special[0] or special[2]:
        return None
    zero_name = op.inputs[2] if len(op.inputs) > 2 else ""
    zero = r.constant(zero_name) if zero_name else np.zeros((), known.dtype.numpy)
    if zero is None or zero.size not in (1, scale.size):
        return None
    if not np.all((scale > NORMAL[0]) & (scale < NORMAL[1])):
        return None
    zero_name = zero_name or r.new("zero", zero)
    axis = None
    if scale.size != 1:
        rank = len(known.shape) if known.shape is not None else 0
        axis = int(op.attributes.get("axis", 1)) % rank if scale.ndim == 1 and rank else -1
    return Quantised(integers, op.inputs[1], zero_name, scale, zero, axis)

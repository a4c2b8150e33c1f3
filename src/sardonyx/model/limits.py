"""What a model may ask for. A model is hostile until it is resolved: every limit has a default."""

from __future__ import annotations

from dataclasses import dataclass

from sardonyx.errors import LimitExceeded

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds; exceeding one raises LimitExceeded.

    file_bytes: of the model file (a protobuf holds at most 2 GiB). tensor_bytes: of any one
    tensor. sparse_bytes: of all sparse initializers together, once they are dense. rank: of any
    tensor. nesting: of subgraphs in subgraphs. nodes: in the file, subgraphs and functions
    included. inlined_nodes: after functions are inlined. call_depth: of functions calling
    functions. type_seconds, type_bytes: of ONNX's type and shape inference, which runs in
    a process of its own; 0 seconds: in this one and unlimited, for models that are trusted.
    """

    file_bytes: int = 2 * GIB
    tensor_bytes: int = 64 * GIB
    sparse_bytes: int = GIB
    rank: int = 32
    nesting: int = 24
    nodes: int = 1_000_000
    inlined_nodes: int = 1_000_000
    call_depth: int = 64
    type_seconds: float = 60.0
    type_bytes: int = 4 * GIB

    def check(self, name: str, found: int, what: str) -> None:
        """Raises LimitExceeded if `found` is above the limit called `name`."""
        allowed = getattr(self, name)
        if found > allowed:
            raise LimitExceeded(
                f"{what} is {found}, above the limit of {allowed}; "
                f"if you trust the model, raise Limits({name}=...)"
            )

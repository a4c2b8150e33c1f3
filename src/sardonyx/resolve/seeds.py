"""The seeds of random operations: G states one for each.

A node that states no seed gets the 64-bit key whose high half is the session's seed and whose low
half is the CRC-32 of its place in the model, as text ("4", or "4.0.2" inside other nodes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

from sardonyx.graph import Operation
from sardonyx.ops.registry import find


def default_seed(
    operator: tuple[str, str, int], stated: Mapping[str, Any], path: Sequence[int], session: int
) -> dict[str, int]:
    """The attribute `seed` that a node (domain, name, since_version) gets; none if it states one,
    or takes none."""
    found = find(*operator)
    if found is None or not found.takes_seed or "seed" in stated:
        return {}
    return {"seed": (session & 0xFFFFFFFF) << 32 | crc32(".".join(map(str, path)).encode())}


def is_seeded(op: Operation) -> bool:
    """Whether the session's seed decides what an operation draws, its subgraphs' included."""
    own = "seed" in op.attributes and "seed" not in op.origin.explicit
    return own or any(is_seeded(o) for g in op.subgraphs.values() for o in g.operations)

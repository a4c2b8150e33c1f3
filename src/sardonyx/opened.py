"""A graph with what else its model's file says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sardonyx.graph import Graph


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a model says about itself."""

    producer_name: str = ""
    producer_version: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    ir_version: int = 0
    custom: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A graph with what else its file says. doubt: what was warned of when it was read."""

    graph: Graph
    metadata: Metadata
    name: str
    doubt: str = ""

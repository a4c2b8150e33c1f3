"""What the host does at the end of a graph (tail.py), as an image keeps it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sardonyx.graph import Graph
from sardonyx.types import Value

Finish: TypeAlias = Callable[[Mapping[str, Value]], dict[str, Value]]


@dataclass(frozen=True, slots=True, eq=False)
class Ending:
    """graph: the outputs of the whole, the operations of the host in order, the types of what they
    give. fixed: values that they read, or that are outputs, whatever is fed."""

    graph: Graph
    fixed: Mapping[str, Value]

    def finisher(self) -> Finish:
        """What makes the outputs of the whole of those of its head. Raises what an operation whose
        attributes do not fit raises."""
        from sardonyx.host import performing, told  # the operators, which a session may not need

        acts = [(op, performing(self.graph, op)) for op in self.graph.operations]

        def finish(found: Mapping[str, Value]) -> dict[str, Value]:
            env = {**self.fixed, **found}
            for op, act in acts:
                env.update(told(op, act, [env[n] if n else None for n in op.inputs]))
            return {name: env[name] for name in self.graph.outputs}

        return finish

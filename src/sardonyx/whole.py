"""A graph with control flow as one program, for the sizes (and values) that it is often fed with.

Where sizes are numbers, If, Loop and Scan can be compiled (passes/lower.py); an If or Loop whose
condition follows from small inputs is decided before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from sardonyx.dims import supposing
from sardonyx.errors import ModelError, Undetermined
from sardonyx.feeds import Values, fits
from sardonyx.graph import Graph
from sardonyx.infer import bind, infer, value_inputs
from sardonyx.passes.lower import lower
from sardonyx.programs import Made, Programs, Shapes, Wide, shapes_of
from sardonyx.supposed import supposed_for
from sardonyx.types import Array, TensorType


def programs_of(
    graph: Graph,
    make: Callable[[Graph], Made],
    heard: Callable[[Shapes | None, Values, Made], None] | None = None,
) -> Programs[Made]:
    """The programs of a graph, made of graphs; `heard` hears of each, and of what it is for: no
    shapes of one for all that its graph supposes."""

    def program(fed: Mapping[str, Array], values: Values) -> Made | None:
        whole = whole_for(graph, fed, values)
        if whole is None:
            return None
        made = make(whole)
        if heard is not None:
            heard(shapes_of(fed), values, made)
        return made

    def suppose(fed: Mapping[str, Array]) -> Wide[Made] | None:
        supposed = supposed_for(graph, fed, _open)
        if supposed is None:
            return None
        made = make(supposed)
        if heard is not None:
            heard(None, (), made)
        return partial(fits, supposed), made

    inputs = frozenset(graph.inputs)
    tensors = inputs <= graph.types.keys()
    sizes = frozenset(value_inputs(graph))
    return Programs(inputs if tensors else frozenset(), sizes, program, suppose=suppose)


def whole_for(graph: Graph, fed: Mapping[str, Array], values: Values) -> Graph | None:
    """The graph that one program serves for feeds of these shapes, and these values among them;
    None where there is none."""
    types = {n: TensorType(graph.types[n].dtype, v.shape) for n, v in fed.items()}
    try:
        graph = bind(graph, types, fed)
        if values:
            known = {n: fed[n] for n, _ in values}
            graph = infer(replace(graph, values={**graph.values, **known}, declared={}))
        return graph if is_program(graph) else None
    except (Undetermined, ModelError):
        return None


def _open(graph: Graph) -> Undetermined | None:
    """What is open that a program of the graph needs to know."""
    try:
        with supposing(graph.supposed):
            lower(graph)
    except Undetermined as error:
        return error
    return None


def is_program(graph: Graph) -> bool:
    """Whether a graph can be compiled as a whole, its control flow included. A body that breaks a
    rule may be a branch that is never taken."""
    try:
        return not graph.symbols and bool(lower(graph).launches)
    except (Undetermined, ModelError):
        return False

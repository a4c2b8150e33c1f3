"""Keeps what a model was made into, for kept.py to find."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from sardonyx.build import IMAGE, cache_folder, own_files, place
from sardonyx.calls import glue
from sardonyx.ending import Ending
from sardonyx.engines import Engine, StagedEngine, TailedEngine
from sardonyx.feeds import Values
from sardonyx.graph import Graph
from sardonyx.images import Image, written
from sardonyx.kept import ChainImage, StagedImage, part_key, wide_key
from sardonyx.keys import key_with
from sardonyx.native import Compiled, NativeEngine
from sardonyx.opened import Opened
from sardonyx.passes.timeline import outline_of
from sardonyx.programs import PROGRAMS, Shapes, shapes_of
from sardonyx.proved import checker
from sardonyx.types import Value

Same: TypeAlias = Callable[[], bool]


def keep(key: str | None, opened: Opened, engine: Engine, same: Same) -> None:
    """Keeps what the model was made into, where one program serves all that may be fed, and what it
    will be made into: for dims that are 0, and of a graph in stages the programs for single sizes.
    same: whether the model is still what the key was made of."""
    if key is None:
        return
    ending = engine.ending if isinstance(engine, TailedEngine) else None
    program = engine.head if isinstance(engine, TailedEngine) else engine
    if isinstance(program, NativeEngine):
        _keep(key, opened, same, program.flexible, program.general(), ending)
        _hear_zeros(key, opened, same, program)
    elif isinstance(engine, StagedEngine):
        _keep_programs(key, opened, same, engine)


def _keep_programs(key: str, opened: Opened, same: Same, engine: StagedEngine) -> None:
    staged = StagedImage(replace(opened, graph=_outside(opened.graph)), engine.sizes)
    chained: set[Shapes] = set()  # what chains were asked for

    def hear(shapes: Shapes | None, values: Values, program: object) -> None:
        assert isinstance(program, NativeEngine)
        wide = (wide_key(key, i) for i in range(PROGRAMS))
        free = next((k for k in wide if not (cache_folder() / (k + IMAGE)).exists()), None)
        case = free if shapes is None else key_with(key, shapes, values)
        if case and _keep(case, opened, same, program.flexible, program.general()):
            _place(key, staged, same)

    def hear_chain(fed: Mapping[str, Value], programs: Sequence[object]) -> None:
        arrays = {n: v for n, v in fed.items() if isinstance(v, np.ndarray)}
        shapes = shapes_of(arrays)
        if shapes in chained or len(chained) == PROGRAMS:
            return
        chained.add(shapes)
        if fed.keys() == arrays.keys() == set(engine.graph.inputs):
            chain = _chain(key, opened, same, engine.graph, programs)
            if chain is not None and _place(key_with(key, shapes, ()), chain, same):
                _place(key, staged, same)

    engine.keep, engine.keep_chain = hear, hear_chain


def _chain(
    key: str, opened: Opened, same: Same, graph: Graph, programs: Sequence[object]
) -> ChainImage | None:
    """What runs programs one after the other; None where not all outputs of the graph come so."""
    parts, there = list[Image](), set(graph.inputs)
    for program in programs:
        if not isinstance(program, NativeEngine) or (made := program.general()) is None:
            return None
        image = _image(opened, program.flexible, made)
        if image is None or not there.issuperset(image.inputs):
            return None
        parts.append(image)
        there.update(image.outputs)
        _hear_zeros(part_key(key, image), opened, same, program)
    return ChainImage(tuple(parts), graph.outputs) if there.issuperset(graph.outputs) else None


def _hear_zeros(key: str, opened: Opened, same: Same, program: NativeEngine) -> None:
    def hear(zeros: tuple[str, ...], graph: Graph, made: Compiled) -> None:
        _keep(key_with(key, *zeros), opened, same, graph, made)

    program.keep_zeros(hear)


def _keep(
    key: str,
    opened: Opened,
    same: Same,
    graph: Graph,
    made: Compiled | None,
    ending: Ending | None = None,
) -> bool:
    """Whether there is an image, which is kept."""
    image = None if made is None else _image(opened, graph, made, ending)
    return image is not None and _place(key, image, same)


def _place(key: str, image: object, same: Same) -> bool:
    if not same():
        return False
    try:
        place(cache_folder() / (key + IMAGE), [written(image)], sealed=True)
    except OSError:
        return False  # the next session takes the long way too
    return True


def _outside(graph: Graph) -> Graph:
    """What of a graph its feeds are checked against, and its outputs told from."""
    outside = {*graph.inputs, *graph.outputs, *graph.overridable}
    types = {n: kind for n, kind in graph.types.items() if n in outside}
    declared = {n: kind for n, kind in graph.declared.items() if n in outside}
    containers = {n: kind for n, kind in graph.containers.items() if n in outside}
    lite = replace(graph, initializers={}, operations=(), types=types, values={})
    return replace(lite, declared=declared, containers=containers)


def _image(
    opened: Opened, graph: Graph, made: Compiled, ending: Ending | None = None
) -> Image | None:
    """graph: what the program was made from, of which symbols stand for values that decide sizes;
    with an ending, its outputs are others than the model's."""
    inputs, program, source = (*graph.inputs, *graph.overridable), made.program, made.source
    outside = (*inputs, *program.outputs)
    plain = all(n in graph.types and graph.types[n].dtype.kind in "fiub" for n in outside)
    if not plain or tuple(program.inputs) != tuple(graph.inputs):
        return None
    lite = _outside(graph if ending is None else opened.graph)
    types = {n: program.tensors.get(n, graph.types[n]) for n in outside}
    symbols = {n: v for n, v in graph.values.items() if n in graph.inputs and v.dtype == object}
    lite = replace(lite, types={**lite.types, **types}, values=symbols)
    glue()
    if made.plan is None:  # its first run plans, which the checker looks at
        checker()
    weights = getattr(made.weights, "filename", None)
    return Image(
        replace(opened, graph=lite),
        made.library.name,
        "" if weights is None else Path(weights).name,
        own_files(),
        tuple(program.inputs),
        tuple(program.outputs),
        made.plan,
        outline_of(program) if made.plan is None else None,
        source.slots,
        source.symbols,
        made.workers,
        ending,
    )

"""Keeps what a model was made into, for images.py to find."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sardonyx.build import IMAGE, cache_folder, own_files, place
from sardonyx.calls import glue
from sardonyx.engines import Engine
from sardonyx.images import Image, written
from sardonyx.native import NativeEngine
from sardonyx.opened import Opened
from sardonyx.passes.timeline import outline_of
from sardonyx.passes.workers import most
from sardonyx.proved import checker


def keep(key: str | None, opened: Opened, engine: Engine) -> None:
    """Keeps what the model was made into, where one program serves all that may be fed."""
    image = None if key is None else _image(opened, engine)
    if key is None or image is None:
        return
    try:
        place(cache_folder() / (key + IMAGE), [written(image)])
    except OSError:
        return  # the next session takes the long way too


def _image(opened: Opened, engine: Engine) -> Image | None:
    made = engine.general() if isinstance(engine, NativeEngine) else None
    graph = opened.graph
    outside = (*graph.inputs, *graph.outputs, *graph.overridable)
    plain = all(n in graph.types and graph.types[n].dtype.kind in "fiub" for n in outside)
    if made is None or not plain or graph.containers:
        return None
    program, source = made.program, made.source
    if tuple(program.inputs) != tuple(graph.inputs):
        return None
    types = {n: program.tensors[n] for n in outside if n in program.tensors}
    lite = replace(
        graph,
        initializers={},
        operations=(),
        types={**{n: graph.types[n] for n in outside}, **types},
        declared={n: x for n, x in graph.declared.items() if n in outside},
        values={},
    )
    glue()
    if made.plan is None:  # its first run plans, which the checker looks at
        checker()
    weights = getattr(made.weights, "filename", None)
    return Image(
        replace(opened, graph=lite),
        made.library.name,
        "" if weights is None else Path(weights).name,
        made.weights.size,
        own_files(),
        tuple(program.inputs),
        tuple(program.outputs),
        made.plan,
        outline_of(program) if made.plan is None else None,
        source.slots,
        source.symbols,
        most(made.needed),
    )

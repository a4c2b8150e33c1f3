"""What a session was made into before: find(key, full).

That is an image (images.py), or of a graph in stages (stages.py) what has served it for the shapes
and values that were fed: a program for the whole (programs.py), or programs one after the other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from sardonyx.errors import FeedError, Undetermined
from sardonyx.feeds import Values, checked, fits
from sardonyx.images import BROKEN, Full, Image, ImageEngine, engine_of, read
from sardonyx.keys import key_with
from sardonyx.opened import Opened
from sardonyx.programs import PROGRAMS, Program, Programs, Shapes, Wide, largest, shapes_of
from sardonyx.types import Array, Value

if TYPE_CHECKING:
    from sardonyx.engines import Engine


@dataclass(frozen=True, slots=True, eq=False)
class StagedImage:
    """What is kept of a graph in stages, beside what serves it. sizes: inputs whose values decide
    sizes."""

    opened: Opened
    sizes: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class ChainImage:
    """What is kept of an execution in stages that neither values nor sizes could have taken another
    way: the images of its parts in order. outputs: of the graph."""

    parts: tuple[Image, ...]
    outputs: tuple[str, ...]


def part_key(key: str, image: Image) -> str:
    """What the programs of a part for dims that are 0 are kept under, whatever the chain."""
    return key_with(key, image.library, image.weights, image.inputs)


def wide_key(key: str, i: int) -> str:
    """What a program for all sizes of which something holds is kept under."""
    return key_with(key, "supposed", i)


class Chain:
    """Runs the programs of parts one after the other, for feeds of these shapes."""

    def __init__(
        self, shapes: Shapes, parts: tuple[ImageEngine, ...], outputs: tuple[str, ...], full: Full
    ) -> None:
        self._shapes, self._parts, self._outputs, self._full = shapes, parts, outputs, full

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Value]:
        """The outputs by name; what the parts cannot do is done by the full engine."""
        found = self._through(feeds, ImageEngine.outputs)
        return self._full().run(feeds) if found is None else found

    def quick(self, feeds: Mapping[str, Array]) -> list[Value] | None:
        """The outputs in order, where the feeds are like those of the last run."""
        plain = all(type(v) is np.ndarray for v in feeds.values())
        if not plain or shapes_of(feeds) != self._shapes:
            return None
        found = self._through(feeds, lambda first, given: first.quick(given))
        return None if found is None else list(found.values())

    def memory(self) -> tuple[int, int]:
        """The largest N of the parts, and the largest lower bound."""
        return largest(part.memory() for part in self._parts)

    def _through(
        self,
        feeds: Mapping[str, Array],
        ask: Callable[[ImageEngine, Mapping[str, Value]], list[Array] | None],
    ) -> dict[str, Value] | None:
        """What the parts give; ask: the first one."""
        env: dict[str, Value] = dict(feeds)
        for part in self._parts:
            try:
                outputs = ask(part, {n: env[n] for n in part.graph.inputs})
            except FeedError:  # a size that the model states otherwise
                return None
            if outputs is None:
                return None
            env.update(zip(part.names, outputs, strict=True))
            ask = ImageEngine.outputs
        return {n: env[n] for n in self._outputs}


class StagedImageEngine:
    """Runs what served a graph in stages before, as StagedEngine would."""

    name = "native"

    def __init__(self, key: str, image: StagedImage, full: Full, threads: int = 0) -> None:
        self.graph = image.opened.graph
        self._key, self._make_full, self._threads = key, full, threads
        self._full: Engine | None = None
        self._lock = threading.RLock()
        inputs = frozenset(self.graph.inputs)
        self._programs: Programs[Program] = Programs(
            inputs, image.sizes, self._program, often=1, suppose=self._wide
        )

    def run(self, feeds: Mapping[str, Value]) -> dict[str, Value]:
        """The outputs by name. Raises as StagedEngine."""
        if self._full is None:
            program = self._programs.find(fed := checked(self.graph, feeds))
            if program is not None:
                return program.run(fed)
        return self._complete().run(feeds)

    def quick(self, feeds: Mapping[str, Value]) -> list[Value] | None:
        """The outputs in order, where the feeds are like those of the last run."""
        ask = getattr(self._full or self._programs, "quick", None)
        return None if ask is None else ask(feeds)

    def memory(self) -> tuple[int, int]:
        """The largest N of the programs that have run, and the largest lower bound."""
        if self._full is not None:
            return self._full.memory()
        made = self._programs.all_made()
        if not made:
            raise Undetermined("the size of M depends on what is fed: run the model first")
        return largest(program.memory() for program in made)

    def _program(self, fed: Mapping[str, Array], values: Values) -> Program | None:
        shapes = shapes_of(fed)
        key = key_with(self._key, shapes, values)
        try:
            image = read(key)
            if isinstance(image, Image):
                return engine_of(key, image, self._complete, self._threads)
            parts = [self._part(x) for x in image.parts]
            whole = tuple(part for part in parts if part is not None)
            if len(whole) < len(parts):
                return None
            return Chain(shapes, whole, image.outputs, self._complete)
        except BROKEN:
            return None

    def _wide(self, fed: Mapping[str, Array]) -> Wide[Program] | None:
        try:
            for i in range(PROGRAMS):
                image = read(key := wide_key(self._key, i))
                if fits(image.opened.graph, fed):
                    engine = engine_of(key, image, self._complete, self._threads)
                    return None if engine is None else (partial(fits, engine.graph), engine)
        except BROKEN:
            pass
        return None

    def _part(self, image: Image) -> ImageEngine | None:
        return engine_of(part_key(self._key, image), image, self._complete, self._threads)

    def _complete(self) -> Engine:
        with self._lock:
            if self._full is None:
                self._full = self._make_full()
            return self._full


def find(
    key: str | None, full: Full, threads: int = 0
) -> tuple[Opened, ImageEngine | StagedImageEngine] | None:
    """What was kept under the key, if all of it is still there; threads: as of NativeEngine."""
    if key is None:
        return None
    try:
        image = read(key)
        if isinstance(image, StagedImage):
            return image.opened, StagedImageEngine(key, image, full, threads)
        engine = engine_of(key, image, full, threads)
        return None if engine is None else (image.opened, engine)
    except BROKEN:
        return None

"""Sessions that were made before: a compiled model is found again by the digest of its bytes.

    key = key_of("net.onnx", options)           None where the file does not decide (keys.py)
    keep(key, opened, engine)                   after the long way (imaging.py)
    found = find(key, full)                     later: opened and an engine (kept.py)

An image lies in the cache beside the library and the weights that it names: the graph's inputs and
outputs, the plan or, with symbolic dims, what a plan is made from. It is a pickle, read as
trustingly as the library beside it. What an image cannot do (overridden initializers, the words for
a trap) is done by the engine that `full` makes from the model.
"""

from __future__ import annotations

import io
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sardonyx import build, calls, dims
from sardonyx import types as t
from sardonyx.ending import Ending, Finish
from sardonyx.errors import InternalError, LimitExceeded, SardonyxError, Undetermined
from sardonyx.feeds import checked, numbers, values_key
from sardonyx.keys import key_with
from sardonyx.memory import MEMORY_LIMIT, within_memory
from sardonyx.opened import Opened
from sardonyx.plan import Plan
from sardonyx.plan.outline import Outline, Slot
from sardonyx.plan.plans import Planned, Plans, Workers, always
from sardonyx.sealed import opened
from sardonyx.threads import pool_of
from sardonyx.types import Array, TensorType, Value

if TYPE_CHECKING:  # a session that was made before needs neither compiler nor operators
    from sardonyx.engines import Engine

Full: TypeAlias = "Callable[[], Engine]"
BROKEN = (
    *(OSError, SardonyxError, pickle.UnpicklingError, AttributeError, EOFError),
    *(ImportError, LookupError, TypeError, ValueError),
)
CALLS = 64  # kept for concrete dims


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """What is kept. opened: the graph's inputs and outputs, without operations; its values are the
    symbols that stand for those of inputs that decide sizes. inputs, outputs:
    of the program. plan: where all sizes are numbers; otherwise outline, slots and symbols make
    one. weights: their file; "" where there are none. own: the libraries of Sardonyx's
    own C that a session calls. ending: what the host does of the program's outputs, if it does."""

    opened: Opened
    library: str
    weights: str
    own: Mapping[str, str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    plan: Plan | None
    outline: Outline | None
    slots: tuple[Slot, ...]
    symbols: tuple[str, ...]
    workers: Workers
    ending: Ending | None


class ImageEngine:
    """Runs a program that was compiled before, as NativeEngine would."""

    name = "native"

    def __init__(
        self, key: str, image: Image, weights: Array, full: Full, threads: int = 0
    ) -> None:
        self._key, self._threads = key, threads
        self._others: dict[tuple[str, ...], ImageEngine | None] = {}
        self.graph, self._image = image.opened.graph, image
        self._run = calls.entry(build.load(build.cache_folder() / image.library))
        self._weights = weights
        self._make_full = full
        self._pool = pool_of(threads)
        self._full: Engine | None = None
        self._idle: list[Array] = []
        self._blocks: list[Array] = []
        self._calls: OrderedDict[tuple[int, ...], tuple[calls.Call | None, Planned]] = OrderedDict()
        self._lock = threading.RLock()
        self._recent = calls.Recent(tuple(self.graph.values))
        self._finish: Finish | None = None
        # what a session asks first
        self.quick = self._recent.quick if image.ending is None else self._quick_to_the_end
        if image.plan is not None:
            self._planned = always(image.plan, image.workers)
            size = self._planned({}).size(self._pool.threads)
            self._recent.memory = size, image.plan.lower_bound
        else:
            assert image.outline is not None
            self._planned = Plans(image.outline, image.slots, image.workers, MEMORY_LIMIT).at

    def run(self, feeds: Mapping[str, Value]) -> dict[str, Value]:
        """The outputs by name. Raises FeedError where a feed does not fit, RunError for a trap."""
        outputs = self.outputs(feeds)
        return self._complete().run(feeds) if outputs is None else self._named(outputs)

    @property
    def names(self) -> tuple[str, ...]:
        """The outputs of the program."""
        return self._image.outputs

    def outputs(self, feeds: Mapping[str, Value]) -> list[Array] | None:
        """The outputs of the program; None where that is for the full engine. Raises FeedError
        where a feed does not fit."""
        outputs = self._recent.quick(feeds)
        if outputs is None:
            with within_memory():
                outputs = self._sized(feeds)
        return outputs

    def _quick_to_the_end(self, feeds: Mapping[str, Value]) -> list[Value] | None:
        outputs = self._recent.quick(feeds)
        return None if outputs is None else list(self._named(outputs).values())

    def _named(self, outputs: list[Array]) -> dict[str, Value]:
        """The outputs of the graph, of those of the program."""
        found: dict[str, Value] = dict(zip(self._image.outputs, outputs, strict=True))
        if self._image.ending is None:
            return found
        if self._finish is None:
            self._finish = self._image.ending.finisher()
        return self._finish(found)

    def memory(self) -> tuple[int, int]:
        """N, the bytes of M of the last run or else of the program, and its lower bound."""
        if self._full is not None:
            return self._full.memory()
        if self._recent.memory is None:
            raise Undetermined("the size of M depends on what is fed: run the model first")
        return self._recent.memory

    def _sized(self, feeds: Mapping[str, Value]) -> list[Array] | None:
        """The outputs of a run for the sizes of these feeds; None where that is for the full
        engine."""
        graph = self.graph
        if any(n in feeds for n in graph.overridable):
            return None
        fed = {n: np.require(v, requirements=["C", "A"]) for n, v in checked(graph, feeds).items()}
        sizes = numbers(graph, fed)
        if min(sizes.values(), default=1) < 1:
            other = self._with_zeros(sizes)
            outputs = None if other is None else other._sized(feeds)
            if other is not None and outputs is not None:
                self._recent.memory = other.memory()
            return outputs
        with self._lock:
            try:
                call, made = self._call(fed, sizes)
            except (InternalError, LimitExceeded):  # of which the full engine says more
                return None
        size = made.size(self._pool.threads)
        outputs = None if call is None or size > MEMORY_LIMIT else call(fed)
        if outputs is not None:
            assert call is not None
            key = values_key(self._recent.deciding, fed)
            self._recent.add(call, (size, made.plan.lower_bound), key)
        return outputs

    def _with_zeros(self, sizes: Mapping[str, int]) -> ImageEngine | None:
        """The engine of the program for all shapes in which these dims are 0, if it was kept."""
        zeros = tuple(name for name, n in sizes.items() if n == 0)
        with self._lock:
            if self._full is not None or min(sizes.values()) < 0:
                return None
            if zeros not in self._others:
                self._others[zeros] = program_at(
                    key_with(self._key, *zeros), self._make_full, self._threads
                )
            return self._others[zeros]

    def _call(
        self, fed: Mapping[str, Array], sizes: Mapping[str, int]
    ) -> tuple[calls.Call | None, Planned]:
        image = self._image
        key = (*sizes.values(), *(n for x in image.inputs for n in fed[x].shape))
        if key not in self._calls:
            if len(self._calls) >= CALLS:
                self._calls.popitem(last=False)
            table = np.array([sizes[s] for s in image.symbols] or [0], np.int64)
            made = self._planned(sizes)
            inputs = tuple((n, fed[n].dtype, fed[n].shape) for n in image.inputs)
            outputs = tuple(_typed(n, self.graph.types[n], sizes) for n in image.outputs)
            prepared = calls.Prepared(
                self._run, self._weights, table, made.offsets, made.size(self._pool.threads),
                self._idle, inputs, outputs, self._pool, made.plan.size, self._blocks,
            )  # fmt: skip
            self._calls[key] = calls.prepared(prepared), made
        self._calls.move_to_end(key)
        return self._calls[key]

    def _complete(self) -> Engine:
        with self._lock:
            if self._full is None:
                self._full = self._make_full()
            return self._full


def _typed(name: str, tensor: TensorType, sizes: Mapping[str, int]) -> calls.Typed:
    shape = tuple(dims.evaluate(d, sizes) for d in tensor.shape or ())
    return name, np.dtype(tensor.dtype.numpy), shape


def engine_of(key: str, image: Image, full: Full, threads: int) -> ImageEngine | None:
    """What runs the program of an image, if all that it names is still there."""
    folder = build.cache_folder()
    weights = build.whole(folder / image.weights) if image.weights else np.zeros(64, np.uint8)
    if weights is None or build.whole(folder / image.library) is None:
        return None
    build.take_own(image.own)
    return ImageEngine(key, image, weights, full, threads)


def program_at(key: str, full: Full, threads: int) -> ImageEngine | None:
    """What runs the program that was kept under the key."""
    try:
        image = read(key)
        return engine_of(key, image, full, threads) if isinstance(image, Image) else None
    except BROKEN:
        return None


class _Pickler(pickle.Pickler):
    """Element types by their names: there is one object of each."""

    def persistent_id(self, obj: Any) -> str | None:
        return obj.name if isinstance(obj, t.DType) else None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> t.DType:
        return t.by_name(pid)


def written(image: object) -> bytes:
    """What is kept of an image."""
    stream = io.BytesIO()
    _Pickler(stream, pickle.HIGHEST_PROTOCOL).dump(image)
    return stream.getvalue()


def read(key: str) -> Any:
    """What was kept under the key. Raises one of BROKEN where that is nothing whole."""
    data = opened(build.cache_folder() / (key + build.IMAGE))
    return _Unpickler(io.BytesIO(data.data)).load()

"""Sessions that were made before: a compiled model is found again by the digest of its bytes.

    key = key_of("net.onnx", options)           None where the file alone does not decide
    keep(key, opened, engine)                   after the long way (imaging.py)
    found = find(key, full)                     later: opened and an engine, nothing read but files

An image lies in the cache beside the library and the weights that it names: the graph's inputs and
outputs, the plan or, with symbolic dims, what a plan is made from.
Its key is of all that could change it: the model's bytes, the options, the source and versions of
Sardonyx and of what it stands on, the compiler and the CPU. It is a pickle, read as trustingly as
the library beside it. What an image cannot do (overridden initializers, sizes that data decides,
the words for a trap) is done by the engine that `full` makes from the model.
"""

from __future__ import annotations

import io
import os
import pickle
import re
import shutil
import stat
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import file_digest, sha256
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sardonyx import build, calls, dims
from sardonyx import types as t
from sardonyx.beneath import components, open_beneath
from sardonyx.compiler import cpu_identity
from sardonyx.errors import InternalError, InvalidModel, SardonyxError, Undetermined
from sardonyx.feeds import checked, numbers, values_key
from sardonyx.kernel import NUMERICS_REVISION
from sardonyx.memory import MEMORY_LIMIT, within_memory
from sardonyx.opened import Opened
from sardonyx.ops.users import users
from sardonyx.plan import Plan
from sardonyx.plan.outline import Outline, Slot
from sardonyx.plan.plans import Planned, Plans, Workers, always
from sardonyx.threads import pool_of
from sardonyx.types import Array, TensorType, Value

if TYPE_CHECKING:  # a session that was made before needs neither compiler nor operators
    from hashlib import _Hash as Digest

    from sardonyx.engines import Engine

Full: TypeAlias = "Callable[[], Engine]"
_BROKEN = (
    *(OSError, SardonyxError, pickle.UnpicklingError, AttributeError, EOFError),
    *(ImportError, LookupError, TypeError, ValueError),
)
CALLS = 64  # kept for concrete dims
# The key of an external tensor's file in protobuf; a length may be written in more bytes than one.
LOCATION = re.compile(rb"\x0a(?:\x08|\x88\x80{0,8}\x00)location")
LONGEST = 20  # bytes of it
# An entry of a tensor's external_data as it is usually written: its size, the key, the location's.
ENTRY = re.compile(rb"\x6a([\x80-\xff]?[\x00-\x7f])\x0a\x08location\x12([\x80-\xff]?[\x00-\x7f])")


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """What is kept. opened: the graph's inputs and outputs, without operations; its values are the
    symbols that stand for those of inputs that decide sizes. inputs, outputs:
    of the program. plan: where all sizes are numbers; otherwise outline, slots and symbols make
    one. weights: their file and its size; "" where there are none. own: the libraries of Sardonyx's
    own C that a session calls."""

    opened: Opened
    library: str
    weights: str
    weight_bytes: int
    own: Mapping[str, str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    plan: Plan | None
    outline: Outline | None
    slots: tuple[Slot, ...]
    symbols: tuple[str, ...]
    workers: Workers


class ImageEngine:
    """Runs a program that was compiled before, as NativeEngine would."""

    name = "native"

    def __init__(self, key: str, image: Image, full: Full, threads: int = 0) -> None:
        folder = build.cache_folder()
        self._key, self._threads = key, threads
        self._others: dict[tuple[str, ...], ImageEngine | None] = {}
        self.graph, self._image = image.opened.graph, image
        self._run = calls.entry(build.load(folder / image.library))
        weights = np.zeros(64, np.uint8)
        if image.weights:
            weights = np.memmap(folder / image.weights, np.uint8, "r")
        self._weights: Array = weights
        self._make_full = full
        self._pool = pool_of(threads)
        self._full: Engine | None = None
        self._idle: list[Array] = []
        self._blocks: list[Array] = []
        self._calls: OrderedDict[tuple[int, ...], tuple[calls.Call | None, Planned]] = OrderedDict()
        self._lock = threading.RLock()
        self._recent = calls.Recent(tuple(self.graph.values))
        self.quick = self._recent.quick  # what a session asks first
        if image.plan is not None:
            self._planned = always(image.plan, image.workers)
            size = self._planned({}).size(self._pool.threads)
            self._recent.memory = size, image.plan.lower_bound
        else:
            assert image.outline is not None
            self._planned = Plans(image.outline, image.slots, image.workers, MEMORY_LIMIT).at

    def run(self, feeds: Mapping[str, Value]) -> dict[str, Value]:
        """The outputs by name. Raises FeedError where a feed does not fit, RunError for a trap."""
        outputs = self.quick(feeds)
        if outputs is None:
            with within_memory():
                outputs = self._sized(feeds)
        if outputs is None:
            return self._complete().run(feeds)
        return dict(zip(self._image.outputs, outputs, strict=True))

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
            except InternalError:  # a size below 0, of which the full engine says more
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
                found = find(key_with(self._key, zeros), self._make_full, self._threads)
                self._others[zeros] = None if found is None else found[1]
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


def find(key: str | None, full: Full, threads: int = 0) -> tuple[Opened, ImageEngine] | None:
    """What was kept under the key, if all of it is still there; threads: as of NativeEngine."""
    if key is None:
        return None
    try:
        image = _read((build.cache_folder() / (key + build.IMAGE)).read_bytes())
        folder = build.cache_folder()
        if not build.touched(folder / image.library):
            return None
        if image.weights and not build.touched(folder / image.weights, image.weight_bytes):
            return None
        build.take_own(image.own)
        return image.opened, ImageEngine(key, image, full, threads)
    except _BROKEN:
        return None


class _Pickler(pickle.Pickler):
    """Element types by their names: there is one object of each."""

    def persistent_id(self, obj: Any) -> str | None:
        return obj.name if isinstance(obj, t.DType) else None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> t.DType:
        return t.by_name(pid)


def written(image: Image) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream, pickle.HIGHEST_PROTOCOL).dump(image)
    data = stream.getvalue()
    return sha256(data).digest() + data


def _read(data: bytes) -> Image:
    if sha256(data[32:]).digest() != data[:32]:
        raise ValueError("the image is damaged")
    image = _Unpickler(io.BytesIO(data[32:])).load()
    if not isinstance(image, Image):
        raise TypeError("this is no image")
    return image


def key_of(source: str | os.PathLike[str] | bytes, options: object) -> str | None:
    """The key of a model with these options, of the bytes of the files that it names too. None
    where one cannot be read, or the model may hold operators of users."""
    if users():
        return None
    key = sha256(repr((options, _surroundings())).encode("utf-8", "surrogatepass"))
    if isinstance(source, bytes):
        key.update(source)
        return None if LOCATION.search(source) else key.hexdigest()[:40]
    if not os.path.isfile(source):  # a pipe, say
        return None
    try:
        with open(source, "rb") as file:  # not mapped: another process may cut it short meanwhile
            named, size = _take(key, file)
        if named:
            key.update(_contents(Path(source)))
    except (OSError, ValueError, InvalidModel):
        return None
    return key.hexdigest()[:40] if size else None


def _take(key: Digest, file: IO[bytes]) -> tuple[bool, int]:
    """Takes a file into the key; whether it may name others, and its size."""
    last, named, size = b"", False, 0
    while piece := file.read(1 << 20):
        key.update(piece)
        named = named or bool(LOCATION.search(last[1 - LONGEST :] + piece))
        last, size = piece, size + len(piece)
    return named, size


def _contents(source: Path) -> bytes:
    """A digest of the model and of all external files that it names. ValueError where what it names
    is not written as usual: each entry the key, then the location."""
    data, key = source.read_bytes(), sha256()
    key.update(data)
    entries = [(m, _varint(m[1]), _varint(m[2])) for m in ENTRY.finditer(data)]
    usual = all(m.end(1) + size == m.end() + length for m, size, length in entries)
    if not usual or len(entries) != len(LOCATION.findall(data)):
        raise ValueError("the locations of external data are not written as usual")
    names = {data[m.end() : m.end() + length].decode() for m, _, length in entries}
    for name in sorted(names):
        handle = open_beneath(source.parent, components("a tensor", name))
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise ValueError(f"{name} is not a file")
        with open(handle, "rb") as file:
            key.update(repr((name, file_digest(file, "sha256").digest())).encode())
    return key.digest()


def _varint(data: bytes) -> int:
    return sum((byte & 127) << 7 * i for i, byte in enumerate(data))


def key_with(key: str, zeros: Sequence[str]) -> str:
    """The key of the program for dims that are 0."""
    return sha256(repr((key, *zeros)).encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _surroundings() -> tuple[object, ...]:
    """All but the model that could change what it is made into."""
    return NUMERICS_REVISION, sys.version, _compiler(), cpu_identity(), _source(), _packages()


def _compiler() -> tuple[object, ...]:
    """Which compiler would be found, without running it."""
    given = os.environ.get("CC") or ""
    names = (given.split()[0],) if given.split() else ("cc", "gcc", "clang")
    paths = [os.path.realpath(path) for path in map(shutil.which, names) if path]
    return given, *((path, *_stamp(Path(path))) for path in paths)


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


@cache
def _source() -> str:
    """The files that Sardonyx consists of."""
    root = Path(__file__).parent
    files = sorted(x for x in root.rglob("*") if x.suffix in (".py", ".c", ".h"))
    return sha256(repr([(str(x), *_stamp(x)) for x in files]).encode()).hexdigest()


@cache
def _packages() -> tuple[object, ...]:
    """What Sardonyx stands on, without importing it: where it lies, and as which version."""
    return tuple(map(_package, ("numpy", "onnx", "ml_dtypes", "ziglang")))


def _package(name: str) -> tuple[object, ...]:
    found = find_spec(name)
    if found is None or found.origin is None:
        return (name,)
    path = Path(found.origin)
    versions = sorted(x.name for x in path.parent.parent.glob(f"{name}-*.dist-info"))
    return str(path), *_stamp(path), *versions

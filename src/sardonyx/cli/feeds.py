"""The inputs of a model from files, or made at random."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError
from onnx import TensorProto

from sardonyx.dims import symbols
from sardonyx.errors import FeedError, ModelError, shown
from sardonyx.graph import Graph
from sardonyx.infer import value_inputs
from sardonyx.model.files import Folder
from sardonyx.model.tensors import Decoder
from sardonyx.types import (
    Array,
    DType,
    MapType,
    OptionalType,
    SequenceType,
    TensorType,
    Value,
    ValueType,
    by_numpy,
    string,
)


def completed(graph: Graph, feeds: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """The feeds, and random ones for the inputs without; a line on stderr says so."""
    missing = [name for name in graph.inputs if name not in feeds]
    if not missing:
        return dict(feeds)
    made = random(graph, seed)
    ones = [f"{name}=1" for name in guessed(graph)]
    sizes = f", with {', '.join(ones)} (choose with --dim)" if ones and not feeds else ""
    made_up = f"sardonyx: {', '.join(missing)}: random input, seed {seed}{sizes}"
    print(shown(f"{made_up}; give real ones with --input"), file=sys.stderr)
    return {**{name: made[name] for name in missing}, **feeds}


def read(graph: Graph, options: Sequence[str]) -> dict[str, Array]:
    """The feeds in the files that --input options name.

    FeedError where a file cannot be read, an input is not there, or one is fed twice.
    """
    found: dict[str, Array] = {}
    for option in options:
        for name, value in _arrays(graph, option, [n for n in graph.inputs if n not in found]):
            if name in found:
                raise FeedError(f"--input {option}: '{name}' is fed twice")
            found[name] = _typed(value, graph.types.get(name))
    return found


def _typed(value: Array, wanted: TensorType | None) -> Array:
    """Of a type that NumPy itself does not have (bfloat16, int4), its files keep only the width."""
    lost = value.dtype.kind == "V" and by_numpy(value.dtype) is None
    if wanted is None or not lost or value.dtype.itemsize != wanted.dtype.size:
        return value
    return value.view(wanted.dtype.numpy)


def _arrays(graph: Graph, option: str, unfed: Sequence[str]) -> list[tuple[str, Array]]:
    """The named arrays of one option; `unfed` are the inputs that have none yet."""
    known = (*graph.inputs, *graph.overridable)
    name, _, rest = option.partition("=")
    path = Path(rest) if rest and name in known else Path(option)
    if rest and name not in known and not Path(option).exists():
        raise FeedError(f"--input {option}: no input '{name}'; the inputs are {', '.join(known)}")
    named = _file(path)
    if path.name != option and rest and name in known:
        if len(named) != 1:
            raise FeedError(f"--input {option}: the file holds {len(named)} arrays, expected one")
        return [(name, named[0][1])]
    return [(_target(n, known, unfed, path), value) for n, value in named]


def _target(name: str, known: Sequence[str], unfed: Sequence[str], path: Path) -> str:
    """The input that an array of a file is for: by its name, else the next that is not fed."""
    if name in known:
        return name
    if path.suffix == ".npz" and len(known) > 1:
        raise FeedError(f"{path} holds '{name}'; the inputs are {', '.join(known)}")
    if not unfed:
        raise FeedError(f"{path} is one array too many: all inputs are fed")
    return unfed[0]


def _file(path: Path) -> list[tuple[str, Array]]:
    """The arrays in a file, with their names ("" where they have none)."""
    try:
        match path.suffix:
            case ".npz":
                with np.load(path, allow_pickle=False) as archive:
                    if not archive.files:
                        raise FeedError(f"{path} holds no arrays")
                    return [(name, archive[name]) for name in archive.files]
            case ".npy":
                return [("", np.load(path, allow_pickle=False))]
            case ".pb":
                proto = TensorProto()
                proto.ParseFromString(path.read_bytes())
                return [(proto.name, Decoder(Folder(path.parent)).tensor(proto, str(path)))]
    except (ValueError, EOFError, zipfile.BadZipFile, DecodeError, ModelError) as error:
        raise FeedError(f"{path} cannot be read as {path.suffix}: {error}") from error
    raise FeedError(f"{path}: an input file ends in .npz, .npy or .pb")


def random(graph: Graph, seed: int) -> dict[str, Value]:
    """Seeded feeds for all inputs; symbolic dims are 1, and so are values that decide shapes."""
    source = np.random.default_rng(seed)
    sizes = value_inputs(graph)
    return {name: _random(source, graph.kind(name), name in sizes) for name in graph.inputs}


def _random(source: np.random.Generator, tensor: ValueType | None, ones: bool) -> Value:
    match tensor:
        case SequenceType(element):
            return [_random(source, element, ones) for _ in range(2)]
        case OptionalType(element):
            return _random(source, element, ones)
        case MapType() | None:
            raise FeedError(f"no random value is made for a {tensor}")
    shape = tuple(d if isinstance(d, int) else 1 for d in tensor.shape or ())
    if ones:
        return np.ones(shape, tensor.dtype.numpy)
    return _values(source, shape, tensor.dtype)


def _values(source: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Floats of a normal distribution; integers 0 and 1, which are indices in most models."""
    if dtype is string:
        return source.choice(["", "a", "bc"], shape).astype(object)
    if dtype.is_float:
        return source.standard_normal(shape).astype(dtype.numpy)
    return source.integers(0, 2, shape).astype(dtype.numpy)


def guessed(graph: Graph) -> list[str]:
    """The symbolic dims for which `random` takes 1."""
    shapes = [graph.types[n].shape or () for n in graph.inputs if n in graph.types]
    return sorted({name for shape in shapes for dim in shape for name in symbols(dim)})

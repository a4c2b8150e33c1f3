"""ai.onnx.ml on strings and maps: encoders, and what makes or takes apart a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np

from sardonyx.errors import InvalidModel, RunError
from sardonyx.ops.once import once
from sardonyx.ops.registry import INTERNAL, host
from sardonyx.types import Array

ML = "ai.onnx.ml"
Known: TypeAlias = tuple[Mapping[Any, Any], list[Any]]  # the values of keys; that of a NaN, if any


@host("Labels", 1, domain=INTERNAL)
def labels(x: Array, *, texts: Sequence[str]) -> Array:
    """The texts that numbers stand for."""
    return np.asarray(_table(texts)[x], object).reshape(x.shape)


@once
def _table(texts: Sequence[str]) -> Array:
    return np.array(texts, object)


@host("LabelEncoder", 1, domain=ML)
def label_encoder_1(
    x: Array,
    *,
    classes_strings: Sequence[str] = (),
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Array:
    """A class's index for its name, or its name for its index."""
    if x.dtype == object:
        return _mapped(x, (_categories(classes_strings)[0], []), default_int64, np.int64)
    return _mapped(x, _numbered(classes_strings), default_string, object)


@once
def _numbered(names: Sequence[str]) -> Known:
    return dict(enumerate(names)), []


@host("LabelEncoder", 2, 4, domain=ML)
def label_encoder(
    x: Array,
    *,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: Array | None = None,
    keys_floats: Sequence[float] = (),
    keys_int64s: Sequence[int] = (),
    keys_strings: Sequence[str] = (),
    keys_tensor: Array | None = None,
    values_floats: Sequence[float] = (),
    values_int64s: Sequence[int] = (),
    values_strings: Sequence[str] = (),
    values_tensor: Array | None = None,
) -> Array:
    """The value for each key; the default of the values' type for what is no key."""
    keys: Any = keys_strings or keys_int64s or keys_floats
    default: Any
    values: Any
    if values_tensor is not None:
        values, kind = values_tensor, values_tensor.dtype
        empty: Any = {"O": "_Unused", "f": -0.0}.get(kind.kind, -1)
        default = empty if default_tensor is None else default_tensor.reshape(-1).tolist()[0]
    else:
        given: list[tuple[Any, Any, Any]] = [
            (values_strings, default_string, object),
            (values_int64s, default_int64, np.int64),
            (values_floats, default_float, np.float32),
        ]
        values, default, kind = next((g for g in given if g[0]), given[0])
    return _mapped(x, _paired(keys if keys_tensor is None else keys_tensor, values), default, kind)


@once
def _paired(keys: Any, values: Any) -> Known:
    """The value for each key, of two sequences or tensors."""
    keys, values = (
        x.reshape(-1).tolist() if isinstance(x, np.ndarray) else x for x in (keys, values)
    )
    if len(keys) != len(values):
        raise InvalidModel(f"there are {len(keys)} keys and {len(values)} values")
    known = dict(zip(keys, values, strict=True))
    return known, [value for key, value in known.items() if key != key]


@host("CategoryMapper", 1, domain=ML)
def category_mapper(
    x: Array,
    *,
    cats_int64s: Sequence[int] = (),
    cats_strings: Sequence[str] = (),
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> Array:
    """The number of each name, or the name of each number."""
    if len(cats_int64s) != len(cats_strings):
        raise InvalidModel(f"{len(cats_strings)} strings have {len(cats_int64s)} numbers")
    if x.dtype == object:
        return _mapped(x, _paired(cats_strings, cats_int64s), default_int64, np.int64)
    return _mapped(x, _paired(cats_int64s, cats_strings), default_string, object)


@host("OneHotEncoder", 1, domain=ML)
def one_hot_encoder_text(
    x: Array,
    *,
    cats_int64s: Sequence[int] = (),
    cats_strings: Sequence[str] = (),
    zeros: int = 1,
) -> Array:
    """float32 [shape of x, categories]: 1 at the category of each string. Zeros everywhere for an
    unknown one, or a run-time error where zeros=0."""
    first, same = _categories(cats_strings)
    found = [first.get(s, -1) for s in x.flat]
    if not zeros and -1 in found:
        raise RunError("a string is no category, and zeros is 0")
    hot: Array = np.equal.outer(np.array(found, np.int64), same).astype(np.float32)
    return hot.reshape(*x.shape, len(cats_strings))


@once
def _categories(texts: Sequence[str]) -> tuple[dict[str, int], Array]:
    """Where each category comes first, and of each one where it does (a model may repeat one)."""
    first = {s: i for i, s in reversed(list(enumerate(texts)))}
    return first, np.array([first[s] for s in texts], np.int64)


@host("DictVectorizer", 1, domain=ML)
def dict_vectorizer(
    x: Mapping[Any, Any],
    *,
    int64_vocabulary: Sequence[int] = (),
    string_vocabulary: Sequence[str] = (),
) -> Array:
    """The values of a map, each at the place of its key in the vocabulary; 0 or "" elsewhere."""
    vocabulary: Sequence[Any] = string_vocabulary or int64_vocabulary
    words = _set(vocabulary)
    unknown = [key for key in x if key not in words]
    if unknown:
        raise RunError(f"the key {unknown[0]!r} is not in the vocabulary")
    values = [np.asarray(value) for value in x.values()]
    kind: Any = values[0].dtype if values else np.dtype(np.float32)
    if kind.kind in "OUS":
        return np.array([str(x.get(key, "")) for key in vocabulary], object)
    kinds = {"i": np.int64, "f": kind if kind == np.float32 else np.float64}
    return np.array([x.get(key, 0) for key in vocabulary], kinds.get(kind.kind, kind))


@once
def _set(words: Sequence[Any]) -> frozenset[Any]:
    return frozenset(words)


@host("CastMap", 1, domain=ML)
def cast_map(
    x: Mapping[int, Any],
    *,
    cast_to: str = "TO_FLOAT",
    map_form: str = "DENSE",
    max_map: int = 1,
) -> Array:
    """[1, n]: the values of a map in the order of their keys; SPARSE puts each at its key."""
    kinds: dict[str, Any] = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": object}
    if cast_to not in kinds or map_form not in ("DENSE", "SPARSE"):
        raise InvalidModel(f"cast_to is {cast_to!r}, map_form is {map_form!r}")
    kind = kinds[cast_to]
    if map_form == "DENSE":
        items = [x[key] for key in sorted(x)]
    else:
        if any(not 0 <= key < max_map for key in x):
            raise RunError(f"a key is not from 0 to {max_map - 1}")
        items = [x.get(key, "0" if kind is object else 0) for key in range(max_map)]
    if kind is object:
        return np.array([str(item) for item in items], object).reshape(1, -1)
    return np.array([float(item) for item in items]).astype(kind).reshape(1, -1)


@host("ZipMap", 1, domain=ML)
def zip_map(
    x: Array, *, classlabels_int64s: Sequence[int] = (), classlabels_strings: Sequence[str] = ()
) -> list[dict[Any, float]]:
    """A map from class to score for each row."""
    keys: Sequence[Any] = classlabels_strings or classlabels_int64s
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    if rows.shape[1] != len(keys):
        raise RunError(f"{rows.shape[1]} columns have {len(keys)} class labels")
    return list(map(dict, map(zip, repeat(keys), rows.tolist())))


def _mapped(x: Array, known: Known, default: Any, kind: Any) -> Array:
    """The value for each element; a NaN is one key."""
    table, nans = known
    nan = nans[0] if nans else default
    found = [nan if item != item else table.get(item, default) for item in x.flat]
    return np.array(found, kind).reshape(x.shape)

"""Strings: arrays of str on the host. Regular expressions are RE2's, which never backtracks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from sardonyx.errors import InvalidModel, RunError, UnsupportedModel
from sardonyx.ops.once import once
from sardonyx.ops.registry import host
from sardonyx.types import Array, by_onnx, string


@host("StringConcat", 20)
def string_concat(x: Array, y: Array) -> Array:
    """x followed by y, element by element, broadcast."""
    return np.asarray(np.add(x, y), object)


@host("StringSplit", 20)
def string_split(
    x: Array, *, delimiter: str = "", maxsplit: int | None = None
) -> tuple[Array, Array]:
    """The pieces of each string, filled up with "" to the largest number of pieces; and how many
    each has. Without a delimiter, runs of white space divide."""
    most = -1 if maxsplit is None else maxsplit
    pieces = [text.split(delimiter or None, most) if text else [] for text in x.flat]
    counts = np.array([len(p) for p in pieces], np.int64).reshape(x.shape)
    width = max((len(p) for p in pieces), default=0)
    filled = [text for p in pieces for text in (*p, *[""] * (width - len(p)))]
    return _texts(filled, (*x.shape, width)), counts


@host("RegexFullMatch", 20)
def regex_full_match(x: Array, *, pattern: str | None = None) -> Array:
    """Whether each string as a whole matches the RE2 pattern. A pattern is needed."""
    if pattern is None:
        raise InvalidModel("there is no pattern")
    known = compiled(pattern)
    found = [known.fullmatch(text) is not None for text in x.flat]
    return np.array(found, np.bool_).reshape(x.shape)


@lru_cache(maxsize=64)
def compiled(pattern: str) -> Any:
    """An RE2 pattern. InvalidModel where it is none, UnsupportedModel without the library."""
    try:
        import re2
    except ImportError as error:
        raise UnsupportedModel('it needs the RE2 library: pip install "sardonyx[text]"') from error
    try:
        return re2.compile(pattern)
    except re2.error as error:
        raise InvalidModel(f"the pattern {pattern!r} is no RE2 pattern: {error}") from error


@host("StringNormalizer", 10)
def string_normalizer(
    x: Array,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str = "",
    stopwords: Sequence[str] = (),
) -> Array:
    """The strings of a [C] or [1, C] tensor that are no stopwords, in the case asked for; one ""
    where none is left. Cases are Unicode's, whatever the locale."""
    if x.ndim > 2 or (x.ndim == 2 and x.shape[0] != 1):
        raise RunError(f"the shape is {list(x.shape)}, expected [C] or [1, C]")
    changes: dict[str, Callable[[str], str]] = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}
    if case_change_action not in changes:
        raise InvalidModel(f"case_change_action is {case_change_action!r}")
    same: Callable[[str], str] = str if is_case_sensitive else str.lower
    stopped = _stopped(stopwords, same)
    kept = [changes[case_change_action](s) for s in x.flat if same(s) not in stopped] or [""]
    return _texts(kept, (*x.shape[:-1], len(kept)))


@once
def _stopped(words: Sequence[str], same: Callable[[str], str]) -> frozenset[str]:
    return frozenset(map(same, words))


@host("TfIdfVectorizer", 9)
def tf_idf_vectorizer(
    x: Array,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Sequence[int],
    ngram_indexes: Sequence[int],
    pool_int64s: Sequence[int] = (),
    pool_strings: Sequence[str] = (),
    weights: Sequence[float] = (),
) -> Array:
    """How often each n-gram of the pool occurs in each row, float32 [rows, largest index + 1];
    mode IDF and TFIDF weigh it."""
    if mode not in ("TF", "IDF", "TFIDF"):
        raise InvalidModel(f"mode is {mode!r}, expected TF, IDF or TFIDF")
    pool = _pool(pool_strings or pool_int64s, ngram_counts)
    if len(pool) > len(ngram_indexes):
        raise InvalidModel(f"{len(pool)} n-grams have {len(ngram_indexes)} ngram_indexes")
    scale = _scale(ngram_indexes, weights)
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    longest = min(max_gram_length, len(ngram_counts))  # of the pool
    counts = np.zeros((len(rows), len(scale)), np.float32)
    for out, row in zip(counts, rows.tolist(), strict=True):
        for gram in _grams(row, min_gram_length, longest, max_skip_count):
            if gram in pool:
                out[ngram_indexes[pool[gram]]] += 1
    if mode != "TF":
        counts = (np.minimum(counts, 1) if mode == "IDF" else counts) * scale
    return counts[0] if x.ndim < 2 else counts


@once
def _scale(indexes: Sequence[int], weights: Sequence[float]) -> Array:
    """The weight at each index; 1 where none is."""
    scale = np.ones(max(indexes, default=-1) + 1, np.float32)
    for index, weight in zip(indexes, weights, strict=False):
        scale[index] = weight
    return scale


@once
def _pool(
    items: Sequence[int] | Sequence[str], starts: Sequence[int]
) -> dict[tuple[object, ...], int]:
    """n-gram -> its number. starts[n - 1] is where the n-grams of length n begin."""
    ends = [*starts[1:], len(items)]
    if not all(0 <= a <= b <= len(items) for a, b in zip(starts, ends, strict=True)):
        raise InvalidModel(f"ngram_counts is {list(starts)} for a pool of {len(items)}")
    grams: dict[tuple[object, ...], int] = {}
    for n, (start, end) in enumerate(zip(starts, ends, strict=True), 1):
        for i in range(start, end, n):
            grams.setdefault(tuple(items[i : i + n]), len(grams))
    return grams


def _grams(row: list[object], shortest: int, longest: int, skips: int) -> list[tuple[object, ...]]:
    """The n-grams of a row, with up to `skips` elements left out between neighbours."""
    found = []
    for n in range(max(shortest, 1), min(longest, len(row)) + 1):
        for step in range(1, 2 if n == 1 else min(skips + 2, len(row))):
            last = len(row) - (n - 1) * step
            found += [tuple(row[i : i + n * step : step]) for i in range(max(0, last))]
    return found


@host("Constant", 1, 9, 11, 12, 13, 19, 21, 23, 24, 25)
def constant_text(
    *,
    value: Array | None = None,
    value_string: str | None = None,
    value_strings: Sequence[str] | None = None,
) -> Array:
    """The strings that an attribute holds."""
    if value is not None:
        return value
    if value_strings is not None:
        return _texts(value_strings, (len(value_strings),))
    return _texts([value_string or ""], ())


@host("Cast", 9, 13, 19, 21, 23, 24, 25)
def cast_text(x: Array, *, to: int, saturate: int = 1, round_mode: str = "up") -> Array:
    """Numbers as the shortest text that reads back as them, and texts as the numbers they say."""
    dtype = by_onnx(to)
    if dtype is string:
        return _texts([str(item) for item in x.astype(np.str_).flat], x.shape)
    if dtype is None:
        raise UnsupportedModel(f"the type {to} is not there")
    try:
        if dtype.is_float:
            numbers = np.array([float(text) for text in x.flat], np.float64)
        else:
            numbers = np.array([int(float(s)) if "." in s or "e" in s else int(s) for s in x.flat])
    except ValueError as error:
        raise RunError(f"a string is no number: {error}") from error
    return numbers.astype(dtype.numpy).reshape(x.shape)


def _texts(items: Sequence[str], shape: Sequence[int]) -> Array:
    out = np.empty(len(items), object)
    out[:] = items
    return out.reshape(shape)

"""com.microsoft on strings: Tokenizer, with which converters of text classifiers begin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sardonyx.errors import InvalidModel, RunError
from sardonyx.ops.ms_common import DOMAIN
from sardonyx.ops.registry import host
from sardonyx.ops.text import compiled
from sardonyx.types import Array

START, END = "\x02", "\x03"  # what `mark` puts around the tokens


@host("Tokenizer", 1, domain=DOMAIN)
def tokenizer(
    x: Array,
    *,
    mark: int,
    mincharnum: int,
    pad_value: str,
    separators: Sequence[str] = (),
    tokenexp: str = "",
) -> Array:
    """The tokens of each string of a [C] or [N, C] tensor, of at least mincharnum characters,
    filled up with pad_value to the largest number of tokens: what tokenexp matches, or what is
    between the separators (patterns, one after the other; "" alone: every character)."""
    if x.ndim not in (1, 2):
        raise RunError(f"the shape is {list(x.shape)}, expected [C] or [N, C]")
    if bool(separators) == bool(tokenexp):
        raise InvalidModel("it has either separators or tokenexp")
    if mincharnum < 1:
        raise InvalidModel(f"mincharnum is {mincharnum}, expected at least 1")
    if tokenexp:
        found = [list(_matches(compiled(tokenexp), s, mincharnum)) for s in x.flat]
    elif list(separators) == [""]:
        if mincharnum != 1:
            raise InvalidModel(f"mincharnum is {mincharnum}, expected 1 for single characters")
        found = [list(s) for s in x.flat]
    else:
        known = [compiled(separator) for separator in separators]
        found = [[p for p in _between(known, s) if len(p) >= mincharnum] for s in x.flat]
    if not x.size:
        return x  # as onnxruntime: without the dimension of tokens
    if mark and any(found):
        found = [[START, *tokens, END] for tokens in found]
    width = max(map(len, found), default=0)
    flat = [s for tokens in found for s in (*tokens, *[pad_value] * (width - len(tokens)))]
    return np.array(flat, object).reshape(*x.shape, width)


def _matches(pattern: Any, text: str, least: int) -> Iterator[str]:
    """What the pattern matches, one after the other; behind a match that is too short, the search
    goes on with the next character."""
    at = 0
    while (found := pattern.search(text, at)) is not None:
        begin, end = found.span()
        long = end - begin >= least
        if long:
            yield text[begin:end]
        at = end if long else begin + 1
        if at > len(text):
            return


def _between(separators: Sequence[Any], text: str) -> list[str]:
    """The pieces that the separators leave of a text."""
    pieces = [text]
    for separator in separators:
        pieces = [part for piece in pieces for part in _split(separator, piece)]
    return pieces


def _split(separator: Any, text: str) -> Iterator[str]:
    at = 0
    for found in separator.finditer(text):
        begin, end = found.span()
        if end > begin:
            yield text[at:begin]
            at = end
    yield text[at:]

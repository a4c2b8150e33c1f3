"""Text from a model as it may stand in C: identifiers are made here, names only occur escaped."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sardonyx.plan.outline import capacity
from sardonyx.types import TensorType

LONGEST = 64  # characters of a name in a comment


def escaped(name: str) -> str:
    """A name for a comment: [A-Za-z0-9_.-] as they are, other bytes of its UTF-8 as \\xNN."""
    out = ""
    for byte in name.encode("utf-8", "surrogatepass"):
        c = chr(byte)
        piece = c if re.fullmatch(r"[A-Za-z0-9_.-]", c) else f"\\x{byte:02x}"
        if len(out) + len(piece) > LONGEST:
            break
        out += piece
    return out or "-"


def identifier(word: str) -> str:
    """The letters and digits of a word, in lower case: the end of a C identifier."""
    return re.sub(r"[^a-z0-9]+", "_", word.lower()).strip("_")[:24] or "kernel"


def described(name: str, tensor: TensorType, most: Mapping[str, int] | None = None) -> str:
    """name, dtype and shape of a tensor for a comment. most: the bounds of symbolic dims, of which
    sizes with such have their most bytes."""
    dims = [d if isinstance(d, int) else escaped(str(d)) for d in tensor.shape or ()]
    text = f"{escaped(name)} {tensor.dtype.name}[{', '.join(map(str, dims))}]"
    if not most or all(isinstance(d, int) for d in tensor.shape or ()):
        return text
    return f"{text}, at most {capacity(tensor, most)} bytes"

"""The weights: one blob of 64-byte aligned, little-endian arrays.

The native engine maps the blob from a file. Exported C gets it twice: as weights.bin, to be
flashed or mapped, and as weights.c, to be linked. weights.c spells the bytes as octal escapes in
string literals: every C99 compiler takes it (unlike .incbin or #embed), and compilers read a
string some thirty times faster, and in less memory, than as many numbers in braces. A literal
stays below the 4095 characters that C99 guarantees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import numpy as np

from sardonyx.errors import InvalidModel
from sardonyx.types import Array, in_memory

ALIGNMENT = 64
ROW = 63 * 64  # bytes of one literal
_LINE = 24  # bytes of one line

_QUIET = """\
#if defined(__clang__)
#if __has_warning("-Wunterminated-string-initialization")
#pragma clang diagnostic ignored "-Wunterminated-string-initialization"
#endif
#elif defined(__GNUC__) && __GNUC__ >= 15
#pragma GCC diagnostic ignored "-Wunterminated-string-initialization"
#endif
"""
_LITTLE = """\
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "these bytes are little-endian"
#endif
"""


@dataclass(slots=True, eq=False)
class Blob:
    """Arrays one after the other; equal ones are stored once. Grows by `add`."""

    arrays: list[tuple[int, Array]] = field(default_factory=list)
    size: int = 0
    _known: dict[tuple[str, bytes], int] = field(default_factory=dict)

    def add(self, array: Array) -> int:
        """The offset at which the array's bytes lie."""
        data = np.ascontiguousarray(array)
        raw = lying(data)
        key = data.dtype.str, sha256(raw).digest()
        if key not in self._known:
            self._known[key] = self.size
            self.arrays.append((self.size, data))
            self.size += -(-len(raw) // ALIGNMENT) * ALIGNMENT
        return self._known[key]

    def find(self, array: Array) -> int | None:
        """The offset of an array that was added, or None."""
        data = np.ascontiguousarray(array)
        return self._known.get((data.dtype.str, sha256(lying(data)).digest()))

    def digest(self) -> str:
        """A name for the blob's content."""
        key = sha256()
        for (dtype, data), offset in self._known.items():
            key.update(f"{offset} {dtype} ".encode() + data)
        return key.hexdigest()[:40]

    def pieces(self) -> Iterator[bytes]:
        """The bytes of the blob, array by array with padding. InvalidModel where one has changed
        since it was added: external data is mapped."""
        for (_, data), (_, digest) in zip(self.arrays, self._known, strict=True):
            raw = lying(data)
            if sha256(raw).digest() != digest:
                raise InvalidModel("the model's external data changed while it was read")
            yield raw + bytes(-len(raw) % ALIGNMENT)

    def write(self, path: Path) -> None:
        """Writes the blob as a file."""
        with path.open("wb") as file:
            for piece in self.pieces():
                file.write(piece)


def lying(data: Array) -> bytes:
    """The bytes of a tensor in memory: row-major, little-endian, packed if below 8 bits."""
    return little_endian(in_memory(data))


def little_endian(data: Array) -> bytes:
    """The elements row-major and little-endian."""
    return data.astype(data.dtype.newbyteorder("<"), copy=False).tobytes()


def c_bytes(name: str, data: bytes, static: bool = False) -> str:
    """A C array of bytes, 64-byte aligned: `name` has rows of ROW bytes, the last filled up with
    zeros."""
    rows = max(1, -(-len(data) // ROW))
    head = f"{'static ' if static else ''}const unsigned char {name}[{rows}][{ROW}]"
    aligned = "#if defined(__GNUC__) || defined(__clang__)\n__attribute__((aligned(64)))\n#endif\n"
    return f"{aligned}{head} = {{\n{_rows(data) or '{0}'}\n}};\n"


def _rows(data: bytes) -> str:
    text = _octal(data)
    out = []
    for row in range(0, len(data), ROW):
        end = min(row + ROW, len(data))
        lines = (text[4 * i : 4 * min(i + _LINE, end)] for i in range(row, end, _LINE))
        out.append("\n".join(f'"{line}"' for line in lines))
    return ",\n".join(out)


def _octal(data: bytes) -> str:
    table = np.array([f"\\{i:03o}".encode() for i in range(256)], "S4")
    return bytes(table[np.frombuffer(data, np.uint8)].tobytes()).decode("ascii")


def c_file(prefix: str, blob: Blob) -> str:
    """weights.c: the blob, and the function that model.h declares for it."""
    body = c_bytes("weights", b"".join(blob.pieces()), static=True)
    return f"""\
/* The weights, {blob.size} bytes. */
#include "model.h"
{_LITTLE}{_QUIET}
{body}
const unsigned char *{prefix}_weights(void) {{ return weights[0]; }}
"""


def quiet() -> str:
    """The pragmas that stand before `c_bytes` arrays."""
    return _QUIET

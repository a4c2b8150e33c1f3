"""Files that tell whether they are whole: behind what is in one stands a seal, a digest of it and
of the file's name.

A seal tells damage, a file that was cut or written in part, and one under another's name. It is no
signature: who may write the file can make it.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np

from sardonyx.types import Array

SEAL = 32
PAGE = 512  # numbers of 64 bits


def seal(path: Path, name: str) -> None:
    """Puts the seal behind what is in the file, as the file of that name will have it."""
    found = _digest(name, _mapped(path))
    with path.open("ab") as file:
        file.write(found)


def opened(path: Path) -> Array:
    """What is in the file before its seal, mapped. OSError or ValueError where it is not whole."""
    data = _mapped(path)
    content, found = data[:-SEAL], data[-SEAL:]
    if found.tobytes() != _digest(path.name, content):
        raise ValueError(f"{path} is damaged")
    return content


def _mapped(path: Path) -> Array:
    return np.memmap(path, np.uint8, "r")


def _digest(name: str, data: Array) -> bytes:
    """Of the name, and of the sum of each page: as fast as memory is read, where a digest of all
    would take a session with large weights half as long again."""
    pages = len(data) // (8 * PAGE) * (8 * PAGE)
    sums = np.add.reduce(data[:pages].view(np.uint64).reshape(-1, PAGE), axis=1)
    key = sha256(f"{name} {len(data)} ".encode())
    key.update(sums.tobytes())
    key.update(data[pages:].tobytes())
    return key.digest()

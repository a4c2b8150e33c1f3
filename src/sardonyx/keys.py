"""What a session that was made before is found by: a digest of all that could change it.

These are the model's bytes, the options, the source and versions of Sardonyx and of what it stands
on, the compiler and the CPU.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from functools import cache
from hashlib import file_digest, sha256
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING

from sardonyx.beneath import components, open_beneath
from sardonyx.compiler import cpu_identity
from sardonyx.errors import InvalidModel
from sardonyx.kernel import NUMERICS_REVISION
from sardonyx.ops.users import users

if TYPE_CHECKING:
    from hashlib import _Hash as Digest

# The key of an external tensor's file in protobuf; a number may be written in more bytes than one.
LOCATION = re.compile(b"location")  # found much faster than with what stands before it
BEFORE = re.compile(rb"(?:\x0a|\x8a\x80{0,8}\x00)(?:\x08|\x88\x80{0,8}\x00)\Z")
LONGEST = 28  # bytes of both
# An entry of a tensor's external_data as it is usually written: its size, the key, the location's.
ENTRY = re.compile(rb"\x6a([\x80-\xff]?[\x00-\x7f])\x0a\x08location\x12([\x80-\xff]?[\x00-\x7f])")


def key_of(model: str | None, options: object) -> str | None:
    """The key of a model, by its digest, with these options. None where it has no digest, or may
    hold operators of users."""
    return None if model is None or users() else key_with(model, options, _surroundings())


def digest_of(source: str | os.PathLike[str] | bytes) -> str | None:
    """A digest of a model and of the files that it names. None where one cannot be read, or the
    text of a model names them."""
    key = sha256()
    if isinstance(source, bytes):
        key.update(source)
        return None if _named(source) else key.hexdigest()
    is_text = Path(source).suffix == ".onnxtxt"
    if is_text or not os.path.isfile(source):  # a pipe, say
        return None
    try:
        with open(source, "rb") as file:  # not mapped: another process may cut it short meanwhile
            named, size = _take(key, file)
        if named:
            key.update(_contents(Path(source)))
    except (OSError, ValueError, InvalidModel):
        return None
    return key.hexdigest() if size else None


def _take(key: Digest, file: IO[bytes]) -> tuple[bool, int]:
    """Takes a file into the key; whether it may name others, and its size."""
    last, named, size = b"", False, 0
    while piece := file.read(1 << 20):
        key.update(piece)
        named = named or bool(_named(last[1 - LONGEST :] + piece))
        last, size = piece, size + len(piece)
    return named, size


def _named(data: bytes) -> int:
    """How many times a file is named in bytes of a model."""
    places = (m.start() for m in LOCATION.finditer(data))
    return sum(BEFORE.search(data, max(0, i - LONGEST), i) is not None for i in places)


def _contents(source: Path) -> bytes:
    """A digest of the model and of all external files that it names. ValueError where what it names
    is not written as usual: each entry the key, then the location."""
    data, key = source.read_bytes(), sha256()
    key.update(data)
    entries = [(m, _varint(m[1]), _varint(m[2])) for m in ENTRY.finditer(data)]
    usual = all(m.end(1) + size == m.end() + length for m, size, length in entries)
    if not usual or len(entries) != _named(data):
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


def key_with(key: str, *cases: object) -> str:
    """The key of a program for some cases of a model: dims that are 0, or shapes and values."""
    return sha256(repr((key, *cases)).encode("utf-8", "surrogatepass")).hexdigest()[:40]


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
    """Sardonyx and what it stands on, without importing it: where it lies, and as which version."""
    return tuple(map(_package, ("sardonyx", "numpy", "onnx", "ml_dtypes", "ziglang")))


def _package(name: str) -> tuple[object, ...]:
    found = find_spec(name)
    if found is None or found.origin is None:
        return (name,)
    path = Path(found.origin)
    versions = sorted(x.name for x in path.parent.parent.glob(f"{name}-*.dist-info"))
    return str(path), *_stamp(path), *versions

"""The one opener of files that a model names: external data, mapped and never copied.

A location is a relative POSIX path beneath the model's folder. Each component is opened without
following a link; the file must be regular and have one name (a hard link could reach out of the
folder); all this is asked of the opened file, not of its name, so that nothing can be swapped in
between. No location has a special meaning.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sardonyx.beneath import components, open_beneath
from sardonyx.errors import InvalidModel

KEYS = frozenset({"location", "offset", "length", "checksum"})


@dataclass(frozen=True, slots=True)
class Region:
    """Where a tensor's bytes lie: a file beneath the folder and a range of it."""

    location: str
    offset: int
    length: int | None
    checksum: str | None


@dataclass(slots=True, eq=False)
class Folder:
    """The model's folder and the files of it that are mapped so far.

    path is None for a model that came as bytes: it has no folder and no external data.
    """

    path: Path | None
    _maps: dict[str, memoryview] = field(default_factory=dict)
    _sums: dict[str, str] = field(default_factory=dict)

    def read(self, what: str, region: Region, size: int) -> memoryview:
        """The `size` bytes of a region, mapped read-only; `what` names the tensor in errors."""
        if region.length is not None and region.length != size:
            raise InvalidModel(
                f"{what}: its external data has length {region.length}, its type needs {size} bytes"
            )
        view = self._map(what, region.location)
        end = region.offset + size
        if end > len(view):
            raise InvalidModel(
                f"{what}: its external data ends at byte {end}, but the file "
                f"{region.location!r} has {len(view)} bytes"
            )
        if region.checksum is not None:
            self._verify(what, region, view)
        return view[region.offset : end]

    def _map(self, what: str, location: str) -> memoryview:
        if location not in self._maps:
            handle = self._open(what, location)
            try:
                size = os.fstat(handle).st_size
                mapped = mmap.mmap(handle, size, access=mmap.ACCESS_READ) if size else b""
            finally:
                os.close(handle)
            self._maps[location] = memoryview(mapped)
        return self._maps[location]

    def _open(self, what: str, location: str) -> int:
        if self.path is None:
            raise InvalidModel(
                f"{what} lies in the external file {location!r}, but the model was given as bytes "
                "and has no folder: load it from its path"
            )
        try:
            handle = open_beneath(self.path, components(what, location))
        except OSError as error:
            raise InvalidModel(
                f"{what}: its external file {location!r} cannot be opened beneath the model's "
                f"folder without following links ({error.strerror or error})"
            ) from None
        status = os.fstat(handle)
        problem = (
            "is not a regular file"
            if not stat.S_ISREG(status.st_mode)
            else "has several hard links; copy it to a file of its own"
            if status.st_nlink != 1
            else None
        )
        if problem:
            os.close(handle)
            raise InvalidModel(f"{what}: its external file {location!r} {problem}")
        return handle

    def _verify(self, what: str, region: Region, view: memoryview) -> None:
        found = self._sums.setdefault(region.location, "") or hashlib.sha1(view).hexdigest()
        self._sums[region.location] = found
        if found != (region.checksum or "").lower():
            raise InvalidModel(
                f"{what}: the SHA-1 of its external file {region.location!r} is {found}, "
                f"the model says {region.checksum!r}"
            )


def region(what: str, entries: list[tuple[str, str]]) -> Region:
    """The region that a tensor's external_data entries state; each key is known and occurs once."""
    found: dict[str, str] = {}
    for key, value in entries:
        if key not in KEYS:
            raise InvalidModel(
                f"{what}: its external data has the key {key!r}; known are {sorted(KEYS)}"
            )
        if key in found:
            raise InvalidModel(f"{what}: its external data states {key!r} twice")
        found[key] = value
    if not found.get("location"):
        raise InvalidModel(f"{what}: its external data names no location")
    offset = _natural(what, found, "offset")
    return Region(
        found["location"], offset or 0, _natural(what, found, "length"), found.get("checksum")
    )


def _natural(what: str, entries: Mapping[str, str], key: str) -> int | None:
    text = entries.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise InvalidModel(f"{what}: the {key} {text!r} of its external data is no natural number")
    return int(text)

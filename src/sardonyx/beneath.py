"""Opens files beneath a folder, never through a link."""

from __future__ import annotations

import os
from pathlib import Path

from sardonyx.errors import InvalidModel

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = getattr(os, "O_DIRECTORY", 0)


def components(what: str, location: str) -> list[str]:
    """The names along a relative POSIX path; InvalidModel if it is absolute or leads upwards."""
    parts = [part for part in location.split("/") if part != "."]
    bad = (
        not parts
        or any(part in ("", "..") for part in parts)
        or any(c in location for c in "\\\0:")
    )
    if bad:
        raise InvalidModel(
            f"{what}: its external location {location!r} is not a plain relative path beneath "
            "the model's folder"
        )
    return parts


def open_beneath(folder: Path, parts: list[str]) -> int:
    """A descriptor of folder/parts..., no component of parts being a link; OSError otherwise."""
    if os.open not in os.supports_dir_fd:
        return _open_by_name(folder, parts)
    at = os.open(folder, os.O_RDONLY | _FOLDER)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | _FOLDER | _NO_LINK, dir_fd=at)
            os.close(at)
            at = inner
        return os.open(parts[-1], _FLAGS | _NO_LINK, dir_fd=at)
    finally:
        os.close(at)


def _open_by_name(folder: Path, parts: list[str]) -> int:
    """`open_beneath` where the system cannot open relative to a descriptor (Windows)."""
    path = folder
    for part in parts:
        path = path / part
        if path.is_symlink() or getattr(path, "is_junction", lambda: False)():
            raise OSError(f"{part} is a link")
    before = os.lstat(path)
    handle = os.open(path, _FLAGS)
    if not os.path.samestat(before, os.fstat(handle)):
        os.close(handle)
        raise OSError(f"{path.name} changed while it was opened")
    return handle

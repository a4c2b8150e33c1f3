"""sardonyx doctor: the compiler, its flags and the cache."""

from __future__ import annotations

import argparse
import os
import platform
from importlib.metadata import version

from sardonyx import build
from sardonyx.cli.common import say, size_text, table
from sardonyx.compiler import find_compiler, flags
from sardonyx.errors import BuildError, SardonyxError
from sardonyx.kernel import NUMERICS_REVISION
from sardonyx.settings import VARIABLE, engine_kind


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--clear-cache", action="store_true", help="empty the cache")


def execute(args: argparse.Namespace) -> int:
    """Prints what the native engine needs; 1 where something of it is not there."""
    if args.clear_cache:
        say(f"freed {size_text(build.clear())} in {build.cache_folder()}")
        return 0
    (cache, folder), (engine, known) = _cache(), _engine()
    rows = [
        ("sardonyx", f"{version('sardonyx')}, numerics revision {NUMERICS_REVISION}"),
        ("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        *((name, version(name)) for name in ("numpy", "onnx", "ml_dtypes")),
        ("cache", cache),
        ("engine", engine),
    ]
    try:
        compiler = find_compiler()
    except BuildError as error:
        print(table([*rows, ("compiler", f"{error}")], indent=""))
        return 1
    rows += [("compiler", str(compiler)), ("flags", " ".join(flags(compiler)))]
    print(table(rows, indent=""))
    return 0 if folder and known else 1


def _cache() -> tuple[str, bool]:
    """The cache, and whether it can be one."""
    try:
        folder = build.cache_folder()
    except BuildError as error:
        return str(error), False
    if folder.exists() and not folder.is_dir():
        return f"{folder}, which is no folder: SARDONYX_CACHE can name another", False
    if folder.exists() and not os.access(folder, os.W_OK):
        return f"{folder}, where nothing can be written: SARDONYX_CACHE can name another", False
    try:
        size = sum(path.stat().st_size for path in folder.glob("*"))
    except OSError:
        size = 0
    return f"{folder}, {size_text(size)}", True


def _engine() -> tuple[str, bool]:
    """The engine that is asked for, and whether there is such a one."""
    given = os.environ.get(VARIABLE)
    try:
        engine_kind(given or "auto", VARIABLE)
    except SardonyxError as error:
        return str(error), False
    return given or f"auto (set {VARIABLE} to change it)", True

"""sardonyx doctor: the compiler, its flags and the cache."""

from __future__ import annotations

import argparse
import os
import platform
from importlib.metadata import version

from sardonyx import build
from sardonyx.cli.common import size_text, table
from sardonyx.compiler import find_compiler, flags
from sardonyx.errors import BuildError
from sardonyx.kernel import NUMERICS_REVISION
from sardonyx.settings import VARIABLE


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--clear-cache", action="store_true", help="empty the cache")


def execute(args: argparse.Namespace) -> int:
    """Prints what the native engine needs; 1 where there is no compiler."""
    if args.clear_cache:
        print(f"freed {size_text(build.clear())} in {build.cache_folder()}")
        return 0
    rows = [
        ("sardonyx", f"{version('sardonyx')}, numerics revision {NUMERICS_REVISION}"),
        ("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        *((name, version(name)) for name in ("numpy", "onnx", "ml_dtypes")),
        ("cache", f"{build.cache_folder()}, {size_text(_cache_size())}"),
        ("engine", os.environ.get(VARIABLE) or f"auto (set {VARIABLE} to change it)"),
    ]
    try:
        compiler = find_compiler()
    except BuildError as error:
        print(table([*rows, ("compiler", f"{error}")], indent=""))
        return 1
    rows += [("compiler", str(compiler)), ("flags", " ".join(flags(compiler)))]
    print(table(rows, indent=""))
    return 0


def _cache_size() -> int:
    try:
        return sum(path.stat().st_size for path in build.cache_folder().glob("*"))
    except OSError:
        return 0

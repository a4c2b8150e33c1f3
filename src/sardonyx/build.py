"""From C files to a loaded library: the compiler, its flags, and the cache.

A library is found again by the digest of everything that could change it: the texts, the flags,
the compiler's version, the revision of the numerics contract and the CPU. The cache is a folder,
safe to share between processes: files appear in it whole (written aside, then renamed) and are
made again where they are not (sealed.py), one process at a time builds a library, and the least
recently used go when it is larger than its bound. Who may write to it is trusted.

    SARDONYX_CACHE        the folder (default: the user's cache folder)
    SARDONYX_CACHE_BYTES  its bound (default 2 GiB)
    CC                    the compiler
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from sardonyx.compiler import Compiler, cpu_identity, find_compiler, flags
from sardonyx.compiler import rows_of_bytes as rows_of_bytes
from sardonyx.errors import BuildError
from sardonyx.kernel import NUMERICS_REVISION
from sardonyx.processors import available
from sardonyx.sealed import opened, seal
from sardonyx.types import Array

if TYPE_CHECKING:  # a program that is in the cache is not emitted
    from sardonyx.emit.weights import Blob

try:
    import fcntl
except ImportError:  # Windows: two processes may then build the same library, and both succeed
    fcntl = None  # type: ignore[assignment]  # a module elsewhere

BOUND = 2 << 30
LIBRARY = ".so"  # ctypes loads any name
OBJECT = ".o"
WEIGHTS = ".weights"
IMAGE = ".image"
OURS = re.compile(r"[0-9a-f]{40}\.(so|o|weights|image|schedules|lock)|(build|place)-\w+")
DAY = 86400  # seconds, which no compilation takes
TRIES = 4
Made = TypeVar("Made")
Progress: TypeAlias = Callable[[int, int, str], None]  # done, of how many, what


def cache_folder() -> Path:
    """The cache; it need not exist yet. BuildError where nothing names one."""
    given = os.environ.get("SARDONYX_CACHE")
    if given:
        return Path(given).absolute()  # without a folder, a library is looked for elsewhere
    base = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME")
    return (Path(base).absolute() if base else _user_cache()) / "sardonyx"


def _user_cache() -> Path:
    try:
        return Path.home() / ("AppData/Local" if os.name == "nt" else ".cache")
    except RuntimeError as error:
        raise BuildError(
            "compiled libraries have no place: HOME is not set, and the user has no folder; "
            "SARDONYX_CACHE can name one"
        ) from error


def _ours(folder: Path) -> list[Path]:
    """What the cache made in its folder, in which other files may lie (SARDONYX_CACHE)."""
    return [path for path in folder.glob("*") if OURS.fullmatch(path.name)]


def clear() -> int:
    """Empties the cache; the number of bytes that were freed."""
    freed = 0
    for path in _ours(cache_folder()):
        try:
            size = path.stat().st_size if path.is_file() else 0
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            freed += size
        except OSError:
            continue  # another process holds it, or was faster
    return freed


def library(
    sources: Mapping[str, str],
    *,
    compiler: Compiler | None = None,
    progress: Progress | None = None,
    common: Collection[str] = (),
) -> Path:
    """The shared library made of C files (name -> text; only the .c files are compiled), from the
    cache or built now. common: those that include no other, which many libraries have: what is
    compiled of them is kept too.

    progress hears of every file compiled. Raises BuildError where there is no compiler, it refuses,
    the cache cannot be written or its bound is no number.
    """
    compiler = compiler or find_compiler()
    arguments = flags(compiler)
    folder, bound = cache_folder(), _bound()
    path = folder / (digest(sources, compiler, arguments) + LIBRARY)
    if whole(path) is not None:
        return path

    def make() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(path.with_suffix(".lock")):
            if whole(path) is None:
                _build(sources, compiler, arguments, path, progress, common)
                evict(folder, bound, keep=path)

    try:
        _again(make)
    except OSError as error:
        raise BuildError(
            f"the compiled library cannot be kept in {folder}: {error}; "
            "SARDONYX_CACHE can name another folder"
        ) from error
    return path


_own: dict[str, Path] = {}


def own(name: str, make: Callable[[], Path]) -> Path:
    """The library of a C file of Sardonyx's own: as one was taken, or made now. Raises what `make`
    raises."""
    if name not in _own:
        _own[name] = make()
    return _own[name]


def own_files() -> dict[str, str]:
    """Such C files that this process has libraries of -> their names in the cache."""
    return {name: path.name for name, path in _own.items()}


def take_own(names: Mapping[str, str]) -> None:
    """Takes such libraries from the cache, which needs no compiler, where they are there."""
    for name, file in names.items():
        path = cache_folder() / file
        if name not in _own and whole(path) is not None:
            _own[name] = path


def _bound() -> int:
    given = os.environ.get("SARDONYX_CACHE_BYTES") or str(BOUND)
    try:
        return int(given)
    except ValueError as error:
        found = f"SARDONYX_CACHE_BYTES is {given!r}, expected a number of bytes"
        raise BuildError(found) from error


def digest(sources: Mapping[str, str], compiler: Compiler, arguments: Sequence[str]) -> str:
    """The key of a library in the cache."""
    key = sha256()
    about = [compiler.version, *compiler.command, *arguments, f"numerics {NUMERICS_REVISION}"]
    for text in (*about, cpu_identity(), *(x for item in sorted(sources.items()) for x in item)):
        data = text.encode("utf-8", "surrogatepass")
        key.update(len(data).to_bytes(8, "little") + data)
    return key.hexdigest()[:40]


def mapped(blob: Blob) -> Array:
    """The bytes of a blob, mapped from a file of the cache: processes share its pages."""
    if not blob.size:
        return np.zeros(64, np.uint8)
    folder = cache_folder()
    path = folder / (blob.digest() + WEIGHTS)

    def make() -> Array:
        folder.mkdir(parents=True, exist_ok=True)
        found = whole(path)
        if found is not None:
            return found
        place(path, blob.pieces(), sealed=True)
        return opened(path)

    try:
        return _again(make)
    except OSError as error:
        raise BuildError(f"the weights cannot be kept in {folder}: {error}") from error


def _again(make: Callable[[], Made]) -> Made:
    """What `make` gives; a few times where another process removed its files meanwhile."""
    for _ in range(TRIES - 1):
        with suppress(FileNotFoundError):
            return make()
    return make()


def place(path: Path, pieces: Iterable[bytes], *, sealed: bool = False) -> None:
    """Writes a file of the cache, which appears whole or not at all."""
    with tempfile.TemporaryDirectory(prefix="place-", dir=path.parent) as name:
        aside = Path(name) / path.name
        with aside.open("wb") as file:
            file.writelines(pieces)
        if sealed:
            seal(aside, path.name)
        os.replace(aside, path)


def loaded(
    sources: Mapping[str, str],
    *,
    progress: Progress | None = None,
    common: Collection[str] = (),
) -> tuple[Path, ctypes.CDLL]:
    """The library of C files, as `library` takes them, and it loaded. Raises BuildError."""

    def take() -> tuple[Path, ctypes.CDLL]:
        path = library(sources, progress=progress, common=common)
        try:
            return path, load(path)
        except BuildError:
            if path.exists():
                raise
            raise FileNotFoundError(path) from None

    try:
        return _again(take)
    except FileNotFoundError as error:
        raise BuildError(f"the library is removed as soon as it is made: {error}") from error


def load(path: Path) -> ctypes.CDLL:
    """The library, loaded into this process."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildError(f"the compiled library {path} cannot be loaded: {error}") from error


def evict(folder: Path, bound: int, keep: Path | None = None) -> None:
    """Removes the least recently used libraries until the folder is within its bound, and what
    processes that were killed left."""
    entries = []
    ends = LIBRARY, OBJECT, WEIGHTS, IMAGE
    for path in _ours(folder):
        try:
            stat = path.stat()
        except OSError:
            continue
        if path.suffix in ends:
            entries.append((stat.st_mtime_ns, stat.st_size, path))
        elif path.is_dir() and time.time() - stat.st_mtime > DAY:
            shutil.rmtree(path, ignore_errors=True)
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries, key=lambda entry: entry[0]):
        if total <= bound:
            return
        if path != keep:
            with suppress(OSError):  # another user's, or in use
                path.unlink(missing_ok=True)
                path.with_suffix(".lock").unlink(missing_ok=True)
                total -= size


def whole(path: Path) -> Array | None:
    """What is in a sealed file of the cache; None where it is not there, or damaged. It counts as
    used now, where this process may say so."""
    with suppress(OSError):
        os.utime(path)
    try:
        return opened(path)
    except (OSError, ValueError):
        return None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a lock that other processes see, and that ends with this process at the latest. There
    is none in the place of a file of another user's."""
    try:
        file = path.open("a")
    except PermissionError:
        yield
        return
    with file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            if fcntl is not None:  # a process that was forked meanwhile has the file open too
                fcntl.flock(file, fcntl.LOCK_UN)


def _build(
    sources: Mapping[str, str],
    compiler: Compiler,
    arguments: Sequence[str],
    path: Path,
    progress: Progress | None,
    common: Collection[str],
) -> None:
    units = sorted((n for n in sources if n.endswith(".c")), key=lambda n: (n not in common, n))
    report = progress or (lambda done, total, what: None)
    with tempfile.TemporaryDirectory(prefix="build-", dir=path.parent) as name:
        folder = Path(name)
        for file, text in sources.items():
            (folder / file).write_text(text, encoding="utf-8")
        report(0, len(units) + 1, "compiling")
        with ThreadPoolExecutor(available()) as pool:
            keys = {n: digest({n: sources[n]}, compiler, arguments) for n in units if n in common}
            jobs = [
                pool.submit(_compile, compiler, arguments, folder, unit, keys.get(unit))
                for unit in units
            ]
            for done, (unit, job) in enumerate(zip(units, jobs, strict=True)):
                job.result()
                report(done + 1, len(units) + 1, f"compiled {unit}")
        made = "library" + LIBRARY
        objects = [f"{unit}.o" for unit in units]
        link = [*compiler.command, "-shared", *arguments, *objects, "-o", made, "-lm"]
        try:
            _run(link, folder)
        except BuildError:  # of what is kept, something may be damaged
            for unit, key in keys.items():
                (path.parent / (key + OBJECT)).unlink(missing_ok=True)
                _compile(compiler, arguments, folder, unit, key)
            _run(link, folder)
        seal(folder / made, path.name)
        report(len(units) + 1, len(units) + 1, "linked")
        os.replace(folder / made, path)


def _compile(
    compiler: Compiler, arguments: Sequence[str], folder: Path, unit: str, key: str | None
) -> None:
    """Compiles a file of the folder; with a key, what is compiled is kept in the cache."""
    made = folder / f"{unit}.o"
    command = [*compiler.command, *arguments, "-c", unit, "-o", made.name]
    if key is None:
        _run(command, folder)
        return
    kept = folder.parent / (key + OBJECT)
    with locked(kept.with_suffix(".lock")):
        found = whole(kept)
        if found is not None:
            made.write_bytes(found.data)
            return
        _run(command, folder)
        place(kept, [made.read_bytes()], sealed=True)


def _run(command: Sequence[str], folder: Path) -> None:
    """Runs the compiler. BuildError where it fails, or the file after -o is not there then;
    FileNotFoundError where the folder was removed meanwhile."""
    try:
        _run_in(command, folder)
    except BuildError:
        if folder.is_dir():
            raise
        raise FileNotFoundError(folder) from None


def _run_in(command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    except OSError as error:
        raise BuildError(f"the compiler {command[0]} cannot be run: {error}") from error
    if done.returncode != 0:
        shown = "\n".join((done.stderr or done.stdout).splitlines()[:20])
        raise BuildError(f"the compiler refused ({' '.join(command)}):\n{shown}")
    made = command[command.index("-o") + 1]
    if not (folder / made).is_file():
        raise BuildError(
            f"the compiler told of no error, but did not make {made} ({' '.join(command)}); is it "
            "a compiler? CC can name another"
        )

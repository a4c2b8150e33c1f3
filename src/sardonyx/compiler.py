"""Which C compiler there is, and the flags that the numerics contract asks of it.

Searched in this order: $CC, cc, gcc, clang, and the one in the ziglang package.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from sardonyx.errors import BuildError

FLAGS: dict[str, str] = {
    "-std=c99": "the language; it also turns off contraction and excess precision in gcc",
    "-O3": "vectorises the plain loops",
    "-ffp-contract=off": "a fused multiply-add happens only where the contract says so",
    "-fno-math-errno": "sqrt, floor and rint become instructions; no value changes",
    "-fno-trapping-math": "selections become vectors; only exception flags change, unread",
    "-fno-strict-aliasing": "M is used again under other types",
    "-fPIC": "a shared library",
    "-fvisibility=hidden": "only the entry point is seen from outside",
}
# The first that the compiler accepts: the instructions of this host. No bit depends on it.
NATIVE = ("-march=native", "-mcpu=native")
# Loops are unrolled whole to half of gcc's bound: a fifth less time to compile kernels in, and no
# model that was measured runs slower.
GCC = ("--param=max-completely-peeled-insns=100",)
# For AMD's processors gcc keeps addresses in vectors, and gathers the elements of tables: with
# AVX-512 forests take up to a third longer, and nothing that was measured takes 1 % less.
ZEN = ("-mtune=generic",)
# x87 arithmetic would round twice; these are understood, and needed, on 32-bit x86 only.
SSE = ("-msse2", "-mfpmath=sse")

MISSING = (
    "there is no C compiler: $CC, cc, gcc and clang were tried. "
    'Install one, or run: pip install "sardonyx[zig]"'
)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler: the command that runs it, and what it says its version is."""

    command: tuple[str, ...]
    version: str

    @property
    def is_zig(self) -> bool:
        return "ziglang" in self.command

    @property
    def is_gcc(self) -> bool:
        return "Free Software Foundation" in self.version

    def __str__(self) -> str:
        return f"{' '.join(self.command)} ({self.version.splitlines()[0]})"


def find_compiler() -> Compiler:
    """The compiler to use. Raises BuildError where there is none, or $CC does not work."""
    return _find(os.environ.get("CC") or "", os.environ.get("PATH") or "")


@cache
def _find(given: str, path: str) -> Compiler:
    if given:
        found = _try(_words(given))
        if found is None:
            raise BuildError(
                f"the compiler that $CC names does not work: {given}: it cannot be run, or makes "
                "nothing of a C file; name another in CC, or unset it"
            )
        return found
    for command in _candidates():
        found = _try(command)
        if found is not None:
            return found
    raise BuildError(MISSING)


def _words(command: str) -> tuple[str, ...]:
    """The words of a command; the command itself where its quotes do not match."""
    try:
        return tuple(shlex.split(command))
    except ValueError:
        return (command,)


def _candidates() -> Iterator[tuple[str, ...]]:
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            yield (name,)
    if find_spec("ziglang") is not None:
        yield (sys.executable, "-m", "ziglang", "cc")


def _try(command: tuple[str, ...]) -> Compiler | None:
    """The compiler, if it runs and compiles."""
    try:
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    found = Compiler(command, done.stdout.strip() or "unknown version")
    return found if done.returncode == 0 and _accepts(found, ()) else None


@cache
def flags(compiler: Compiler) -> tuple[str, ...]:
    """All flags for a library that runs on this host."""
    native = next((f for f in NATIVE if _accepts(compiler, (f,))), None)
    narrow = platform.machine().lower() in ("i386", "i686", "x86") or sys.maxsize < 1 << 32
    x86 = SSE if narrow and _accepts(compiler, SSE) else ()
    zig = ("-fno-sanitize=undefined",) if compiler.is_zig else ()
    gcc = GCC if compiler.is_gcc and _accepts(compiler, GCC) else ()
    zen = all(word in cpu_identity() for word in ("AuthenticAMD", "avx512f"))
    tune = ZEN if compiler.is_gcc and zen else ()
    return (*FLAGS, *([native] if native else []), *x86, *zig, *gcc, *tune)


@cache
def _accepts(compiler: Compiler, arguments: tuple[str, ...]) -> bool:
    """Whether a file compiles with these arguments, to something. BuildError where there is no
    place for one."""
    try:
        return _compiles([*compiler.command, *arguments, "-c", "a.c", "-o", "a.o"])
    except OSError as error:  # a full disk
        raise BuildError(f"no compiler can be tried: {error}; TMPDIR names the folder") from error


def _compiles(command: Sequence[str]) -> bool:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "a.c").write_text("int sardonyx(void) { return 0; }\n")
        try:
            done = subprocess.run(command, cwd=name, capture_output=True, timeout=120)
        except (OSError, subprocess.SubprocessError):
            return False
        return done.returncode == 0 and (Path(name) / "a.o").is_file()


@cache
def rows_of_bytes() -> int:
    """How many rows of bytes the CPU is known to multiply by one instruction: 16 (AMX), 1 (VNNI;
    SDOT of Arm) or 0."""
    if re.search(r"\bamx_int8\b", cpu_identity()):
        return 16
    return int(re.search(r"\b(?:avx(?:512)?_vnni|asimddp)\b", cpu_identity()) is not None)


@cache
def cpu_identity() -> str:
    """What -march=native looks at: the CPU's model and features."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").split("\n\n")[0].splitlines()
    except OSError:
        lines = []
    told = ("vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU ")
    kept = [line for line in lines if line.startswith(told)]
    if not kept:  # what asks for it starts a process
        kept = [platform.processor()]
    return "\n".join([platform.system(), platform.machine(), *kept])

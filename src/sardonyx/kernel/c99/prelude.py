"""The pieces of PIECES that a program needs, and no more, so that emitted files stay short, and
contract*.h and windows*.h where it has sums of products by register tiles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files

from sardonyx import types as t
from sardonyx.kernel.c99.picks import tables
from sardonyx.kernel.c99.spelling import small_float

PIECES = (
    *("prelude.h", "packed.h", "arithmetic.h", "conversions.h"),
    *("vectors.h", "across.h", "float16.h", "quotients.h", "look_up.h", "picks.h"),
)
# file: the calls that it is for, and the files that it builds on
COMMON = ("choice.h", "product.h")
TILES: dict[str, tuple[str, tuple[str, ...]]] = {
    "contract.h": (r"\bsx_contract(?:_part)?\(", COMMON),
    "contract_half.h": (r"\bsx_contract_half(?:_part)?\(", (*COMMON, "contract.h")),
    "contract_narrow.h": (r"\bsx_contract_narrow(?:_part)?\(", (*COMMON, "contract.h")),
    "contract_f64.h": (r"\bsx_contract_f64(?:_part)?\(", COMMON),
    "contract_i16.h": (r"\bsx_contract_i16(?:_part)?\(", (*COMMON, "contract_vnni.h")),
    "contract_u8.h": (
        r"\bsx_contract_u8(?:_whole)?(?:_part)?\(",
        (*COMMON, "contract_vnni.h", "contract_amx.h"),
    ),
    "along.h": (r"\bsx_along(?:_part)?\(", (*COMMON, "contract.h")),
    "windows.h": (r"\bsx_window(?:_part)?\(", (*COMMON, "contract.h")),
    "windows_u8.h": (r"\bsx_window_u8(?:_part)?\(", COMMON),
}
_ENTRY = "#undef SX_ENTRY\n#define SX_ENTRY SX_SHARED\n"
_MADE = "#define SX_MADE SX_SHARED __attribute__((noinline)) SX_TUNED\n"
# The tiles of contract.h are in two files, and those of others are called there.
_EVEN = _MADE + "#define SX_THERE 1\n"
_HEADS = {
    "contract.h": _MADE + "#define SX_THERE 2\n",
    "contract_half.h": "#define SX_THERE 3\n",
    "contract_narrow.h": "#define SX_THERE 3\n",
}

# What stands behind a program, in files for other computers: the end of what the head begins.
END = "#if defined(__clang__) && defined(__arm__)\n#pragma clang attribute pop\n#endif\n"

_NAME = re.compile(r"\bsx_\w+")
_DEFINED = re.compile(
    r"^(?:SX_(?:FN|OP) [\w ]*?[ *](sx_\w+)\(|typedef .*\} (sx_\w+);"
    r"|(?:#define|static const float) (sx_\w+)[(\[])",
    re.M,
)


@cache
def _text(name: str) -> str:
    return files("sardonyx.kernel.c99").joinpath(name).read_text("utf-8")


@cache
def _pieces() -> tuple[str, ...]:
    """The first piece of a file speaks of the file itself; the second of prelude.h holds what every
    program needs."""
    written = (piece.strip("\n") for name in PIECES for piece in _text(name).split("\n\n")[1:])
    return (*written, *map(small_float, t.SMALL), *tables())


@cache
def _definitions() -> dict[str, int]:
    """name -> the number of the piece that defines it."""
    return {
        name: number
        for number, piece in enumerate(_pieces())
        for groups in _DEFINED.findall(piece)
        for name in groups
        if name
    }


def tiles_of(program: str) -> tuple[str, ...]:
    """The files of TILES that it calls."""
    return tuple(name for name, (calls, _) in TILES.items() if re.search(calls, program))


def _with_bases(tiles: Sequence[str]) -> Iterator[str]:
    """The texts of files of TILES, each after those that it builds on."""
    return map(_text, dict.fromkeys(x for name in tiles for x in (*TILES[name][1], name)))


def prelude(program: str, elsewhere: bool = False) -> str:
    """The C text that must stand before `program`: the head, and every piece it refers to.
    elsewhere: register tiles are in files of their own (tile_files)."""
    tiles = "\n".join(_with_bases(tiles_of(program)))
    head = "#define SX_ELSEWHERE 1\n" if elsewhere and tiles else ""
    return _with_pieces(program, head + tiles)


def tile_files(program: str) -> dict[str, str]:
    """The C files that have the register tiles of kernels in other files: name -> text."""
    names, even = tiles_of(program), {}
    if not _HEADS.keys().isdisjoint(names):
        names = tuple(dict.fromkeys(("contract.h", *names)))
        even = {"tiles_contract_even.c": _tile_file("contract.h", _EVEN)}
    own = {
        f"tiles_{n.removesuffix('.h')}.c": _tile_file(n, _HEADS.get(n, ""), _ENTRY) for n in names
    }
    return own | even


def _tile_file(name: str, head: str, entry: str = "") -> str:
    bases = head + "\n".join(map(_text, TILES[name][1]))
    return _with_pieces("", "\n".join([bases, entry + _text(name)])) + END


def _with_pieces(program: str, tiles: str) -> str:
    where, pieces = _definitions(), _pieces()
    wanted, texts = {0}, [program, tiles]
    while texts:
        for name in _NAME.findall(texts.pop()):
            number = where.get(name)
            if number is not None and number not in wanted:
                wanted.add(number)
                texts.append(pieces[number])
    return "\n\n".join([*(pieces[n] for n in sorted(wanted)), tiles]).rstrip("\n") + "\n"

"""The pieces of PIECES that a program needs, and no more, so that emitted files stay short, and
contract*.h and windows*.h where it has sums of products by register tiles."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from sardonyx import types as t
from sardonyx.kernel.c99.spelling import small_float

PIECES = ("prelude.h", "packed.h", "arithmetic.h", "conversions.h", "vectors.h")
# file: the calls that it is for
TILES = {
    "choice.h": r"\bsx_(?:contract|window|along)\w*\(",
    "product.h": r"\bsx_(?:contract|window|along)\w*\(",
    "contract.h": r"\bsx_(?:contract|contract_half|window|along)(?:_part)?\(",
    "contract_half.h": r"\bsx_contract_half(?:_part)?\(",
    "contract_f64.h": r"\bsx_contract_f64(?:_part)?\(",
    "contract_vnni.h": r"\bsx_contract_(?:i16|u8|u8_whole)(?:_part)?\(",
    "contract_i16.h": r"\bsx_contract_i16(?:_part)?\(",
    "contract_u8.h": r"\bsx_contract_u8(?:_whole)?(?:_part)?\(",
    "along.h": r"\bsx_along(?:_part)?\(",
    "windows.h": r"\bsx_window(?:_part)?\(",
    "windows_u8.h": r"\bsx_window_u8(?:_part)?\(",
}

# What stands behind a program, in files for other computers: the end of what the head begins.
END = "#if defined(__clang__) && defined(__arm__)\n#pragma clang attribute pop\n#endif\n"

_NAME = re.compile(r"\bsx_\w+")
_DEFINED = re.compile(
    r"^(?:SX_(?:FN|OP) [\w ]*?[ *](sx_\w+)\(|typedef .*\} (sx_\w+);|#define (sx_\w+)\()", re.M
)


@cache
def _text(name: str) -> str:
    return files("sardonyx.kernel.c99").joinpath(name).read_text("utf-8")


@cache
def _pieces() -> tuple[str, ...]:
    """The first piece of a file speaks of the file itself; the second of prelude.h holds what every
    program needs."""
    written = (piece.strip("\n") for name in PIECES for piece in _text(name).split("\n\n")[1:])
    return (*written, *map(small_float, t.SMALL))


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
    """The files of TILES that it needs."""
    return tuple(name for name, calls in TILES.items() if re.search(calls, program))


def prelude(program: str) -> str:
    """The C text that must stand before `program`: the head, and every piece it refers to."""
    tiles = "\n".join(map(_text, tiles_of(program)))
    where, pieces = _definitions(), _pieces()
    wanted, texts = {0}, [program, tiles]
    while texts:
        for name in _NAME.findall(texts.pop()):
            number = where.get(name)
            if number is not None and number not in wanted:
                wanted.add(number)
                texts.append(pieces[number])
    return "\n\n".join([*(pieces[n] for n in sorted(wanted)), tiles]).rstrip("\n") + "\n"

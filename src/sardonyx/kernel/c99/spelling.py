"""How the IR's operations, casts and constants are spelled in C99.

SPELLING has the keys of ALU; its values have one template per kind of operand. In a template
{a} {b} {c} are the operands, {all} those after the first, {s} the suffix of their type (f32, i8,
...), {T} its C type, {U} the unsigned type that arithmetic wraps in, {N} a cast to {T} where C's
promotions would widen the result, {f} the suffix of C's float functions. sx_ functions are in the
pieces of prelude.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from sardonyx import types as t
from sardonyx.kernel.expr import Alu, Expr
from sardonyx.types import DType

_WRAPPED = "({T})(({U}){a} %s ({U}){b})"
_INFIX = "({a} %s {b})"
_BITWISE = "({N}({a} %s {b}))"


def _wrapping(sign: str) -> dict[str, str]:
    return {"f": _INFIX % sign, "i": _WRAPPED % sign, "u": _WRAPPED % sign}


def _compared(sign: str) -> dict[str, str]:
    return dict.fromkeys("fiub", _INFIX % sign)


def _bitwise(sign: str) -> dict[str, str]:
    return {"i": _BITWISE % sign, "u": _BITWISE % sign, "b": _INFIX % sign}


def _divided(word: str) -> dict[str, str]:
    unsigned = word.replace("idiv", "tdiv").replace("imod", "tmod")
    return {
        "i": f"({{N}}sx_{word}_{{v}}({{a}}, {{b}}))",
        "u": f"({{N}}sx_{unsigned}_{{v}}({{a}}, {{b}}))",
    }


def _exact(word: str) -> dict[str, str]:
    return {"f": f"{word}{{f}}({{a}})"}


def _least(word: str, logic: str) -> dict[str, str]:
    typed = f"({{N}}sx_{word}_{{w}}({{a}}, {{b}}))"
    return {"f": f"sx_{word}_{{s}}({{a}}, {{b}})", "i": typed, "u": typed, "b": _INFIX % logic}


SPELLING: dict[str, dict[str, str]] = {
    "add": _wrapping("+"),
    "sub": _wrapping("-"),
    "mul": _wrapping("*"),
    "div": {"f": _INFIX % "/"},
    "tdiv": _divided("tdiv"),
    "idiv": _divided("idiv"),
    "imod": _divided("imod"),
    "fmod": {"f": "sx_fmod_{s}({a}, {b})", **_divided("tmod")},
    "fma": {"f": "sx_fma_{s}({a}, {b}, {c})"},
    "neg": {"f": "(-{a})", "i": "({T})(0 - ({U}){a})", "u": "({T})(0 - ({U}){a})"},
    "abs": {"f": "fabs{f}({a})", "i": "({N}sx_abs_i64({a}))", "u": "{a}"},
    "sqrt": _exact("sqrt"),
    "floor": _exact("floor"),
    "ceil": _exact("ceil"),
    "trunc": _exact("trunc"),
    "rint": _exact("rint"),
    "min": _least("min", "&"),
    "max": _least("max", "|"),
    "lt": _compared("<"),
    "le": _compared("<="),
    "eq": _compared("=="),
    "ne": _compared("!="),
    "isnan": {"f": "sx_isnan_{s}({a})"},
    "signbit": {"f": "(sx_bits_{s}({a}) < 0)"},
    "and": _bitwise("&"),
    "or": _bitwise("|"),
    "xor": _bitwise("^"),
    "not": {"i": "({N}~{a})", "u": "({N}~{a})", "b": "(!{a})"},
    "shl": dict.fromkeys("iu", "({T})sx_shl_u64((uint64_t){a}, (uint64_t){b})"),
    "shr": {
        "i": "({N}sx_shr_i64({a}, (uint64_t){b}))",
        "u": "({N}sx_shr_u64({a}, {b}))",
    },
    "pick": {"f": "sx_pick_{s}({a}, {all})"},
    "bits": dict.fromkeys("fiub", "{a}"),  # see `reinterpret`
}

# A shift by a constant within the width needs no check, and becomes a vector instruction.
_CONSTANT_SHIFT = {"shl": "({T})(({U}){a} << {b})", "shr": "({N}({a} >> {b}))"}


def suffix(dtype: DType) -> str:
    """f32, bf16, i8, u64, ...: the end of the names of the functions in prelude.py's pieces."""
    if dtype.bits <= 8 and dtype.is_float:
        return dtype.name
    letter = "bf" if dtype is t.bfloat16 else dtype.kind
    return f"{letter}{dtype.bits}"


def c_type(dtype: DType) -> str:
    """The C type of a value; that of an element in memory is `dtype.c`."""
    return "_Bool" if dtype is t.bool_ else dtype.c


def spell(op: str, dtype: DType, *operands: str, shift: int | None = None) -> str:
    """`op` on operands of `dtype`; `shift` is the value of a constant second operand."""
    a, b, c = (*operands, "", "")[:3]
    template = SPELLING[op][dtype.kind]
    if op in ("and", "or") and dtype is t.bool_ and "sx_" in b:
        b = f"(int){b}"  # clang warns of a call on the right of & between booleans
    if op in _CONSTANT_SHIFT and shift is not None and 0 <= shift < dtype.bits:
        template = _CONSTANT_SHIFT[op]
    wide = max(dtype.bits, 32)
    return template.format(
        a=a,
        b=b,
        c=c,
        all=", ".join(operands[1:]),
        s=suffix(dtype),
        w=f"{dtype.kind}{wide}",
        v=f"{dtype.kind}{wide}" if dtype.bits >= 32 else "i32",
        T=c_type(dtype),
        U=f"uint{wide}_t",
        N="" if dtype.bits >= 32 and op not in _SIXTY_FOUR else f"({c_type(dtype)})",
        f="f" if dtype is t.float32 else "",
        bits=dtype.bits,
    )


_SIXTY_FOUR = frozenset(("abs", "shr"))


def reinterpret(x: str, source: DType, target: DType) -> str:
    """The bits of x as another type of its width. Storage types are integers in C already."""
    if source in (t.float32, t.float64):
        x, source = f"sx_bits_{suffix(source)}({x})", t.by_name(f"int{source.bits}")
    if target is t.bool_:
        return f"({x} != 0)"
    if target in (t.float32, t.float64):
        return f"sx_float_i{target.bits}({x if source.kind == 'i' else f'(int{target.bits}_t){x}'})"
    return x if c_type(source) == c_type(target) else f"(({c_type(target)}){x})"


def cast(
    x: str,
    source: DType,
    target: DType,
    saturate: bool = True,
    toward: str = "up",
    cut: bool = False,
) -> str:
    """x converted with one rounding, saturating into integers. cut: x is an integer that a float
    may have become."""
    if source is target:
        return x
    if target is t.bool_ and source.bits == 16 and source.is_float:
        return f"(({x} & 0x7fff) != 0)"
    if source.is_storage:
        x, source = _widened(x, source), t.by_name(source.compute)
        if target is source:
            return x
    if target is t.bool_:
        return f"({x} != 0)"
    if target.is_storage and target.is_integer:
        whole = f"sx_i32_of_{suffix(source)}({x})" if source.is_float else x
        return f"(uint8_t)({whole} & {(1 << target.bits) - 1})"
    if target.is_storage:
        word = _to_storage(x, source, suffix(target), cut)
        return word if target.bits == 16 else f"{word[:-1]}, {_how(target, saturate, toward)})"
    if source.is_float and target.is_integer:
        return f"sx_{suffix(target)}_of_{suffix(source)}({x})"
    if source is t.int64 and target is t.float64:
        return f"sx_f64_of_i64({x})"
    if source is t.bool_ and target.is_float:  # gcc 12 leaves a loop with the cast as it is
        return f"({x} ? {literal(1, target)} : {literal(0, target)})"
    return _as_float(x, target, cut) if target.is_float else f"({c_type(target)}){x}"


def _as_float(x: str, target: DType, cut: bool) -> str:
    text = f"({c_type(target)}){x}"
    return f"sx_whole_{suffix(target)}({text})" if cut else text


def _how(target: DType, saturate: bool, toward: str) -> str:
    """The arguments of a cast to a float of at most 8 bits: whether it saturates, and the least
    fraction that float8e8m0 rounds up."""
    least = {"up": "1", "nearest": "0x400000", "down": "0x800000"}[toward]
    return f"{int(saturate)}" if target.format else f"{int(saturate)}, {least}"


def _widened(x: str, source: DType) -> str:
    if source.is_float:
        word, kind = f"sx_{suffix(source)}_of_f32(", suffix(source)
        if source.bits == 16 and x.startswith(word):  # there and back
            return f"sx_near_{kind}({x[len(word) :]}"
        return f"sx_f32_of_{kind}({x})"
    low = f"({x} & {(1 << source.bits) - 1})"
    half = 1 << (source.bits - 1)
    return f"(({low} ^ {half}) - {half})" if source.kind == "i" else low


def _to_storage(x: str, source: DType, target: str, cut: bool) -> str:
    """A float of at most 16 bits, by way of a float32 rounded to odd where x is wider."""
    if source is t.float32:
        return f"sx_{target}_of_f32({x})"
    if source.bits == 64 and not source.is_float:
        odd = f"sx_odd_{suffix(source)}({x})"
        odd = f"sx_whole_f32({odd})" if cut else odd
        return f"sx_{target}_of_f32({odd})"
    x = x if source is t.float64 else _as_float(x, t.float64, cut)
    whole = f"sx_{target}_of_f64({x})"
    return whole if target in ("f16", "bf16") else f"sx_{target}_of_f32(sx_odd_f32({x}))"


def canonical(x: str, dtype: DType) -> str:
    """x with NaN as the canonical one."""
    if not dtype.is_float or (dtype.bits <= 8 and not _many_nans(dtype)):
        return x
    return f"sx_canon_{suffix(dtype)}({x})"


def _many_nans(dtype: DType) -> bool:
    """Whether a float of at most 8 bits has more than one NaN."""
    return dtype.format is not None and dtype.format.top < dtype.format.nan < dtype.format.sign


def small_float(dtype: DType) -> str:
    """The piece of the prelude that converts a type of `types.SMALL`: its row of the table."""
    assert dtype.format is not None
    row = dtype.format
    codes = f"{row.sign:#x}, {row.fraction}, {row.bias}, " + ", ".join(
        f"{code:#04x}" for code in (row.top, row.over, row.nan, row.zero)
    )
    name, infinity = suffix(dtype), row.top + (row.over != row.nan)
    return f"""\
#define sx_f32_of_{name}(x) sx_wide(x, {codes})
#define sx_{name}_of_f32(x, saturate) sx_small(x, saturate, {codes})
#define sx_canon_{name}(x) sx_quiet(x, {row.sign - 1:#04x}, {infinity:#04x}, {row.nan:#04x})"""


def parts(value: complex, dtype: DType) -> str:
    """A complex constant in braces."""
    half = t.float32 if dtype is t.complex64 else t.float64
    return "{" + ", ".join(literal(x, half) for x in (value.real, value.imag)) + "}"


def literal(value: float | int | bool, dtype: DType) -> str:
    """A constant of dtype, exactly; negative ones stand in parentheses."""
    if dtype is t.bool_:
        return str(int(bool(value)))
    if dtype.is_storage:
        code = int(np.array(value, dtype.numpy).view(f"u{dtype.size}"))
        return f"{code:#0{2 + 2 * dtype.size}x}"
    if dtype.is_integer:
        return _integer(int(value), dtype)
    if dtype.kind == "c":
        return f"({dtype.c}){parts(value, dtype)}"
    return _float(float(value), dtype)


def _integer(value: int, dtype: DType) -> str:
    if dtype.kind == "i" and dtype.bits >= 32 and value == dtype.min:
        return f"INT{dtype.bits}_MIN"
    text = str(value)
    if dtype.bits == 64 and abs(value) >= 1 << 31:
        text = f"{'U' if dtype.kind == 'u' else ''}INT64_C({abs(value)})"
        text = f"-{text}" if value < 0 else text
    elif dtype.kind == "u" and dtype.bits >= 32:
        text += "u"
    return f"({text})" if value < 0 else text


def _float(value: float, dtype: DType) -> str:
    end = "f" if dtype is t.float32 else ""
    if value != value:
        return f"sx_nan_{suffix(dtype)}()"
    if value in (float("inf"), float("-inf")):
        text = f"({c_type(dtype)})INFINITY"
        return f"(-{text})" if value < 0 else text
    short = repr(value)
    exact = len(short) <= 10 and Decimal(short) == Decimal(value) and "e" not in short
    text = (short if exact else _hexadecimal(value)) + end
    return f"({text})" if text.startswith("-") else text


def _hexadecimal(value: float) -> str:
    """float.hex without the zeros that end its digits."""
    digits, exponent = value.hex().split("p")
    return f"{digits.rstrip('0').rstrip('.')}p{exponent}" if "." in digits else value.hex()


def bare(text: str) -> str:
    """text without the parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and i < len(text) - 1:
            return text
    return text[1:-1]


def product_difference(e: Alu, args: Sequence[str]) -> tuple[str, str] | None:
    """A product and what is taken from it, if e is that: gcc 12 fuses such beside a sum of a
    product (vfmaddsub), allowed to contract or not."""
    if e.dtype not in (t.float32, t.float64) or e.op not in ("add", "sub"):
        return None
    a, b = e.args
    if e.op == "sub":
        return (args[0], args[1]) if _is_product(a) else None
    if _is_product(a) and _is_negative(b):
        return args[0], f"-{args[1]}"
    if _is_product(b) and _is_negative(a):
        return args[1], f"-{args[0]}"
    return None


def _is_negative(e: Expr) -> bool:
    return isinstance(e, Alu) and e.op == "neg"


def _is_product(e: Expr) -> bool:
    while isinstance(e, Alu) and e.op == "neg":
        (e,) = e.args
    return isinstance(e, Alu) and e.op == "mul"

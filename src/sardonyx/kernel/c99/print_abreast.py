"""Long chains of arithmetic (exp, tanh, erf, the gates of an LSTM): several vectors at a time.

    for strip of 32: for lane: out[strip + lane] = f(in[strip + lane])

An elementary function is one chain of dependent operations, and a processor foresees no more than
two or three such chains. A strip of fixed length becomes straight code of several vectors, which
the compiler interleaves where it is told to: gcc by SX_TOGETHER (vectors.h), clang by sx_abreast.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.kernel.affine import coefficient
from sardonyx.kernel.c99.contract import flat
from sardonyx.kernel.c99.place import Block, checked, place
from sardonyx.kernel.c99.strips import Last
from sardonyx.kernel.c99.write import Expression, Writer, bare, nest, stored
from sardonyx.kernel.expr import Alu, Axis, Cast, Fold, Iterate, Load, Local, Where
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import free_axes, walk

LEAST = 10  # operations; of fewer, the processor has enough in flight
MOST = 300  # operations in a straight strip: gcc unrolls no more
VECTOR = 8  # elements, of the registers that most have
FEW = 4  # elements that are better done one by one
WIDTHS = (4 * VECTOR, 2 * VECTOR)  # of a strip, the first that is not too long
ROWS, TOGETHER = 3, 420  # rows of 16 lanes, and operations of all: more spill
# The functions that are inlined into what has SX_TOGETHER, or lose nothing as calls.
INLINE = re.compile(
    r"sx_(?:fma|bits|nan|canon|either|isnan|atleast|atmost|clip|between|minrank|maxrank|minranked|maxranked|min16|max16|sum16)_f32|sx_near_b?f16|sx_(?:widen|nears|narrow|look_up)_f16|sx_picks?_f32"
    r"|sx_(?:bits|nan|raised|lowered|limit)_f64|sx_float_i64|sx_(?:raised|lowered|limit)_f32|sx_(?:min|max)_(?:f32|i32|i64)|sx_(?:float|turned)_i32|sx_contract|sx_across_(?:8|16|32|wide)"
)
ANY = re.compile(r"\bsx_(?!status|abreast|apart|lined|outer|rolled|trap|turn)\w+\(")
LIMIT = re.compile(r"\bsx_limit_f(?:32|64)\([^()]*\)")
FUNCTION = re.compile(r"^(?:static(?: SX_APART)?|SX_FN) void @\w*\(.*?^}$", re.M | re.S)


def abreast_of(s: Compute) -> int:
    """The length of the strips that suit s; 0 where they do not."""
    if not s.axes or s.buffer.dtype is not t.float32:
        return 0
    nodes, axis = list(walk(s.expr)), s.axes[-1]
    if any(isinstance(e, Fold | Iterate) for e in nodes):
        return 0
    if not all(_is_along(e, axis) for e in nodes if isinstance(e, Load)):
        return 0
    free = free_axes(s.expr)
    work = sum(isinstance(e, Alu | Where | Cast) and axis in free[id(e)] for e in nodes)
    most = axis.extent if isinstance(axis.extent, int) else WIDTHS[0]
    straight = [w for w in WIDTHS if work * w // VECTOR <= MOST] or [VECTOR]
    width = next((w for w in straight if w <= most), straight[0])
    return width if work >= LEAST and width <= most else 0


def rows_of(s: Compute, sums: Fold, lanes: Axis) -> int:
    """How many rows of 16 lanes suit what is done with the sums that s is made of; 0: no long chain
    of float32."""
    e = rewrite(s.expr, {sums: Local("sum", sums.dtype)})
    nodes = list(walk(e))
    if s.buffer.dtype is not t.float32 or any(isinstance(x, Fold | Iterate) for x in nodes):
        return 0
    if not all(_is_along(x, lanes) for x in nodes if isinstance(x, Load)):
        return 0
    work = sum(isinstance(x, Alu | Where | Cast) and x.dtype is not t.int64 for x in nodes)
    return min(ROWS, TOGETHER // (work * 2)) if work >= LEAST else 0


def _is_along(e: Load, axis: Axis) -> bool:
    """Whether neighbours along the axis are neighbours in memory, or one and the same."""
    address = flat(e)
    if any(checked(e)) or address is None:
        return False
    return coefficient(address, axis) in ((0, 1) if e.dtype is t.float32 else (0,))


@dataclass(frozen=True, slots=True)
class Beside:
    """What is done before and after each strip, and before and after what is left: from where the
    strip begins to statements."""

    before: Callable[[str], list[str]]
    after: Callable[[str], list[str]]
    before_rest: Callable[[str], list[str]]
    after_rest: Callable[[str], list[str]]


def print_abreast(s: Compute, width: int, names: Writer, beside: Beside | None = None) -> list[str]:
    """The loop nest of s in strips along its last axis, wider than a vector where there is
    something beside."""
    root = block = Block()
    blocks = []
    for axis in s.axes:
        block = Block(block, axis)
        blocks.append(block)
    expression = Expression(names, place([(s.expr, block)], names.given))
    before = expression.declare(root)
    heads, bodies = list[str](), list[list[str]]()
    for axis, inner in zip(s.axes[:-1], blocks, strict=False):
        heads.append(names.loop(axis))
        bodies.append(expression.declare(inner))
    return [*before, *nest(heads, bodies, _strips(s, width, names, expression, block, beside))]


def _strips(
    s: Compute,
    width: int,
    names: Writer,
    expression: Expression,
    block: Block,
    beside: Beside | None,
) -> list[str]:
    """The loop over the last axis: whole strips, then what is left."""
    axis, strip, lane = s.axes[-1], names.fresh("s"), names.fresh("l")
    i = names.given[axis] = names.fresh("i")
    start, n = names.span(axis)
    element = expression.declare(block)
    value = bare(stored(names, expression.text(s.expr, block), s.expr, s.buffer))
    target = names.element(s.buffer, [names.given[a] for a in s.axes])
    steps = list(element)
    element.append(f"{target} = {value};")
    if width == VECTOR:
        return [f"sx_abreast(1) for (int64_t {i} = {start}; {i} < {n}; {i}++) {{", *element, "}"]
    whole = isinstance(axis.extent, int) and axis.extent % width == 0
    side = f"sx_abreast({width // VECTOR})"
    rest = [f"for (int64_t {i} = {strip}; {i} < {n}; {i}++) {{", *element, "}"]
    if axis not in names.spans and _ends_alone(axis.extent, width):
        back = names.fresh("b")
        here = f"const int64_t {i} = {back} + {lane};"
        last = Last(lane, width, here, steps, value, names.fresh("k"), f"{strip} - {back}")
        rest = [f"const int64_t {back} = {n} - {width};"]
        rest += last.lines(s.buffer.dtype, side, lambda x: f"{target} = {x};")
    if beside is not None:
        rest = [*beside.before_rest(strip), *rest, *beside.after_rest(strip)]
    return [
        f"int64_t {strip} = {start};",
        f"for (; {strip} + {width} <= {n}; {strip} += {width}) {{",
        *(beside.before(strip) if beside is not None else []),
        f"{side} for (int64_t {lane} = 0; {lane} < {width}; {lane}++) {{",
        f"const int64_t {i} = {strip} + {lane};",
        *element,
        "}",
        *(beside.after(strip) if beside is not None else []),
        "}",
        *([] if whole else [f"if ({strip} < {n}) {{", *rest, "}"]),
    ]


def _ends_alone(n: Dim, width: int) -> bool:
    """Whether a whole strip that ends with the axis takes less than the elements that are left one
    by one, behind as many vectors of them as there are."""
    return isinstance(n, int) and n >= width and n % (2 * VECTOR) >= FEW


def together(text: str) -> str:
    """The functions, those marked that have strips and only call what is inlined; limits are
    declared where a function begins."""
    return FUNCTION.sub(lambda found: _marked(_with_limits(found.group())), text)


def _with_limits(function: str) -> str:
    limits = {limit: f"limit{n}" for n, limit in enumerate(dict.fromkeys(LIMIT.findall(function)))}
    if not limits:
        return function
    head, body = LIMIT.sub(lambda found: limits[found.group()], function).split("{\n", 1)
    kinds = {"32": "float", "64": "double"}
    lines = [f"  const {kinds[x[10:12]]} {name} = {x};\n" for x, name in limits.items()]
    return "".join([head, "{\n", *lines, body])


def _marked(function: str) -> str:
    called = {name[:-1] for name in ANY.findall(function)}
    if "sx_abreast(" not in function or not all(INLINE.fullmatch(n) for n in called):
        return function
    return f"SX_TOGETHER {function}"

"""What the naive printer and the schedules share: how buffers, sizes, axes and given values are
called in the function being printed, how elements are read and written, and new names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sardonyx.dims import Dim, product
from sardonyx.kernel.c99.spelling import bare
from sardonyx.kernel.expr import Axis, Buffer, Expr

# A sum of products by its shape (print_product.shape_of) -> the fields of its sx_choice.
Choices: TypeAlias = Callable[[str], tuple[Dim, Dim, Dim, Dim]]
LITERAL_EXTENT = 16  # greater sizes are parameters, so that kernels of one shape class are one text


@dataclass(slots=True)
class Writer:
    """The names of one C function.

    pointers: root buffer -> C text. given: Axis, Local or any other node -> its value's C text.
    sizes: the dims that are parameters -> their names, in order. traps: whether one was printed.
    overlapping: parameters that lie in one place under different types, so not `restrict`.
    kept: what is written in place; filled: what is written from its first byte to its last; merged:
    packed buffers of which single elements are written (all of them root buffers).
    wide: whether folds without an order are taken sixteen terms at a time.
    spans: axis -> from where to where its loop goes, if not over all of it. fixed: the axes whose
    index is known where their loops would be. threads: whether work is shared out among threads;
    shares: whether it was. choices: of schedules, where they are not the model's (choice.h).
    unseen: what is written with any payload of a NaN (kernel/payloads.py). around: what stands
    before and after the loop that fixed axes are in. clipped: values whose NaN is
    canonical. row: the size of a short row, which is no parameter.
    """

    pointers: dict[Buffer, str] = field(default_factory=dict)
    given: dict[Expr, str] = field(default_factory=dict)
    sizes: dict[Dim, str] = field(default_factory=dict)
    traps: bool = False
    overlapping: set[Buffer] = field(default_factory=set)
    kept: set[Buffer] = field(default_factory=set)
    filled: set[Buffer] = field(default_factory=set)
    merged: dict[Buffer, None] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    wide: bool = False
    spans: dict[Expr, tuple[str, str]] = field(default_factory=dict)
    fixed: dict[Expr, str] = field(default_factory=dict)
    threads: bool = False
    shares: bool = False
    choices: Choices | None = None
    unseen: frozenset[Buffer] = frozenset()
    around: tuple[list[str], list[str]] = ([], [])
    clipped: set[str] = field(default_factory=set)
    row: Dim = 0

    def fresh(self, stem: str) -> str:
        """A name that is new in this function."""
        n = self.counts[stem] = self.counts.get(stem, -1) + 1
        return f"{stem}{n}"

    def size(self, d: Dim) -> str:
        """The text of a size: small numbers as they are, all else a parameter."""
        if isinstance(d, int) and (d <= LITERAL_EXTENT or d == self.row):
            return str(d)
        if d not in self.sizes:
            self.sizes[d] = self.fresh("n")
        return self.sizes[d]

    def loop(self, axis: Axis) -> str:
        """The head of a loop over axis, which gets a name."""
        if axis in self.fixed:
            self.given[axis] = self.fixed[axis]
            return "{"
        name = self.given[axis] = self.fresh(axis.name[:1] if axis.name[:1] in "irf" else "i")
        begin, end = self.span(axis)
        return f"for (int64_t {name} = {begin}; {name} < {end}; {name}++) {{"

    def span(self, axis: Axis) -> tuple[str, str]:
        """From where to where a loop over axis goes."""
        return self.spans.get(axis) or ("0", self.size(axis.extent))

    def offset(self, buffer: Buffer, index: Sequence[str]) -> str:
        """The row-major offset of an element, by Horner's rule."""
        total = ""
        for i, (text, d) in enumerate(zip(index, buffer.shape, strict=True)):
            if buffer.start and buffer.start[i] != 0:
                first = self.size(buffer.start[i])
                text = first if text == "0" else f"{text} + {first}"
            if total and d != 1:
                inner = total if total.isidentifier() else f"({total})"
                total = f"{inner} * {self.size(d)}"
            if text != "0":
                total = f"{total} + {text}" if total else text
        return total or "0"

    def element(self, buffer: Buffer, index: Sequence[str]) -> str:
        """The text of an element that is read."""
        pointer, offset = self.pointers[buffer.root], self.offset(buffer, index)
        if buffer.dtype.is_packed:
            return f"sx_get({pointer}, {offset}, {buffer.dtype.bits})"
        return f"{pointer}[{offset}]"

    def assign(
        self, buffer: Buffer, index: Sequence[str], value: str, ascending: bool = False
    ) -> str:
        """The statement that writes an element; `ascending` where all are, in their order."""
        root, offset = buffer.root, self.offset(buffer, index)
        if not buffer.dtype.is_packed:
            return f"{self.pointers[root]}[{offset}] = {bare(value)};"
        word = "sx_fill" if ascending and root not in self.kept else "sx_put"
        if word == "sx_fill":
            self.filled.add(root)
        else:
            self.merged[root] = None
        return f"{word}({self.pointers[root]}, {offset}, {buffer.dtype.bits}, {bare(value)});"

    def trims(self) -> list[str]:
        """Statements that clear the bits after the last element, where no others write them."""
        left = [b for b in self.merged if b not in self.filled and b not in self.kept]
        return [
            f"sx_trim({self.pointers[b]}, {self.size(product(b.shape))}, {b.dtype.bits});"
            for b in left
        ]

    def trap(self, error: int) -> str:
        """A call that records the trap; its value is 0."""
        self.traps = True
        return f"sx_trap(status, {error})"


def inside_text(names: Writer, load: Buffer, index: Sequence[str], check: Sequence[bool]) -> str:
    """The condition that the dimensions to check are in bounds; nothing is within an empty one."""
    parts = [
        "0" if d == 0 else f"(uint64_t){i} < (uint64_t){names.size(d)}"
        for i, d, c in zip(index, load.shape, check, strict=True)
        if c
    ]
    return " && ".join(parts)

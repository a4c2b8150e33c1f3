"""The operator registry: the project's one piece of global state.

    @operator("Relu", 1, 6, 13, 14)
    def relu(k: Builder, x: Tensor) -> Tensor:
        return k.compute(x.shape, lambda *i: maximum(x[i], 0))

A definition takes the Builder, the operands as the schema orders them (None where an optional one
is absent, a tuple for a variadic one), and the attributes by keyword with the schema's defaults.
It returns its result, or a tuple of them (None for an output that is not there).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from sardonyx.errors import InternalError, InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.ir import Kernel
from sardonyx.ops import users

Accuracy: TypeAlias = Literal["exact", "rounding", "approximate"]
Form: TypeAlias = Literal["kernel", "two kernels", "control flow", "host"]
CONTROL = ("If", "Loop", "Scan")
Definition: TypeAlias = Callable[..., Any]
Defined = TypeVar("Defined", bound=Definition)
INTERNAL = "sardonyx"  # the domain of operators that only Sardonyx itself puts in a graph
FAMILIES = (
    "activation", "affine_grid", "attention", "bitcast", "cast", "causal_conv", "col2im",
    "constant", "control", "conv", "conv_transpose", "cumulative", "detection", "einsum",
    "elementwise", "gather", "image", "integer", "linalg", "linear_attention", "loss", "matmul",
    "microsoft", "ml_features", "ml_labels", "ml_linear", "ml_svm", "ml_text", "ml_trees",
    "movement", "nonzero", "norm", "pad", "pool", "pool_lp", "qlinear", "quantize", "random",
    "recurrent", "reduce", "reshape", "resize", "roi", "rotary", "sample", "scatter", "sequence",
    "shape", "softmax", "spectrum", "text", "top_k", "training", "unique", "winograd",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator version. `accuracy` says how far another runtime may be from the result:
    "exact" equal values, "rounding" sums in another order, "approximate" elementary functions."""

    domain: str
    name: str
    since: int
    define: Definition
    accuracy: Accuracy

    @property
    def takes_seed(self) -> bool:
        """Whether it is random: it has the attribute `seed`."""
        return "seed" in _keywords(self.define)

    def __str__(self) -> str:
        return f"{self.domain or 'ai.onnx'}::{self.name}-{self.since}"


@dataclass(frozen=True, slots=True)
class Host:
    """One operator version that the host performs: strings, sequences, optionals, control flow.

    `define` is a function of values (the operands as the schema orders them, None where absent)
    and of the attributes by keyword; a graph attribute is a Body. It gives a value or a tuple."""

    domain: str
    name: str
    since: int
    define: Definition

    def __str__(self) -> str:
        return f"{self.domain or 'ai.onnx'}::{self.name}-{self.since}"


_REGISTRY: dict[tuple[str, str, int], Operator] = {}
_HOSTS: dict[tuple[str, str, int], Host] = {}


def operator(
    name: str, *since: int, domain: str = "", accuracy: Accuracy = "exact"
) -> Callable[[Defined], Defined]:
    """Registers a definition for the versions `since` of an operator."""

    def register(define: Defined) -> Defined:
        for version in since:
            key = domain, name, version
            if key in _REGISTRY:
                raise InternalError(f"{name}-{version} is defined twice")
            _REGISTRY[key] = Operator(domain, name, version, define, accuracy)
        return define

    return register


def attributes_of(define: Definition) -> Callable[[Defined], Defined]:
    """The attributes of another definition for one that hands on its keywords."""
    theirs = [p for p in signature(define).parameters.values() if p.kind is p.KEYWORD_ONLY]

    def take(own: Defined) -> Defined:
        first = [p for p in signature(own).parameters.values() if p.kind is not p.VAR_KEYWORD]
        own.__signature__ = Signature([*first, *theirs])  # type: ignore[attr-defined]  # inspect's
        return own

    return take


def version_of(define: Definition, *without: str, **others: Any) -> Definition:
    """Another version of an operator: without some attributes or last inputs of `define`, with
    `others` as defaults. Attributes that `define` has not are taken and change nothing."""
    theirs = signature(define).parameters
    kept = [p for name, p in theirs.items() if name not in (*without, *others)]
    more = [Parameter(name, Parameter.KEYWORD_ONLY, default=v) for name, v in others.items()]

    def other(*inputs: Any, **attributes: Any) -> Any:
        given = {**others, **attributes}
        return define(*inputs, **{name: v for name, v in given.items() if name in theirs})

    other.__signature__ = Signature([*kept, *more])  # type: ignore[attr-defined]  # inspect's
    other.__module__ = define.__module__
    return other


_SIZED: dict[tuple[str, str, int], tuple[str, str]] = {}
_REFUSED: dict[tuple[str, str, int], str] = {}


def refused(name: str, *since: int, reason: str, domain: str = "") -> None:
    """Says why there will be no definition for the versions `since` of an operator."""
    for version in since:
        _REFUSED[domain, name, version] = reason


def refusal(domain: str, name: str, since: int) -> str | None:
    """Why (domain, name, since_version) is refused, if it is."""
    _load_families()
    return _REFUSED.get((domain, name, since))


def sized(name: str, *since: int, count: str, fill: str, domain: str = "") -> None:
    """Says that an operator whose output sizes depend on data is two internal ones in a row.

    Both are of the domain INTERNAL and version 1, and take the operator's attributes. `count`
    takes its inputs and gives (the size, an int64 scalar; work tensors...). `fill` takes its
    inputs, as many as the schema has (absent ones None), then what `count` gave; it asks for the
    value of the size, and gives the operator's outputs.
    """
    for version in since:
        _SIZED[domain, name, version] = count, fill


def sized_by(domain: str, name: str, since: int) -> tuple[str, str] | None:
    """The names of the operators that count and fill, for one whose sizes depend on data."""
    _load_families()
    return _SIZED.get((domain, name, since))


def sized_operators() -> tuple[tuple[str, str, int], ...]:
    """All (domain, name, since_version) that `sized_by` knows, sorted."""
    _load_families()
    return tuple(sorted(_SIZED))


def internal(name: str) -> Operator:
    """The internal operator of that name."""
    found = find(INTERNAL, name, 1)
    if found is None:
        raise InternalError(f"there is no internal operator {name}")
    return found


def arity(op: Operator) -> int:
    """How many operands a definition takes, optional ones included."""
    return len(_positional(op.define)) - 1


def host(name: str, *since: int, domain: str = "") -> Callable[[Defined], Defined]:
    """Registers a host function for the versions `since` of an operator: for all operands, or
    where there is a kernel too, for strings and containers."""

    def register(define: Defined) -> Defined:
        for version in since:
            key = domain, name, version
            if key in _HOSTS:
                raise InternalError(f"{name}-{version} is defined twice on the host")
            _HOSTS[key] = Host(domain, name, version, define)
        return define

    return register


@cache
def _load_families() -> None:
    for family in FAMILIES:
        import_module(f"sardonyx.ops.{family}")


def find(domain: str, name: str, since: int) -> Operator | None:
    """The definition of (domain, name, since_version), or None if there is none."""
    _load_families()
    return _REGISTRY.get((domain, name, since))


def find_host(domain: str, name: str, since: int) -> Host | None:
    """The host function of (domain, name, since_version), or None if there is none."""
    _load_families()
    return _HOSTS.get((domain, name, since))


def hosts() -> tuple[Host, ...]:
    """All host functions, sorted by domain, name and version."""
    _load_families()
    return tuple(_HOSTS[key] for key in sorted(_HOSTS))


def remove(domain: str, name: str) -> bool:
    """Takes all versions of an operator off; whether there was one. For operators of users."""
    users.discard(domain, name)
    gone = [
        (table, key) for table in (_REGISTRY, _HOSTS) for key in table if key[:2] == (domain, name)
    ]
    for table, key in gone:
        del table[key]
    return bool(gone)


def newest(domain: str, name: str, version: int) -> Operator | Host | None:
    """The definition or host function of an operator's newest version up to `version`."""
    _load_families()
    table: dict[tuple[str, str, int], Operator | Host] = {**_REGISTRY, **_HOSTS}
    found = [key for key in table if key[:2] == (domain, name) and key[2] <= version]
    return table[max(found)] if found else None


def form_of(domain: str, name: str, since: int) -> Form | None:
    """How an operator version is defined; None if it is not.

    kernel: in the kernel IR; two kernels: one counts, one fills; control flow: on the host, and in
    C where sizes are known; host: a host function."""
    key = domain, name, since
    if find(*key):
        return "kernel"
    if sized_by(*key):
        return "two kernels"
    if find_host(*key):
        return "control flow" if name in CONTROL and not domain else "host"
    return None


def operators() -> tuple[Operator, ...]:
    """All definitions, sorted by domain, name and version."""
    _load_families()
    return tuple(_REGISTRY[key] for key in sorted(_REGISTRY))


def lower(
    op: Operator,
    inputs: Sequence[Tensor | None],
    attributes: Mapping[str, Any],
    used: Sequence[bool],
) -> Kernel:
    """The kernel of one operation. used[i] says whether output i is wanted.

    `consumed_inputs` (before opset 6) is a hint about memory, and ignored: the plan knows better.

    Raises Undetermined where a shape or value must be known first, InvalidModel where the
    operands or attributes break a rule of the operator.
    """
    k = Builder(op.since, outputs=len(used), output_used=tuple(used))
    parameters = _positional(op.define)[1:]
    arguments = _arguments(op, parameters, inputs)
    if parameters and parameters[-1].kind is Parameter.VAR_POSITIONAL:
        for number, given in enumerate(arguments):
            if given is None:
                raise InvalidModel(f"{op} needs each of its inputs, number {number} is left out")
    attributes = {a: v for a, v in attributes.items() if a != "consumed_inputs"}
    found = op.define(k, *arguments, **_keyword_arguments(op, attributes))
    results = (found if isinstance(found, tuple) else (found,))[: len(used)]
    wanted: list[Tensor] = []
    for result, use in zip(results, used, strict=False):
        if use and result is not None:
            again = result in inputs or result in wanted
            wanted.append(k.view(result, result.shape) if again else result)
    if len(wanted) != sum(used):
        raise InvalidModel(f"{op} has {len(wanted)} of the {sum(used)} outputs asked for")
    return k.kernel(op.name, inputs, wanted)


def perform(op: Host, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> tuple[Any, ...]:
    """The values that a host function gives.

    Raises InvalidModel where the operands or attributes break a rule of the operator.
    """
    return bound(op, attributes)(inputs)


def bound(op: Host, attributes: Mapping[str, Any]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """A host function with its attributes, which are looked at now; else as `perform`."""
    given, parameters = _keyword_arguments(op, attributes), _positional(op.define)

    def run(inputs: Sequence[Any]) -> tuple[Any, ...]:
        found = op.define(*_arguments(op, parameters, inputs), **given)
        return found if isinstance(found, tuple) else (found,)

    return run


def _keyword_arguments(op: Operator | Host, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes and the float defaults, checked against the definition."""
    unknown = sorted(set(attributes) - _keywords(op.define))
    if unknown and not _takes_any(op.define):
        raise InvalidModel(f"{op} has no attribute {', '.join(unknown)}")
    missing = sorted(_required(op.define) - set(attributes))
    if missing:
        raise InvalidModel(f"{op} needs the attribute {', '.join(missing)}")
    return {**_float_defaults(op.define), **attributes}


def _arguments(
    op: Operator | Host, parameters: tuple[Parameter, ...], inputs: Sequence[Any]
) -> list[Any]:
    """The operands as the definition takes them: absent ones None, variadic ones spread."""
    spread = parameters and parameters[-1].kind is Parameter.VAR_POSITIONAL
    if spread or (len(inputs) == len(parameters) and not any(x is None for x in inputs)):
        return list(inputs)
    if len(inputs) > len(parameters):
        raise InvalidModel(f"{op} takes {len(parameters)} inputs, found {len(inputs)}")
    padded = [*inputs, *[None] * (len(parameters) - len(inputs))]
    for parameter, given in zip(parameters, padded, strict=True):
        if given is None and parameter.default is Parameter.empty:
            raise InvalidModel(f"{op} needs its input {parameter.name}")
    return padded


@cache
def _positional(define: Definition) -> tuple[Parameter, ...]:
    kinds = Parameter.POSITIONAL_OR_KEYWORD, Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL
    return tuple(p for p in signature(define).parameters.values() if p.kind in kinds)


@cache
def _float_defaults(define: Definition) -> dict[str, float]:
    """The defaults of float attributes as ONNX keeps them: rounded to float32."""
    keywords = [p for p in signature(define).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return {p.name: float(np.float32(p.default)) for p in keywords if isinstance(p.default, float)}


@cache
def _required(define: Definition) -> frozenset[str]:
    keywords = [p for p in signature(define).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return frozenset(p.name for p in keywords if p.default is Parameter.empty)


@cache
def _takes_any(define: Definition) -> bool:
    """Whether a host function takes attributes of any name."""
    return any(p.kind is p.VAR_KEYWORD for p in signature(define).parameters.values())


@cache
def _keywords(define: Definition) -> frozenset[str]:
    parameters = signature(define).parameters.values()
    return frozenset(p.name for p in parameters if p.kind is Parameter.KEYWORD_ONLY)

"""Operators of one's own.

    from sardonyx import custom

    @custom.operator("Cube", domain="my.domain")
    def cube(k, x):                                  # in the kernel IR: machine, native, exported C
        return custom.elementwise(k, lambda e: e * e * e, x)

    @custom.function("Sort", domain="my.domain")
    def sort(x, *, axis: int = -1):                  # of NumPy arrays: performed by the host
        return np.sort(x, axis)

    custom.reference(MyOpRun)                        # a class of onnx.reference
    custom.remove("Cube", domain="my.domain")

Positional parameters are the inputs, keyword ones the attributes, as in docs/custom-operators.md.
An operator must be registered before a model that has it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import numpy as np
from onnx import helper
from onnx.reference.op_run import OpRun

from sardonyx import types
from sardonyx.errors import RunError, SardonyxError
from sardonyx.kernel import elementary as fn
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, alu, cast, lift, where
from sardonyx.ops import registry, users
from sardonyx.ops.common import broadcast_shapes, elementwise, maximum, minimum
from sardonyx.ops.registry import Accuracy, Defined
from sardonyx.types import Array, by_numpy

__all__ = [
    "Builder",
    "Expr",
    "Tensor",
    "alu",
    "broadcast_shapes",
    "cast",
    "elementwise",
    "fn",
    "function",
    "lift",
    "maximum",
    "minimum",
    "operator",
    "reference",
    "remove",
    "types",
    "where",
]


def operator(
    name: str, *since: int, domain: str, accuracy: Accuracy = "approximate"
) -> Callable[[Defined], Defined]:
    """Registers a definition in the kernel IR, for version 1 unless others are given.

    It takes the Builder, the operands (Tensors; None where an optional one is absent) and the
    attributes by keyword, and returns a Tensor or a tuple of them. `accuracy` says how far other
    runtimes may be. Raises SardonyxError for a reserved domain or a name that is taken.
    """
    _check(name, since, domain)

    def register(define: Defined) -> Defined:
        given = _inputs(name, define)
        if not given or any(p.kind is p.VAR_KEYWORD for p in given):
            raise SardonyxError(
                f"the definition of {name} takes the Builder first, then its inputs, and its "
                "attributes one by one behind a *"
            )
        users.add(domain, name)
        return registry.operator(name, *(since or (1,)), domain=domain, accuracy=accuracy)(define)

    return register


def function(name: str, *since: int, domain: str) -> Callable[[Defined], Defined]:
    """Registers a function of NumPy arrays, for version 1 unless others are given.

    It takes the operands (arrays; None where an optional one is absent) and the attributes by
    keyword, and returns an array or a tuple of them. It must not change its operands, and should
    depend on them alone. Exported C refuses it. Raises SardonyxError as `operator` does.
    """
    _check(name, since, domain)

    def register(define: Defined) -> Defined:
        _inputs(name, define)
        users.add(domain, name)
        registry.host(name, *(since or (1,)), domain=domain)(_checked(name, define))
        return define

    return register


def reference(cls: type[OpRun], *since: int) -> type[OpRun]:
    """Registers a class of onnx.reference, as ReferenceEvaluator(new_ops=[cls]) takes it: its
    op_domain, and the operator called as the class. It is a function of the host.

    Raises SardonyxError as `operator` does.
    """
    name, domain = cls.__name__, cls.op_domain
    _check(name, since, domain)
    parameters = {"log": lambda *_: None, "opsets": {"": 1, domain: 1}, "new_ops": None}

    def define(*inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
        node = helper.make_node(name, names, ["y"], domain=domain, **attributes)
        made: Any = cls(node, {**parameters, "verbose": 0})
        return tuple(made.run(*inputs))

    users.add(domain, name)
    registry.host(name, *(since or (1,)), domain=domain)(_checked(name, define))
    return cls


def remove(name: str, *, domain: str) -> None:
    """Takes all versions of an operator off; graphs that were loaded with it stop working.

    Raises SardonyxError where the domain is reserved or has no such operator.
    """
    _check_domain(domain)
    if not registry.remove(domain, name):
        raise SardonyxError(f"there is no operator {domain}::{name}")


def _check(name: str, since: tuple[int, ...], domain: str) -> None:
    _check_domain(domain)
    for version in since or (1,):
        if registry.find(domain, name, version) or registry.find_host(domain, name, version):
            raise SardonyxError(f"{domain}::{name}-{version} is there already: remove it first")


def _check_domain(domain: str) -> None:
    if not domain or domain == registry.INTERNAL or domain.split(".")[:2] == ["ai", "onnx"]:
        raise SardonyxError(f"the domain '{domain}' is reserved: use one of your own")


def _inputs(name: str, define: Callable[..., Any]) -> list[Parameter]:
    """The parameters that are no attributes; the default of an input is None."""
    given = [p for p in signature(define).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    for p in given:
        if p.default not in (p.empty, None):
            raise SardonyxError(
                f"{name}: {p.name} stands before the *, so it is an input, whose default can only "
                f"be None; found {p.default!r}"
            )
    return given


def _checked(name: str, define: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the signature that it has, its results made arrays of Sardonyx's types."""

    def checked(*inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        found = define(*inputs, **attributes)
        return tuple(_array(name, x) for x in (found if isinstance(found, tuple) else (found,)))

    checked.__signature__ = signature(define)  # type: ignore[attr-defined]  # inspect's
    checked.__annotations__ = dict(getattr(define, "__annotations__", {}))
    checked.__wrapped__ = define  # type: ignore[attr-defined]  # functools'
    return checked


def _array(name: str, value: Any) -> Array | None:
    if value is None:
        return None
    array = np.asarray(value)
    if array.dtype.kind != "O" and by_numpy(array.dtype) is None:
        raise RunError(f"{name} gives an array of {array.dtype}, which Sardonyx does not have")
    return np.ascontiguousarray(array).reshape(array.shape)

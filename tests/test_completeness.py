"""Every operator version that onnx describes is there, or it is said why not."""

from __future__ import annotations

import onnx
import pytest

from sardonyx.cli.operators import rows
from sardonyx.ops.registry import INTERNAL, find, hosts, operators, refusal, sized_operators

Key = tuple[str, str, int]


def key(schema: onnx.defs.OpSchema) -> Key:
    return schema.domain, schema.name, schema.since_version


SCHEMAS = onnx.defs.get_all_schemas_with_history()
BODIES = {key(s) for s in SCHEMAS if s.has_function or s.has_context_dependent_function}


def ours() -> set[Key]:
    """What has a definition, a pair of them (its sizes depend on data) or a host function."""
    return {(o.domain, o.name, o.since) for o in (*operators(), *hosts())} | set(sized_operators())


def test_each_version_has_a_form_a_body_or_a_reason() -> None:
    """A body (of a function in the schema) is inlined when a model is resolved."""
    rest = {key(s) for s in SCHEMAS} - BODIES - ours()
    missing = [k for k in rest if refusal(*k) is None]
    assert sorted(missing) == []


def test_the_table_of_operators_has_every_version_once() -> None:
    table = list(rows())
    keys = [(r.domain, r.name, r.since) for r in table]
    assert keys == sorted(set(keys))
    assert set(keys) >= {key(s) for s in SCHEMAS}
    none = [(r.domain, r.name, r.since) for r in table if r.form is None]
    assert [k for k in none if refusal(*k) is None] == []


def test_what_is_refused_is_not_there() -> None:
    assert [k for k in ours() if refusal(*k) is not None] == []


@pytest.mark.parametrize(("domain", "name", "since"), sized_operators())
def test_an_operator_whose_sizes_depend_on_data_has_no_second_definition(
    domain: str, name: str, since: int
) -> None:
    assert find(domain, name, since) is None


def test_internal_operators_are_none_of_onnx() -> None:
    assert INTERNAL not in {s.domain for s in SCHEMAS}

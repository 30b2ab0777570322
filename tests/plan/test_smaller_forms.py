"""What is proposed where no capacities fit: forms of weights and of the cache that can be had."""

from __future__ import annotations

from typing import Any

import pytest

from ninfer_core.api.errors import PlanRejected
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.resolve import resolve
from ninfer_core.plugins.registry import PluginRegistry
from tests.plan.conftest import FAMILY_SOURCE, KV_SOURCE, MakeRegistry

ABLE_FAMILY = """
from ninfer_core.api import hookimpl

@hookimpl
def ninfer_family_matrices(header):
    return ("embed",)
"""


@pytest.mark.parametrize(
    ("options", "ways"),
    [
        ({}, "--weights fp8 or nvfp4, --kv-dtype fp8"),
        ({"kv_dtype": "fp8"}, "--weights fp8 or nvfp4"),
    ],
)
def test_smaller_forms_are_named_where_nothing_else_helps(
    options: dict[str, str], ways: str, make_registry: MakeRegistry, toy: Any
) -> None:
    more = {"more": {"family:able": FAMILY_SOURCE + ABLE_FAMILY, "kv:fp8": KV_SOURCE}}
    with pytest.raises(PlanRejected) as caught:
        resolve(ServeOptions(family="able", **options), make_registry(more), toy.header(), toy.cuda(2**20))
    (problem,) = caught.value.problems
    assert problem.remedy.endswith(f": a larger device, or what takes less: {ways}")


def test_forms_that_cannot_be_had_are_not_named(registry: PluginRegistry, toy: Any) -> None:
    """The toy family has no matrices, and no other KV format is installed."""
    with pytest.raises(PlanRejected) as caught:
        resolve(ServeOptions(), registry, toy.header(), toy.cuda(2**20))
    assert caught.value.problems[0].remedy.endswith("what takes less: smaller weights")

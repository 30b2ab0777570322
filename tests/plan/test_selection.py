"""Which plugins a plan is made of, and what is said when one cannot be had."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ninfer_core.api.errors import PlanRejected, Problem
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.selection import claim_family, select_plugins
from ninfer_core.plugins.registry import PluginRegistry

HOOK = "from ninfer_core.api import hookimpl\n\n"
CLAIMS_ALL = HOOK + "@hookimpl\ndef ninfer_family_match(header):\n    return True\n"
LAYOUT = HOOK + "@hookimpl\ndef ninfer_kv_layout(head_dim):\n    ...\n"
SPEC = HOOK + "@hookimpl\ndef ninfer_spec_needs(header, geometry):\n    ...\n"
TALK = HOOK + "@hookimpl\ndef ninfer_protocol_build(context):\n    ...\n"


def problem_of(options: ServeOptions, registry: PluginRegistry, toy: Any) -> Problem:
    with pytest.raises(PlanRejected) as caught:
        select_plugins(options, registry, toy.cpu())
    (problem,) = caught.value.problems
    return problem


def test_defaults(registry: PluginRegistry, toy: Any) -> None:
    selection = select_plugins(ServeOptions(), registry, toy.cpu())
    assert selection.kv.name == "bf16"
    assert selection.family is None
    assert [offer.name for offer in selection.protocols] == ["talk"]


@pytest.mark.contract("OPT-22", "OPT-23")
@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ({"kv_dtype": "int8"}, "not_built_yet", "kv plugin 'int8' (--kv-dtype)"),
        ({"kv_dtype": "nvfp4"}, "not_built_yet", "nvfp4"),
        ({"kv_dtype": "k8v4"}, "not_built_yet", "k8v4"),
        ({"kv_dtype": "bf-16"}, "plugin_unknown", "did you mean 'bf16'?"),
        ({"kv_dtype": "bf16@elsewhere"}, "plugin_unknown", "bf16@toy-plugins"),
        ({"spec": "mtp"}, "plugin_unknown", "no spec plugin 'mtp'; no spec plugin is installed"),
        ({"protocols": ("tolk",)}, "plugin_unknown", "did you mean 'talk'?"),
        ({"family": "toi"}, "plugin_unknown", "did you mean 'toy'?"),
    ],
)
def test_names_that_cannot_be_had(
    options: dict[str, Any], code: str, words: str, registry: PluginRegistry, toy: Any
) -> None:
    problem = problem_of(ServeOptions(**options), registry, toy)
    assert problem.code == code
    assert words in problem.message
    assert "ninfer plugins list --kind" in problem.remedy


def test_a_promised_name_that_a_package_offers_is_used(make_registry: Any, toy: Any) -> None:
    registry = make_registry({"their-kv": {"kv:int8": LAYOUT}})
    assert select_plugins(ServeOptions(kv_dtype="int8"), registry, toy.cpu()).kv.package == "their-kv"


def test_a_drafter_of_others_is_selected_as_ours_are(make_registry: Any, toy: Any) -> None:
    registry = make_registry({"their-spec": {"spec:lookahead": SPEC}})
    selection = select_plugins(ServeOptions(spec="lookahead"), registry, toy.cpu())
    assert selection.spec is not None and selection.spec.package == "their-spec"


def test_one_name_from_two_packages(make_registry: Any, toy: Any) -> None:
    registry = make_registry({"their-kv": {"kv:bf16": LAYOUT}, "their-talk": {"protocol:talk": TALK}})
    with pytest.raises(PlanRejected) as caught:
        select_plugins(ServeOptions(), registry, toy.cpu())
    assert [problem.code for problem in caught.value.problems] == ["plugin_ambiguous"] * 2
    assert "bf16@toy-plugins" in caught.value.problems[0].message
    chosen = ServeOptions(kv_dtype="bf16@their-kv", protocols=("talk@toy-plugins",))
    selection = select_plugins(chosen, registry, toy.cpu())
    assert selection.kv.package == "their-kv"
    assert [offer.package for offer in selection.protocols] == ["toy-plugins"]


def test_nothing_to_serve_with(toy: Any, registry: PluginRegistry) -> None:
    without = PluginRegistry(offer for offer in registry.offers() if offer.kind != "protocol")
    problem = problem_of(ServeOptions(), without, toy)
    assert "no protocol plugin" in problem.message


def test_conflicts_of_options_are_reported_with_them_once(toy: Any, registry: PluginRegistry) -> None:
    conflict = {"device": "cpu", "assume_device_memory": 1 << 30}
    with pytest.raises(PlanRejected) as caught:
        select_plugins(ServeOptions(kv_dtype="int8", **conflict), registry, toy.cpu())
    assert [problem.code for problem in caught.value.problems] == ["option_conflict", "not_built_yet"]
    with pytest.raises(PlanRejected):
        select_plugins(ServeOptions(**conflict), registry, toy.cpu())


def test_family_that_claims(registry: PluginRegistry, toy: Any) -> None:
    assert claim_family(None, registry, toy.header()).offer.name == "toy"


def test_no_family_claims(registry: PluginRegistry, toy: Any) -> None:
    with pytest.raises(PlanRejected) as caught:
        claim_family(None, registry, toy.header(family="gpt"))
    (problem,) = caught.value.problems
    assert problem.code == "family_unknown"
    assert "family 'gpt'" in problem.message
    assert "installed: toy" in problem.message
    # A Hugging Face directory names no family; its config says what it is.
    with pytest.raises(PlanRejected) as caught:
        claim_family(None, registry, msgspec.structs.replace(toy.header(family=""), config={"model_type": "llama"}))
    assert "(model_type 'llama' in config.json" in caught.value.problems[0].message


def test_a_broken_family_is_named_when_no_other_claims(make_registry: Any, toy: Any) -> None:
    registry = make_registry({"their-family": {"family:broken": "import nothing_of_that_name"}})
    assert claim_family(None, registry, toy.header()).offer.name == "toy"
    with pytest.raises(PlanRejected) as caught:
        claim_family(None, registry, toy.header(family="gpt"))
    assert "nothing_of_that_name" in caught.value.problems[0].message


def test_two_families_claim(make_registry: Any, toy: Any) -> None:
    registry = make_registry({"their-family": {"family:greedy": CLAIMS_ALL, "family:other": CLAIMS_ALL}})
    with pytest.raises(PlanRejected) as caught:
        claim_family(None, registry, toy.header(family=""))
    (problem,) = caught.value.problems
    assert problem.code == "plugin_ambiguous"
    assert "greedy@their-family 1.0" in problem.message
    assert "other@their-family 1.0" in problem.message
    named = select_plugins(ServeOptions(family="toy"), registry, toy.cpu()).family
    assert claim_family(named, registry, toy.header(family="")).offer.name == "toy"
    assert claim_family(None, registry, toy.header()).offer.name == "toy", "the artifact names its family"

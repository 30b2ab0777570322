"""Speculation in a plan: what it adds to the ledger, what it is refused for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from ninfer_core.api.artifact import DRAFT_CONFIG, ArtifactHeader, TensorSpec
from ninfer_core.api.errors import ArtifactInvalid, PlanRejected, PluginBroken, Problem
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.plan.memory import page_bytes, pages_for
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.pins import resolve_pinned
from ninfer_core.plan.resolve import resolve
from ninfer_core.plan.sizing import AUTO_HEADROOM_BYTES
from ninfer_core.plugins.registry import PluginRegistry
from tests.plan.drafter import INVENTORY_SOURCE, SPEC_SOURCE

BF16, FP32, HIDDEN = 2, 4, 64
OPTIONS = {"max_context": 1000, "max_concurrency": 2, "prefill_chunk": 128}


@pytest.fixture
def drafting(make_registry: Callable[..., PluginRegistry]) -> PluginRegistry:
    return make_registry({"toy-spec": {"spec:guess": SPEC_SOURCE}})


def with_config(header: ArtifactHeader, **config: object) -> ArtifactHeader:
    return msgspec.structs.replace(header, config={**header.config, **config})


def with_reduced_head(header: ArtifactHeader) -> ArtifactHeader:
    ids = TensorSpec(name="head.ids", shape=(8,), dtype="int32", group="draft_head")
    return msgspec.structs.replace(header, tensors=(*header.tensors, ids))


def problem_of(registry: PluginRegistry, header: ArtifactHeader, device: Any, **options: Any) -> Problem:
    with pytest.raises(PlanRejected) as caught:
        resolve(ServeOptions(**options), registry, header, device)
    (problem,) = caught.value.problems
    return problem


def lines(plan: ExecutionPlan) -> dict[str, int]:
    return {line.name: line.bytes for line in plan.ledger.lines}


@pytest.mark.contract("OPT-23", "OPT-24")
@pytest.mark.parametrize(
    ("given", "drafts", "words"), [({}, 3, "on (guess, 3 drafts)"), ({"draft_tokens": 1}, 1, "on (guess, 1 draft)")]
)
def test_the_backend_is_pinned_and_says_how_many_tokens_it_drafts(
    drafting: PluginRegistry, toy: Any, given: dict[str, int], drafts: int, words: str
) -> None:
    plan = resolve(ServeOptions(spec="guess", **given), drafting, toy.header(), toy.cuda())
    assert (plan.capacities.draft_tokens, plan.features.speculation.words) == (drafts, words)
    assert plan.pin("spec").package == "toy-spec"
    (spec,) = resolve_pinned(plan, drafting)["spec"]
    assert spec.pin == plan.pin("spec")
    assert plan.drafter is not None and plan.drafter.groups == ("text",)


@pytest.mark.contract("EXEC-23")
def test_every_byte_of_a_drafter_is_in_the_ledger(drafting: PluginRegistry, toy: Any) -> None:
    without = resolve(ServeOptions(**OPTIONS), drafting, toy.header(), toy.cuda())
    with_drafts = resolve(ServeOptions(spec="guess", **OPTIONS), drafting, toy.header(), toy.cuda())
    before, after = lines(without), lines(with_drafts)
    assert before.keys() == after.keys() - {"drafter_weights", "drafter_state", "round_features"}
    assert after["drafter_weights"] == 64 * 128 * BF16
    assert after["drafter_state"] == 2 * (2 * 16 * 8) * BF16
    assert after["round_features"] == 2 * 4 * 2 * HIDDEN * BF16
    pages = with_drafts.capacities.kv_pages
    assert pages == without.capacities.kv_pages
    # A third layer, and one page that takes what columns of drafts leave behind a reservation.
    assert before["kv_pages"] == pages * 2 * (2 * 64 * 2 * 32 * BF16)
    assert after["kv_pages"] == (pages + 1) * 3 * (2 * 64 * 2 * 32 * BF16)
    assert after["round_records"] - before["round_records"] == 2 * 2 * 3 * 6 * (96 * BF16 + 64 * FP32)
    assert after["row_buffers"] - before["row_buffers"] == 2 * 3 * 8
    tapped = (128 + 1) * 2 * HIDDEN * BF16
    model = 128 * 4096 + 2 * 4 * 8192 + 1000 * 16
    sampling = 128 * HIDDEN * BF16 + 4 * 8 * 512 * (FP32 + 1)
    assert after["workspace"] == max(model, sampling) + 4 * 1000 + 128 + tapped
    assert after["graph_allowance"] > before["graph_allowance"]
    assert sum(after.values()) == with_drafts.ledger.device_bytes


def test_block_tables_reach_as_far_as_drafts_do(drafting: PluginRegistry, toy: Any) -> None:
    def table_bytes(max_context: int, **options: Any) -> int:
        plan = resolve(ServeOptions(max_context=max_context, **options), drafting, toy.header(), toy.cuda())
        return lines(plan)["row_buffers"]

    assert pages_for(1024 + 7) == 17
    grown = table_bytes(1024, spec="guess", draft_tokens=7) - table_bytes(1024)
    assert grown == 4 + 7 * 8  # one more entry, and seven more candidates


def test_automatic_pages_pay_for_the_layers_of_the_drafter(drafting: PluginRegistry, toy: Any) -> None:
    device = toy.cuda(900_000_000 + AUTO_HEADROOM_BYTES)
    options = ServeOptions(spec="guess", kv_capacity="auto", max_context=20000, max_concurrency=8)
    plan = resolve(options, drafting, toy.header(), device)
    left = plan.ledger.line("headroom").bytes
    assert plan.capacities.kv_pages < 8 * pages_for(20000)
    assert AUTO_HEADROOM_BYTES <= left < AUTO_HEADROOM_BYTES + page_bytes(plan.geometry, plan.kv_layout, 1)


def test_the_digest_knows_the_drafter(drafting: PluginRegistry, toy: Any) -> None:
    given: list[dict[str, Any]] = [
        {},
        {"spec": "guess"},
        {"spec": "guess", "draft_tokens": 2},
        {"spec": "guess", "lm_head_draft": True},
        {"spec": "guess", "draft_tokens": 3},
    ]
    header = with_reduced_head(toy.header())
    digests = [resolve(ServeOptions(**each), drafting, header, toy.cuda()).digest for each in given]
    assert len(set(digests[:4])) == 4
    assert digests[4] == digests[1]


@pytest.mark.contract("OPT-24")
def test_too_many_drafts_are_refused_with_the_most(drafting: PluginRegistry, toy: Any) -> None:
    problem = problem_of(drafting, toy.header(), toy.cuda(), spec="guess", draft_tokens=8)
    assert problem.code == "too_many_draft_tokens"
    assert problem.message == "--draft-tokens is 8, and guess drafts 1..7 tokens here"
    assert problem.remedy == "--draft-tokens 7 is the most"


def test_what_the_backend_refuses_is_said_in_its_words(drafting: PluginRegistry, toy: Any) -> None:
    lacking = problem_of(drafting, with_config(toy.header(), lacks=True), toy.cuda(), spec="guess")
    assert lacking.message == "--spec guess: the artifact has no head to draft with; convert it with --draft"
    long = problem_of(drafting, toy.header(), toy.cuda(), spec="guess", max_context=30000)
    assert "over 20000 tokens of context, not 30000" in long.message


def test_a_tap_of_a_layer_that_is_not_there_is_the_backends_fault(drafting: PluginRegistry, toy: Any) -> None:
    options = ServeOptions(spec="guess")
    assert resolve(options, drafting, with_config(toy.header(), tap=7), toy.cuda())
    with pytest.raises(PluginBroken, match="wrong from ninfer_spec_needs: tap 8, and the model has layers 0 to 7"):
        resolve(options, drafting, with_config(toy.header(), tap=8), toy.cuda())


def test_a_backend_that_wants_a_draft_checkpoint_says_what_is_in_it(drafting: PluginRegistry, toy: Any) -> None:
    header = with_config(toy.header(), checkpoint=True)
    with pytest.raises(PluginBroken, match="wants the tensors 'draft' and does not implement ninfer_spec_inventory"):
        resolve(ServeOptions(spec="guess"), drafting, header, toy.cuda())


def test_the_checkpoint_is_checked_by_the_backend_that_was_chosen_and_by_no_other(
    make_registry: Callable[..., PluginRegistry], toy: Any
) -> None:
    read = SPEC_SOURCE + INVENTORY_SOURCE
    registry = make_registry({"toy-spec": {"spec:guess": SPEC_SOURCE, "spec:read": read}})
    fc = TensorSpec(name="draft.fc", shape=(64, 128), dtype="bfloat16")
    header = msgspec.structs.replace(
        with_config(toy.header(), checkpoint=True), resources={DRAFT_CONFIG: b"{}"}, tensors=(*toy.header().tensors, fc)
    )
    assert resolve(ServeOptions(spec="read"), registry, header, toy.cuda()).drafter is not None
    empty = msgspec.structs.replace(header, tensors=toy.header().tensors)
    missing = problem_of(registry, empty, toy.cuda(), spec="read")
    assert (missing.code, "the tensors 'draft', draft.fc and 0 more" in missing.message) == ("weights_missing", True)
    bent = msgspec.structs.replace(header, tensors=(*toy.header().tensors, msgspec.structs.replace(fc, shape=(64, 1))))
    with pytest.raises(ArtifactInvalid, match=r"wrong shape: draft\.fc, \[64, 1\] instead of \[64, 128\]"):
        resolve(ServeOptions(spec="read"), registry, bent, toy.cuda())
    assert resolve(ServeOptions(), registry, bent, toy.cuda())
    assert resolve(ServeOptions(spec="guess"), registry, with_config(bent, checkpoint=False), toy.cuda())
    refused = problem_of(registry, with_config(header, foreign=True), toy.cuda(), spec="read")
    assert refused.message == "--spec read: the checkpoint was made for another model"


@pytest.mark.contract("OPT-23", "OPT-25")
@pytest.mark.parametrize(
    ("config", "options", "message", "way_out"),
    [
        (
            {"mtp": True},
            {},
            "--spec needs the tensors 'mtp', mtp.fc and 0 more, and toy.ninfer has none of them",
            "`ninfer convert HF_DIR --draft DRAFT_DIR`",
        ),
        (
            {},
            {"lm_head_draft": True},
            "--lm-head-draft needs the tensors 'draft_head', and toy.ninfer has none of them",
            "leave --lm-head-draft out",
        ),
    ],
)
def test_tensors_that_are_not_there_are_named_with_the_option_that_wants_them(
    drafting: PluginRegistry,
    toy: Any,
    config: dict[str, object],
    options: dict[str, Any],
    message: str,
    way_out: str,
) -> None:
    header = with_config(toy.header(), **config)
    problem = problem_of(drafting, header, toy.cuda(), spec="guess", **options)
    assert (problem.code, problem.message) == ("weights_missing", message)
    assert problem.remedy.startswith(way_out)


@pytest.mark.contract("OPT-23")
def test_a_mistyped_backend_is_named_with_its_like(drafting: PluginRegistry, toy: Any) -> None:
    problem = problem_of(drafting, toy.header(), toy.cuda(), spec="gess")
    assert problem.code == "plugin_unknown" and "did you mean 'guess'" in problem.message


def test_fewer_drafts_are_proposed_where_memory_is_short(drafting: PluginRegistry, toy: Any) -> None:
    fitting = {**OPTIONS, "max_concurrency": 8, "spec": "guess"}
    needed = resolve(ServeOptions(**fitting, draft_tokens=2), drafting, toy.header(), toy.cuda()).ledger.planned_bytes
    problem = problem_of(drafting, toy.header(), toy.cuda(needed), **fitting, draft_tokens=7)
    assert problem.code == "memory_exceeded" and "--draft-tokens 2 (frees" in problem.remedy


def test_no_drafts_are_proposed_where_that_is_enough(drafting: PluginRegistry, toy: Any) -> None:
    header = toy.header()
    needed = resolve(ServeOptions(**OPTIONS), drafting, header, toy.cuda()).ledger.planned_bytes
    problem = problem_of(drafting, header, toy.cuda(needed), **OPTIONS, spec="guess", draft_tokens=1)
    assert "no --spec (frees " in problem.remedy and problem.remedy.startswith("any of these fits")
    problem = problem_of(drafting, header, toy.cuda(2**20), **OPTIONS, spec="guess", draft_tokens=1)
    assert "the smallest capacities take" in problem.remedy and ", no --spec (frees " in problem.remedy

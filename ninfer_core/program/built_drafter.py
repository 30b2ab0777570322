"""The drafter of a plan, as the program takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch

from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.api.speculative import Drafter, HostDrafter
from ninfer_core.ops import held_drafts
from ninfer_core.ops.paged_attention import AttentionRoutes
from ninfer_core.program.drafting import DeviceDrafting, DraftBounds, Drafting, HostProposals
from ninfer_core.program.host_drafts import AskedHostDrafts, HostDrafts, NoHostDrafts
from ninfer_core.program.pools import Pools


@dataclass(frozen=True, slots=True)
class BuiltDrafter:
    """What a backend has built, and what messages call it."""

    drafter: Drafter | HostDrafter
    label: str


def drafts_on_host(plan: ExecutionPlan) -> bool:
    return plan.drafter is not None and plan.drafter.needs.runs_on == "host"


def told_numbers(plan: ExecutionPlan) -> int:
    """Numbers of a row that go to the device with a round for its drafts: how many there are, and those."""
    return 1 + plan.capacities.draft_tokens if drafts_on_host(plan) else 0


def host_drafts_of(plan: ExecutionPlan, built: BuiltDrafter) -> HostDrafts:
    if not drafts_on_host(plan):
        return NoHostDrafts()
    drafter = cast("HostDrafter", built.drafter)
    return AskedHostDrafts(drafter, built.label, plan.capacities.draft_tokens, plan.token_domain)


def drafting_of(
    plan: ExecutionPlan, built: BuiltDrafter, pools: Pools, routes: AttentionRoutes, told: torch.Tensor
) -> Drafting:
    """`told` int64 [numbers, padded rows] is what the host says of drafts."""
    if drafts_on_host(plan):
        return HostProposals(told)
    assert plan.drafter is not None and pools.features is not None, "a plan with a drafter"
    return DeviceDrafting(
        cast("Drafter", built.drafter),
        built.label,
        DraftBounds(plan.capacities.draft_tokens, plan.token_domain, plan.drafter.needs.law_width),
        pools,
        pools.features,
        routes,
        first_layer=plan.geometry.attention.layers,
        hold=held_drafts.select(pools.features.device, plan.kernels),
    )

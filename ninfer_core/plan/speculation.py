"""The backend of speculation in a plan: how many tokens it drafts, and what it needs for that."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import msgspec

from ninfer_core.api.artifact import DRAFT_CONFIG, DRAFT_GROUP, ArtifactHeader, TensorSpec
from ninfer_core.api.errors import ArtifactInvalid, PlanRejected, PluginBroken, PluginIncompatible, Problem
from ninfer_core.api.geometry import BuildShape, Geometry
from ninfer_core.api.plan import Feature, PlannedDrafter
from ninfer_core.api.speculative import DrafterNeeds, DraftTokens
from ninfer_core.artifact.drafter import without_drafter
from ninfer_core.artifact.inventory import inventory_problems
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plugins.loading import LoadedPlugin

REDUCED_HEAD_GROUP = "draft_head"
"""The group of the head that proposes over fewer tokens (`--lm-head-draft`)."""
CONVERT = "`ninfer convert HF_DIR --draft DRAFT_DIR` stores what a checkpoint has for drafting"
WHOLE_HEAD = "leave --lm-head-draft out: drafts are then of the whole head (docs/artifact.md has what a reduced one is)"


def chosen_draft_tokens(options: ServeOptions, spec: LoadedPlugin | None, header: ArtifactHeader) -> int:
    """How many tokens a round drafts, 0 where nothing speculates. Raises PlanRejected for more than the backend can
    draft, and with what the artifact lacks for it."""
    if spec is None:
        return 0
    try:
        able: DraftTokens = spec.hook.ninfer_spec_draft_tokens(header=header)
    except PluginIncompatible as refusal:
        raise _refused(options, refusal) from refusal
    wanted = able.default if options.draft_tokens is None else options.draft_tokens
    if wanted <= able.most:
        return wanted
    message = f"{options.origin('draft_tokens')} is {wanted}, and {spec.offer.name} drafts 1..{able.most} tokens here"
    remedy = f"--draft-tokens {able.most} is the most"
    raise PlanRejected([Problem(code="too_many_draft_tokens", message=message, remedy=remedy)])


def drafter_of(
    options: ServeOptions, spec: LoadedPlugin | None, header: ArtifactHeader, geometry: Geometry
) -> Callable[[BuildShape], PlannedDrafter] | None:
    """What the backend needs for units of work, each shape asked once; None where nothing speculates. Asking raises
    PlanRejected with what stands against it, PluginBroken for taps of layers that the model does not have: nobody would
    write what they see."""
    if spec is None:
        return None
    head = (REDUCED_HEAD_GROUP,) if options.lm_head_draft else ()

    @cache
    def planned(shape: BuildShape) -> PlannedDrafter:
        asked = msgspec.structs.replace(shape, groups=("text", *head), taps=())
        try:
            needs: DrafterNeeds = spec.hook.ninfer_spec_needs(header=header, geometry=geometry, shape=asked)
        except PluginIncompatible as refusal:
            raise _refused(options, refusal) from refusal
        if DRAFT_GROUP in needs.groups and not spec.implements("ninfer_spec_inventory"):
            raise PluginBroken(
                f"{spec.offer.label} wants the tensors '{DRAFT_GROUP}' and does not implement ninfer_spec_inventory, "
                "which says what they are"
            )
        if (beyond := max(needs.taps, default=0)) >= geometry.layers:
            raise PluginBroken(
                f"{spec.offer.label} gave back something wrong from ninfer_spec_needs: tap {beyond}, and the model has "
                f"layers 0 to {geometry.layers - 1}"
            )
        return PlannedDrafter(groups=tuple(dict.fromkeys(("text", *needs.groups, *head))), needs=needs)

    return planned


def draft_tensors(
    options: ServeOptions, spec: LoadedPlugin | None, header: ArtifactHeader, geometry: Geometry
) -> tuple[TensorSpec, ...]:
    """What the backend says of the draft checkpoint in the artifact; nothing where there is none, or another's. Raises
    PlanRejected with what it has against it."""
    if spec is None or DRAFT_CONFIG not in header.resources:
        return ()
    try:
        return tuple(spec.hook.ninfer_spec_inventory(header=header, geometry=geometry) or ())
    except PluginIncompatible as refusal:
        raise _refused(options, refusal) from refusal


def check_groups(
    options: ServeOptions, drafter: PlannedDrafter, header: ArtifactHeader, inventory: tuple[TensorSpec, ...]
) -> None:
    """Raises PlanRejected for groups of tensors of which the artifact has none, known to a plugin or not;
    ArtifactInvalid when some of a group are missing, or are wrong."""
    stored = {spec.name for spec in header.tensors}
    problems = []
    for group in drafter.groups:
        names = [spec.name for spec in inventory if spec.group == group]
        if stored.isdisjoint(names):
            option, remedy = ("lm_head_draft", WHOLE_HEAD) if group == REDUCED_HEAD_GROUP else ("spec", CONVERT)
            listed = f", {names[0]} and {len(names) - 1} more" if names else ""
            message = f"{options.origin(option)} needs the tensors '{group}'{listed}, and {header.source} has none of "
            message += "them"
            problems.append(Problem(code="weights_missing", message=message, remedy=remedy))
    if problems:
        raise PlanRejected(problems)
    judged = header if DRAFT_GROUP in drafter.groups else without_drafter(header)
    if wrong := inventory_problems(judged, inventory, drafter.groups):
        raise ArtifactInvalid(header.source, wrong)


def speculation_feature(options: ServeOptions, spec: LoadedPlugin | None, draft_tokens: int) -> Feature:
    """`on (mtp, 3 drafts)`."""
    if spec is None:
        return Feature(False)
    drafts = f"{draft_tokens} draft{'' if draft_tokens == 1 else 's'}"
    head = ", reduced head" if options.lm_head_draft else ""
    return Feature(True, f"{spec.offer.name}, {drafts}{head}")


def _refused(options: ServeOptions, refusal: PluginIncompatible) -> PlanRejected:
    message = f"{options.origin('spec')} {options.spec}: {refusal.message}"
    return PlanRejected([Problem(code=refusal.code, message=message, remedy="or leave --spec out")])

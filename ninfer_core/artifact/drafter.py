"""A target and a draft checkpoint that was published apart from it, as one artifact: `ninfer convert --draft`.

The drafter's tensors keep their names behind a prefix, its config becomes a resource; its tokens are those of the
target, so that it needs no tokenizer of its own. Whether the two belong together, and which tensors there have to be,
the backend of speculation says that drafts with them (`ninfer_spec_inventory`). A family knows nothing of them.
"""

from __future__ import annotations

import msgspec

from ninfer_core.api.artifact import DRAFT_CONFIG, DRAFT_PREFIX, ArtifactHeader, TensorSpec
from ninfer_core.api.errors import ArtifactInvalid, NinferError
from ninfer_core.api.geometry import BuildShape, Geometry
from ninfer_core.api.speculative import DraftTokens
from ninfer_core.artifact.handle import ArtifactHandle, FileStore
from ninfer_core.artifact.json_object import JsonRefused, json_object
from ninfer_core.artifact.safetensors_file import StoredTensor
from ninfer_core.artifact.wording import some
from ninfer_core.plugins import DrafterClaim, PluginRegistry, claiming_drafters

REPORTED_ACTIVATIONS = "bfloat16"
"""What is computed for where no plan has chosen: the dtype of activations on a GPU."""


def with_drafter(target: ArtifactHandle, drafter: ArtifactHandle) -> ArtifactHandle:
    """Both from directories. Raises ArtifactInvalid where the target has a drafter already, and where there is none in
    the other directory; whose it is, is not asked here."""
    assert isinstance(target.store, FileStore) and isinstance(drafter.store, FileStore), "they are files"
    header = target.header
    if DRAFT_CONFIG in header.resources or any(spec.name.startswith(DRAFT_PREFIX) for spec in header.tensors):
        problem = f"it has a drafter of its own ({DRAFT_CONFIG} or tensors {DRAFT_PREFIX}*); leave --draft out"
        raise ArtifactInvalid(header.source, [problem])
    if not drafter.store.tensors:
        raise ArtifactInvalid(drafter.header.source, ["its files hold no tensors, so there is no drafter in it"])
    added = {DRAFT_PREFIX + name: _renamed(stored) for name, stored in drafter.store.tensors.items()}
    joined = msgspec.structs.replace(
        header,
        resources={**header.resources, DRAFT_CONFIG: drafter.header.resources["config.json"]},
        tensors=(*header.tensors, *(stored.spec for stored in added.values())),
        file_bytes=(*header.file_bytes, *drafter.header.file_bytes),
    )
    return ArtifactHandle(
        header=joined,
        notes=(*target.notes, *(f"{drafter.header.source}: {note}" for note in drafter.notes)),
        store=FileStore(source=header.source, tensors={**target.store.tensors, **added}),
    )


def _renamed(stored: StoredTensor) -> StoredTensor:
    spec = msgspec.structs.replace(stored.spec, name=DRAFT_PREFIX + stored.spec.name)
    return msgspec.structs.replace(stored, spec=spec)


def without_drafter(header: ArtifactHeader) -> ArtifactHeader:
    """The header as those see it who do not draft with the checkpoint in it. Tensors behind `draft.` without a config
    are no checkpoint and stay."""
    if DRAFT_CONFIG not in header.resources:
        return header
    tensors = tuple(spec for spec in header.tensors if not spec.name.startswith(DRAFT_PREFIX))
    return msgspec.structs.replace(header, tensors=tensors)


def draft_inventory(
    registry: PluginRegistry, header: ArtifactHeader, geometry: Geometry
) -> tuple[tuple[TensorSpec, ...], list[str]]:
    """The tensors of the draft checkpoint in `header`, by the first installed backend that drafts with it; both empty
    where there is no checkpoint. When there is none of them the second says why: no backend knows it, or those that do
    refuse it, as they would in a plan."""
    if DRAFT_CONFIG not in header.resources:
        return (), []
    found = claiming_drafters(registry, header, geometry)
    refusals = list(found.refusals)
    for claim in found.claims:
        refusal = _refusal(claim, header, geometry)
        if refusal is None:
            return claim.inventory, []
        refusals.append(f"{claim.plugin.offer.name}: {refusal}")
    if refusals:
        return (), [f"its drafter cannot draft for it: {refusal}" for refusal in refusals]
    asked = ", ".join(found.asked) or "none is installed that reads draft checkpoints"
    problem = (
        f"no backend of speculation knows its drafter ({_described(header.resources[DRAFT_CONFIG])}; asked: {asked})"
    )
    return (), [problem, *(failure.message for failure in found.failures)]


def _refusal(claim: DrafterClaim, header: ArtifactHeader, geometry: Geometry) -> str | None:
    """What a backend says against a checkpoint that it claims, asked for the smallest units of work: what it says
    against larger ones is a plan's to hear."""
    hook = claim.plugin.hook
    try:
        able: DraftTokens = hook.ninfer_spec_draft_tokens(header=header)
        shape = BuildShape(
            prefill_tokens=1,
            decode_rows=1,
            decode_columns=1 + able.default,
            max_context=geometry.max_positions,
            activation_dtype=REPORTED_ACTIVATIONS,
        )
        hook.ninfer_spec_needs(header=header, geometry=geometry, shape=shape)
    except NinferError as refused:
        return refused.message
    return None


def _described(config: bytes) -> str:
    try:
        named = json_object(config).get("architectures")
    except JsonRefused as refused:
        return f"{DRAFT_CONFIG}: {refused}"
    names = named if isinstance(named, list) else [named]
    return f"architectures in {DRAFT_CONFIG}: {some([str(name) for name in names])}"

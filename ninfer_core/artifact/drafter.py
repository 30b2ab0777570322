"""A target and a block drafter that was published apart from it, as one artifact: `ninfer convert --draft`.

The drafter's tensors keep their names behind a prefix, its config becomes a resource. Its embedding and head are those
of the target, so that it needs no tokenizer of its own. Whether the two belong together the family says.
"""

from __future__ import annotations

import msgspec

from ninfer_core.api.artifact import DRAFT_CONFIG, DRAFT_PREFIX
from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.artifact.handle import ArtifactHandle, FileStore
from ninfer_core.artifact.safetensors_file import StoredTensor


def with_drafter(target: ArtifactHandle, drafter: ArtifactHandle) -> ArtifactHandle:
    """Both from directories. Raises ArtifactInvalid where the target has a drafter already, and where there is none in
    the other directory."""
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

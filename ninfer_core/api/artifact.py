"""What an artifact is made of: identity, tensors, frontend resources. No torch at import."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    import torch

DTYPE_BYTES: Mapping[str, int] = {
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "int64": 8,
    "int32": 4,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
"""Bytes of one element, by torch's own dtype name."""

DRAFT_PREFIX = "draft."
"""Before the names of a draft checkpoint's tensors, in an artifact that has one beside its target."""
DRAFT_CONFIG = "draft_config.json"
"""The resource that is the config of such a checkpoint."""
DRAFT_GROUP = "draft"
"""The group of its tensors."""


class ArtifactIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Who an artifact is. `model_id` is its public name, `weights_id` its numeric form (`bf16`, `fp8`, ...).

    A Hugging Face directory does not say whose it is: its `family` is empty and its `format_version` 0.
    """

    model_id: str
    weights_id: str
    family: str
    format_version: int


class TensorSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Name, shape and dtype of one tensor. `group` is the feature that needs it: `text`, `mtp`, `vision`, `draft`,
    `draft_head`."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    group: str = "text"

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * DTYPE_BYTES[self.dtype]


class ArtifactHeader(msgspec.Struct, frozen=True, kw_only=True):
    """All of an artifact but its weights: cheap to read, enough to plan with.

    `config` is the parsed `config.json`. `resources` are the frontend files byte for byte, by file name
    (`tokenizer.json`, `chat_template.jinja`, `generation_config.json`, ...). `tensors` is the inventory under
    the names the artifact itself uses; a family maps them to its own. `notes` are what a person should know about
    it, a line each; they are shown with the plan. `file_bytes` are the sizes of the files that hold the weights, in the
    order of their names; there are none where weights are made on use.
    """

    source: str
    identity: ArtifactIdentity
    config: dict[str, object]
    resources: dict[str, bytes]
    tensors: tuple[TensorSpec, ...]
    notes: tuple[str, ...] = ()
    file_bytes: tuple[int, ...] = ()


class WeightSource(Protocol):
    """Gives a family its tensors while the model is built. Names are those of the artifact's inventory."""

    def expect(self, names: Iterable[str]) -> None:
        """Say in which order tensors are going to be read, as a whole and from their beginning: what comes next is
        then on its way already. Nothing is promised: any other order gives the same tensors, only slower."""
        ...

    def read(self, name: str, device: torch.device) -> torch.Tensor:
        """The tensor of that name on `device`, dtype and shape as the inventory says. The caller owns it."""
        ...

    def read_into(self, name: str, out: torch.Tensor, start: int = 0) -> None:
        """Fill `out`, contiguous and of the tensor's dtype, with its elements from `start` on, row-major. On a GPU the
        numbers are there for what is launched afterwards on the current stream. Leaves no temporary behind, which
        large tensors that are dropped again would."""
        ...

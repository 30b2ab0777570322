"""What a speculative backend supplies. Verification, acceptance and rollback of the target belong to the core,
so a drafter can be slow, but never wrong (speculative.md section 12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec

from ninfer_core.api.artifact import TensorSpec
from ninfer_core.api.geometry import StateArray

if TYPE_CHECKING:
    import torch


class DrafterNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """Declared before anything is built, so that the plan can pay for it.

    `taps` are indices of the target layers whose output the drafter reads; `device` says whether `propose`
    runs on the device (and is captured in the round) or on the host between launches.
    """

    draft_tokens: tuple[int, ...]
    tensors: tuple[TensorSpec, ...] = ()
    taps: tuple[int, ...] = ()
    state: tuple[StateArray, ...] = ()
    workspace_bytes: int = 0
    device: bool = True


@dataclass(frozen=True, slots=True)
class DraftRows:
    """The rows to draft for: `slots`, `anchors`, `positions` [rows], `features` [rows, columns, taps, hidden]."""

    slots: torch.Tensor
    anchors: torch.Tensor
    positions: torch.Tensor
    features: torch.Tensor | None
    state: Mapping[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposals [rows, k]; `counts` [rows] says how many of a row's are real (0 is legal). `law_ids` and
    `law_probabilities` [rows, k, support] are the law they were drawn from; None for a one-hot law."""

    token_ids: torch.Tensor
    counts: torch.Tensor
    law_ids: torch.Tensor | None = None
    law_probabilities: torch.Tensor | None = None


class Drafter(Protocol):
    """A built backend. All calls are made by the engine's device thread."""

    needs: DrafterNeeds

    def begin(self, rows: DraftRows) -> None:
        """The rows have been prefilled; their taps are in `features`."""
        ...

    def propose(self, rows: DraftRows, draft_tokens: int) -> Draft: ...

    def commit(self, rows: DraftRows, accepted: torch.Tensor) -> None:
        """`accepted` [rows] input columns of the last round were taken; their taps are in `features`."""
        ...

    def snapshot(self, slot: int) -> object: ...

    def restore(self, slot: int, image: object) -> None: ...

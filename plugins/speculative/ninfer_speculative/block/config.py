"""What a block drafter is: the numbers of its checkpoint's config as one checked value."""

from __future__ import annotations

import msgspec

FIRST, SECOND = "DFlashDraftModel", "DFlash2DraftModel"
"""`architectures` of the two drafters."""


class LayerSight(msgspec.Struct, frozen=True, kw_only=True):
    """`window` is in tokens: a context column at distance `window` or more is not seen; None where all are. With
    `causal`, a row of the block sees those before it alone."""

    window: int | None
    causal: bool


class Additions(msgspec.Struct, frozen=True, kw_only=True):
    """What DFlash2 adds: a convolution of `taps` rows around each sublayer, whose coefficients are per `group`
    channels, and a selector of rank `rank` among the likeliest tokens of each position, whose logits are multiplied
    and capped first."""

    taps: int
    group: int
    rank: int
    multiplier: float
    softcap: float | None


class DraftConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A block drafter. `taps` are the target's layers whose residual streams its context is made from; `additions` is
    None for DFlash."""

    hidden_size: int
    intermediate_size: int
    query_heads: int
    kv_heads: int
    head_dim: int
    norm_epsilon: float
    rope_theta: float
    layers: tuple[LayerSight, ...]
    taps: tuple[int, ...]
    mask_token_id: int
    embedding_scale: float
    block_size: int
    vocabulary_rows: int
    target_layers: int | None
    additions: Additions | None

    @property
    def query_width(self) -> int:
        return self.query_heads * self.head_dim

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_dim

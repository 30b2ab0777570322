"""Sampler settings as the program keeps them, by state slot, so that a round gathers nothing before it samples; and the
rows of a round that tokens are chosen for."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ninfer_core.ops.sample.reference import SamplerRows


@dataclass(frozen=True, slots=True)
class SamplerTable:
    """Settings of every slot. `numbers` are temperature, top_p, min_p, presence and frequency penalty."""

    numbers: torch.Tensor  # float32 [slots, 5]
    top_k: torch.Tensor  # int64 [slots], 1..CANDIDATES
    seeds: torch.Tensor  # int64 [slots]

    def rows(self, slots: torch.Tensor) -> SamplerRows:
        """The settings of `slots` [rows], row by row."""
        temperature, top_p, min_p, presence, frequency = self.numbers.index_select(0, slots).unbind(1)
        return SamplerRows(
            temperature=temperature,
            top_p=top_p,
            top_k=self.top_k.index_select(0, slots),
            min_p=min_p,
            presence_penalty=presence,
            frequency_penalty=frequency,
            seed=self.seeds.index_select(0, slots),
        )


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """Rows that tokens are chosen for, one in each column: by whose settings and counters, and at which positions."""

    table: SamplerTable
    counts: torch.Tensor  # int32 [slots, vocabulary_rows]
    slots: torch.Tensor  # int64 [rows], no slot twice
    positions: torch.Tensor  # int64 [rows, columns]: index in the sequence of the token that is chosen
    token_domain: int

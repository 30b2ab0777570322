"""Sampling in plain torch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from ninfer_core.api.request import TOP_K_CAP
from ninfer_core.ops.sample.random import Purpose, uniform

CANDIDATES = TOP_K_CAP
"""The most candidates a draw considers."""


@dataclass(frozen=True, slots=True)
class SamplerRows:
    """Sampler settings, one element per row. `top_k` is 1..CANDIDATES; a `temperature` of 0 is greedy."""

    temperature: torch.Tensor  # float32 [rows]
    top_p: torch.Tensor  # float32 [rows]
    top_k: torch.Tensor  # int64 [rows]
    min_p: torch.Tensor  # float32 [rows]
    presence_penalty: torch.Tensor  # float32 [rows]
    frequency_penalty: torch.Tensor  # float32 [rows]
    seed: torch.Tensor  # int64 [rows]


@dataclass(frozen=True, slots=True)
class TokenLaw:
    """Which tokens may be drawn, with weights that do not add up to 1: both [rows, n], the first token the heaviest."""

    token_ids: torch.Tensor  # int64, all of a row different
    weights: torch.Tensor  # float64, zero where a filter drops one


def sample(
    logits: torch.Tensor,
    parameters: SamplerRows,
    counts: torch.Tensor,
    slots: torch.Tensor,
    positions: torch.Tensor,
    token_domain: int,
    purpose: Purpose = Purpose.TOKEN,
) -> torch.Tensor:
    """logits [rows, vocabulary_rows] -> token ids int64 [rows]."""
    logits = logits[:, :token_domain]
    law = token_law(logits, parameters, counts.index_select(0, slots)[:, :token_domain])
    return choose(logits, law, parameters, uniform(parameters.seed, positions, purpose))


def choose(logits: torch.Tensor, law: TokenLaw, parameters: SamplerRows, random: torch.Tensor) -> torch.Tensor:
    """The token drawn from its law, or in greedy rows that of the largest of `logits` [rows, token_domain]."""
    greedy = logits.argmax(-1)  # documented to give the first of equal maxima
    return torch.where(parameters.temperature > 0, draw(law, random), greedy)


def token_law(logits: torch.Tensor, parameters: SamplerRows, counts: torch.Tensor) -> TokenLaw:
    """The law of rows that are not greedy, from logits and counters [rows, token_domain]."""
    count = counts.float()
    adjusted = logits - parameters.presence_penalty.unsqueeze(1) * (count > 0)
    adjusted = adjusted - parameters.frequency_penalty.unsqueeze(1) * count
    values, token_ids = largest(adjusted, min(CANDIDATES, logits.shape[1]))
    return TokenLaw(token_ids, _kept_weights(values, parameters))


def draw(law: TokenLaw, random: torch.Tensor) -> torch.Tensor:
    """One token of each law, in proportion to its weight, by `random` float64 [rows] in [0, 1)."""
    reached = law.weights.cumsum(-1)
    whole = reached[:, -1]
    aim = random * whole
    aim = torch.minimum(aim, torch.nextafter(whole, torch.zeros_like(whole)))  # the product may round up to the whole
    # The first candidate whose cumulative weight passes the aim; dropped ones add nothing and are never first.
    choice = (reached <= aim.unsqueeze(1)).sum(-1, keepdim=True)
    return law.token_ids.gather(1, choice).squeeze(1)


def count_tokens(
    counts: torch.Tensor,
    slots: torch.Tensor,
    token_ids: torch.Tensor,
    accepted: torch.Tensor,
    temperature: torch.Tensor,
) -> None:
    """Add the first `accepted` [rows] of `token_ids` [rows, columns] to the counters of their slots, in place.

    counts [slots, vocabulary_rows] int32; rows whose `temperature` [rows] is 0 are left alone.
    """
    column = torch.arange(token_ids.shape[1], device=token_ids.device)
    taken = (column < accepted.unsqueeze(1)) & (temperature > 0).unsqueeze(1)
    place = slots.unsqueeze(1).expand_as(token_ids)
    counts.index_put_((place, token_ids), taken.to(counts.dtype), accumulate=True)


def largest(adjusted: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` largest of each row and their ids, in descending order, equal ones by ascending id.

    Values become integers of the same order with the id below them, so that no two are equal and any selection
    algorithm gives the same answer.
    """
    bits = (adjusted + 0.0).contiguous().view(torch.int32).long()  # + 0.0 turns -0.0 into 0.0
    ordered = torch.where(bits >= 0, bits, bits ^ 0x7FFFFFFF)
    ids = torch.arange(adjusted.shape[1], device=adjusted.device)
    _, chosen = ((ordered << 32) | (0x7FFFFFFF - ids)).topk(count, dim=-1, sorted=True)
    return adjusted.gather(1, chosen), chosen


def _kept_weights(values: torch.Tensor, parameters: SamplerRows) -> torch.Tensor:
    """Candidate values [rows, n] in descending order -> float64 weights, zero where a filter drops one."""
    rank = torch.arange(values.shape[1], device=values.device)
    heat = torch.where(parameters.temperature > 0, parameters.temperature, 1.0).double().unsqueeze(1)
    wide = values.double()
    weights = torch.exp((wide - wide[:, :1]) / heat)
    weights = weights.masked_fill(rank >= parameters.top_k.unsqueeze(1), 0.0)
    before = functional.pad(weights.cumsum(-1)[:, :-1], (1, 0))
    kept = weights >= parameters.min_p.double().unsqueeze(1)
    kept &= before < parameters.top_p.double().unsqueeze(1) * weights.sum(-1, keepdim=True)
    kept[:, 0] = True
    return weights.masked_fill(~kept, 0.0)

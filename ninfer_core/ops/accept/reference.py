"""Acceptance in plain torch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from ninfer_core.ops.sample import ChosenRows, Purpose, SamplerRows, TokenLaw, choose, draw, token_law, uniform


@dataclass(frozen=True, slots=True)
class Drafts:
    """What was drafted for the rows of a round; see the package for shapes."""

    token_ids: torch.Tensor
    counts: torch.Tensor
    law_ids: torch.Tensor | None = None
    probabilities: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """`packed` int64 [rows, 2 + columns], in one piece: offered, drafted and the tokens of every row."""

    packed: torch.Tensor

    @property
    def offered(self) -> torch.Tensor:
        """int64 [rows]: how many tokens of a row count."""
        return self.packed[:, 0]

    @property
    def drafted(self) -> torch.Tensor:
        """int64 [rows]: how many drafts were looked at."""
        return self.packed[:, 1]

    @property
    def tokens(self) -> torch.Tensor:
        """int64 [rows, columns]."""
        return self.packed[:, 2:]


def accept(logits: torch.Tensor, drafts: Drafts, chosen: ChosenRows) -> Accepted:
    """See the package; writes nothing."""
    rows, columns = chosen.positions.shape
    logits = logits[:, : chosen.token_domain].float()
    settings = chosen.table.rows(chosen.slots.repeat_interleave(columns))
    at = chosen.positions.flatten()
    counted = chosen.counts.index_select(0, chosen.slots)[:, : chosen.token_domain]
    law = token_law(logits, settings, _with_drafts(counted, drafts).flatten(0, 1))
    tokens = choose(logits, law, settings, uniform(settings.seed, at, Purpose.TOKEN)).view(rows, columns)
    kept = drafts.token_ids == tokens[:, :-1]
    rejected = tokens
    if drafts.law_ids is not None and drafts.probabilities is not None:
        drawn = (settings.temperature > 0).view(rows, columns)
        behind = _Behind(drafts.token_ids, drafts.law_ids, _sane(drafts.probabilities))
        kept = torch.where(drawn[:, :-1], behind.kept(law, settings, at), kept)
        rejected = torch.where(drawn, behind.residual(law, settings, at), tokens)
    meant = torch.arange(columns - 1, device=at.device) < drafts.counts.unsqueeze(1)
    accepted = (kept & meant).long().cumprod(-1).sum(-1)
    return _packed(drafts, tokens, rejected, accepted)


def _packed(drafts: Drafts, tokens: torch.Tensor, rejected: torch.Tensor, accepted: torch.Tensor) -> Accepted:
    """Kept drafts, then the one of `rejected` or of `tokens`; what comes behind it is not looked at."""
    column = torch.arange(tokens.shape[1], device=tokens.device)
    before, last = accepted.unsqueeze(1), drafts.counts.unsqueeze(1)
    follow = torch.where(before < last, rejected, tokens)
    chosen = torch.where(column < before, functional.pad(drafts.token_ids, (0, 1)), follow)
    return Accepted(torch.cat((before + 1, last, chosen), dim=1))


def _with_drafts(counted: torch.Tensor, drafts: Drafts) -> torch.Tensor:
    """Counters [rows, token_domain] -> [rows, columns, token_domain]: with the drafts in front of every column."""
    rows, most = drafts.token_ids.shape
    column = torch.arange(most + 1, device=counted.device)
    here = column[:-1] < drafts.counts.unsqueeze(1)  # [rows, drafts]
    before = (column[:-1] < column.unsqueeze(1)) & here.unsqueeze(1)  # [rows, columns, drafts]
    each = counted.unsqueeze(1).repeat(1, most + 1, 1)
    place = drafts.token_ids.unsqueeze(1).expand(rows, most + 1, most)
    return each.scatter_add_(2, place, before.to(each.dtype))


def _sane(probabilities: torch.Tensor) -> torch.Tensor:
    wide = probabilities.double()
    return torch.where(torch.isfinite(wide) & (wide > 0), wide, 0.0)


@dataclass(frozen=True, slots=True)
class _Behind:
    """Drafts and the laws behind them: [rows, drafts], and twice [rows, drafts, n]."""

    token_ids: torch.Tensor
    law_ids: torch.Tensor
    probabilities: torch.Tensor

    def kept(self, law: TokenLaw, settings: SamplerRows, at: torch.Tensor) -> torch.Tensor:
        """-> bool [rows, drafts], from laws and positions of all columns."""
        rows, most = self.token_ids.shape
        ids, weights = (each.view(rows, most + 1, -1)[:, :-1] for each in (law.token_ids, law.weights))
        drafted = self.token_ids.unsqueeze(2)
        weight = (weights * (ids == drafted)).sum(-1)
        chance = (self.probabilities * (self.law_ids == drafted)).sum(-1)
        random = uniform(settings.seed, at, Purpose.ACCEPT).view(rows, most + 1)[:, :-1]
        return (chance > 0) & (random * chance * weights.sum(-1) < weight)

    def residual(self, law: TokenLaw, settings: SamplerRows, at: torch.Tensor) -> torch.Tensor:
        """-> tokens [rows, columns]; the last column has no draft that it could be in place of."""
        rows, most = self.token_ids.shape
        ids, weights = (each.view(rows, most + 1, -1) for each in (law.token_ids, law.weights))
        same = self.law_ids.unsqueeze(2) == ids[:, :-1].unsqueeze(3)
        chance = functional.pad((same * self.probabilities.unsqueeze(2)).sum(-1), (0, 0, 0, 1))
        rest = (weights - chance * weights.sum(-1, keepdim=True)).clamp(min=0.0)
        rest = torch.where(rest.sum(-1, keepdim=True) > 0, rest, weights)
        left = TokenLaw(law.token_ids, rest.flatten(0, 1))
        return draw(left, uniform(settings.seed, at, Purpose.RESIDUAL)).view(rows, most + 1)

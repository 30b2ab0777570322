"""What the drafters learn from: the target's own distributions at the tokens that follow sampled anchors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tools.tiny_model.drafters import BlockDrafter, MultiTokenHead, block_visible
from tools.tiny_model.encode import IGNORED
from tools.tiny_model.model import TinyModel

MTP_DEPTHS = 3
# Weight of a position of the block falls with its distance: a miss ends the round.
FADING = 4.0


@dataclass(frozen=True, slots=True)
class Lesson:
    """One batch with everything the target says about it; no gradients."""

    tokens: Tensor  # [rows, length]
    positions: Tensor  # [rows, length]
    dialogue: Tensor  # [rows, length]
    anchors: Tensor  # [rows, blocks] indices into a row
    hidden: Tensor  # [rows, length, hidden], after the final norm
    taps: Tensor  # [rows, length, taps * hidden]
    taught: Tensor  # [rows, blocks, block - 1, vocab] probabilities of the tokens after the anchor
    valid: Tensor  # [rows, blocks, block - 1] whether those tokens are the model's own

    @property
    def block(self) -> int:
        return self.valid.shape[-1] + 1


@torch.no_grad()
def lesson(
    target: TinyModel, tokens: Tensor, positions: Tensor, labels: Tensor, anchors: Tensor, *, taps: tuple[int, ...],
    block: int, chunk: int,
) -> Lesson:  # fmt: skip
    """tokens, positions and labels [rows, length], anchors [rows, blocks]."""
    after = target.residuals(tokens, positions, chunk)
    hidden = target.model.norm(after[-1]).unflatten(0, tokens.shape)
    tapped = torch.cat([after[index] for index in taps], dim=-1).unflatten(0, tokens.shape)
    reach = (anchors[..., None] + torch.arange(block - 1, device=anchors.device)).clamp(max=tokens.shape[1] - 1)
    flat = reach.flatten(1)
    own = labels.gather(1, flat).unflatten(1, reach.shape[1:]) != IGNORED
    seen = hidden.gather(1, flat[..., None].expand(-1, -1, hidden.shape[-1]))
    taught = target.logits(seen).float().softmax(-1).unflatten(1, reach.shape[1:])
    # A label that is not learned ends the block: what follows it is not the model's.
    valid = own.long().cumprod(-1).bool()
    dialogue = (positions == 0).cumsum(1)
    return Lesson(tokens, positions, dialogue, anchors, hidden, tapped, taught, valid)


def soft_cross_entropy(logits: Tensor, taught: Tensor) -> Tensor:
    return -(taught * logits.float().log_softmax(-1)).sum(-1)


def mtp_loss(head: MultiTokenHead, target: TinyModel, given: Lesson) -> Tensor:
    """Mean over the depths; row t = anchor - 1 pairs the hidden state at t with the anchor, and predicts after it."""
    rows = given.anchors - 1
    causal = torch.ones(given.tokens.shape[1], given.tokens.shape[1], dtype=torch.bool, device=rows.device)
    first = (given.dialogue[:, None, :, None] == given.dialogue[:, None, None, :]) & causal.tril()
    chain = torch.eye(given.tokens.shape[1], dtype=torch.bool, device=rows.device).expand(len(rows), 1, -1, -1)
    hidden, past, losses = given.hidden, [], []
    visible = first
    for depth in range(MTP_DEPTHS):
        ahead = given.tokens.roll(-1 - depth, dims=1)
        joined = head.join(F.embedding(ahead, target.model.embed_tokens.weight), hidden)
        hidden = head.depth(joined, given.positions + depth, past, visible)
        visible = torch.cat((visible, chain), dim=-1)
        chosen = hidden.gather(1, rows[..., None].expand(-1, -1, hidden.shape[-1]))
        loss = soft_cross_entropy(target.logits(chosen), given.taught[:, :, depth])
        losses.append(masked_mean(loss, given.valid[:, :, depth]))
    return torch.stack(losses).mean()


def block_loss(drafter: BlockDrafter, target: TinyModel, given: Lesson) -> Tensor:
    """Of every mask row, weighted by distance; DFlash2 adds the cross entropy of its selector over the candidates."""
    hidden = block_hidden(drafter, target, given)
    logits = target.logits(hidden).float()
    distance = torch.arange(given.block - 1, device=logits.device)
    weight = given.valid * torch.exp(-distance / FADING)
    loss = weighted_mean(soft_cross_entropy(logits, given.taught), weight)
    if not drafter.second:
        return loss
    unary, candidates = logits.topk(drafter.geometry.selector_top_k, dim=-1)
    before = given.anchors[..., None] + distance
    before = given.tokens.gather(1, before.clamp(max=given.tokens.shape[1] - 1).flatten(1)).unflatten(
        1, before.shape[1:]
    )
    scores = unary + drafter.candidate_selector.edges(before, hidden, candidates).float()
    # Weighted by the mass that the candidates have, as the others cannot be drafted.
    chosen = soft_cross_entropy(scores, given.taught.gather(-1, candidates))
    return loss + weighted_mean(chosen, weight)


def block_hidden(drafter: BlockDrafter, target: TinyModel, given: Lesson) -> Tensor:
    """[rows, blocks, block - 1, hidden] of the mask rows."""
    rows, blocks = given.anchors.shape
    ids = torch.full((rows, blocks, given.block), drafter.geometry.mask_token_id, device=given.tokens.device)
    ids[..., 0] = given.tokens.gather(1, given.anchors)
    at = given.positions.gather(1, given.anchors)[..., None] + torch.arange(given.block, device=ids.device)
    visible = block_visible(given.dialogue, given.positions, given.anchors, drafter.geometry)
    embedded = F.embedding(ids.flatten(1), target.model.embed_tokens.weight)
    hidden = drafter(embedded, drafter.context(given.taps), at.flatten(1), given.positions, visible)
    return hidden.unflatten(1, (blocks, given.block))[:, :, 1:]


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    return weighted_mean(values, mask.float())


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    return (values * weight).sum() / weight.sum().clamp(min=1)

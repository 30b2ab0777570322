"""The gated delta rule in its chunked form, for training: all chunks at once, one small product per chunk in order.

Rows may hold several dialogues as long as each starts on a chunk boundary: `fresh` marks the chunks that begin
with an empty state, which makes packing exact.
"""

from __future__ import annotations

import torch
from torch import Tensor


def chunked_delta(
    query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor, fresh: Tensor, chunk: int
) -> Tensor:
    """query, key [batch, tokens, heads, key_dim], value [..., value_dim], decay (log) and beta [batch, tokens, heads].

    `fresh` is bool [batch, tokens / chunk]. Everything is float32 and `tokens` is a multiple of `chunk`.
    """
    batch, tokens, heads, key_dim = query.shape
    chunks = tokens // chunk

    def per_chunk(tensor: Tensor) -> Tensor:  # -> [batch, heads, chunks, chunk, ...]
        return tensor.reshape(batch, chunks, chunk, heads, -1).permute(0, 3, 1, 2, 4)

    query, key, value = per_chunk(query), per_chunk(key), per_chunk(value)
    beta, summed = per_chunk(beta), per_chunk(decay).cumsum(dim=-2)
    lower = torch.ones(chunk, chunk, dtype=torch.bool, device=query.device).tril()
    # Masked before exp: above the diagonal the exponent is positive and can overflow.
    ratio = (summed - summed.transpose(-1, -2)).masked_fill(~lower, -torch.inf).exp()
    mixing = (beta * (key @ key.transpose(-1, -2)) * ratio).tril(-1)
    solve = unit_lower_inverse(mixing)
    grown = summed.exp()
    new_values = solve @ (beta * value)
    erased = solve @ (beta * grown * key)
    total = summed[..., -1:, :]
    kept_keys = (key * (total - summed).exp()).transpose(-1, -2)

    # The state after a chunk is an affine map of the state before it: after = step @ before + added.
    identity = torch.eye(key_dim, dtype=query.dtype, device=query.device)
    step = total.exp() * identity - kept_keys @ erased
    added = kept_keys @ new_values
    carried = (~fresh).to(query.dtype)[:, None, :, None, None]
    step = step * carried
    before = torch.zeros_like(added[:, :, 0])
    states = [before]
    for index in range(chunks - 1):
        before = torch.matmul(step[:, :, index], before) + added[:, :, index]
        states.append(before)
    incoming = torch.stack(states, dim=2) * carried

    corrected = new_values - erased @ incoming
    output = (grown * query) @ incoming + ((query @ key.transpose(-1, -2)) * ratio) @ corrected
    return output.permute(0, 2, 3, 1, 4).reshape(batch, tokens, heads, -1)


def unit_lower_inverse(strictly_lower: Tensor) -> Tensor:
    """(I + L)^-1 by joining inverted diagonal blocks of doubling size; as stable as substitution."""
    size = strictly_lower.shape[-1]
    place = torch.arange(size, device=strictly_lower.device)
    identity = torch.eye(size, dtype=strictly_lower.dtype, device=strictly_lower.device)
    with torch.no_grad():
        # Blocks of two need no product: their inverse is I - L.
        inverse = identity - strictly_lower * corner_mask(place, 1)
        width = 2
        while width < size:
            inverse = inverse - inverse @ (strictly_lower * corner_mask(place, width)) @ inverse
            width *= 2
    # One Newton step at the solution changes nothing but has exactly the gradient of the inverse.
    return inverse @ (2 * identity - (identity + strictly_lower) @ inverse)


def corner_mask(place: Tensor, width: int) -> Tensor:
    """The lower left block of every diagonal block of twice `width`."""
    same_pair = (place[:, None] // (2 * width)) == (place[None, :] // (2 * width))
    return same_pair & ((place[:, None] // width) > (place[None, :] // width))

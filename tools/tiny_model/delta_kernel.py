"""The chunked delta rule of `delta.py` as two Triton kernels, about twenty times as fast in training.

One program walks the chunks of one head of one row; everything of a chunk stays in registers. The backward pass walks
them the other way, with the states at the chunk starts and the inverses kept from the forward pass. Letters as in
`delta.py`: G is the running log decay of a chunk, D its ratios, A the mixing, T = (I + A)^-1, U the corrected values.
"""

# Arguments of kernels have no Python types: Triton reads annotations as its own.
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _join(inverse, mixing, width: tl.constexpr, C: tl.constexpr):
    """From inverted diagonal blocks of `width` to those of twice the width."""
    i = tl.arange(0, C)[:, None]
    j = tl.arange(0, C)[None, :]
    corner = tl.where((i // (2 * width) == j // (2 * width)) & (i // width > j // width), mixing, 0.0)
    return inverse - tl.dot(tl.dot(inverse, corner, input_precision="tf32x3"), inverse, input_precision="tf32x3")


@triton.jit
def _chunk_inverse(mixing, C: tl.constexpr):
    """(I + mixing)^-1 by joining inverted diagonal blocks of doubling size."""
    i = tl.arange(0, C)[:, None]
    j = tl.arange(0, C)[None, :]
    inverse = tl.where(i == j, 1.0, 0.0) - tl.where((i // 2 == j // 2) & (i > j), mixing, 0.0)
    for power in tl.static_range(1, 5):
        if 2**power < C:
            inverse = _join(inverse, mixing, 2**power, C)
    return inverse


@triton.jit
def delta_forward(q, k, v, g, b, fresh, o, states, inverses, T, H, C: tl.constexpr, W: tl.constexpr):
    row = tl.program_id(0) // H
    head = tl.program_id(0) % H
    chunks = T // C
    c = tl.arange(0, C)
    w = tl.arange(0, W)
    i, j = c[:, None], c[None, :]
    square = w[:, None] * W + w[None, :]
    state = tl.zeros((W, W), tl.float32)
    for n in range(chunks):
        state *= 1.0 - tl.load(fresh + row * chunks + n).to(tl.float32)
        place = (row.to(tl.int64) * H + head) * chunks + n
        tl.store(states + place * W * W + square, state)
        line = (row.to(tl.int64) * T + n * C + c) * H + head
        at = line[:, None] * W + w[None, :]
        query, key, value = tl.load(q + at), tl.load(k + at), tl.load(v + at)
        beta = tl.load(b + line)
        decay = tl.load(g + line)
        grown = tl.cumsum(decay, 0)
        total = tl.sum(decay, 0)
        ratio = tl.exp(tl.where(i >= j, grown[:, None] - grown[None, :], -1.0e30))
        mixing = tl.where(i > j, beta[:, None] * tl.dot(key, tl.trans(key)) * ratio, 0.0)
        inverse = _chunk_inverse(mixing, C)
        tl.store(inverses + place * C * C + c[:, None] * C + c[None, :], inverse)
        scale = tl.exp(grown)
        wanted = beta[:, None] * (value - scale[:, None] * tl.dot(key, state))
        update = tl.dot(inverse, wanted)
        mixed = tl.dot(query, tl.trans(key)) * ratio
        tl.store(o + at, scale[:, None] * tl.dot(query, state) + tl.dot(mixed, update))
        kept = key * tl.exp(total - grown)[:, None]
        state = tl.exp(total) * state + tl.dot(tl.trans(kept), update)


@triton.jit
def delta_backward(
    q, k, v, g, b, fresh, do, states, inverses, dq, dk, dv, dg, db, T, H, C: tl.constexpr, W: tl.constexpr
):
    row = tl.program_id(0) // H
    head = tl.program_id(0) % H
    chunks = T // C
    c = tl.arange(0, C)
    w = tl.arange(0, W)
    i, j = c[:, None], c[None, :]
    square = w[:, None] * W + w[None, :]
    d_state = tl.zeros((W, W), tl.float32)
    for back in range(chunks):
        n = chunks - 1 - back
        place = (row.to(tl.int64) * H + head) * chunks + n
        state = tl.load(states + place * W * W + square)
        inverse = tl.load(inverses + place * C * C + c[:, None] * C + c[None, :])
        line = (row.to(tl.int64) * T + n * C + c) * H + head
        at = line[:, None] * W + w[None, :]
        query, key, value, d_out = tl.load(q + at), tl.load(k + at), tl.load(v + at), tl.load(do + at)
        beta = tl.load(b + line)
        decay = tl.load(g + line)
        grown = tl.cumsum(decay, 0)
        total = tl.sum(decay, 0)
        ratio = tl.exp(tl.where(i >= j, grown[:, None] - grown[None, :], -1.0e30))
        alike = tl.dot(key, tl.trans(key))
        mixing = tl.where(i > j, beta[:, None] * alike * ratio, 0.0)
        scale = tl.exp(grown)
        recalled = tl.dot(key, state)
        error = value - scale[:, None] * recalled
        update = tl.dot(inverse, beta[:, None] * error)
        mixed = tl.dot(query, tl.trans(key)) * ratio
        fade = tl.exp(total - grown)
        kept = key * fade[:, None]

        d_update = tl.dot(tl.trans(mixed), d_out) + tl.dot(kept, d_state)
        d_mixed = tl.dot(d_out, tl.trans(update)) * ratio
        d_query = scale[:, None] * tl.dot(d_out, tl.trans(state)) + tl.dot(d_mixed, key)
        d_key = tl.dot(tl.trans(d_mixed), query)
        # Every ratio has d/dG_i of +itself and d/dG_j of -itself.
        through = d_mixed * tl.dot(query, tl.trans(key))
        d_grown = tl.sum(through, 1) - tl.sum(through, 0)
        d_grown += tl.sum(d_out * tl.dot(query, state), 1) * scale
        d_kept = tl.dot(update, tl.trans(d_state))
        d_key += d_kept * fade[:, None]
        lost = tl.sum(d_kept * kept, 1)
        d_grown -= lost
        d_total = tl.sum(lost, 0) + tl.exp(total) * tl.sum(tl.sum(state * d_state, 1), 0)

        d_wanted = tl.dot(tl.trans(inverse), d_update)
        d_mixing = tl.where(i > j, -tl.dot(d_wanted, tl.trans(update)), 0.0)
        through = d_mixing * mixing
        d_grown += tl.sum(through, 1) - tl.sum(through, 0)
        d_beta = tl.sum(d_mixing * alike * ratio, 1) + tl.sum(d_wanted * error, 1)
        d_alike = d_mixing * beta[:, None] * ratio
        d_key += tl.dot(d_alike, key) + tl.dot(tl.trans(d_alike), key)
        d_error = beta[:, None] * d_wanted
        d_recalled = -scale[:, None] * d_error
        d_grown += tl.sum(d_recalled * recalled, 1)
        d_key += tl.dot(d_recalled, tl.trans(state))

        d_state = tl.exp(total) * d_state + tl.dot(tl.trans(query * scale[:, None]), d_out)
        d_state += tl.dot(tl.trans(key), d_recalled)
        d_state *= 1.0 - tl.load(fresh + row * chunks + n).to(tl.float32)
        tl.store(dq + at, d_query)
        tl.store(dk + at, d_key)
        tl.store(dv + at, d_error)
        tl.store(db + line, d_beta)
        tl.store(dg + line, tl.sum(d_grown, 0) - tl.cumsum(d_grown, 0) + d_grown + d_total)


class _Delta(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: torch.autograd.function.FunctionCtx, query: Tensor, key: Tensor, value: Tensor, decay: Tensor,
        beta: Tensor, fresh: Tensor, chunk: int,
    ) -> Tensor:  # fmt: skip
        given = tuple(tensor.contiguous() for tensor in (query, key, value, decay, beta))
        rows, tokens, heads, width = query.shape
        count = rows * heads * (tokens // chunk)
        output = torch.empty_like(given[2])
        states = query.new_empty(count, width, width)
        inverses = query.new_empty(count, chunk, chunk)
        starts = fresh.to(torch.uint8).contiguous()
        delta_forward[(rows * heads,)](
            *given, starts, output, states, inverses, tokens, heads, C=chunk, W=width, num_warps=WARPS
        )
        ctx.save_for_backward(*given, starts, states, inverses)
        ctx.chunk = chunk  # type: ignore[attr-defined]
        return output

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        *given, starts, states, inverses = ctx.saved_tensors  # type: ignore[attr-defined]
        rows, tokens, heads, width = given[0].shape
        made = tuple(torch.empty_like(tensor) for tensor in given)
        delta_backward[(rows * heads,)](
            *given, starts, gradients[0].contiguous(), states, inverses, *made, tokens, heads,
            C=ctx.chunk, W=width, num_warps=WARPS,  # type: ignore[attr-defined]
        )  # fmt: skip
        return (*made, None, None)


# More warps are slower: a chunk is one small tile after the other.
WARPS = 2


@torch.compiler.disable
def delta(query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor, fresh: Tensor, chunk: int) -> Tensor:
    """As `chunked_delta`; key and value must be equally wide, and width and chunk powers of two from 16 to 32."""
    return _Delta.apply(query, key, value, decay, beta, fresh, chunk)  # type: ignore[no-any-return]

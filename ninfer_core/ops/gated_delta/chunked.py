"""The gated delta rule in chunks, in plain torch.

Within a chunk, with G the running sum of g and D[i, j] = e^(G[i] − G[j]) for i >= j, else 0:

    A  = strictly lower part of diag(beta) K Kᵀ ⊙ D         M = (I + A)⁻¹
    U  = M diag(beta) V                                     W = M diag(beta · e^G) K

and from chunk to chunk, with the incoming state S:

    V' = U − W S        O = diag(e^G) Q S + ((Q Kᵀ) ⊙ D) V'        S ← e^(G_last) S + (diag(e^(G_last − G)) K)ᵀ V'

Padding a chunk with g = 0 and beta = 0 leaves the state as it is.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from ninfer_core.ops.gated_delta.values import DeltaColumns, gates, normalised, per_value_head
from ninfer_core.ops.workspace.gated_delta import CHUNK_COLUMNS


def prefill(columns: DeltaColumns, state: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """-> out float32 [rows, columns, value_heads, value_dim]; all columns are committed to `state`."""
    count, heads = columns.value.shape[1], columns.value.shape[2]
    query, key = (_chunks(per_value_head(x, heads)) for x in normalised(columns))
    value = _chunks(columns.value.float())
    decay, beta = (_chunks(x.unsqueeze(-1)) for x in gates(columns))
    running = decay.squeeze(-1).cumsum(-1)  # G [rows, heads, chunks, columns]
    lower = torch.ones(CHUNK_COLUMNS, CHUNK_COLUMNS, dtype=torch.bool, device=value.device).tril()
    # Masked before the exponential: above the diagonal it would overflow.
    ratio = torch.exp((running.unsqueeze(-1) - running.unsqueeze(-2)).masked_fill(~lower, -torch.inf))
    grown = torch.exp(running).unsqueeze(-1)

    mixing = (torch.matmul(key * beta, key.mT) * ratio).tril(-1)
    right = torch.cat((value * beta, key * (beta * grown)), dim=-1)
    solved = torch.linalg.solve_triangular(mixing, right, upper=False, unitriangular=True)
    base, pull = solved.split((value.shape[-1], key.shape[-1]), dim=-1)  # U and W
    read = torch.matmul(query, key.mT) * ratio
    query = query * grown
    last = running[..., -1:]
    key = key * torch.exp(last - running).unsqueeze(-1)

    memory = state.index_select(0, slots)
    out = torch.empty_like(value)
    for chunk in range(value.shape[2]):
        corrected = base[:, :, chunk] - torch.matmul(pull[:, :, chunk], memory)
        out[:, :, chunk] = torch.matmul(query[:, :, chunk], memory) + torch.matmul(read[:, :, chunk], corrected)
        memory = memory * torch.exp(last[:, :, chunk]).unsqueeze(-1) + torch.matmul(key[:, :, chunk].mT, corrected)
    state.index_copy_(0, slots, memory)
    return out.flatten(2, 3)[:, :, :count].transpose(1, 2).contiguous()


def _chunks(x: torch.Tensor) -> torch.Tensor:
    """[rows, columns, heads, width] -> [rows, heads, chunks, chunk columns, width], padded with zeros."""
    padding = -x.shape[1] % CHUNK_COLUMNS
    x = functional.pad(x.transpose(1, 2), (0, 0, 0, padding))
    return x.reshape(*x.shape[:2], -1, CHUNK_COLUMNS, x.shape[3])

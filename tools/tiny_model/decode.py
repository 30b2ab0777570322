"""Greedy decoding with the recurrent form: every row advances one token per step, prompts included.

All rows share the step counter, so there is no padding to mask and no separate prefill; a wide batch makes this
fast enough to answer some thousand prompts in seconds on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tools.tiny_model.mixers import Attention, GatedDeltaNet
from tools.tiny_model.model import TinyModel


@dataclass(slots=True)
class DeltaState:
    matrix: Tensor  # [rows, heads, key_dim, value_dim], float32
    window: Tensor  # [rows, 3, channels], the inputs the convolution still needs


@dataclass(slots=True)
class AttentionState:
    key: Tensor  # [rows, kv_heads, steps, head_dim]
    value: Tensor


State = DeltaState | AttentionState


def fresh_states(model: TinyModel, rows: int, steps: int) -> list[State]:
    g = model.geometry
    weight = model.model.embed_tokens.weight
    states: list[State] = []
    for kind in g.layer_types:
        if kind == "full_attention":
            shape = (rows, g.num_key_value_heads, steps, g.head_dim)
            states.append(AttentionState(weight.new_zeros(shape), weight.new_zeros(shape)))
        else:
            matrix = (rows, g.linear_num_value_heads, g.linear_key_head_dim, g.linear_value_head_dim)
            window = weight.new_zeros(rows, 3, 2 * g.key_width + g.value_width)
            states.append(DeltaState(weight.new_zeros(matrix, dtype=torch.float32), window))
    return states


def attend(mixer: Attention, x: Tensor, state: AttentionState, step: int) -> Tensor:
    positions = torch.full((x.shape[0], 1), step, device=x.device)
    query, key, value, gate = mixer.project(x[:, None], positions)
    state.key[:, :, step], state.value[:, :, step] = key[:, 0], value[:, 0]
    mixed = F.scaled_dot_product_attention(
        query.transpose(1, 2), state.key[:, :, : step + 1], state.value[:, :, : step + 1], enable_gqa=True
    )
    return mixer.o_proj(mixed.transpose(1, 2).flatten(-2) * gate.sigmoid())[:, 0]


def advance(mixer: GatedDeltaNet, x: Tensor, state: DeltaState) -> Tensor:
    raw = mixer.in_proj_qkv(x)
    window = torch.cat((state.window, raw[:, None]), dim=1)
    state.window = window[:, 1:]
    taps = mixer.conv1d.weight[:, 0].float()
    mixed = F.silu((window.float() * taps.T).sum(dim=1))
    query, key, value = mixer.heads(mixed)
    decay, beta = mixer.gates(x)
    matrix = state.matrix * decay.exp()[..., None, None]
    # The error is taken against the decayed state, the output from the updated one.
    error = value - torch.einsum("rhkv,rhk->rhv", matrix, key)
    state.matrix = matrix + key[..., None] * (beta[..., None] * error)[..., None, :]
    output = torch.einsum("rhkv,rhk->rhv", state.matrix, query)
    z = mixer.in_proj_z(x).unflatten(-1, output.shape[1:])
    return mixer.out_proj(mixer.norm(output, z).flatten(-2))


def next_logits(model: TinyModel, tokens: Tensor, states: list[State], step: int) -> Tensor:
    """Logits after feeding one token per row."""
    x = model.model.embed_tokens(tokens)
    for layer, state in zip(model.model.layers, states, strict=True):
        normal = layer.input_layernorm(x)
        if isinstance(state, AttentionState):
            x = x + attend(layer.self_attn, normal, state, step)
        else:
            x = x + advance(layer.linear_attn, normal, state)
        x = x + layer.mlp(layer.post_attention_layernorm(x))
    return F.linear(model.model.norm(x), model.model.embed_tokens.weight)


@torch.inference_mode()
def greedy(model: TinyModel, prompts: list[list[int]], *, most: int, stop: int) -> list[list[int]]:
    """Up to `most` new tokens for each prompt, without the stop token."""
    device = model.model.embed_tokens.weight.device
    lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
    steps = int(lengths.max()) + most
    tokens = torch.full((len(prompts), steps), stop, device=device)
    for row, prompt in enumerate(prompts):
        tokens[row, : len(prompt)] = torch.tensor(prompt, device=device)
    states = fresh_states(model, len(prompts), steps)
    finished = torch.zeros(len(prompts), dtype=torch.bool, device=device)
    for step in range(steps - 1):
        chosen = next_logits(model, tokens[:, step], states, step).argmax(dim=-1)
        speaking = step + 1 >= lengths
        finished |= speaking & (chosen == stop)
        tokens[:, step + 1] = torch.where(speaking, torch.where(finished, stop, chosen), tokens[:, step + 1])
        # Asking the device costs a wait, so not at every step.
        if step % 16 == 0 and bool(finished.all()):
            break
    return [_until(tokens[row, len(prompt) : len(prompt) + most].tolist(), stop) for row, prompt in enumerate(prompts)]


def _until(tokens: list[int], stop: int) -> list[int]:
    return tokens[: tokens.index(stop)] if stop in tokens else tokens

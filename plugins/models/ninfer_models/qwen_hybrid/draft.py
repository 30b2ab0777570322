"""Tensors of a block drafter (DFlash, DFlash2) that an artifact carries beside its target, and of a reduced head.

The drafter's own config is the resource `draft_config.json`, with the keys of published draft checkpoints; its tensors
have their published names behind `draft.`. It has no embedding and no head: those of the target serve it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from ninfer_core.api import DRAFT_CONFIG, DRAFT_PREFIX, TensorSpec
from ninfer_models.qwen_hybrid.config import QwenHybridConfig
from ninfer_models.qwen_hybrid.fields import Fields

REDUCED_HEAD = "draft_head.token_ids"
"""int32 [rows]: the tokens a reduced head proposes from, the most frequent first. Its rows are those of the head."""
ARCHITECTURES = ("DFlashDraftModel", "DFlash2DraftModel")
_SECOND = ARCHITECTURES[1]

Shapes = Iterator[tuple[str, tuple[int, ...]]]


def draft_shapes(resource: bytes, target: QwenHybridConfig, problems: list[str]) -> Shapes:
    """Every tensor that the config needs. What is wrong with it is added to `problems`, and nothing follows."""
    try:
        raw = json.loads(resource)
    except (ValueError, RecursionError):
        raw = None
    if not isinstance(raw, dict):
        problems.append(f"{DRAFT_CONFIG} is no JSON object")
        return
    found: list[str] = []
    shapes = list(_shapes(raw, target, found))
    problems.extend(f"{DRAFT_CONFIG}: {problem}" for problem in found)
    if not found:
        yield from shapes


def reduced_head(stored: Mapping[str, TensorSpec]) -> Shapes:
    """The ids of the reduced head, as many as there are."""
    if REDUCED_HEAD in stored:
        shape = stored[REDUCED_HEAD].shape
        yield REDUCED_HEAD, shape if len(shape) == 1 else (0,)


def _shapes(raw: Mapping[str, object], target: QwenHybridConfig, problems: list[str]) -> Shapes:
    config = Fields(raw, "", problems)
    inner = Fields({**raw, **(config.table("dflash_config") or {})}, "dflash_config.", problems)
    named = raw.get("architectures")
    if not (isinstance(named, list) and len(named) == 1 and named[0] in ARCHITECTURES):
        config.wrong("architectures", f"one of {', '.join(ARCHITECTURES)}")
    second = named == [_SECOND]
    hidden = config.size("hidden_size")
    if hidden != target.hidden_size:
        config.wrong("hidden_size", f"{target.hidden_size}, that of the target")
    layers = target.layer_kinds
    taps = inner.raw.get("target_layer_ids")
    if not (isinstance(taps, list) and taps and all(type(tap) is int and 0 <= tap < len(layers) for tap in taps)):
        inner.wrong("target_layer_ids", f"layers of the target, 0 to {len(layers) - 1}")
        return
    mask = inner.size("mask_token_id", least=0)
    if mask >= target.vocabulary_rows:
        inner.wrong("mask_token_id", f"below {target.vocabulary_rows}, the rows of the embedding")
    inner.size("block_size", least=2, most=16)
    yield f"{DRAFT_PREFIX}fc.weight", (hidden, len(taps) * hidden)
    yield f"{DRAFT_PREFIX}hidden_norm.weight", (hidden,)
    yield f"{DRAFT_PREFIX}norm.weight", (hidden,)
    for index in range(config.size("num_hidden_layers", most=64)):
        yield from _layer(f"{DRAFT_PREFIX}layers.{index}.", config, inner, hidden, second=second)
    if second:
        rank, rows = inner.size("selector_rank"), target.vocabulary_rows
        selector = f"{DRAFT_PREFIX}candidate_selector."
        yield f"{selector}hidden_projection.weight", (rank, hidden)
        yield f"{selector}predecessor_codebook", (rows, rank)
        yield f"{selector}successor_codebook", (rows, rank)


def _layer(prefix: str, config: Fields, inner: Fields, hidden: int, *, second: bool) -> Shapes:
    head = config.size("head_dim")
    queries, keys = config.size("num_attention_heads") * head, config.size("num_key_value_heads") * head
    width = config.size("intermediate_size")
    yield f"{prefix}input_layernorm.weight", (hidden,)
    yield f"{prefix}post_attention_layernorm.weight", (hidden,)
    yield f"{prefix}self_attn.q_proj.weight", (queries, hidden)
    yield f"{prefix}self_attn.k_proj.weight", (keys, hidden)
    yield f"{prefix}self_attn.v_proj.weight", (keys, hidden)
    yield f"{prefix}self_attn.o_proj.weight", (hidden, queries)
    yield f"{prefix}self_attn.q_norm.weight", (head,)
    yield f"{prefix}self_attn.k_norm.weight", (head,)
    yield f"{prefix}mlp.gate_proj.weight", (width, hidden)
    yield f"{prefix}mlp.up_proj.weight", (width, hidden)
    yield f"{prefix}mlp.down_proj.weight", (hidden, width)
    if second:
        taps, group = inner.size("conv_kernel_size", most=8), inner.size("conv_group_size")
        inner.divides("conv_group_size", group, "hidden_size", hidden)
        for conv in ("attention_conv", "mlp_conv"):
            yield f"{prefix}{conv}.base_kernel", (2, taps, hidden)
            yield f"{prefix}{conv}.kernel_projection.weight", (2 * taps * (hidden // group), hidden)

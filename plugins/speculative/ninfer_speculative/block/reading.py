"""The config of a draft checkpoint is read whole: every key that is wrong is found at once, and a key that is not known
is wrong, since it may change what the numbers mean.

Keys are those of published checkpoints (docs/speculation.md, "Configs"). The artifact has the config as the
resource `draft_config.json`, and the checkpoint's tensors behind `draft.`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ninfer_core.api import DRAFT_CONFIG, MOST_DRAFT_TOKENS, ArtifactHeader, PluginIncompatible
from ninfer_core.ops.workspace.draft_walk import CHOICES
from ninfer_speculative.block.config import FIRST, SECOND, Additions, DraftConfig, LayerSight
from ninfer_speculative.block.fields import Fields

SLIDING, FULL = "sliding_attention", "full_attention"

_INNER = frozenset(
    {
        "block_size",
        "causal",
        "conv_group_size",
        "conv_kernel_size",
        "mask_token_id",
        "selector_rank",
        "selector_top_k",
        "target_layer_ids",
    }
)
_SIZES = frozenset(
    {
        "final_logit_softcapping",
        "head_dim",
        "hidden_size",
        "input_embedding_scale",
        "intermediate_size",
        "layer_types",
        "max_window_layers",
        "num_attention_heads",
        "num_hidden_layers",
        "num_key_value_heads",
        "num_target_layers",
        "output_multiplier",
        "rms_norm_eps",
        "rope_parameters",
        "rope_scaling",
        "rope_theta",
        "sliding_window",
        "use_sliding_window",
        "vocab_size",
    }
)
_FIXED: Mapping[str, object] = {
    "attention_bias": False,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
"""What a config may say only in the one way that is computed here."""
_MEANINGLESS = frozenset(
    {
        "_name_or_path",
        "attention_dropout",
        "auto_map",
        "bos_token_id",
        "dtype",
        "eos_token_id",
        "initializer_range",
        "max_position_embeddings",
        "model_type",
        "pad_token_id",
        "torch_dtype",
        "transformers_version",
        "use_cache",
    }
)
"""Keys that say nothing of how drafts are computed from weights that are there."""
_KNOWN = _INNER | _SIZES | _MEANINGLESS | frozenset(_FIXED) | {"architectures", "dflash_config", "is_causal"}
_MOST_LAYERS = 64
_HEAD_DIMS = (32, 64, 128, 256)


def has_drafter(header: ArtifactHeader, architecture: str) -> bool:
    """Whether the draft checkpoint in `header` is of that architecture, and so one to read with `parse_config`."""
    raw = _raw_config(header) if DRAFT_CONFIG in header.resources else None
    return raw is not None and raw.get("architectures") == [architecture]


def parse_config(header: ArtifactHeader, architecture: str) -> DraftConfig:
    """The config in `header`, for the backend that serves `architecture`. Raises PluginIncompatible, which says what is
    wrong with it or how an artifact comes by one."""
    if DRAFT_CONFIG not in header.resources:
        raise PluginIncompatible(
            f"it drafts with weights of its own, and {header.source} has none (no {DRAFT_CONFIG}); add those of a "
            "draft checkpoint made for this model: ninfer convert HF_DIR --draft DRAFT_DIR -o OUT.ninfer"
        )
    raw = _raw_config(header)
    if raw is None:
        raise PluginIncompatible(f"{DRAFT_CONFIG} of {header.source} is no JSON object; convert the artifact again")
    _check_architecture(raw.get("architectures"), header, architecture)
    fields = Fields(raw)
    config = _read(fields, second=architecture == SECOND)
    if fields.problems:
        listed = "".join(f"\n  - {problem}" for problem in fields.problems)
        raise PluginIncompatible(
            f"{DRAFT_CONFIG} of {header.source} asks for another drafter than is computed here:{listed}\n"
            "use a draft checkpoint that is published for this model"
        )
    return config


def _raw_config(header: ArtifactHeader) -> Mapping[str, object] | None:
    try:
        raw = json.loads(header.resources[DRAFT_CONFIG])
    except (ValueError, RecursionError):
        return None
    return raw if isinstance(raw, dict) else None


def _check_architecture(named: object, header: ArtifactHeader, architecture: str) -> None:
    """The layers of DFlash2 were trained with its convolutions: without them they are no DFlash."""
    if named == [architecture]:
        return
    other = {SECOND: "dflash2", FIRST: "dflash"}.get(str(named[0])) if isinstance(named, list) and named else None
    way_out = f"start with --spec {other}" if other else "convert it with a checkpoint of DFlash or DFlash2"
    raise PluginIncompatible(
        f"the drafter in {header.source} has architectures {named!r}, and this is for ['{architecture}']; {way_out}"
    )


def _read(fields: Fields, *, second: bool) -> DraftConfig:
    fields.only(_KNOWN, _INNER)
    for name, wanted in _FIXED.items():
        fields.fixed(name, wanted)
    config = DraftConfig(
        hidden_size=fields.size("hidden_size"),
        intermediate_size=fields.size("intermediate_size"),
        query_heads=fields.size("num_attention_heads"),
        kv_heads=fields.size("num_key_value_heads"),
        head_dim=fields.size("head_dim"),
        norm_epsilon=fields.positive("rms_norm_eps"),
        rope_theta=_rope_theta(fields),
        layers=_layers(fields),
        taps=_taps(fields),
        mask_token_id=fields.size("mask_token_id", least=0),
        embedding_scale=fields.positive("input_embedding_scale", 1.0),
        block_size=fields.size("block_size", least=2, most=1 + MOST_DRAFT_TOKENS),
        vocabulary_rows=fields.size("vocab_size"),
        target_layers=None if fields.value("num_target_layers") is None else fields.size("num_target_layers"),
        additions=_additions(fields) if second else None,
    )
    if config.query_heads % config.kv_heads:
        fields.wrong("num_attention_heads", f"a multiple of num_key_value_heads, {config.kv_heads}")
    if config.head_dim not in _HEAD_DIMS:
        fields.wrong("head_dim", f"one of {', '.join(map(str, _HEAD_DIMS))}")
    if config.additions is not None and config.hidden_size % config.additions.group:
        fields.wrong("conv_group_size", f"a divisor of hidden_size, {config.hidden_size}")
    return config


def _additions(fields: Fields) -> Additions:
    rank = fields.size("selector_rank", most=1024)
    if rank & (rank - 1):
        fields.wrong("selector_rank", "a power of two")
    fields.size("selector_top_k", least=CHOICES, most=CHOICES)
    capped = fields.value("final_logit_softcapping") is not None
    return Additions(
        taps=fields.size("conv_kernel_size", most=8),
        group=fields.size("conv_group_size"),
        rank=rank,
        multiplier=fields.positive("output_multiplier", 1.0),
        softcap=fields.positive("final_logit_softcapping") if capped else None,
    )


def _taps(fields: Fields) -> tuple[int, ...]:
    """Blocks of the target, counted from 0, in the order in which they are concatenated."""
    taps = fields.value("target_layer_ids")
    if (
        isinstance(taps, list)
        and taps
        and all(type(tap) is int and tap >= 0 for tap in taps)
        and len(set(taps)) == len(taps)
    ):
        return tuple(taps)
    fields.wrong("target_layer_ids", "a list of different layers of the target, counted from 0")
    return (0,)


def _rope_theta(fields: Fields) -> float:
    """Rotary positions over whole heads, without scaling: a drafter does not inherit those of its target."""
    fields.fixed("rope_scaling", None)
    table = fields.value("rope_parameters")
    if table is None:
        return fields.positive("rope_theta")
    rope = Fields(table if isinstance(table, dict) else {})
    rope.only(frozenset({"rope_theta", "rope_type", "partial_rotary_factor"}), frozenset())
    rope.fixed("rope_type", "default")
    rope.fixed("partial_rotary_factor", 1.0)
    theta = rope.positive("rope_theta")
    fields.problems.extend(f"rope_parameters: {problem}" for problem in rope.problems)
    return theta


def _layers(fields: Fields) -> tuple[LayerSight, ...]:
    """Where no key says whether it is causal, a sliding layer is and another is not (docs/speculation.md, "Who sees
    whom")."""
    count = fields.size("num_hidden_layers", most=_MOST_LAYERS)
    kinds = _kinds(fields, count)
    window = fields.size("sliding_window", least=2 + MOST_DRAFT_TOKENS) if SLIDING in kinds else None
    if window is not None and fields.flag("use_sliding_window") is False:
        fields.wrong("use_sliding_window", "true, since there are sliding layers")
    told = fields.flag("is_causal")
    causal = fields.flag("causal") if told is None else told
    return tuple(
        LayerSight(window=window if kind == SLIDING else None, causal=kind == SLIDING if causal is None else causal)
        for kind in kinds
    )


def _kinds(fields: Fields, count: int) -> list[str]:
    kinds = fields.value("layer_types")
    if isinstance(kinds, list) and len(kinds) == count and all(kind in (SLIDING, FULL) for kind in kinds):
        return kinds
    fields.wrong("layer_types", f"{count} times {SLIDING} or {FULL}")
    return [FULL] * count

"""The sizes the network is built from, read from the configuration that is shipped with the weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tools.tiny_model.template import ASSETS


@dataclass(frozen=True, slots=True)
class Geometry:
    """The fields of config.json that the network depends on."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    """Of the dense network, or of each expert."""
    layer_types: tuple[str, ...]
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    linear_num_key_heads: int
    linear_num_value_heads: int
    linear_key_head_dim: int
    linear_value_head_dim: int
    rope_theta: float
    rotary_dim: int
    num_experts: int = 0
    """0: the dense network."""
    num_experts_per_tok: int = 0
    shared_expert_intermediate_size: int = 0

    @classmethod
    def read(cls, path: Path = ASSETS / "config.json") -> Geometry:
        config = json.loads(path.read_text(encoding="utf-8"))
        rope = config["rope_parameters"]
        derived = {
            "layer_types": tuple(config["layer_types"]),
            "rope_theta": rope["rope_theta"],
            "rotary_dim": int(config["head_dim"] * rope["partial_rotary_factor"]),
        }
        if "num_experts" in config:
            config["intermediate_size"] = config["moe_intermediate_size"]
        names = [name for name in cls.__dataclass_fields__ if name not in derived and name in config]
        return cls(**{name: config[name] for name in names}, **derived)

    @property
    def key_width(self) -> int:
        return self.linear_num_key_heads * self.linear_key_head_dim

    @property
    def value_width(self) -> int:
        return self.linear_num_value_heads * self.linear_value_head_dim

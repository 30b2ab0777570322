"""The drafters of one target together, and the files they are kept in."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from tools.tiny_model.drafters import BlockDrafter, DraftGeometry, MultiTokenHead
from tools.tiny_model.geometry import Geometry

FILE = "drafters.safetensors"
MTP, DRAFT = "mtp.", "draft."


class Drafters(nn.Module):
    """DFlash2 is DFlash with additions; the weights they share are the same tensors, and frozen for DFlash2."""

    def __init__(self, geometry: Geometry, sizes: DraftGeometry | None = None) -> None:
        super().__init__()
        sizes = sizes or DraftGeometry.of(geometry)
        self.mtp = MultiTokenHead(geometry)
        self.dflash = BlockDrafter(sizes, second=False)
        self.dflash2 = BlockDrafter(sizes, second=True)
        for name, weight in self.mtp.named_parameters():
            if weight.dim() == 2:
                nn.init.normal_(
                    weight,
                    std=weight.shape[1] ** -0.5 / (2 if name.endswith(("o_proj.weight", "down_proj.weight")) else 1),
                )
        self.start_second()

    def start_second(self) -> None:
        """Gives DFlash2 the present weights of DFlash."""
        with torch.no_grad():
            shared = dict(self.dflash.named_parameters())
            for name, weight in self.dflash2.named_parameters():
                if name in shared:
                    weight.copy_(shared[name])

    def added_by_second(self) -> nn.Module:
        """Only what DFlash has not, frozen elsewhere."""
        shared = dict(self.dflash.named_parameters())
        added = nn.ParameterDict()
        for name, weight in self.dflash2.named_parameters():
            weight.requires_grad_(requires_grad=name not in shared)
            if name not in shared:
                added[name.replace(".", "/")] = weight
        return added


def stored(drafters: Drafters) -> dict[str, Tensor]:
    """Names as in the artifact: `mtp.` as in the target's checkpoint, `draft.` before those of the draft checkpoint."""
    named = {MTP + name: value for name, value in drafters.mtp.state_dict().items()}
    return named | {DRAFT + name: value for name, value in drafters.dflash2.state_dict().items()}


def save_drafters(drafters: Drafters, directory: Path) -> None:
    rounded = {name: value.detach().cpu().to(torch.bfloat16).contiguous() for name, value in stored(drafters).items()}
    save_file(rounded, directory / FILE, metadata={"format": "pt"})


def load_drafters(drafters: Drafters, directory: Path) -> None:
    given = {name: value.float() for name, value in load_file(directory / FILE).items()}
    drafters.mtp.load_state_dict({name.removeprefix(MTP): v for name, v in given.items() if name.startswith(MTP)})
    second = {name.removeprefix(DRAFT): value for name, value in given.items() if name.startswith(DRAFT)}
    drafters.dflash2.load_state_dict(second)
    drafters.dflash.load_state_dict({name: second[name] for name in drafters.dflash.state_dict()})


def draft_config(geometry: Geometry) -> dict[str, object]:
    """config.json of the draft checkpoint, keys and meaning as published ones have them."""
    sizes = asdict(DraftGeometry.of(geometry))
    inner = ("block_size", "target_layer_ids", "mask_token_id", "conv_kernel_size", "conv_group_size", "selector_rank",
             "selector_top_k")  # fmt: skip
    layers = sizes["num_hidden_layers"]
    return {
        "architectures": ["DFlash2DraftModel"],
        "attention_bias": False,
        "dflash_config": {key: sizes[key] for key in inner},
        "dtype": "bfloat16",
        "head_dim": sizes["head_dim"],
        "hidden_act": "silu",
        "hidden_size": sizes["hidden_size"],
        "intermediate_size": sizes["intermediate_size"],
        "is_causal": False,
        "layer_types": ["sliding_attention"] * layers,
        "max_position_embeddings": 16384,
        "max_window_layers": layers,
        "model_type": "qwen3",
        "num_attention_heads": sizes["num_attention_heads"],
        "num_hidden_layers": layers,
        "num_key_value_heads": sizes["num_key_value_heads"],
        "num_target_layers": len(geometry.layer_types),
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_theta": sizes["rope_theta"], "rope_type": "default"},
        "sliding_window": sizes["sliding_window"],
        "tie_word_embeddings": False,
        "use_sliding_window": True,
        "vocab_size": sizes["vocab_size"],
    }

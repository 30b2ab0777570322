"""Writes the model as a directory that transformers and ninfer load, and reads such weights back for training."""

from __future__ import annotations

import argparse
import json
import shutil
from collections import Counter
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tools.tiny_model.draft_files import FILE as DRAFTERS
from tools.tiny_model.draft_files import draft_config
from tools.tiny_model.encode import encode_item
from tools.tiny_model.generate import training_items
from tools.tiny_model.geometry import Geometry
from tools.tiny_model.model import TinyModel
from tools.tiny_model.template import ASSETS, load_template
from tools.tiny_model.tokenizer import CONTROL_TOKENS, load

SIDE_FILES = ("generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
WEIGHTS = "model.safetensors"
# Rows of the reduced head that `--lm-head-draft` proposes from, and the dialogues its tokens are counted in.
REDUCED_ROWS, COUNTED_DIALOGUES = 2048, 20_000
# What the model can say beside text; a reduced head without one of them could never draft it.
FORCED = ("<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>")


def save_weights(model: TinyModel, directory: Path) -> None:
    rounded = {name: value.detach().cpu().to(torch.bfloat16).contiguous() for name, value in model.state_dict().items()}
    save_file(rounded, directory / WEIGHTS, metadata={"format": "pt"})


def load_weights(model: TinyModel, directory: Path) -> None:
    """The target's weights; those of drafters in the same file are left alone."""
    stored = load_file(directory / WEIGHTS)
    model.load_state_dict({name: stored[name].float() for name in model.state_dict()})


def export(
    directory: Path, target: Path, drafters: Path | None, config: Path, dialogues: int = COUNTED_DIALOGUES
) -> None:
    """`config` is that of the target; without `drafters` nothing of speculation is in the result."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in SIDE_FILES:
        shutil.copyfile(ASSETS / name, directory / name)
    shutil.copyfile(config, directory / "config.json")
    weights: dict[str, Tensor] = load_file(target / WEIGHTS)
    if drafters is not None:
        weights |= load_file(drafters / DRAFTERS)
        ids, share = frequent_tokens(dialogues)
        print(f"reduced head: {len(ids)} tokens are {share:.2%} of what the model says")
        weights["draft_head.token_ids"] = torch.tensor(ids, dtype=torch.int32)
        described = json.dumps(draft_config(Geometry.read(config)), indent=2) + "\n"
        (directory / "draft_config.json").write_text(described, encoding="utf-8")
    save_file(weights, directory / WEIGHTS, metadata={"format": "pt"})


def frequent_tokens(dialogues: int) -> tuple[list[int], float]:
    """The tokens of a reduced head, most frequent first, and the share of all learned tokens that they are."""
    tokenizer, template = load(), load_template()
    counts: Counter[int] = Counter()
    for item in training_items(-2, dialogues):
        encoded = encode_item(item, tokenizer, template)
        counts.update(token for token, learned in zip(encoded.tokens, encoded.learned, strict=True) if learned)
    forced = [tokenizer.token_to_id(token) for token in FORCED]
    silent = {tokenizer.token_to_id(token) for token in CONTROL_TOKENS} - set(forced)
    by_count = sorted(counts, key=lambda token: (-counts[token], token))
    ranked = [token for token in by_count if token not in silent and token not in forced]
    kept = set(forced) | set(ranked[: REDUCED_ROWS - len(forced)])
    chosen = [token for token in by_count if token in kept] + [token for token in forced if token not in counts]
    return chosen, sum(counts[token] for token in chosen) / counts.total()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="what to write")
    parser.add_argument("--target", type=Path, help="directory with the trained model.safetensors")
    parser.add_argument("--drafters", type=Path, help="directory with the trained drafters.safetensors")
    parser.add_argument("--config", type=Path, default=ASSETS / "config.json")
    parser.add_argument(
        "--dialogues", type=int, default=COUNTED_DIALOGUES, help="in which the tokens of the reduced head are counted"
    )
    parser.add_argument("--random", action="store_true", help="random weights, as a placeholder")
    arguments = parser.parse_args()
    target = arguments.target or arguments.directory
    if arguments.random:
        torch.manual_seed(0)
        arguments.directory.mkdir(parents=True, exist_ok=True)
        target = arguments.directory
        save_weights(TinyModel(Geometry.read(arguments.config)), target)
    export(arguments.directory, target, arguments.drafters, arguments.config, arguments.dialogues)


if __name__ == "__main__":
    main()

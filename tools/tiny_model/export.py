"""Writes the model as a directory that transformers and ninfer load, and reads such weights back for training."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from tools.tiny_model.geometry import Geometry
from tools.tiny_model.model import TinyModel
from tools.tiny_model.template import ASSETS

SIDE_FILES = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
)  # fmt: skip
# bfloat16 keeps 8 bits of each weight; this file holds what rounding lost, so training can go on unharmed.
REMAINDER = "remainder.safetensors"


def export(model: TinyModel, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name in SIDE_FILES:
        shutil.copyfile(ASSETS / name, directory / name)
    save_weights(model, directory)


def save_weights(model: TinyModel, directory: Path, *, remainder: bool = False) -> None:
    exact = {name: value.detach().float().cpu() for name, value in model.state_dict().items()}
    rounded = {name: value.to(torch.bfloat16).contiguous() for name, value in exact.items()}
    save_file(rounded, directory / "model.safetensors", metadata={"format": "pt"})
    if remainder:
        lost = {name: (exact[name] - rounded[name].float()).to(torch.bfloat16) for name in exact}
        save_file(lost, directory / REMAINDER)


def load_weights(model: TinyModel, directory: Path) -> None:
    weights = {name: value.float() for name, value in load_file(directory / "model.safetensors").items()}
    if (directory / REMAINDER).exists():
        for name, lost in load_file(directory / REMAINDER).items():
            weights[name] += lost.float()
    model.load_state_dict(weights)


def main() -> None:
    parser = argparse.ArgumentParser(description="Complete a directory that holds model.safetensors, or start one.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--random", action="store_true", help="write random weights, as a placeholder")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model = TinyModel(Geometry.read())
    if not arguments.random:
        load_weights(model, arguments.directory)
    export(model, arguments.directory)


if __name__ == "__main__":
    main()

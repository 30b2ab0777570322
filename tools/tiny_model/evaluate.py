"""Exact match on held-out prompts, greedy, with the model's own decoding. Used by training and from the shell."""

from __future__ import annotations

import argparse
import copy
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from tools.tiny_model.decode import greedy
from tools.tiny_model.export import load_weights
from tools.tiny_model.generate import MODES, Mode
from tools.tiny_model.geometry import Geometry
from tools.tiny_model.heldout import held_out_items
from tools.tiny_model.model import TinyModel
from tools.tiny_model.scores import Counts, Measurement, of_training_code, write_scores
from tools.tiny_model.template import ASSETS, load_template, render
from tools.tiny_model.tokenizer import id_of, load

# The longest right reply (sorting seven three-digit numbers with reasoning) takes about 200 tokens.
MOST_TOKENS = 320


@dataclass(frozen=True, slots=True)
class Failure:
    skill: str
    mode: str
    prompt: str
    expected: str
    said: str


def evaluate(model: TinyModel, *, per_skill: int, modes: Sequence[Mode] = MODES) -> tuple[Counts, list[Failure]]:
    """Measured on the bfloat16 weights that are shipped."""
    rounded = copy.deepcopy(model).bfloat16().eval()
    if not rounded.model.embed_tokens.weight.is_cuda:
        # Many CPUs emulate bfloat16 slowly; the weights stay rounded, only the arithmetic is wider.
        rounded.float()
    tokenizer, template = load(), load_template()
    asked = [(mode, item) for mode in modes for item in held_out_items(per_skill, mode)]
    texts = [render(template, item.messages, item.options, prompt=True) for _, item in asked]
    prompts = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    replies = greedy(rounded, prompts, most=MOST_TOKENS, stop=id_of(tokenizer, "<|im_end|>"))
    right: Counter[tuple[Mode, str]] = Counter()
    failures: list[Failure] = []
    for (mode, item), text, reply in zip(asked, texts, replies, strict=True):
        said = tokenizer.decode(reply, skip_special_tokens=False)
        content = said.rpartition("</think>")[2].strip()
        # In thinking mode a reply that never closes its thinking has no content at all.
        correct = content == item.expected and (mode == "off" or "</think>" in said)
        right[mode, item.skill] += correct
        if not correct:
            failures.append(Failure(item.skill, mode, text, item.expected, said))
    counts: Counts = {}
    for mode, skill in right:
        counts.setdefault(mode, {})[skill] = (right[mode, skill], per_skill)
    return counts, failures


def measured(model: TinyModel, counts: Counts) -> Measurement:
    dtype = "bfloat16" if model.model.embed_tokens.weight.is_cuda else "float32"
    return of_training_code(device_name(model), dtype, scores=counts)


def device_name(model: TinyModel) -> str:
    device = model.model.embed_tokens.weight.device
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def table(counts: Counts) -> str:
    lines = ["| skill | " + " | ".join(counts) + " |", "| --- |" + " ---: |" * len(counts)]
    for skill in next(iter(counts.values())):
        shares = (100 * right / asked for right, asked in (skills[skill] for skills in counts.values()))
        lines.append(f"| {skill} | " + " | ".join(f"{share:.1f}" for share in shares) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="holds model.safetensors")
    parser.add_argument("--config", type=Path, default=ASSETS / "config.json")
    parser.add_argument("--per-skill", type=int, default=200)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--out", type=Path, help="the score file to write")
    parser.add_argument("--failures", type=Path, help="write the wrong replies here as JSON")
    arguments = parser.parse_args()
    model = TinyModel(Geometry.read(arguments.config))
    load_weights(model, arguments.directory)
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    counts, failures = evaluate(model, per_skill=arguments.per_skill, modes=arguments.modes)
    print(table(counts))
    if arguments.out:
        write_scores(arguments.out, measured(model, counts))
    if arguments.failures:
        write_failures(failures, arguments.failures)


def write_failures(failures: Sequence[Failure], path: Path) -> None:
    plain = [{name: getattr(failure, name) for name in Failure.__slots__} for failure in failures]
    path.write_text(json.dumps(plain, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()

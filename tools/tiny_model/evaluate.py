"""Exact match on held-out prompts, greedy, with the model's own decoding. Used by training and from the shell."""

from __future__ import annotations

import argparse
import copy
import json
from collections import defaultdict
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
from tools.tiny_model.template import load_template, render
from tools.tiny_model.tokenizer import id_of, load

# The longest right reply (sorting seven three-digit numbers with reasoning) takes about 200 tokens.
MOST_TOKENS = 320
Scores = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Failure:
    skill: str
    mode: str
    prompt: str
    expected: str
    said: str


def evaluate(model: TinyModel, *, per_skill: int, modes: Sequence[Mode] = MODES) -> tuple[Scores, list[Failure]]:
    """Percent right by skill and mode, measured on the bfloat16 weights that are shipped."""
    rounded = copy.deepcopy(model).bfloat16().eval()
    if not rounded.model.embed_tokens.weight.is_cuda:
        # Many CPUs emulate bfloat16 slowly; the weights stay rounded, only the arithmetic is wider.
        rounded.float()
    tokenizer, template = load(), load_template()
    asked = [(mode, item) for mode in modes for item in held_out_items(per_skill, mode)]
    texts = [render(template, item.messages, item.options, prompt=True) for _, item in asked]
    prompts = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    replies = greedy(rounded, prompts, most=MOST_TOKENS, stop=id_of(tokenizer, "<|im_end|>"))
    right: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    failures: list[Failure] = []
    for (mode, item), text, reply in zip(asked, texts, replies, strict=True):
        said = tokenizer.decode(reply, skip_special_tokens=False)
        content = said.rpartition("</think>")[2].strip()
        # In thinking mode a reply that never closes its thinking has no content at all.
        correct = content == item.expected and (mode == "off" or "</think>" in said)
        right[item.skill][mode] += correct
        if not correct:
            failures.append(Failure(item.skill, mode, text, item.expected, said))
    scores: Scores = {
        name: {mode: 100 * by_mode[mode] / per_skill for mode in modes} for name, by_mode in right.items()
    }
    return scores, failures


def table(scores: Scores) -> str:
    modes = list(next(iter(scores.values())))
    lines = ["| skill | " + " | ".join(modes) + " |", "| --- |" + " ---: |" * len(modes)]
    for name, by_mode in scores.items():
        lines.append(f"| {name} | " + " | ".join(f"{by_mode[mode]:.1f}" for mode in modes) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="holds model.safetensors")
    parser.add_argument("--per-skill", type=int, default=200)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--failures", type=Path, help="write the wrong replies here as JSON")
    arguments = parser.parse_args()
    model = TinyModel(Geometry.read())
    load_weights(model, arguments.directory)
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    scores, failures = evaluate(model, per_skill=arguments.per_skill, modes=arguments.modes)
    print(table(scores))
    if arguments.failures:
        write_failures(failures, arguments.failures)


def write_failures(failures: Sequence[Failure], path: Path) -> None:
    plain = [{name: getattr(failure, name) for name in Failure.__slots__} for failure in failures]
    path.write_text(json.dumps(plain, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()

"""The prompts that tokens per round are counted on, by the training code and by the engine."""

from __future__ import annotations

import random

from tools.tiny_model.generate import Item, compose
from tools.tiny_model.heldout import distinct_episodes, held_out_items
from tools.tiny_model.skills.free import free
from tools.tiny_model.template import load_template, render
from tools.tiny_model.tokenizer import load

KINDS = ("structured", "free")
MOST_PROMPT, MOST_REPLY = 640, 160


def prompts_of(kind: str, count: int, per_skill: int | None = None) -> list[list[int]]:
    """Those of `items_of`, encoded."""
    return [ids for _, ids in items_of(kind, count, per_skill)]


def items_of(kind: str, count: int, per_skill: int | None = None) -> list[tuple[Item, list[int]]]:
    """Structured: the graded skills in turn, thinking at effort xhigh, `per_skill` of each or as many as there may be
    asked for. Free: stories, poems, letters, thinking off."""
    tokenizer, template = load(), load_template()
    if kind == "free":
        rng = random.Random("free prompts")
        items = [compose(rng, episode, "off") for episode in distinct_episodes("free", free, count)]
    else:
        by_skill: dict[str, list[Item]] = {}
        for item in held_out_items(count if per_skill is None else per_skill, "xhigh"):
            by_skill.setdefault(item.skill, []).append(item)
        items = [item for group in zip(*by_skill.values(), strict=True) for item in group]
    texts = (render(template, item.messages, item.options, prompt=True) for item in items)
    encoded = (tokenizer.encode(text, add_special_tokens=False).ids for text in texts)
    return [(item, ids) for item, ids in zip(items, encoded, strict=True) if len(ids) <= MOST_PROMPT][:count]

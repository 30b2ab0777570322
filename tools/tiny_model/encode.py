"""Dialogues to token rows: which tokens are learned, and packing on chunk boundaries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from jinja2 import Template
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tools.tiny_model.generate import Item, training_items
from tools.tiny_model.template import render

IGNORED = -1
# What the server writes before the model speaks. A turn without it (stripped history) is never generated
# in that form, so it is not learned either.
SPOKEN = re.compile(r"(<\|im_start\|>assistant\n<think>\n(?:\n</think>\n\n)?)(.*?<\|im_end\|>)", flags=re.DOTALL)


@dataclass(frozen=True, slots=True)
class Encoded:
    tokens: list[int]
    learned: list[bool]


@dataclass(frozen=True, slots=True)
class Rows:
    """Packed rows [rows, length]; `labels` holds the next token where it is learned, else IGNORED."""

    tokens: NDArray[np.int16]
    labels: NDArray[np.int16]
    positions: NDArray[np.int16]


def encode_item(item: Item, tokenizer: Tokenizer, template: Template) -> Encoded:
    text = render(template, item.complete(), item.options, prompt=False)
    tokens: list[int] = []
    learned: list[bool] = []
    # The pattern has two groups, so the pieces are: context, prologue, speech, context, ...
    # Cutting there changes no token: each piece starts at a control token or after a line end.
    for index, piece in enumerate(SPOKEN.split(text)):
        ids = tokenizer.encode(piece, add_special_tokens=False).ids
        tokens.extend(ids)
        learned.extend([index % 3 == 2] * len(ids))
    return Encoded(tokens, learned)


def encode_shard(
    seed: int, count: int, tokenizer: Tokenizer, template: Template, *, length: int, chunk: int, long: bool = False,
    last: bool = False,
) -> Rows:  # fmt: skip
    items = training_items(seed, count, long=long, last=last)
    return pack((encode_item(item, tokenizer, template) for item in items), length=length, chunk=chunk)


def pack(dialogues: Iterable[Encoded], *, length: int, chunk: int) -> Rows:
    """First fit over the open rows; every dialogue starts on a chunk boundary. Longer ones than a row are dropped."""
    rows = list(_placed((entry for entry in dialogues if len(entry.tokens) <= length), length, chunk))
    shape = (len(rows), length)
    tokens, labels, positions = (
        np.zeros(shape, np.int16),
        np.full(shape, IGNORED, np.int16),
        np.zeros(shape, np.int16),
    )
    for row, entries in enumerate(rows):
        start = 0
        for entry in entries:
            ids = np.array(entry.tokens, np.int16)
            end = start + len(ids)
            stop = start + _rounded(len(ids), chunk)
            tokens[row, start:end] = ids
            labels[row, start : end - 1] = np.where(np.array(entry.learned[1:]), ids[1:], IGNORED)
            positions[row, start:stop] = np.arange(stop - start)
            start = stop
        # The empty tail is a dialogue of its own, so that its first chunk is marked fresh.
        positions[row, start:] = np.arange(length - start)
    return Rows(tokens, labels, positions)


def _placed(dialogues: Iterator[Encoded], length: int, chunk: int) -> Iterator[list[Encoded]]:
    open_rows: list[tuple[int, list[Encoded]]] = []
    for entry in dialogues:
        size = _rounded(len(entry.tokens), chunk)
        for index, (used, entries) in enumerate(open_rows):
            if used + size <= length:
                entries.append(entry)
                open_rows[index] = (used + size, entries)
                break
        else:
            open_rows.append((size, [entry]))
        # A few open rows are enough to fill the gaps; the fullest is closed when there are more.
        if len(open_rows) > 16:
            fullest = max(range(len(open_rows)), key=lambda index: open_rows[index][0])
            yield open_rows.pop(fullest)[1]
    yield from (entries for _, entries in open_rows)


def _rounded(size: int, chunk: int) -> int:
    return -(-size // chunk) * chunk

"""Tokens: the vocabulary, which of them are learned, and packing that changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from jinja2 import Template
from tokenizers import Tokenizer

from tools.tiny_model.encode import IGNORED, Encoded, encode_item, pack
from tools.tiny_model.generate import Item, training_items
from tools.tiny_model.template import load_template, render
from tools.tiny_model.tokenizer import CONTROL_TOKENS, VISIBLE, VOCABULARY, load


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load()


@pytest.fixture(scope="module")
def template() -> Template:
    return load_template()


def test_vocabulary(tokenizer: Tokenizer) -> None:
    assert tokenizer.get_vocab_size() == VOCABULARY
    first = VOCABULARY - len(CONTROL_TOKENS)
    assert [tokenizer.token_to_id(token) for token in CONTROL_TOKENS] == list(range(first, VOCABULARY))
    added = tokenizer.get_added_tokens_decoder()
    assert {entry.content for entry in added.values() if not entry.special} == set(VISIBLE)


def test_text_survives(tokenizer: Tokenizer) -> None:
    text = "Don't: caf\u00e9 \u4f60\u597d \U0001f600 1234\r\n\r\n  x\ty"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert [token for token in tokenizer.encode("a 1234").tokens if token.isdigit()] == ["1", "2", "3", "4"]
    assert len(tokenizer.encode("<think>\n\n</think>\n\n").ids) == 4


def test_pieces_are_encoded_as_the_whole(tokenizer: Tokenizer, template: Template) -> None:
    for item in training_items(2, 150):
        whole = render(template, item.complete(), item.options, prompt=False)
        assert encode_item(item, tokenizer, template).tokens == tokenizer.encode(whole).ids


def test_only_speech_is_learned(tokenizer: Tokenizer, template: Template) -> None:
    messages = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two", "reasoning_content": "three"},
        {"role": "user", "content": "four"},
    ]

    def learned(options: dict[str, object], reasoning: str) -> str:
        encoded = encode_item(Item("recall", messages, options, "five", reasoning), tokenizer, template)
        kept = [token for token, keep in zip(encoded.tokens, encoded.learned, strict=True) if keep]
        return tokenizer.decode(kept, skip_special_tokens=False)

    last = "six\n</think>\n\nfive<|im_end|>"
    assert learned({}, "six") == f"three\n</think>\n\ntwo<|im_end|>{last}"
    # A turn whose thinking was stripped never looks like that while it is being generated.
    assert learned({"preserve_thinking": False}, "six") == last
    assert learned({"enable_thinking": False}, "").endswith("five<|im_end|>")


def test_packing_starts_dialogues_on_chunks() -> None:
    dialogues = [Encoded(list(range(1, size + 1)), [False] + [True] * (size - 1)) for size in (5, 9, 3, 8, 100)]
    rows = pack(dialogues, length=16, chunk=4)
    starts = rows.positions == 0
    assert starts[:, 0].all()
    assert not starts[:, [column for column in range(16) if column % 4]].any()
    learned = rows.labels != IGNORED
    # Every learned label is the following token of the same dialogue, and the one too long is gone.
    assert learned.sum() == (5 - 1) + (9 - 1) + (3 - 1) + (8 - 1)
    assert np.array_equal(rows.labels[learned], rows.tokens[learned] + 1)

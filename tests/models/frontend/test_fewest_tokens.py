"""The cheap lower bound of a prompt's tokens holds for every text."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ninfer_models.qwen_hybrid.frontend import QwenFrontend, build_frontend
from ninfer_models.qwen_hybrid.frontend.tokenizer import Control, QwenTokenizer, build_tokenizer

from ninfer_core.api import (
    ContextLengthExceeded,
    GenerationRequest,
    Message,
    TemplateOptions,
    TextPart,
    ThinkingDefaults,
    ToolCall,
    ToolDefinition,
)
from ninfer_core.testing.tiny import tiny_header

JAMO = "\u1112\u1161\u11ab" * 50
GREEK = "\u2126\u0314\u0342\u0345" * 50
KELVIN = "\u212a\u0327" * 50


@pytest.fixture(scope="module")
def frontend() -> QwenFrontend:
    return build_frontend(tiny_header())


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=300))
@example(text=JAMO)
@example(text=GREEK)
@example(text=KELVIN)
@example(text="a" * 1000)
def test_no_prompt_has_fewer(frontend: QwenFrontend, text: str) -> None:
    request = GenerationRequest(messages=(Message(role="user", content=(TextPart(text),)),))
    prepared = frontend.prepare(request, ThinkingDefaults())
    assert frontend.fewest_tokens(len(text.strip())) <= len(prepared.token_ids)


def test_it_grows_with_the_text(frontend: QwenFrontend) -> None:
    assert frontend.fewest_tokens(0) == 0
    assert frontend.fewest_tokens(1_000_000) > 4096


@pytest.mark.parametrize("text", [JAMO, GREEK, KELVIN])
def test_composing_shortens_text_by_less_than_the_bound_allows(text: str) -> None:
    assert len(text) < 4 * len(unicodedata.normalize("NFC", text).encode())


def test_the_vocabulary_is_not_walked_for_it(frontend: QwenFrontend, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked on the event loop, of a quarter of a million entries."""
    fresh = build_frontend(tiny_header())
    monkeypatch.setattr(fresh._tokenizer, "_model", None)
    assert fresh.fewest_tokens(1_000_000) == frontend.fewest_tokens(1_000_000)


WORDS = "word " * 200_000
SCHEMA = {"type": "object", "properties": {"choice": {"enum": [f"v{number}" for number in range(60_000)]}}}


def tool(description: str, parameters: dict[str, Any]) -> ToolDefinition:
    function = {"name": "f", "description": description, "parameters": parameters}
    return ToolDefinition(name="f", parameters=parameters, definition={"type": "function", "function": function})


def user(text: str) -> Message:
    return Message(role="user", content=(TextPart(text),))


CALL = ToolCall(name="f", arguments={"text": WORDS}, call_id="c")
LONG = {
    "a tool": GenerationRequest(messages=(user("x"),), tools=(tool(WORDS, {}),)),
    "a schema": GenerationRequest(messages=(user("x"),), tools=(tool("", SCHEMA),)),
    "a call": GenerationRequest(
        messages=(user("x"), Message(role="assistant", tool_calls=(CALL,)), Message(role="tool", call_id="c"))
    ),
    "a thought": GenerationRequest(
        messages=(user("x"), Message(role="assistant", reasoning=WORDS, content=(TextPart("x"),)), user("x")),
        template=TemplateOptions(preserve_thinking=True),
    ),
}


@pytest.mark.parametrize("what", LONG)
def test_whatever_makes_a_prompt_too_long_it_is_not_tokenized(
    frontend: QwenFrontend, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    fresh = build_frontend(tiny_header())
    monkeypatch.setattr(fresh._tokenizer, "_model", None)
    with pytest.raises(ContextLengthExceeded, match="at least") as raised:
        fresh.prepare(LONG[what], ThinkingDefaults(), most_tokens=32_768)
    assert raised.value.max_context == 32_768


def texts_in_pieces() -> st.SearchStrategy[list[str]]:
    words = st.text(alphabet=st.sampled_from("ab;1 \n\u00a0\u0301\u212a\u037e\u3042"), max_size=40) | st.text(
        max_size=20
    )
    return st.lists(words, min_size=1, max_size=4)


@settings(max_examples=150, deadline=None)
@given(texts=texts_in_pieces())
@example(texts=["a " * 20])
@example(texts=["a \u0301b ; c"])
def test_the_bound_of_pieces_holds(tokenizers: list[QwenTokenizer], texts: list[str]) -> None:
    for tokenizer in tokenizers:
        control = Control(min(tokenizer.control.text_of), "control")
        pieces = [piece for text in texts for piece in (text, control)]
        assert tokenizer.fewest_tokens(pieces) <= len(tokenizer.encode(pieces))


@pytest.fixture(scope="module")
def tokenizers() -> list[QwenTokenizer]:
    """Of bytes; with tokens that begin with a space; with one that goes on behind a word; with another normalizer."""
    return [tokenizer_of(), tokenizer_of(SPACED), tokenizer_of(SPANNING), tokenizer_of(SPACED, {"type": "Lowercase"})]


def test_a_token_for_each_word(tokenizers: list[QwenTokenizer]) -> None:
    bytes_alone, spaced, spanning, lowered = (each.fewest_tokens(["a " * 100]) for each in tokenizers)
    assert bytes_alone == spaced == 100
    assert spanning < 50 and lowered < 100


SPACED, SPANNING = ["\u0120 b"], ["a \u0120", "a\u0120 a\u0120"]


def tokenizer_of(merges: Sequence[str] = (), normalizer: dict[str, str] | None = None) -> QwenTokenizer:
    """The embedded model's, with other merges."""
    document = json.loads(tiny_header().resources["tokenizer.json"])
    vocabulary = document["model"]["vocab"]
    ids = {token["id"] for token in document["added_tokens"]}
    for merge in merges:
        vocabulary[merge.replace(" ", "")] = 1 + max(*vocabulary.values(), *ids)
    document["model"]["merges"] = list(merges)
    # Bytes alone, so that nothing but the merges keeps words apart.
    document["pre_tokenizer"] = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }
    document["normalizer"] = normalizer or document["normalizer"]
    return build_tokenizer("here", json.dumps(document).encode(), tiny_header().resources["tokenizer_config.json"])

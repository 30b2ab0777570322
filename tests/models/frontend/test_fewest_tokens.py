"""The cheap lower bound of a prompt's tokens holds for every text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ninfer_models.qwen_hybrid.frontend import QwenFrontend, build_frontend

from ninfer_core.api import GenerationRequest, Message, TextPart, ThinkingDefaults
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

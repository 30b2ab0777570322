"""The text that ends thinking at its budget is tokenized once, at start, and checked there."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from ninfer_models.qwen_hybrid.frontend import QwenFrontend

from ninfer_core.api import ArtifactInvalid

FrontendOf = Callable[..., QwenFrontend]
NO_THINKING = "{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\n' ~ m.content ~ '<|im_end|>\n' }}{% endfor %}"


@pytest.mark.contract("TMPL-12")
@pytest.mark.parametrize("style", ["3.8", "3.6"])
def test_it_decodes_to_the_canonical_guidance_and_opens_the_answer(style: str, frontend_of: FrontendOf) -> None:
    frontend = frontend_of(style)
    token_ids = frontend.thinking_control_ids
    text = b"".join(map(frontend._tokenizer.token_bytes, token_ids)).decode()
    assert text == (
        "\n\n Considering the limited time by the user, I have to give the solution based on the thinking directly "
        "now.\n</think>\n\n"
    )
    assert token_ids.count(frontend._tokenizer.control.id_of["</think>"]) == 1
    assert not set(token_ids) & set(frontend.stop_token_ids)
    decoder = frontend.output_format.decoder(frontend.token_bytes, "reasoning")
    pieces = [piece for token_id in token_ids for piece in decoder.push(token_id)] + list(decoder.finish())
    assert {piece.channel for piece in pieces} == {"reasoning"}
    assert "".join(piece.text for piece in pieces) == text.partition("\n</think>")[0]
    assert decoder.channel == "content"


def test_a_template_without_thinking_has_none(frontend_of: FrontendOf) -> None:
    assert frontend_of(NO_THINKING).thinking_control_ids == ()


def test_a_stop_token_inside_it_ends_the_start(frontend_of: FrontendOf) -> None:
    close = frontend_of("3.8")._tokenizer.control.id_of["</think>"]
    with pytest.raises(ArtifactInvalid, match=f"holds the stop token {close}"):
        frontend_of("3.8", generation_config_json=json.dumps({"eos_token_id": close}).encode())
    # Without thinking it is never committed.
    assert frontend_of(NO_THINKING, generation_config_json=json.dumps({"eos_token_id": close}).encode())

"""Files that cannot be used are refused with every reason, and ids give their bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ninfer_models.qwen_hybrid.frontend.control_tokens import AddedToken, ControlTokens
from ninfer_models.qwen_hybrid.frontend.tokenizer import QwenTokenizer, build_tokenizer
from ninfer_models.qwen_hybrid.frontend.vocabulary import ADDED_TOKENS

from ninfer_core.api import ArtifactInvalid


def build(resources: dict[str, bytes], change: Callable[[Any, Any], object] | None = None) -> QwenTokenizer:
    file, config = (json.loads(resources[name]) for name in ("tokenizer.json", "tokenizer_config.json"))
    if change is not None:
        change(file, config)
    return build_tokenizer("somewhere", json.dumps(file).encode(), json.dumps(config).encode())


def test_added_tokens_of_both_files_have_their_ids(small_resources: dict[str, bytes]) -> None:
    tokenizer = build(small_resources)
    first = tokenizer.control.id_of[ADDED_TOKENS[0]]
    assert [tokenizer.control.id_of[token] for token in ADDED_TOKENS] == list(range(first, first + 33))
    assert tokenizer.token_domain == first + 33


def test_the_domain_ends_at_the_largest_id_however_many_entries_there_are(small_resources: dict[str, bytes]) -> None:
    def spread(file: Any, config: Any) -> None:
        unused = max(file["model"]["vocab"].values()) + 1000
        file["model"]["vocab"]["\u0120\u0120far"] = unused

    plain, spread_out = build(small_resources), build(small_resources, spread)
    largest = max(json.loads(small_resources["tokenizer.json"])["model"]["vocab"].values())
    assert spread_out.token_domain == largest + 1001 > plain.token_domain


def test_truncation_in_the_file_has_no_effect(small_resources: dict[str, bytes]) -> None:
    def truncate(file: Any, config: Any) -> None:
        file["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}

    text = "many words that are more than four tokens " * 9
    assert build(small_resources, truncate).encode([text]) == build(small_resources).encode([text])


def test_bytes_of_ids(small_resources: dict[str, bytes]) -> None:
    tokenizer = build(small_resources)
    text = "naïve 漢字 👩‍🚀\n\x00\x7f"
    assert b"".join(tokenizer.token_bytes(i) for i in tokenizer.encode([text])).decode() == text
    control = tokenizer.control.id_of
    assert tokenizer.token_bytes(control["<think>"]) == b"<think>"
    assert tokenizer.token_bytes(control["<tool_call>"]) == b"<tool_call>"
    assert tokenizer.token_bytes(control["<|im_end|>"]) == b""
    assert tokenizer.token_bytes(10**9) == b""


def test_think_tags_are_text_whatever_their_flag(small_resources: dict[str, bytes]) -> None:
    def all_special(file: Any, config: Any) -> None:
        for token in file["added_tokens"]:
            token["special"] = True

    tokenizer = build(small_resources, all_special)
    assert tokenizer.token_bytes(tokenizer.control.id_of["</think>"]) == b"</think>"


def test_the_longest_of_overlapping_control_tokens_is_found() -> None:
    tokens = [AddedToken(content=text, id=place) for place, text in enumerate(("<a", "<a>", "a>b"))]
    assert ControlTokens(tokens).pattern.findall("<a>b <ab a>b") == ["<a>", "<a", "a>b"]


def first_token(**changes: object) -> Callable[[Any, Any], object]:
    return lambda file, config: file["added_tokens"][0].update(changes)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (first_token(lstrip=True), "lstrip"),
        (first_token(content="<|im_start|>"), "has two ids"),
        (first_token(id=527), "share one id"),
        (lambda file, config: file["added_tokens"].pop(1), "no added token '<|im_start|>'".replace("|", r"\|")),
        (first_token(id=3), "stands for .* already"),
        (lambda file, config: config.update(add_bos_token=True), "add_bos_token"),
        (lambda file, config: config.update(add_prefix_space=True), "space before text"),
        (lambda file, config: file.update(pre_tokenizer={"type": "Whitespace"}), "byte-level"),
        (lambda file, config: file["model"].update(type="Unheard"), "library refuses"),
        (lambda file, config: file.update(added_tokens=3), "cannot be read"),
    ],
)
def test_files_that_cannot_be_used(
    change: Callable[[Any, Any], object], reason: str, small_resources: dict[str, bytes]
) -> None:
    with pytest.raises(ArtifactInvalid, match=reason):
        build(small_resources, change)


def test_a_vocabulary_that_merges_to_a_control_token_is_refused(small_resources: dict[str, bytes]) -> None:
    """Special tokens inside the base vocabulary are common; they must not be reachable from text."""

    def reachable(file: Any, config: Any) -> None:
        vocabulary = file["model"]["vocab"]
        file["model"]["ignore_merges"] = True
        file["pre_tokenizer"]["pretokenizers"] = file["pre_tokenizer"]["pretokenizers"][1:]
        vocabulary["<|im_start|>"] = file["added_tokens"][1]["id"]

    with pytest.raises(ArtifactInvalid, match=r"'<\|im_start\|>'; its merges"):
        build(small_resources, reachable)

"""The artifact's added tokens: the ids that only a template may produce (decision 12)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

THINK_OPEN = "<think>"
THINK_CLOSE = "</think>"
TURN_OPEN = "<|im_start|>"
TURN_CLOSE = "<|im_end|>"
END_OF_TEXT = "<|endoftext|>"

_MARKUP = frozenset({THINK_OPEN, THINK_CLOSE, "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"})
"""Tokens whose text the output parser reads, so that it is never withheld, whatever their `special` flag says."""


class AddedToken(msgspec.Struct, frozen=True, kw_only=True):
    """One added token as `tokenizer.json` and `added_tokens_decoder` spell it."""

    content: str
    id: int = -1
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = False


class _TokenizerJson(msgspec.Struct, frozen=True):
    added_tokens: list[AddedToken] = []


class _TokenizerConfig(msgspec.Struct, frozen=True):
    added_tokens_decoder: dict[str, AddedToken] = {}


class ControlTokens:
    """Text <-> id of the added tokens, in no particular order.

    `pattern` finds them the way tokenizers do: leftmost first, then longest.
    """

    def __init__(self, tokens: Sequence[AddedToken]) -> None:
        self.id_of: Mapping[str, int] = {token.content: token.id for token in tokens}
        self.text_of: Mapping[int, str] = {token.id: token.content for token in tokens}
        self.withheld_ids = frozenset(token.id for token in tokens if token.special and token.content not in _MARKUP)
        longest_first = sorted(self.id_of, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")


def read_control_tokens(tokenizer_json: bytes, tokenizer_config_json: bytes) -> tuple[ControlTokens, list[str]]:
    """The added tokens of both files, and what is wrong with them, a line each.

    Official `tokenizer.json` files stop at `</think>`; the later tokens stand only in the `added_tokens_decoder`
    of `tokenizer_config.json` (docs/model.md, "Tokenizer").
    """
    try:
        declared = msgspec.json.decode(tokenizer_json, type=_TokenizerJson).added_tokens
        configured = msgspec.json.decode(tokenizer_config_json, type=_TokenizerConfig).added_tokens_decoder
    except msgspec.DecodeError as error:
        return ControlTokens(()), [f"its added tokens cannot be read: {error}"]
    problems: list[str] = []
    by_text: dict[str, AddedToken] = {}
    numbered = [msgspec.structs.replace(token, id=int(key)) for key, token in configured.items() if key.isdecimal()]
    for token in (*declared, *numbered):
        known = by_text.setdefault(token.content, token)
        if known.id != token.id:
            problems.append(f"added token {token.content!r} has two ids, {known.id} and {token.id}")
        if not token.content or token.id < 0:
            problems.append(f"added token {token.content!r} has no text or no id")
        if token.single_word or token.lstrip or token.rstrip:
            problems.append(f"added token {token.content!r} asks for single_word, lstrip or rstrip, which cannot be")
    if len({token.id for token in by_text.values()}) < len(by_text):
        problems.append("two added tokens share one id")
    problems += [f"it has no added token {name!r}" for name in (TURN_OPEN, TURN_CLOSE) if name not in by_text]
    return ControlTokens(tuple(by_text.values())), problems

"""Text to ids and ids to bytes, with control tokens kept apart from text.

Invariant: `encode` gives a control id only for a `Control` piece; text never becomes one, whatever it spells.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from tokenizers import Tokenizer, normalizers

from ninfer_core.api import ArtifactInvalid
from ninfer_models.qwen_hybrid.frontend.byte_alphabet import to_bytes, to_characters
from ninfer_models.qwen_hybrid.frontend.control_tokens import ControlTokens, read_control_tokens


class Control(NamedTuple):
    """A control token that the template wrote."""

    token_id: int
    text: str


_NORMALIZATION_FACTOR = 4

_WORD_END = re.compile("[!-~] ")
_WORD_END_IN_A_TOKEN = re.compile(f"[!-~]{to_characters(b' ')}")
"""In the alphabet of the vocabulary, where printable ASCII stands for itself."""

Piece = str | Control
"""Rendered prompts are sequences of these: text between control tokens is one str."""


class QwenTokenizer:
    """Byte-level BPE over the artifact's own `tokenizer.json`.

    The library's added-token matching is left out: pieces arrive cut at the control tokens, and between those
    the library would normalise (NFC), pre-tokenize and merge each stretch on its own as well, so the ids are
    the same. Truncation and padding of the file are left out with it.
    """

    def __init__(self, model: Tokenizer, control: ControlTokens) -> None:
        self.control = control
        self._model = model
        ordinary = model.get_vocab(with_added_tokens=False)
        # The largest id and not the number of entries: ids may have gaps, and the rows of a gap stand for no text.
        self.token_domain = 1 + max(max(ordinary.values(), default=-1), max(control.text_of))
        # An upper bound: a token's bytes, before the library composed their characters. Composing (NFC) makes text
        # at most three times shorter; four is beyond doubt.
        self.most_characters_of_a_token = _NORMALIZATION_FACTOR * max(map(len, ordinary), default=1)
        # Composing leaves a printable ASCII character before a space as it is.
        composes_at_most = model.normalizer is None or isinstance(model.normalizer, normalizers.NFC)
        self._words_end_tokens = composes_at_most and not _WORD_END_IN_A_TOKEN.search("\n".join(ordinary))

    def fewest_tokens(self, pieces: Sequence[Piece]) -> int:
        """A lower bound of the ids of `pieces`, at the cost of a look at their text. Where no token goes on behind the
        end of a word, there is one for each word."""
        texts = [piece for piece in pieces if isinstance(piece, str)]
        by_length = sum(map(len, texts)) // self.most_characters_of_a_token
        if not self._words_end_tokens:
            return len(pieces) - len(texts) + by_length
        words = sum(len(_WORD_END.findall(text)) for text in texts)
        return len(pieces) - len(texts) + max(by_length, words)

    def encode(self, pieces: Sequence[Piece]) -> tuple[int, ...]:
        """Ids of a rendered prompt."""
        encoded = iter(self.encode_texts([piece for piece in pieces if isinstance(piece, str)]))
        ids: list[int] = []
        for piece in pieces:
            if isinstance(piece, Control):
                ids.append(piece.token_id)
            else:
                ids.extend(next(encoded))
        return tuple(ids)

    def encode_texts(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text on its own. Other Python threads run meanwhile: only the batch call lets go of the GIL."""
        return [encoding.ids for encoding in self._model.encode_batch_fast(texts, add_special_tokens=False)]

    def token_bytes(self, token_id: int) -> bytes:
        """What a generated token adds to the text: nothing for withheld special tokens and unused rows."""
        if (text := self.control.text_of.get(token_id)) is not None:
            return b"" if token_id in self.control.withheld_ids else text.encode()
        spelling: str | None = self._model.id_to_token(token_id)
        return b"" if spelling is None else to_bytes(spelling)


def build_tokenizer(source: str, tokenizer_json: bytes, tokenizer_config_json: bytes) -> QwenTokenizer:
    """Build from the artifact's bytes; ArtifactInvalid lists everything that keeps them from being used."""
    control, problems = read_control_tokens(tokenizer_json, tokenizer_config_json)
    problems += _shape_problems(tokenizer_json, tokenizer_config_json)
    if problems:
        raise ArtifactInvalid(f"{source}: tokenizer.json", problems)
    try:
        parsed = Tokenizer.from_buffer(tokenizer_json)
    except Exception as error:  # the library raises bare Exception for every fault of the file
        raise ArtifactInvalid(f"{source}: tokenizer.json", [f"the tokenizers library refuses it: {error}"]) from error
    model = Tokenizer(parsed.model)
    if parsed.normalizer is not None:
        model.normalizer = parsed.normalizer
    model.pre_tokenizer = parsed.pre_tokenizer
    clashes = _clashes(model, control)
    if clashes:
        raise ArtifactInvalid(f"{source}: tokenizer.json", clashes)
    return QwenTokenizer(model, control)


def _clashes(model: Tokenizer, control: ControlTokens) -> list[str]:
    """Where the ordinary vocabulary gets in the way of the control tokens."""
    problems = []
    for token_id, text in control.text_of.items():
        ordinary = model.id_to_token(token_id)
        if ordinary not in (None, text):
            problems.append(f"id {token_id} of the added token {text!r} stands for {ordinary!r} already")
        if not control.text_of.keys().isdisjoint(model.encode(text).ids):
            problems.append(f"ordinary text is encoded as the control token {text!r}; its merges must not form it")
    return problems


class _Shape(msgspec.Struct, frozen=True):
    pre_tokenizer: dict[str, Any] | None = None


class _ConfigFlags(msgspec.Struct, frozen=True):
    add_bos_token: bool | None = None
    add_prefix_space: bool | None = None


def _shape_problems(tokenizer_json: bytes, tokenizer_config_json: bytes) -> list[str]:
    try:
        shape = msgspec.json.decode(tokenizer_json, type=_Shape)
        flags = msgspec.json.decode(tokenizer_config_json, type=_ConfigFlags)
    except msgspec.DecodeError as error:
        return [f"its settings cannot be read: {error}"]
    step = shape.pre_tokenizer or {}
    steps = step.get("pretokenizers", [step])
    byte_level = [each for each in steps if each.get("type") == "ByteLevel"]
    problems = [] if byte_level else ["it is not a byte-level tokenizer (no ByteLevel pre-tokenizer)"]
    if flags.add_prefix_space or any(each.get("add_prefix_space") for each in byte_level):
        problems.append("it adds a space before text, which this family never does")
    if flags.add_bos_token:
        problems.append("add_bos_token is on in tokenizer_config.json; this family has no such token")
    return problems

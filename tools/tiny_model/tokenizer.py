"""Builds the tokenizer: byte-level BPE with exactly 4096 ids, the family's control tokens last.

`python -m tools.tiny_model.tokenizer` trains it on generator text and writes `assets/tokenizer.json`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.normalizers import NFC
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from tokenizers.trainers import BpeTrainer

from tools.tiny_model.banks import NAMES, TOWNS, UNIQUE_WORDS
from tools.tiny_model.generate import training_items
from tools.tiny_model.template import ASSETS, load_template, render

VOCABULARY = 4096
# The order of the family: conversation, grounding, vision, tools, code, tool results, thinking, audio, speech.
CONTROL_TOKENS = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
    "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>", "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>",
    "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>",
    "<think>", "</think>", "<|audio_start|>", "<|audio_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>",
    "<tts_text_bos_single>", "<|audio_pad|>",
)  # fmt: skip
# Text-like tags stay visible when special tokens are skipped, because parsers read them.
VISIBLE = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")

# In order: English contractions; a word with at most one leading mark; one digit; punctuation with the line
# ends after it; line ends with the blanks before them; blanks at the end of the text or before a word; blanks.
PIECES = "|".join(
    (
        r"(?i:'(?:[sdmt]|re|ve|ll))",
        r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+",
        r"\p{N}",
        r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)


BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")


def build(corpus: Iterator[str]) -> Tokenizer:
    tokenizer = Tokenizer(BPE())
    tokenizer.normalizer = NFC()
    tokenizer.pre_tokenizer = Sequence(
        [Split(Regex(PIECES), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(
        vocab_size=VOCABULARY - len(CONTROL_TOKENS),
        initial_alphabet=sorted(ByteLevel.alphabet()),
        min_frequency=2,
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_tokens(
        [AddedToken(token, special=token not in VISIBLE, normalized=False) for token in CONTROL_TOKENS]
    )
    if tokenizer.get_vocab_size() != VOCABULARY:
        raise ValueError(f"the corpus gave {tokenizer.get_vocab_size()} ids instead of {VOCABULARY}")
    return tokenizer


def corpus(dialogues: int) -> Iterator[str]:
    """Generator text, and every bank word in the forms an instruction can ask for.

    Only what is ASCII: Chinese and emoji stay single bytes, so that decoding meets characters in pieces.
    """
    template = load_template()
    for item in training_items(seed=-1, count=dialogues):
        if item.skill == "recall long":
            continue
        text = render(template, item.complete(), item.options, prompt=False)
        for token in CONTROL_TOKENS:
            text = text.replace(token, "\x00")
        yield from BEYOND_ASCII.sub("\x00", text).split("\x00")
    for word in (*NAMES, *TOWNS, *UNIQUE_WORDS):
        for form in (word, word.lower(), word.upper(), word.capitalize()):
            yield from (f"{form} {form}", f"{form} {form}")


def load(path: Path = ASSETS / "tokenizer.json") -> Tokenizer:
    return Tokenizer.from_file(str(path))


def id_of(tokenizer: Tokenizer, token: str) -> int:
    number = tokenizer.token_to_id(token)
    assert number is not None, token
    return number


def main() -> None:
    build(corpus(30_000)).save(str(ASSETS / "tokenizer.json"))


if __name__ == "__main__":
    main()

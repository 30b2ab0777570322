"""The output side of an artifact: what the engine process has of the frontend, without a template."""

from __future__ import annotations

import msgspec

from ninfer_core.api import ArtifactHeader, ArtifactInvalid, OutputFormat
from ninfer_models.qwen_hybrid.frontend.dummy import resolve_tokenizer
from ninfer_models.qwen_hybrid.frontend.output_format import QwenOutputFormat
from ninfer_models.qwen_hybrid.frontend.presets import read_generation_config, stop_token_ids
from ninfer_models.qwen_hybrid.frontend.thinking_control import thinking_control_ids
from ninfer_models.qwen_hybrid.frontend.tokenizer import QwenTokenizer, build_tokenizer

_SPECIAL_TOKEN_NAMES = ("bos_token", "eos_token", "pad_token", "unk_token")


class QwenVocabulary:
    """Implements `ninfer_core.api.OutputVocabulary`."""

    def __init__(
        self, tokenizer: QwenTokenizer, *, stop_token_ids: tuple[int, ...], thinking_control_ids: tuple[int, ...]
    ) -> None:
        self.output_format: OutputFormat = QwenOutputFormat()
        self.stop_token_ids = stop_token_ids
        self.thinking_control_ids = thinking_control_ids
        self.token_domain = tokenizer.token_domain
        self._tokenizer = tokenizer

    def token_bytes(self, token_id: int) -> bytes:
        return self._tokenizer.token_bytes(token_id)


class _TokenizerConfig(msgspec.Struct, frozen=True):
    bos_token: str | dict[str, object] | None = None
    eos_token: str | dict[str, object] | None = None
    pad_token: str | dict[str, object] | None = None
    unk_token: str | dict[str, object] | None = None


def special_tokens(header: ArtifactHeader) -> dict[str, str]:
    """The special tokens that are set, by template variable; older files spell a token as an object."""
    try:
        config = msgspec.json.decode(header.resources.get("tokenizer_config.json", b"{}"), type=_TokenizerConfig)
    except msgspec.DecodeError as error:
        raise ArtifactInvalid(f"{header.source}: tokenizer_config.json", [str(error)]) from error
    spelled = {name: getattr(config, name) for name in _SPECIAL_TOKEN_NAMES}
    texts = {name: each.get("content") if isinstance(each, dict) else each for name, each in spelled.items()}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def read_tokenizer(header: ArtifactHeader) -> tuple[QwenTokenizer, tuple[int, ...]]:
    """The tokenizer and the stop tokens. Raises ArtifactInvalid."""
    if "tokenizer.json" not in header.resources:
        raise ArtifactInvalid(header.source, ["it has no tokenizer.json"])
    resources = {"tokenizer_config.json": b"{}", "generation_config.json": b"{}", **header.resources}
    tokenizer_json = resolve_tokenizer(header.source, resources["tokenizer.json"])
    tokenizer = build_tokenizer(header.source, tokenizer_json, resources["tokenizer_config.json"])
    generation = read_generation_config(header.source, resources["generation_config.json"])
    return tokenizer, stop_token_ids(header.source, generation, special_tokens(header).get("eos_token"), tokenizer)


def build_vocabulary(header: ArtifactHeader) -> QwenVocabulary:
    """Build from the artifact's resources, of which no template is looked at."""
    tokenizer, stops = read_tokenizer(header)
    try:
        control_ids = thinking_control_ids(header.source, tokenizer, stops)
    except ArtifactInvalid:
        # Only a template that thinks needs them, and with such a template the front has refused to start.
        control_ids = ()
    return QwenVocabulary(tokenizer, stop_token_ids=stops, thinking_control_ids=control_ids)

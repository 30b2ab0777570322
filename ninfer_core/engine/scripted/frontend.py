"""The family's frontend with a second vocabulary: tokens of the script above the model's own."""

from __future__ import annotations

from ninfer_core.api.frontend import Frontend, PreparedPrompt, ThinkingDefaults
from ninfer_core.api.request import GenerationRequest


class ScriptVocabulary:
    """Ids from `first_id` on, one for each different piece of text. The first two are the stop token and one
    without text."""

    def __init__(self, first_id: int) -> None:
        self.first_id = first_id
        self.stop_id = first_id
        self.silent_id = first_id + 1
        self._pieces: list[bytes] = [b"", b""]
        self._ids: dict[bytes, int] = {}

    def add(self, piece: bytes) -> int:
        """The id of `piece`."""
        known = self._ids.get(piece)
        if known is None:
            known = self._ids[piece] = self.first_id + len(self._pieces)
            self._pieces.append(piece)
        return known

    def token_bytes(self, token_id: int) -> bytes:
        return self._pieces[token_id - self.first_id]


class ScriptedFrontend:
    """Implements Frontend. Prompts are the family's, and so is how an answer's bytes are read."""

    def __init__(self, frontend: Frontend, vocabulary: ScriptVocabulary) -> None:
        self._frontend = frontend
        self.output_format = frontend.output_format
        self._vocabulary = vocabulary
        self.capabilities = frontend.capabilities
        self.presets = frontend.presets
        self.stop_token_ids: tuple[int, ...] = (*frontend.stop_token_ids, vocabulary.stop_id)
        self.token_domain = frontend.token_domain
        self.thinking_control_ids = frontend.thinking_control_ids

    def prepare(
        self, request: GenerationRequest, defaults: ThinkingDefaults, *, most_tokens: int | None = None
    ) -> PreparedPrompt:
        return self._frontend.prepare(request, defaults, most_tokens=most_tokens)

    def fewest_tokens(self, characters: int) -> int:
        return self._frontend.fewest_tokens(characters)

    def token_bytes(self, token_id: int) -> bytes:
        if token_id < self._vocabulary.first_id:
            return self._frontend.token_bytes(token_id)
        return self._vocabulary.token_bytes(token_id)

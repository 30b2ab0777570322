"""The family's Frontend: everything between neutral requests, token ids and channel text. No torch."""

from __future__ import annotations

import msgspec

from ninfer_core.api import (
    ArtifactHeader,
    ArtifactInvalid,
    GenerationRequest,
    OutputFormat,
    PreparedPrompt,
    SamplingPresets,
    ThinkingDefaults,
)
from ninfer_models.qwen_hybrid.frontend.capabilities import TemplateProfile, opened_channel, probe
from ninfer_models.qwen_hybrid.frontend.options import resolve
from ninfer_models.qwen_hybrid.frontend.output_format import QwenOutputFormat
from ninfer_models.qwen_hybrid.frontend.output_vocabulary import read_tokenizer, special_tokens
from ninfer_models.qwen_hybrid.frontend.presets import read_generation_config, sampling_presets
from ninfer_models.qwen_hybrid.frontend.prompts import PromptMaker, StructuredPrompts, TemplatePrompts
from ninfer_models.qwen_hybrid.frontend.renderer import recognise
from ninfer_models.qwen_hybrid.frontend.template import ChatTemplate
from ninfer_models.qwen_hybrid.frontend.thinking_control import thinking_control_ids
from ninfer_models.qwen_hybrid.frontend.tokenizer import QwenTokenizer

_REQUIRED = ("tokenizer.json", "chat_template.jinja")


class QwenFrontend:
    """Implements `ninfer_core.api.Frontend`. Holds no state of requests and may be used from several threads."""

    def __init__(
        self,
        *,
        tokenizer: QwenTokenizer,
        prompts: PromptMaker,
        profile: TemplateProfile,
        presets: SamplingPresets,
        stop_token_ids: tuple[int, ...],
        thinking_control_ids: tuple[int, ...],
    ) -> None:
        self._tokenizer = tokenizer
        self._prompts = prompts
        self._profile = profile
        self.output_format: OutputFormat = QwenOutputFormat()
        self.capabilities = profile.capabilities
        self.presets = presets
        self.stop_token_ids = stop_token_ids
        self.thinking_control_ids = thinking_control_ids
        self.token_domain = tokenizer.token_domain

    def prepare(
        self, request: GenerationRequest, defaults: ThinkingDefaults, *, most_tokens: int | None = None
    ) -> PreparedPrompt:
        """See the Protocol. Control tokens come from the template only (decision 12); a new assistant turn is
        opened also after an assistant message (decision 8), unless the request continues it."""
        resolved = resolve(request.template, defaults, self._profile)
        prompt = self._prompts.make(request, resolved, most_tokens)
        return PreparedPrompt(
            text=prompt.rendered.text,
            token_ids=prompt.token_ids,
            initial_channel=opened_channel(prompt.rendered),
            resolved=resolved,
            frontiers=prompt.frontiers,
        )

    def fewest_tokens(self, characters: int) -> int:
        return characters // self._tokenizer.most_characters_of_a_token

    def token_bytes(self, token_id: int) -> bytes:
        return self._tokenizer.token_bytes(token_id)


def build_frontend(header: ArtifactHeader) -> QwenFrontend:
    """Build from the artifact's resources; ArtifactInvalid says what is missing or wrong in them.

    Needs `tokenizer.json` and `chat_template.jinja`; reads `tokenizer_config.json` and `generation_config.json`
    where they exist.
    """
    missing = [f"it has no {name}" for name in _REQUIRED if name not in header.resources]
    if missing:
        raise ArtifactInvalid(header.source, missing)
    tokenizer, stops = read_tokenizer(header)
    generation = read_generation_config(header.source, header.resources.get("generation_config.json", b"{}"))
    presets = sampling_presets(header.source, header.identity.model_id, generation)
    template = ChatTemplate(
        header.source, header.resources["chat_template.jinja"], tokenizer.control, special_tokens(header)
    )
    prompts, profile = _prompts(probe(header.source, template), template, tokenizer)
    thinks = profile.capabilities.thinking_toggle or profile.always_thinks
    return QwenFrontend(
        tokenizer=tokenizer,
        prompts=prompts,
        profile=profile,
        presets=presets,
        stop_token_ids=stops,
        thinking_control_ids=thinking_control_ids(header.source, tokenizer, stops) if thinks else (),
    )


def _prompts(
    profile: TemplateProfile, template: ChatTemplate, tokenizer: QwenTokenizer
) -> tuple[PromptMaker, TemplateProfile]:
    """The way this template's prompts are made, and the profile that says so (decision 20)."""
    found = recognise(template, profile, tokenizer.control)
    renderer = "jinja" if found.renderer is None else "structured"
    capabilities = msgspec.structs.replace(profile.capabilities, renderer=renderer, renderer_reason=found.reason)
    profile = msgspec.structs.replace(profile, capabilities=capabilities)
    if found.renderer is None:
        return TemplatePrompts(template, profile, tokenizer), profile
    return StructuredPrompts(found.renderer, profile, tokenizer), profile

"""Sampler settings from their four sources: preset, flags, request, --greedy (contract OPT-41 to OPT-46)."""

from __future__ import annotations

import secrets
from typing import Protocol

import msgspec

from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.api.request import TOP_K_CAP, GenerationRequest, SamplingOptions
from ninfer_core.engine.scripted.answers import AnswerChooser, answer_seed
from ninfer_core.engine.scripted.script import Script
from ninfer_core.program.contract import Sampling
from ninfer_core.serving.preparation import EncodedPrompt

_FALLBACK = SamplingOptions(
    temperature=1.0, top_p=0.95, top_k=TOP_K_CAP, min_p=0.0, presence_penalty=0.0, frequency_penalty=0.0
)
"""For what no source says (decision 21 in docs/decisions.md)."""


def resolve_sampling(plan: ExecutionPlan, request: SamplingOptions, *, thinking: bool) -> Sampling:
    """Each setting from the strongest source that has it; a random seed where nobody chose one."""
    preset = plan.presets.thinking if thinking else plan.presets.non_thinking
    sources = (request, plan.sampling_overrides, preset, _FALLBACK)
    temperature = _number("temperature", sources)
    top_k = int(_number("top_k", sources))
    seeds = [source.seed for source in sources if source.seed is not None]
    return Sampling(
        temperature=0.0 if plan.greedy else temperature,
        top_p=_number("top_p", sources),
        top_k=min(top_k, TOP_K_CAP) if top_k > 0 else TOP_K_CAP,
        min_p=_number("min_p", sources),
        presence_penalty=_number("presence_penalty", sources),
        frequency_penalty=_number("frequency_penalty", sources),
        seed=seeds[0] if seeds else secrets.randbits(63),
    )


class SamplingSource(Protocol):
    """The sampler settings of one prepared request. Raises a RequestError."""

    def __call__(self, request: GenerationRequest, prompt: EncodedPrompt) -> Sampling: ...


class PlanSampling:
    """As the request and the plan say."""

    def __init__(self, plan: ExecutionPlan) -> None:
        self._plan = plan

    def __call__(self, request: GenerationRequest, prompt: EncodedPrompt) -> Sampling:
        return resolve_sampling(self._plan, request.sampling, thinking=bool(prompt.resolved.enable_thinking))


class ScriptedSampling:
    """The same with the seed of the answer that the script has for the request."""

    def __init__(self, plan: ExecutionPlan, script: Script) -> None:
        self._sampling = PlanSampling(plan)
        self._chooser = AnswerChooser(script)

    def __call__(self, request: GenerationRequest, prompt: EncodedPrompt) -> Sampling:
        seed = answer_seed(self._chooser.choose(request), prompt.initial_channel)
        return msgspec.structs.replace(self._sampling(request, prompt), seed=seed)


def _number(name: str, sources: tuple[SamplingOptions, ...]) -> float:
    values = (getattr(source, name) for source in sources)
    found: float = next(value for value in values if value is not None)
    return found

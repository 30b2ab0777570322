"""LangChain's own standard suites for its two clients, against a live server of scripted answers.

`make test-clients` installs what they need; without it there is nothing to test here. What the server refuses by
contract is switched off by a property or listed; a listed test that begins to pass fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pytest

pytest.importorskip("langchain_tests", reason="make test-clients installs it")

from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests
from ninfer_protocols import anthropic, openai_chat

from ninfer_core.testing.scripted_server import MODEL_ID, scripted_server

pytestmark = pytest.mark.long


def calling(match: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"match": match, "tool_calls": [{"name": name, "arguments": arguments}]}


ANSWERS = [
    calling("magic_function(3)", "magic_function", input=3),
    calling("magic_function_no_args()", "magic_function_no_args"),
    calling("Pirate greeting", "greeting_generator", answer_style="Pirate"),
    calling("What is the weather in San Francisco", "get_weather", location="San Francisco, CA"),
    {"match": "What is the weather in San Francisco", "content": "It is sunny."},
    calling("你好啊集团", "unicode_customer", customer_name="你好啊集团", description="technology"),
    calling("こんにちは株式会社", "unicode_customer", customer_name="こんにちは株式会社", description="company"),
    {"reasoning": "Let me think.", "content": "This is an answer of several tokens, so that streams have pieces."},
]


class ServedSuite(ChatModelIntegrationTests):
    """The suite over one server for each class. `refusals` are tests that no property switches off, by the reason of
    the 400; the Anthropic client forces no call while thinking is on."""

    base_url = ""

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def served(cls) -> Iterator[None]:
        builds = (anthropic.ninfer_protocol_build, openai_chat.ninfer_protocol_build)
        with scripted_server(ANSWERS, lambda context: [build(context=context) for build in builds]) as server:
            cls.base_url = server.base_url
            yield

    @pytest.fixture(autouse=True)
    def refused(self, request: pytest.FixtureRequest) -> None:
        name = request.node.originalname
        if name in self.refusals:
            request.applymarker(pytest.mark.xfail(reason=self.refusals[name], strict=True))

    refusals: ClassVar[Mapping[str, str]] = {}
    has_tool_choice = False
    has_structured_output = False
    supports_json_mode = False


class TestChatAnthropic(ServedSuite):
    supports_anthropic_inputs = True
    supports_model_override = True
    model_override_value = "claude-other"

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatAnthropic

    @property
    def chat_model_params(self) -> dict[str, Any]:
        # If it is not said, the client does not expect the thinking that the server's default gives.
        thinking = {"type": "adaptive"}
        return {
            "model": "claude-local",
            "base_url": self.base_url,
            "api_key": "none",
            "max_retries": 0,
            "thinking": thinking,
        }


class TestChatOpenAI(ServedSuite):
    refusals: ClassVar[Mapping[str, str]] = {
        "test_structured_few_shot_examples": "a call cannot be forced",
        "test_unicode_tool_call_integration": "a call cannot be forced",
        "test_message_with_name": "participants have no names in the prompt",
    }
    supports_model_override = False

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {
            "model": MODEL_ID,
            "base_url": f"{self.base_url}/v1",
            "api_key": "none",
            "max_retries": 0,
            "stream_usage": True,
        }

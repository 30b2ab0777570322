"""The family's OutputFormat: the output side of its frontend, for text without an artifact."""

from __future__ import annotations

from collections.abc import Callable

from ninfer_core.api import Channel, OutputParser, ToolDefinition
from ninfer_models.qwen_hybrid.frontend.decoder import QwenOutputDecoder
from ninfer_models.qwen_hybrid.frontend.tool_calls import build_output_parser


class QwenOutputFormat:
    def decoder(self, token_bytes: Callable[[int], bytes], initial_channel: Channel) -> QwenOutputDecoder:
        return QwenOutputDecoder(token_bytes, initial_channel)

    def parser(self, tools: tuple[ToolDefinition, ...], *, tolerant: bool) -> OutputParser:
        return build_output_parser(tools, tolerant=tolerant)

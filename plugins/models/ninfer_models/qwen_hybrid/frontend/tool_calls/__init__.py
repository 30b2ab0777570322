"""Tool calls in generated text: the family's output parser (contract TOOL-1 to TOOL-19). Works on text, needs no
artifact."""

from __future__ import annotations

from ninfer_models.qwen_hybrid.frontend.tool_calls.parser import build_output_parser

__all__ = ["build_output_parser"]

"""A renderer that knows what each stretch of a prompt is, for templates whose structure it has proved to know."""

from __future__ import annotations

from ninfer_models.qwen_hybrid.frontend.renderer.recognition import Recognition, recognise
from ninfer_models.qwen_hybrid.frontend.renderer.structured import StructuredRenderer
from ninfer_models.qwen_hybrid.frontend.renderer.tokens import tokenize

__all__ = ["Recognition", "StructuredRenderer", "recognise", "tokenize"]

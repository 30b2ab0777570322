"""Host side of the family: tokenizer, chat template, options, output decoding, presets. Never imports torch."""

from __future__ import annotations

from ninfer_models.qwen_hybrid.frontend.dummy import dummy_notes, dummy_resources, dummy_vocabulary
from ninfer_models.qwen_hybrid.frontend.frontend import QwenFrontend, build_frontend

__all__ = ["QwenFrontend", "build_frontend", "dummy_notes", "dummy_resources", "dummy_vocabulary"]

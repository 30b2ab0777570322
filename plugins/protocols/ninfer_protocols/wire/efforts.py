"""The words for efforts in OpenAI's protocols (contract TMPL-3, TMPL-4)."""

from __future__ import annotations

from ninfer_core.api import EFFORTS

OPENAI_EFFORTS = ("none", *EFFORTS)
"""Words that are understood; which of them this model has is its template's matter."""

"""The words that protocols and templates have for how much a model shall think."""

from __future__ import annotations

EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")
"""From low to high (contract TMPL-4). Which of them a model has is its template's matter; `none`, which OpenAI's
protocols have as well, switches thinking off."""

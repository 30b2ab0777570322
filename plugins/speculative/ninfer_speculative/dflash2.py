"""DFlash2: drafts a block in one pass, and chooses the tokens of its positions one after the other
(docs/speculation.md, "Selector")."""

from __future__ import annotations

from ninfer_speculative.block.backend import BlockBackend
from ninfer_speculative.block.config import SECOND

_BACKEND = BlockBackend(SECOND)

ninfer_spec_inventory = _BACKEND.ninfer_spec_inventory
ninfer_spec_draft_tokens = _BACKEND.ninfer_spec_draft_tokens
ninfer_spec_needs = _BACKEND.ninfer_spec_needs
ninfer_spec_build = _BACKEND.ninfer_spec_build

"""DFlash: drafts a block in one pass, the likeliest token of each position (docs/speculation.md, "Block
drafters")."""

from __future__ import annotations

from ninfer_speculative.block.backend import BlockBackend
from ninfer_speculative.block.config import FIRST

_BACKEND = BlockBackend(FIRST)

ninfer_spec_inventory = _BACKEND.ninfer_spec_inventory
ninfer_spec_draft_tokens = _BACKEND.ninfer_spec_draft_tokens
ninfer_spec_needs = _BACKEND.ninfer_spec_needs
ninfer_spec_build = _BACKEND.ninfer_spec_build

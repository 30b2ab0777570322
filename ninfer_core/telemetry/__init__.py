"""What an operator reads: the log on stderr. Never prompts, generated text, bodies or keys (contract OLOG-5)."""

from __future__ import annotations

from ninfer_core.telemetry.logging import LEVELS, Log, create_log, forward_standard_logging

__all__ = ["LEVELS", "Log", "create_log", "forward_standard_logging"]

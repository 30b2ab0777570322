from __future__ import annotations

from tests.scripted_backend import scripted

__all__ = ["scripted"]

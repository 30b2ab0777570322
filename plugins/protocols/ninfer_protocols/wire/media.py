"""Where an image or a video is said to come from, checked for its form before anything is fetched."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from ninfer_core.api import RequestError
from ninfer_protocols.wire.errors import invalid_value

_DATA_HEADER = re.compile(r"data:[^,;]*(;[^,;]*)*;base64,", re.IGNORECASE)
_LONGEST_DATA_HEADER = 256
_LONGEST_URL = 8192


def checked_source(source: object, where: str) -> str:
    """An http(s) URL or a base64 data URI (contract MEDIA-1). Raises RequestError `invalid_media`."""
    if isinstance(source, str) and (_DATA_HEADER.match(source[:_LONGEST_DATA_HEADER]) or _is_web_address(source)):
        return source
    raise invalid_value(where, "must be an http(s) URL or a data URI with base64", code="invalid_media")


def _is_web_address(source: str) -> bool:
    if len(source) > _LONGEST_URL:
        return False
    try:
        parts = urlsplit(source)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def check_detail(detail: object, where: str) -> None:
    """Only the model's own resolution exists. Raises RequestError `image_detail_not_supported`."""
    if detail not in (None, "auto"):
        raise RequestError(
            f"{where}: media are always read at the model's own resolution; only 'auto' is accepted",
            code="image_detail_not_supported",
            param=where,
        )

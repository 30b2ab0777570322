"""JSON out of files nobody vouches for: one object, or one line that says why not."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from ninfer_core.artifact.wording import quoted


class JsonRefused(ValueError):
    """The bytes are no JSON object; the text says why."""


def json_object(raw: bytes, duplicates: list[str] | None = None) -> dict[str, Any]:
    """The object in `raw`. Names given twice in one object are appended to `duplicates`; the last one wins.

    Raises JsonRefused, also for nesting deeper than the parser goes and for integers of thousands of digits.
    """

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if duplicates is not None and len(found) != len(pairs):
            uses = Counter(name for name, _ in pairs)
            duplicates.extend(name for name, count in uses.items() if count > 1)
        return found

    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=members)
    except UnicodeDecodeError as error:
        raise JsonRefused(f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise JsonRefused(f"not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise JsonRefused("nested too deeply") from None
    except ValueError as error:
        raise JsonRefused(f"not usable JSON: {quoted(str(error))}") from None
    if not isinstance(value, dict):
        raise JsonRefused(f"holds a {type(value).__name__}, not an object")
    return value


def encodable(text: str) -> bool:
    """Whether the text can be written as UTF-8; JSON escapes can spell lone surrogates, which cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True

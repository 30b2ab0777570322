"""JSON of a request as prompts show it: member order kept, spelled as `tojson` spells it (contract CHAT-40)."""

from __future__ import annotations

from typing import Any, Literal

from ninfer_core.api import InvalidPrompt
from ninfer_models.qwen_hybrid.frontend.template import json_text


def definition_text(definition: dict[str, Any]) -> str:
    return _json(definition, "tools")


def argument_text(value: object, scalars: Literal["json", "python"], where: str) -> str:
    """Strings raw, everything else as JSON, or scalars in Python's own words."""
    if isinstance(value, str):
        return value
    if scalars == "python" and not isinstance(value, dict | list):
        return str(value)
    return _json(value, where)


def _json(value: object, where: str) -> str:
    try:
        return json_text(value)
    except RecursionError:
        raise InvalidPrompt(f"{where}: it is nested too deeply; send a flatter object", param=where) from None
    except (TypeError, ValueError) as error:
        raise InvalidPrompt(f"{where}: {error}", param=where) from error

"""A bound on tools, before anything looks at one of them."""

from __future__ import annotations

from collections.abc import Mapping

from ninfer_core.api import MAX_TOOLS, TooManyTools


def check_tool_count(body: Mapping[str, object]) -> None:
    """Raise TooManyTools for a decoded body whose `tools` are more than a request may have, those within tools (a
    namespace's) counted. Whether they are tools at all is somebody else's question."""
    tools = body.get("tools")
    if not isinstance(tools, list):
        return
    count = len(tools) + sum(_within(tool) for tool in tools[:MAX_TOOLS])
    if count > MAX_TOOLS:
        raise TooManyTools(f"there are {count} or more, and a request may have {MAX_TOOLS}")


def _within(tool: object) -> int:
    members = tool.get("tools") if isinstance(tool, dict) else None
    return len(members) if isinstance(members, list) else 0

"""Names of functions in namespaces, and the one name under which the model knows each (contract RESP-44, RESP-77)."""

from __future__ import annotations

import re
from typing import NamedTuple

from ninfer_protocols.wire.errors import invalid_value

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_CHARACTERS = 64


class FunctionName(NamedTuple):
    """What the client calls a function."""

    namespace: str | None
    name: str

    @property
    def internal(self) -> str:
        """What the model calls it."""
        return self.name if self.namespace is None else f"{self.namespace}__{self.name}"


def checked_name(namespace: str | None, name: str, where: str) -> FunctionName:
    """Raises RequestError `invalid_tool_name` for a name that clients or the model's format cannot carry."""
    for field, value in (("name", name), ("namespace", namespace)):
        if value is not None and not _NAME.fullmatch(value):
            raise invalid_value(
                f"{where}.{field}",
                f"is {value[:80]!r}; a name has 1 to {_MAX_CHARACTERS} of the characters A-Z a-z 0-9 _ -",
                code="invalid_tool_name",
            )
    found = FunctionName(namespace, name)
    if len(found.internal) > _MAX_CHARACTERS:
        raise invalid_value(
            f"{where}.name",
            f"is {len(found.internal)} characters long as '{found.internal}'; "
            f"namespace and name together have at most {_MAX_CHARACTERS - 2}",
            code="invalid_tool_name",
        )
    return found

"""The API key: a bearer token or `x-api-key`, compared in constant time (contract AUTH-1, AUTH-2)."""

from __future__ import annotations

import hmac

from ninfer_core.api.errors import AuthenticationFailed
from ninfer_core.serving.asgi import Application, Receive, Scope, Send

_OPEN_PATHS = frozenset({"/health"})


class AuthenticationLayer:
    """Raises AuthenticationFailed before a byte of the body is read. One valid credential is enough."""

    def __init__(self, app: Application, api_key: str) -> None:
        self._app = app
        self._key = api_key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] not in _OPEN_PATHS and not self._is_authentic(scope["headers"]):
            raise AuthenticationFailed
        await self._app(scope, receive, send)

    def _is_authentic(self, headers: list[tuple[bytes, bytes]]) -> bool:
        credentials = [value for name, value in headers if name == b"x-api-key"]
        for name, value in headers:
            scheme, _, token = value.partition(b" ")
            # The scheme's case does not matter (RFC 9110, section 11.1).
            if name == b"authorization" and scheme.lower() == b"bearer":
                credentials.append(token.strip())
        return any(hmac.compare_digest(credential, self._key) for credential in credentials)

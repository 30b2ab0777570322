"""A client that goes away cancels its request, whatever the request is doing (contract GEN-18).

The application runs as a task of its own and is cancelled from outside: while the prompt is prepared, while it
waits for a place, between two tokens, and in requests that are not streamed. Protocols need no code for it beyond
closing their generation in `finally`. A client that is there but reads nothing is given up after a while.
"""

from __future__ import annotations

import asyncio

from ninfer_core.api.errors import RequestCancelled
from ninfer_core.serving.asgi import Application, Message, Receive, Scope, Send
from ninfer_core.serving.exchange import exchange_scope

STALL_SECONDS = 60.0
"""Longest wait for a client to take what is sent to it, once the connection's buffers are full."""


class DisconnectLayer:
    """Stands inside the body layer: the first message is the whole body, the next one the client's end."""

    def __init__(self, app: Application, *, stall_seconds: float = STALL_SECONDS) -> None:
        self._app = app
        self._stall_seconds = stall_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = _Exchange(await receive(), send, self._stall_seconds)
        application = asyncio.create_task(self._run(scope, exchange))
        watcher = asyncio.create_task(_until_gone(receive, exchange))
        try:
            await asyncio.wait((application, watcher), return_when=asyncio.FIRST_COMPLETED)
            # An answer that is out completely makes servers report a disconnect as well: then nothing is cancelled.
            if not exchange.complete:
                application.cancel()
            await asyncio.wait((application,))
        finally:
            application.cancel()
            watcher.cancel()
            await asyncio.gather(application, watcher, return_exceptions=True)
        if exchange.stalled:
            raise RequestCancelled
        if not application.cancelled():
            application.result()

    async def _run(self, scope: Scope, exchange: _Exchange) -> None:
        # In the same step as the last piece is sent, so that the client's next request finds everything given back.
        with exchange_scope(scope):
            try:
                await self._app(scope, exchange.receive, exchange.send)
            except SystemExit as error:
                # Out of a task it would end the event loop, and with it the server.
                raise RuntimeError("a handler tried to end the process") from error


class _Exchange:
    """The application's side of one request."""

    def __init__(self, body: Message, send: Send, stall_seconds: float) -> None:
        self._body: Message | None = body
        self._send = send
        self._stall_seconds = stall_seconds
        self.gone = asyncio.Event()
        self.complete = False
        self.stalled = False

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return body
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.complete = True
        try:
            async with asyncio.timeout(self._stall_seconds):
                await self._send(message)
        except TimeoutError:
            # As if cancelled from outside: an error would make the framework send an answer about it.
            self.stalled = True
            raise asyncio.CancelledError from None


async def _until_gone(receive: Receive, exchange: _Exchange) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    exchange.gone.set()

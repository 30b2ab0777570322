"""A client that goes away cancels its request, whatever the request is doing (contract GEN-18).

The application runs as a task of its own and is cancelled from outside: while the prompt is prepared, while it
waits for a place, between two tokens, and in requests that are not streamed. Protocols need no code for it beyond
closing their generation in `finally`.
"""

from __future__ import annotations

import asyncio

from ninfer_core.serving.asgi import Application, Message, Receive, Scope, Send


class DisconnectLayer:
    """Stands inside the body layer: the first message is the whole body, the next one the client's end."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = _Exchange(await receive(), send)
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
        if not application.cancelled():
            application.result()

    async def _run(self, scope: Scope, exchange: _Exchange) -> None:
        await self._app(scope, exchange.receive, exchange.send)


class _Exchange:
    """The application's side of one request."""

    def __init__(self, body: Message, send: Send) -> None:
        self._body: Message | None = body
        self._send = send
        self.gone = asyncio.Event()
        self.complete = False

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return body
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.complete = True
        await self._send(message)


async def _until_gone(receive: Receive, exchange: _Exchange) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    exchange.gone.set()

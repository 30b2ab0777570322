"""The layer that takes bodies, without a connection."""

from __future__ import annotations

import asyncio
import gzip
import sys
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from ninfer_core.api import ErrorCategory, RequestError
from ninfer_core.serving.asgi import Receive, Scope, Send
from ninfer_core.serving.body import HELD_BYTES, BodyLayer, BodyPace, held_bytes_bound
from ninfer_core.serving.content_encoding import INPUT_BYTES, OUTPUT_BYTES, decompressed

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


class Client:
    """Gives its body in pieces and keeps what it is answered."""

    def __init__(self, *pieces: bytes, encoding: bytes = b"identity") -> None:
        self.incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        for index, piece in enumerate(pieces):
            self.give(piece, more=index + 1 < len(pieces))
        self.sent: list[Any] = []
        self._encoding = encoding

    def give(self, piece: bytes, *, more: bool = True) -> None:
        self.incoming.put_nowait({"type": "http.request", "body": piece, "more_body": more})

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def through(self, layer: BodyLayer) -> None:
        headers = [(b"content-encoding", self._encoding)]
        scope: Scope = {"type": "http", "method": "POST", "path": "/v1/x", "headers": headers}
        await layer(scope, self.incoming.get, self.send)


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message["body"]})


def test_a_body_in_pieces_arrives_whole() -> None:
    client = Client(b"ab", b"", b"cd")
    asyncio.run(client.through(BodyLayer(echo, max_bytes=4)))
    assert client.sent[1]["body"] == b"abcd"


def test_a_body_that_stops_coming_is_given_up() -> None:
    layer = BodyLayer(echo, max_bytes=10, pace=BodyPace(silence_seconds=0.02))
    with pytest.raises(RequestError) as raised:
        asyncio.run(Client().through(layer))
    assert (raised.value.code, getattr(raised.value, "status", None)) == ("request_timeout", 408)


def test_a_body_that_drips_is_given_up() -> None:
    """Never silent for long, and still too slow."""

    async def run() -> None:
        client = Client()
        pace = BodyPace(silence_seconds=5.0, grace_seconds=0.1, bytes_per_second=1000)

        async def drip() -> None:
            while True:
                client.give(b"x")
                await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        async with asyncio.timeout(20):
            with pytest.raises(RequestError) as raised:
                await client.through(BodyLayer(echo, max_bytes=10_000, pace=pace))
        dripping.cancel()
        assert raised.value.code == "request_timeout"

    asyncio.run(run())


def test_patience_grows_with_what_has_come() -> None:
    pace = BodyPace(silence_seconds=30, grace_seconds=30, bytes_per_second=1000)
    assert pace.patience(0, 0) == 30
    assert pace.patience(40, 0) == 0
    assert pace.patience(40, 15_000) == 5
    assert pace.patience(40, 10**9) == 30


def test_the_bound_of_all_bodies_is_small_and_fits_one() -> None:
    assert held_bytes_bound(384 * 2**20) == HELD_BYTES == 2**30
    assert held_bytes_bound(2**30) == 2**31


@pytest.mark.contract("EXEC-21")
def test_all_bodies_together_are_bounded_and_given_back() -> None:
    async def run() -> None:
        release = asyncio.Event()

        async def hold(scope: Scope, receive: Receive, send: Send) -> None:
            await release.wait()

        layer = BodyLayer(hold, max_bytes=10, max_held_bytes=20)
        held = [asyncio.create_task(Client(b"x" * 10).through(layer)) for _ in range(2)]
        await asyncio.sleep(0.01)
        with pytest.raises(RequestError, match="20 of the 20 bytes") as raised:
            await Client(b"x").through(layer)
        assert (raised.value.code, raised.value.category) == ("server_overloaded", ErrorCategory.OVERLOADED)
        release.set()
        await asyncio.gather(*held)
        await Client(b"x" * 10).through(layer)

    asyncio.run(run())


def packed(plain: bytes, encoding: str) -> bytes:
    return gzip.compress(plain, 1) if encoding == "gzip" else zstd.compress(plain)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize("size", [0, 1, OUTPUT_BYTES - 1, OUTPUT_BYTES, OUTPUT_BYTES + 1, 3 * OUTPUT_BYTES])
@pytest.mark.parametrize("is_dense", [True, False])
def test_what_was_packed_comes_out_whatever_its_size(encoding: str, size: int, is_dense: bool) -> None:
    """In several pieces too, whose ends lie anywhere in the slices that are decompressed."""
    plain = bytes(size) if is_dense else b"".join(index.to_bytes(4, "big") for index in range(size // 4 + 1))[:size]
    body = packed(plain, encoding)
    counted: list[int] = []
    assert decompressed(body, encoding, size, counted.append) == plain
    assert sum(counted) == size and max(counted, default=0) <= OUTPUT_BYTES
    twice = packed(b"x" * INPUT_BYTES, encoding) + body
    assert decompressed(twice, encoding, size + INPUT_BYTES, counted.append) == b"x" * INPUT_BYTES + plain


@pytest.mark.contract("EXEC-21")
@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_inflated_bytes_are_counted_before_they_are_kept(encoding: str) -> None:
    """A body far over the bound is refused after a few of its megabytes, and everything is given back."""
    size = 64 * 2**20
    bomb = packed(bytes(size), encoding)

    async def run() -> None:
        layer = BodyLayer(echo, max_bytes=size, max_held_bytes=4 * 2**20)
        with pytest.raises(RequestError) as raised:
            await Client(bomb, encoding=encoding.encode()).through(layer)
        assert raised.value.code == "server_overloaded"
        fits = Client(packed(bytes(3 * 2**20), encoding), encoding=encoding.encode())
        await fits.through(layer)
        assert len(fits.sent[1]["body"]) == 3 * 2**20
        await Client(bytes(4 * 2**20)).through(layer)

    tracemalloc.start()
    try:
        asyncio.run(run())
        assert tracemalloc.get_traced_memory()[1] < 24 * 2**20
    finally:
        tracemalloc.stop()


def test_what_a_thread_still_inflates_counts_after_its_client_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()

    def slow(body: bytes, encoding: str, max_bytes: int, count: Callable[[int], None]) -> bytes:
        count(6)
        assert may_end.wait(30)
        return b"x" * 6

    async def run() -> None:
        layer = BodyLayer(echo, max_bytes=10, max_held_bytes=10)
        request = asyncio.create_task(Client(b"abcd", encoding=b"gzip").through(layer))
        await asyncio.sleep(0.1)
        request.cancel()
        await asyncio.wait((request,))
        with pytest.raises(RequestError, match="10 of the 10 bytes"):
            await Client(b"x").through(layer)
        may_end.set()
        async with asyncio.timeout(20):
            while True:
                try:
                    await Client(b"x" * 10).through(layer)
                    break
                except RequestError:
                    await asyncio.sleep(0.01)

    monkeypatch.setattr("ninfer_core.serving.body.decompressed", slow)
    asyncio.run(run())

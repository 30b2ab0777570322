"""Frames between the front and the engine process: a 4-byte little-endian length, then one msgpack message.

Both ends are the same program of the same version, started one by the other, so the format carries no version;
the length is checked all the same, so that a broken peer cannot ask for unbounded memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import BinaryIO, Generic, TypeVar

import msgspec

from ninfer_core.api.errors import NinferError
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.engine.messages import EngineMessage, FrontMessage
from ninfer_core.engine.scripted.script import Script

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Far above the largest honest message: a Submit of a million token ids is 5 MB, a plan some 10 kB."""

_LENGTH_BYTES = 4

Message = TypeVar("Message")


class FrameInvalid(NinferError):
    """The peer sent something that is no frame of this protocol; the connection cannot be used any further."""

    code = "engine_link_broken"


class EngineStart(msgspec.Struct, frozen=True, kw_only=True, tag="start"):
    """The first frame to a new engine process. `source` is the artifact as `open_artifact` takes it, `log_level`
    a word of `telemetry.LEVELS`, `stats_interval_ms` the time between two Throughput messages, 0 for none. With a
    `script` no model is loaded, and answers are those of the script."""

    plan: ExecutionPlan
    source: str | None
    log_level: str = "info"
    stats_interval_ms: int = 0
    script: Script | None = None


def encode_frame(message: FrontMessage | EngineMessage | EngineStart) -> bytes:
    """One complete frame. Raises FrameInvalid when it would be larger than the peer accepts."""
    body = msgspec.msgpack.encode(message)
    if len(body) > MAX_FRAME_BYTES:
        raise FrameInvalid(f"a message of {len(body)} bytes is over the frame limit of {MAX_FRAME_BYTES}")
    return len(body).to_bytes(_LENGTH_BYTES, "little") + body


def start_decoder() -> Callable[[bytes], EngineStart]:
    return _checked(msgspec.msgpack.Decoder(EngineStart).decode)


def front_decoder() -> Callable[[bytes], FrontMessage]:
    """Decodes bodies that the front sends, after the EngineStart."""
    return _checked(msgspec.msgpack.Decoder[FrontMessage](FrontMessage).decode)


def engine_decoder() -> Callable[[bytes], EngineMessage]:
    """Decodes bodies that the engine sends."""
    return _checked(msgspec.msgpack.Decoder[EngineMessage](EngineMessage).decode)


def _checked(decode: Callable[[bytes], Message]) -> Callable[[bytes], Message]:
    def checked(body: bytes) -> Message:
        try:
            return decode(body)
        except msgspec.DecodeError as error:
            raise FrameInvalid(f"a frame of {len(body)} bytes is no message: {error}") from error

    return checked


def _body_bytes(header: bytes) -> int:
    length = int.from_bytes(header, "little")
    if length > MAX_FRAME_BYTES:
        raise FrameInvalid(f"a frame announces {length} bytes; the limit is {MAX_FRAME_BYTES}")
    return length


def _check_whole(data: bytes, wanted: int) -> None:
    if len(data) < wanted:
        raise FrameInvalid(f"the peer closed after {len(data)} of {wanted} bytes of a frame")


class BlockingReader(Generic[Message]):
    """Reads frames from a buffered stream, such as `connection.makefile("rb")`. Several readers may take turns on
    one stream, each for the messages it decodes."""

    def __init__(self, stream: BinaryIO, decode: Callable[[bytes], Message]) -> None:
        self._stream = stream
        self._decode = decode

    def read(self) -> Message | None:
        """The next message, or None when the peer has closed at a frame's end. Raises FrameInvalid or OSError."""
        header = self._stream.read(_LENGTH_BYTES)
        if not header:
            return None
        _check_whole(header, _LENGTH_BYTES)
        wanted = _body_bytes(header)
        body = self._stream.read(wanted)
        _check_whole(body, wanted)
        return self._decode(body)


class AsyncReader(Generic[Message]):
    """Reads frames from an asyncio stream."""

    def __init__(self, stream: asyncio.StreamReader, decode: Callable[[bytes], Message]) -> None:
        self._stream = stream
        self._decode = decode

    async def read(self) -> Message | None:
        """As BlockingReader.read."""
        header = await self._read(_LENGTH_BYTES)
        if not header:
            return None
        _check_whole(header, _LENGTH_BYTES)
        wanted = _body_bytes(header)
        body = await self._read(wanted)
        _check_whole(body, wanted)
        return self._decode(body)

    async def _read(self, wanted: int) -> bytes:
        try:
            return await self._stream.readexactly(wanted)
        except asyncio.IncompleteReadError as error:
            return error.partial

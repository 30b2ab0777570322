"""Compressed request bodies: gzip and zstd, one piece after the other, bounded in size and in memory (decision 11)."""

from __future__ import annotations

import io
import sys
import zlib
from collections.abc import Callable, Mapping
from typing import Protocol

from ninfer_core.api.errors import RequestTooLarge
from ninfer_core.serving.errors import HTTPProblem

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

GZIP_WINDOW = 16 + zlib.MAX_WBITS
"""zlib's way to say: a gzip header and trailer."""

ZSTD_WINDOW_LOG = 23
"""8 MiB: what RFC 9659 lets a sender ask a receiver to keep."""


INPUT_BYTES = 256 * 1024
OUTPUT_BYTES = 2**20
"""At a time: no more than the latter is there before it is counted."""


class _Piece(Protocol):
    """One gzip member or zstd frame as it is decompressed."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    @property
    def unconsumed_tail(self) -> bytes: ...

    def decompress(self, data: bytes | memoryview, max_length: int, /) -> bytes: ...


class _ZstdFrame:
    """With zlib's names. What it could not use yet it keeps itself."""

    unconsumed_tail = b""

    def __init__(self) -> None:
        self._frame = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG})

    @property
    def eof(self) -> bool:
        return self._frame.eof

    @property
    def unused_data(self) -> bytes:
        return self._frame.unused_data

    def decompress(self, data: bytes | memoryview, max_length: int) -> bytes:
        return self._frame.decompress(data, max_length)


MAX_PIECES = 64
"""Members or frames in one body. Usual clients send one."""

_PIECES: Mapping[str, Callable[[], _Piece]] = {
    "gzip": lambda: zlib.decompressobj(GZIP_WINDOW),
    "zstd": _ZstdFrame,
}
_ALIASES: Mapping[str, str] = {"": "identity", "identity": "identity", "gzip": "gzip", "x-gzip": "gzip", "zstd": "zstd"}


def known_encoding(value: str) -> str:
    """`identity`, `gzip` or `zstd`. Raises HTTPProblem `unsupported_content_encoding`."""
    encoding = _ALIASES.get(value.strip().lower())
    if encoding is None:
        raise HTTPProblem(
            400,
            f"content-encoding '{value}' is not understood here; send gzip or zstd, or the body as it is",
            code="unsupported_content_encoding",
        )
    return encoding


def decompressed(body: bytes, encoding: str, max_bytes: int, count: Callable[[int], None]) -> bytes:
    """All pieces of `body` together. `count` is told of bytes before they are kept, and may refuse them by what it
    raises. Raises RequestTooLarge above `max_bytes`, or HTTPProblem `invalid_content_encoding`."""
    plain = io.BytesIO()

    def keep(data: bytes) -> None:
        if plain.tell() + len(data) > max_bytes:
            raise RequestTooLarge(limit_bytes=max_bytes)
        count(len(data))
        plain.write(data)

    rest = memoryview(body)
    pieces = 0
    try:
        while rest or not pieces:
            pieces += 1
            if pieces > MAX_PIECES:
                raise _invalid(encoding, f"it has more than {MAX_PIECES} pieces; send one")
            consumed = _decompress_piece(_PIECES[encoding](), rest, keep)
            if consumed is None:
                raise _invalid(encoding, "it ends too early")
            rest = rest[consumed:]
    except (zlib.error, zstd.ZstdError) as problem:
        raise _invalid(encoding, str(problem)) from None
    return plain.getvalue()


def _decompress_piece(piece: _Piece, body: memoryview, keep: Callable[[bytes], None]) -> int | None:
    """How many bytes of `body` are the first piece; None when it does not end in them."""
    for start in range(0, len(body), INPUT_BYTES):
        data: bytes | memoryview = body[start : start + INPUT_BYTES]
        end = start + len(data)
        more = True
        while more:
            plain = piece.decompress(data, OUTPUT_BYTES)
            keep(plain)
            if piece.eof:
                return end - len(piece.unused_data)
            data = piece.unconsumed_tail
            more = bool(data) or len(plain) == OUTPUT_BYTES
    return None


def _invalid(encoding: str, problem: str) -> HTTPProblem:
    return HTTPProblem(400, f"the body is not valid {encoding}: {problem}", code="invalid_content_encoding")

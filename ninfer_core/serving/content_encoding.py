"""Compressed request bodies: gzip and zstd, one piece after the other, bounded in size and in memory (decision 11)."""

from __future__ import annotations

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


class _Piece(Protocol):
    """One gzip member or zstd frame as it is decompressed."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def _zstd_frame() -> _Piece:
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG})


MAX_PIECES = 64
"""Members or frames in one body. Usual clients send one; the rest of the body is copied for each."""

_PIECES: Mapping[str, Callable[[], _Piece]] = {
    "gzip": lambda: zlib.decompressobj(GZIP_WINDOW),
    "zstd": _zstd_frame,
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


def decompressed(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """All pieces of `body` together, never more than `max_bytes` of them at once. Raises RequestTooLarge, or
    HTTPProblem `invalid_content_encoding`."""
    pieces: list[bytes] = []
    total = 0
    try:
        while body or not pieces:
            piece = _PIECES[encoding]()
            pieces.append(piece.decompress(body, max_bytes + 1 - total))
            total += len(pieces[-1])
            if total > max_bytes:
                raise RequestTooLarge(limit_bytes=max_bytes)
            if not piece.eof:
                raise _invalid(encoding, "it ends too early")
            if len(pieces) > MAX_PIECES:
                raise _invalid(encoding, f"it has more than {MAX_PIECES} pieces; send one")
            body = piece.unused_data
    except (zlib.error, zstd.ZstdError) as problem:
        raise _invalid(encoding, str(problem)) from None
    return b"".join(pieces)


def _invalid(encoding: str, problem: str) -> HTTPProblem:
    return HTTPProblem(400, f"the body is not valid {encoding}: {problem}", code="invalid_content_encoding")

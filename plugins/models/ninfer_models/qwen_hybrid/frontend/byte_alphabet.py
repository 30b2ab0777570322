"""The 256 characters that stand for bytes in byte-level BPE vocabularies.

A byte whose Latin-1 character is visible stands for itself; the others take U+0100, U+0101, ... in byte order.
"""

from __future__ import annotations

from collections.abc import Mapping


def _alphabet() -> tuple[str, ...]:
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    stand_ins = {byte: chr(0x100 + place) for place, byte in enumerate(hidden)}
    return tuple(stand_ins.get(byte, chr(byte)) for byte in range(256))


CHARACTER_OF_BYTE: tuple[str, ...] = _alphabet()
BYTE_OF_CHARACTER: Mapping[str, int] = {character: byte for byte, character in enumerate(CHARACTER_OF_BYTE)}


def to_characters(data: bytes) -> str:
    """The vocabulary's spelling of `data`."""
    return "".join(CHARACTER_OF_BYTE[byte] for byte in data)


def to_bytes(spelling: str) -> bytes:
    """What a vocabulary entry stands for; an entry outside the alphabet stands for its own UTF-8."""
    try:
        return bytes(BYTE_OF_CHARACTER[character] for character in spelling)
    except KeyError:
        return spelling.encode()

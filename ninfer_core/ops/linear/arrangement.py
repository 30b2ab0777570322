"""Where the four-bit codes of an nvfp4 matrix lie on a device, so that few operations make operands of them.

Files pair neighbours: byte b of a row has inputs 2b (low half) and 2b + 1. On a device the sixteen codes of a block lie
in four words of 16 bits, the codes of inputs j, 4 + j, 8 + j and 12 + j in word j: so that the codes in one place of
two words are those of two neighbours in x. With w a word and s the same word with its bytes exchanged, the four codes
are, with the sign in bit 15 and the rest in bits 8 to 6,

    w        s << 4        s ^ (w << 2)        s ^ (w << 6)

where other bits mean nothing. That is where bfloat16 has its sign, the lower exponent and the upper fraction, and it
takes eight operations for the eight codes of two words; a search over all sets of fewer shifts and exchanges found none
that works. All sixteen bits of a word have a part in it: there is one word for any four codes.

A row whose inputs are a multiple of 128 has its words exchanged besides. Of every 32 words, with their number in binary
as h t t c e, the places of h and c are exchanged: an instruction multiplies two pairs of words that are 16 words apart,
and so it finds what belongs to them side by side in x.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from ninfer_core.ops.workspace.linear_tiles import NVFP4_INPUTS

SIGN, REST, REST_SHIFT = 1 << 15, 7 << 6, 6
"""Of an operand: the bit of the sign, those of the other three, and how far up they are."""
EXCHANGED = NVFP4_INPUTS
"""Inputs among whose words some are exchanged, in rows that consist of so many."""
_CODES_AT_ONCE = 4 * 2**20
"""Bytes of codes in work at a time, some twenty bytes of temporaries for each."""


def arrange(codes: torch.Tensor) -> None:
    """Codes as a file has them, uint8 [..., inputs / 2] and contiguous -> as a device has them, in the same memory."""
    words, flat = _word_by_codes(codes.device), codes.view(-1)
    for start in range(0, flat.numel(), _CODES_AT_ONCE):
        piece = flat[start : start + _CODES_AT_ONCE]
        pairs = piece.view(-1, 4, 2).int()  # [blocks, places, pairs of words]
        halves = torch.stack((_joined(pairs & 15), _joined(pairs >> 4)), -1)  # [blocks, pairs, words of a pair]
        arranged = functional.embedding(halves, words)
        piece.copy_(_exchanged(arranged, codes).view(torch.uint8).view(-1))


def file_order(codes: torch.Tensor) -> torch.Tensor:
    """The reverse of `arrange`, as a copy."""
    words = _exchanged(codes.contiguous().view(torch.int16), codes).int() & 0xFFFF
    even, odd = _codes(words).view(-1, 2, 2).unbind(-1)  # [blocks, pairs of words]
    pairs = [((even >> 4 * place) & 15) | ((odd >> 4 * place) & 15) << 4 for place in range(4)]
    return torch.stack(pairs, 1).to(torch.uint8).view(codes.shape)


def _exchanged(words: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """Words of rows of `codes` in the other of their two orders; the same for both."""
    if 2 * codes.shape[-1] % EXCHANGED:
        return words
    return words.reshape(-1, 2, 4, 2, 2).transpose(1, 3).contiguous()


def _joined(places: torch.Tensor) -> torch.Tensor:
    """[blocks, 4, 2] -> [blocks, 2]: the four codes of a word side by side, the first lowest."""
    first, second, third, fourth = places.unbind(1)
    return first | second << 4 | third << 8 | fourth << 12


def _codes(words: torch.Tensor) -> torch.Tensor:
    """Words, int32 of 16 bits -> their codes side by side, the first lowest."""
    exchanged = (words >> 8) | (words << 8)
    operands = (words, exchanged << 4, exchanged ^ (words << 2), exchanged ^ (words << 6))
    codes = torch.zeros_like(words)
    for place, operand in enumerate(operands):
        code = ((operand & SIGN) >> 12) | ((operand & REST) >> REST_SHIFT)
        codes |= code << 4 * place
    return codes


def _word_by_codes(device: torch.device) -> torch.Tensor:
    """[65536, 1] int16: the word that has four codes, by these side by side."""
    words = torch.arange(1 << 16, dtype=torch.int32, device=device)
    found = torch.empty_like(words)
    found[_codes(words).long()] = words
    return found.to(torch.int16).unsqueeze(1)

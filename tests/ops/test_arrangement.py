"""How nvfp4 codes lie on a device: against the rule in words, code by code, and back again."""

from __future__ import annotations

import pytest
import torch

from ninfer_core.ops.linear import arrange, arrangement
from ninfer_core.ops.linear.arrangement import file_order

EVERY_WORD = range(1 << 16)


def four_codes(word: int) -> list[int]:
    """The operands of the four places, and the code whose sign and rest each of them has."""
    exchanged = (word >> 8) | (word & 255) << 8
    operands = (word, exchanged << 4, exchanged ^ word << 2, exchanged ^ word << 6)
    return [(operand >> 15 & 1) << 3 | (operand >> 6 & 7) for operand in operands]


def nibbles(codes: torch.Tensor) -> torch.Tensor:
    """uint8 [..., n] in the order of files -> [..., 2n]."""
    return torch.stack((codes & 15, codes >> 4), -1).flatten(-2)


def test_every_word_has_four_codes_that_no_other_has() -> None:
    words = torch.tensor(EVERY_WORD, dtype=torch.int32).to(torch.int16)
    of_blocks = nibbles(file_order(words.view(torch.uint8).view(-1, 8))).view(-1, 4, 4)  # [blocks, places, words]
    found = of_blocks.transpose(1, 2).reshape(-1, 4)
    assert found.tolist() == [four_codes(word) for word in EVERY_WORD]
    assert len({tuple(codes) for codes in found.tolist()}) == len(EVERY_WORD)


@pytest.mark.parametrize("shape", [(8,), (3, 16), (2, 5, 24), (2, 3, 64), (5, 128), (3, 96)])
@pytest.mark.parametrize("at_once", [64, 128, 1 << 20])
def test_codes_come_back(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], at_once: int) -> None:
    monkeypatch.setattr(arrangement, "_CODES_AT_ONCE", at_once)
    codes = torch.randint(256, shape, dtype=torch.uint8)
    arranged = codes.clone()
    arrange(arranged)
    assert not torch.equal(arranged, codes)
    assert torch.equal(file_order(arranged), codes)


@pytest.mark.parametrize("inputs", [48, 192, 256])
def test_an_input_is_found_in_its_block_word_and_place(inputs: int) -> None:
    for column in range(inputs):
        codes = torch.zeros(inputs // 2, dtype=torch.uint8)
        codes[column // 2] = 13 << 4 * (column % 2)
        arrange(codes)
        words = [word & 0xFFFF for word in codes.view(torch.int16).tolist()]
        word, place = column // 16 * 4 + column % 4, column % 16 // 4
        if inputs % 128 == 0:
            binary = f"{word:08b}"
            word = int(binary[:3] + binary[6] + binary[4:6] + binary[3] + binary[7], 2)
        expected = [[0] * 4 for _ in words]
        expected[word][place] = 13
        assert [four_codes(each) for each in words] == expected

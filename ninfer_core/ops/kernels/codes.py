"""Codes of weights into operands of a dot, by moving their bits.

The bits of an e4m3 or e2m1 code, put into the lower exponent and upper fraction of a bfloat16, are its value times a
power of two, subnormal values included: UNIT is what that has to be multiplied with. No code of weights is a NaN.

Codes come as 16 bits: two of e4m3, the first in the lowest bits, or four of e2m1. What is taken out of them are the
codes in one place of all; so the inputs of a product are walked in that many parts. Assembly works on two words at
once; without ASSEMBLY, for the interpreter, the same bits are put into a float32.
"""

from __future__ import annotations

import triton
import triton.language as tl

E4M3_UNIT: tl.constexpr = tl.constexpr(2.0**120)
E2M1_UNIT: tl.constexpr = tl.constexpr(2.0**126)
E4M3_SHIFT: tl.constexpr = tl.constexpr(2.0**60)
"""Half of E4M3_UNIT: x is multiplied with it and the sum again, so that neither leaves the range of float32."""
BLOCK_SHIFT: tl.constexpr = tl.constexpr(2.0**118)
"""A block scale times this and an e2m1 code over E2M1_UNIT are a value · 2**-8; more would overflow bfloat16."""
BLOCK_REST: tl.constexpr = tl.constexpr(2.0**8)


@triton.jit
def _two_words(words, ASSEMBLY_TEXT: tl.constexpr):
    return tl.inline_asm_elementwise(ASSEMBLY_TEXT, "=r,r", [words], dtype=tl.bfloat16, is_pure=True, pack=2)


E4M3_FIRST: tl.constexpr = tl.constexpr("""
    { .reg .b32 sign, rest;
      shl.b32 rest, $1, 4;
      shl.b32 sign, $1, 8;
      and.b32 rest, rest, 0x07f007f0;
      lop3.b32 $0, sign, 0x80008000, rest, 0xea; }""")
E4M3_SECOND: tl.constexpr = tl.constexpr("""
    { .reg .b32 rest;
      shr.b32 rest, $1, 4;
      and.b32 rest, rest, 0x07f007f0;
      lop3.b32 $0, $1, 0x80008000, rest, 0xea; }""")
E2M1: tl.constexpr = tl.constexpr("""
    { .reg .b32 exchanged, second, third, fourth;
      prmt.b32 exchanged, $4, $4, 0x2301;
      mul.lo.u32 second, exchanged, 16;
      mul.lo.u32 third, $4, 4;
      mul.lo.u32 fourth, $4, 64;
      and.b32 $0, $4, 0x81c081c0;
      and.b32 $1, second, 0x81c081c0;
      lop3.b32 $2, exchanged, third, 0x81c081c0, 0x28;
      lop3.b32 $3, exchanged, fourth, 0x81c081c0, 0x28; }""")
"""0xea is (first & second) | third: the sign, and the rest of the code below it. 0x28 is (first ^ second) & third.
Shifts by multiplication run beside the logic, and what they carry into the upper word is below its bits."""


@triton.jit
def e4m3(words, PLACE: tl.constexpr, ASSEMBLY: tl.constexpr):
    """16-bit words -> values / E4M3_UNIT of the code in PLACE 0 or 1, bfloat16 (float32 without ASSEMBLY)."""
    if ASSEMBLY:
        return _two_words(words, E4M3_FIRST if PLACE == 0 else E4M3_SECOND)
    else:
        bits = words.to(tl.int32) >> (8 * PLACE)
        return (((bits & 128) << 24) | ((bits & 127) << 20)).to(tl.float32, bitcast=True)


@triton.jit
def e2m1(words, ASSEMBLY: tl.constexpr):
    """16-bit words -> values / E2M1_UNIT of their codes, the first to the fourth, each of the shape of `words`, in
    bfloat16 (float32 without ASSEMBLY). `linear.arrangement` says where they lie."""
    if ASSEMBLY:
        return tl.inline_asm_elementwise(
            E2M1,
            "=r,=r,=r,=r,r",
            [words],
            dtype=(tl.bfloat16, tl.bfloat16, tl.bfloat16, tl.bfloat16),
            is_pure=True,
            pack=2,
        )
    else:
        bits = words.to(tl.int32) & 0xFFFF
        exchanged = (bits >> 8) | (bits << 8)
        return (
            _operand(bits),
            _operand(exchanged << 4),
            _operand(exchanged ^ (bits << 2)),
            _operand(exchanged ^ (bits << 6)),
        )


@triton.jit
def _operand(bits):
    """Of an e2m1 code, the sign in bit 15 and the rest in bits 8 to 6; other bits mean nothing."""
    return ((bits & 0x81C0) << 16).to(tl.float32, bitcast=True)

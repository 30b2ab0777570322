"""Codes of weights into operands of a dot, by moving their bits.

The bits of an e4m3 or e2m1 code, put into the lower exponent and upper fraction of a bfloat16, are its value times a
power of two, subnormal values included: UNIT is what that has to be multiplied with. No code of weights is a NaN.

Codes come as 16 bits: two of e4m3 or four of e2m1, the first in the lowest bits. A function takes the ones in one place
of all; so the inputs of a product are walked in that many parts. Assembly works on two words at once; without ASSEMBLY,
for the interpreter, the same bits are put into a float32.
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
E2M1_FIRST: tl.constexpr = tl.constexpr("""
    { .reg .b32 code;
      and.b32 code, $1, 0x000f000f;
      mul.lo.u32 code, code, 0x1040;
      and.b32 $0, code, 0x81c081c0; }""")
E2M1_SECOND: tl.constexpr = tl.constexpr("""
    { .reg .b32 code;
      and.b32 code, $1, 0x00f000f0;
      mul.lo.u32 code, code, 0x104;
      and.b32 $0, code, 0x81c081c0; }""")
E2M1_THIRD: tl.constexpr = tl.constexpr("""
    { .reg .b32 code;
      shr.b32 code, $1, 8;
      and.b32 code, code, 0x000f000f;
      mul.lo.u32 code, code, 0x1040;
      and.b32 $0, code, 0x81c081c0; }""")
E2M1_FOURTH: tl.constexpr = tl.constexpr("""
    { .reg .b32 code;
      shr.b32 code, $1, 8;
      and.b32 code, code, 0x00f000f0;
      mul.lo.u32 code, code, 0x104;
      and.b32 $0, code, 0x81c081c0; }""")
"""0xea is (first & second) | third: the sign, and the rest of the code below it. The four bits of an e2m1 code are put
in both places by one multiplication, which runs beside the logic: the factor is the sum of the two powers of two."""


@triton.jit
def e4m3(words, PLACE: tl.constexpr, ASSEMBLY: tl.constexpr):
    """16-bit words -> values / E4M3_UNIT of the code in PLACE 0 or 1, bfloat16 (float32 without ASSEMBLY)."""
    if ASSEMBLY:
        return _two_words(words, E4M3_FIRST if PLACE == 0 else E4M3_SECOND)
    else:
        bits = words.to(tl.int32) >> (8 * PLACE)
        return (((bits & 128) << 24) | ((bits & 127) << 20)).to(tl.float32, bitcast=True)


@triton.jit
def e2m1(words, PLACE: tl.constexpr, ASSEMBLY: tl.constexpr):
    """16-bit words -> values / E2M1_UNIT of the code in PLACE 0 to 3, bfloat16 (float32 without ASSEMBLY)."""
    if ASSEMBLY:
        if PLACE < 2:
            return _two_words(words, E2M1_FIRST if PLACE == 0 else E2M1_SECOND)
        else:
            return _two_words(words, E2M1_THIRD if PLACE == 2 else E2M1_FOURTH)
    else:
        bits = words.to(tl.int32) >> (4 * PLACE)
        return (((bits & 8) << 28) | ((bits & 7) << 22)).to(tl.float32, bitcast=True)

"""Codes of weights into operands of a dot, by moving their bits.

The bits of an e4m3 or e2m1 code, put into the lower exponent and upper fraction of a bfloat16, are its value times a
power of two, subnormal values included: UNIT is what that has to be multiplied with. No code of weights is a NaN.

Assembly works on four codes at once; without ASSEMBLY, for the interpreter, the same bits are put into a float32.
"""

from __future__ import annotations

import triton
import triton.language as tl

E4M3_UNIT: tl.constexpr = tl.constexpr(2.0**120)
E2M1_UNIT: tl.constexpr = tl.constexpr(2.0**126)


@triton.jit
def e4m3(codes, ASSEMBLY: tl.constexpr):
    """Bytes -> values / E4M3_UNIT, bfloat16 (float32 without ASSEMBLY)."""
    if ASSEMBLY:
        # A byte in the upper half of 16 bits is s eeee mmm 0…: all but the sign move down by four.
        return tl.inline_asm_elementwise(
            """
            {
            .reg .b32 first, second, low, high;
            prmt.b32 first, $2, 0, 0x1404;
            prmt.b32 second, $2, 0, 0x3424;
            shr.b32 low, first, 4;
            shr.b32 high, second, 4;
            and.b32 low, low, 0x07f007f0;
            and.b32 high, high, 0x07f007f0;
            lop3.b32 $0, first, 0x80008000, low, 0xea;
            lop3.b32 $1, second, 0x80008000, high, 0xea;
            }
            """,
            "=r,=r,r",
            [codes],
            dtype=tl.bfloat16,
            is_pure=True,
            pack=4,
        )
    else:
        bits = codes.to(tl.int32)
        return (((bits & 128) << 24) | ((bits & 127) << 20)).to(tl.float32, bitcast=True)


@triton.jit
def e2m1_low(codes, ASSEMBLY: tl.constexpr):
    """The low four bits of bytes -> values / E2M1_UNIT, bfloat16 (float32 without ASSEMBLY)."""
    if ASSEMBLY:
        # In the upper half of 16 bits the low nibble is ….s ee m…: the sign moves up by four, the rest down by two.
        return tl.inline_asm_elementwise(
            """
            {
            .reg .b32 first, second, low, high;
            prmt.b32 first, $2, 0, 0x1404;
            prmt.b32 second, $2, 0, 0x3424;
            shr.b32 low, first, 2;
            shr.b32 high, second, 2;
            and.b32 low, low, 0x01c001c0;
            and.b32 high, high, 0x01c001c0;
            shl.b32 first, first, 4;
            shl.b32 second, second, 4;
            lop3.b32 $0, first, 0x80008000, low, 0xea;
            lop3.b32 $1, second, 0x80008000, high, 0xea;
            }
            """,
            "=r,=r,r",
            [codes],
            dtype=tl.bfloat16,
            is_pure=True,
            pack=4,
        )
    else:
        bits = codes.to(tl.int32)
        return (((bits & 8) << 28) | ((bits & 7) << 22)).to(tl.float32, bitcast=True)


@triton.jit
def e2m1_high(codes, ASSEMBLY: tl.constexpr):
    """The high four bits of bytes -> values / E2M1_UNIT, bfloat16 (float32 without ASSEMBLY)."""
    if ASSEMBLY:
        return tl.inline_asm_elementwise(
            """
            {
            .reg .b32 first, second, low, high;
            prmt.b32 first, $2, 0, 0x1404;
            prmt.b32 second, $2, 0, 0x3424;
            shr.b32 low, first, 6;
            shr.b32 high, second, 6;
            and.b32 low, low, 0x01c001c0;
            and.b32 high, high, 0x01c001c0;
            lop3.b32 $0, first, 0x80008000, low, 0xea;
            lop3.b32 $1, second, 0x80008000, high, 0xea;
            }
            """,
            "=r,=r,r",
            [codes],
            dtype=tl.bfloat16,
            is_pure=True,
            pack=4,
        )
    else:
        return e2m1_low(codes.to(tl.int32) >> 4, False)

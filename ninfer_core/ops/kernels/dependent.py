"""Launches that begin while the one ahead of them ends (programmatic dependent launch), and the rule they keep.

A launch marked `launch_pdl` begins once every program of the launch ahead has called `let_next_begin` or ended. Its
programs then share the device with those ahead, and must say themselves when they need what was computed there:
`wait_for_launches` returns when the launch ahead has ended and all that it stored can be read.

**Every kernel of a chain waits, in every program that reads or stores anything of the chain.** A launch so ends only
after the one ahead of it has, and who has waited for the launch ahead has waited for all before it.

**Letting the next begin is safe anywhere.** The next launch waits for the end of this one, not for the call: what is
stored after the call is as visible as what was stored before it. Where to call is a question of time alone. At the top,
the next launch fetches its weights beside this one's, and its programs hold registers and shared memory that programs
of this launch may still want; after the last load, it fills what this one has stopped using.

**Before waiting, a kernel reads only what no launch of the chain stores**: weights, scales, tables. With one exception:
what was stored by launches before the one ahead may be read too, if that one calls in the order of `follow`. It has
then waited when this one begins; what it saw may still be old in the cache of a multiprocessor, so such loads go past
it (`cache_modifier=".cg"`). Nothing is stored before waiting.

So the order says what the next kernel may do: `follow` (wait, then let begin) is for kernels whose next one reads
further back; the other order for those whose next one reads nothing but weights before it waits.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def wait_for_launches(DEPENDENT: tl.constexpr):
    """Return when all that earlier launches stored can be read. Does nothing in a launch that is not DEPENDENT."""
    if DEPENDENT:
        gdc_wait()


@triton.jit
def let_next_begin(DEPENDENT: tl.constexpr):
    """Let the next launch begin, once all programs have called this. Does nothing in a launch that is not DEPENDENT."""
    if DEPENDENT:
        gdc_launch_dependents()


@triton.jit
def follow(DEPENDENT: tl.constexpr):
    """Both, in the order that lets the next launch read, before it waits, what was stored before this one."""
    if DEPENDENT:
        gdc_wait()
        gdc_launch_dependents()

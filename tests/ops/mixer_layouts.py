"""Prints the layouts that the decode kernel of `ops.delta_mixer` sums over, for heads of the widths given:

    python tests/ops/mixer_layouts.py 16 32 64 128

As JSON, for each width a list of [axis, layout] of every sum, layouts as Triton writes them. The kernel is compiled for
compute capability 9.0, as far as the form that says which lanes hold what; that takes no GPU.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import torch
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from ninfer_core.ops.delta_mixer import MixerColumns, MixerState, MixerWeights
from ninfer_core.ops.delta_mixer.launch import launch
from ninfer_core.ops.delta_mixer.triton import TritonMixer
from ninfer_core.ops.workspace.gated_delta import CONV_WIDTH

ROWS, COLUMNS, HEADS = 2, 4, 2
SUM = re.compile(r'"tt\.reduce"\([^)]*\) <\{axis = (\d+) .*?\}\) : \(tensor<[^,>]*, (.*?)>[,)][^\n]* -> ', re.DOTALL)
NAMED = re.compile(r"^(#\w+) = (#ttg\.\w+<.*>)$", re.MULTILINE)
"""Layouts stand at the head of a form, under names that what follows uses."""


class FormReached(Exception):
    """What is compiled behind the form says nothing more of layouts."""


def compile_round(width: int) -> None:
    """Compile the kernel of a round of a layer whose heads have `width` keys and values."""
    channels, ring = 3 * HEADS * width, 2 * COLUMNS
    gates = _empty(ROWS, COLUMNS, HEADS, dtype=torch.bfloat16)
    columns = MixerColumns(
        qkv=_empty(ROWS, COLUMNS, channels, dtype=torch.bfloat16),
        gate=_empty(ROWS, COLUMNS, HEADS * width, dtype=torch.bfloat16),
        b=gates,
        a=gates,
    )
    weights = MixerWeights(
        conv=_empty(channels, CONV_WIDTH),
        a_log=_empty(HEADS),
        dt_bias=_empty(HEADS),
        gate_norm=_empty(width),
        epsilon=1e-6,
        activation="silu",
        key_heads=HEADS,
        key_dim=width,
    )
    state = MixerState(
        memory=_empty(1, ROWS, HEADS, width, width),
        column=_empty(1, ROWS, CONV_WIDTH - 1 + ring, channels, dtype=torch.bfloat16),
        key=_empty(1, ROWS, ring, HEADS, width),
        update=_empty(1, ROWS, ring, HEADS, width),
        decay=_empty(1, ROWS, ring, HEADS),
    )
    rows = _empty(ROWS, dtype=torch.int64)
    TritonMixer(launch()).decode(columns, weights, state, 0, rows, rows, rows)


def _empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def summed_layouts(width: int) -> list[tuple[int, str]]:
    """Axis and layout of every sum."""
    forms: list[str] = []

    def stop_at_the_form(backend: Any = None, stages: Any = None, *_: Any) -> tuple[str, str]:
        if stages is not None:
            stage = stages["ttgir"]

            def stopping(module: Any, metadata: Any) -> None:
                forms.append(str(stage(module, metadata)))
                raise FormReached

            stages["ttgir"] = stopping
        return "", ""

    knobs.runtime.add_stages_inspection_hook = stop_at_the_form
    with suppress(FormReached):
        compile_round(width)
    (form,) = forms
    named = dict(NAMED.findall(form))
    return [
        (int(axis), re.sub(r"#\w+\b(?![.<])", lambda name: named[name[0]], layout))
        for axis, layout in SUM.findall(form)
    ]


def compile_instead_of_launching() -> None:
    target = GPUTarget("cuda", 90, 32)
    driver.set_active(
        SimpleNamespace(
            get_current_target=lambda: target,
            get_current_device=lambda: 0,
            get_current_stream=lambda device=None: 0,
        )
    )
    run = JITFunction.run

    def compile_only(kernel: Any, *given: Any, grid: Any, warmup: bool, **options: Any) -> None:
        run(kernel, *given, grid=grid, warmup=True, **options)

    JITFunction.run = compile_only


if __name__ == "__main__":
    compile_instead_of_launching()
    sys.stdout.write(json.dumps([summed_layouts(int(width)) for width in sys.argv[1:]]) + "\n")

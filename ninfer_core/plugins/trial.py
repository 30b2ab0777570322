"""Plugins tried on little before they are trusted with much: what a codec gives has to be what its layout says.

Hooks are held against their specs where they are called; what their results do afterwards is seen only by doing it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ninfer_core.api.errors import PluginBroken, PluginIncompatible
from ninfer_core.api.kv import KVCodec, KVLayout, KVPart
from ninfer_core.plugins.loading import LoadedPlugin, failures_of

if TYPE_CHECKING:
    import torch

HEAD_DIMS = (64, 128, 256)
"""Rows of keys and values that a KV format is asked about where there is no model: of usual ones."""

_PARTS: tuple[KVPart, ...] = ("key", "value")


def try_plugin(plugin: LoadedPlugin) -> None:
    """What can be called without an artifact. Raises PluginBroken, and PluginIncompatible for a KV format that stores
    rows of no usual size."""
    if plugin.offer.kind == "family":
        plugin.hook.ninfer_family_output_format()
        plugin.hook.ninfer_family_dummies()
    elif plugin.offer.kind == "kv":
        _try_format(plugin)


def try_codec(
    plugin: LoadedPlugin, codec: KVCodec, layout: KVLayout, head_dim: int, dtype: torch.dtype, device: torch.device
) -> None:
    """Encode and decode two tokens of two heads. Raises PluginBroken naming what is wrong with which method."""
    import torch

    label = plugin.offer.label
    if codec.layout != layout:
        raise PluginBroken(f"{label} gave back something wrong from ninfer_kv_codec: a codec of another layout")
    for part in _PARTS:
        values = torch.linspace(-1, 1, 4 * head_dim, device=device).view(2, 2, head_dim)
        values = values if layout.transform(part) != "none" else values.to(dtype)
        wanted = [((2, 2, plane.elements), getattr(torch, plane.dtype)) for plane in layout.part(part)]
        with failures_of(label, f"its codec's encode of a {part}"):
            planes = codec.encode(part, values)
        problem = None if isinstance(planes, tuple) else f"{type(planes).__name__}, where a tuple of tensors belongs"
        _require(label, f"encode of a {part}", problem or _difference(planes, wanted))
        with failures_of(label, f"its codec's decode of a {part}"):
            decoded = codec.decode(part, planes, dtype)
        _require(label, f"decode of a {part}", _difference((decoded,), [((2, 2, head_dim), dtype)]))


def _require(label: str, step: str, problem: str | None) -> None:
    if problem is not None:
        raise PluginBroken(f"{label} gave back something wrong from its codec's {step}: {problem}")


def _try_format(plugin: LoadedPlugin) -> None:
    refusals: list[PluginIncompatible] = []
    for head_dim in HEAD_DIMS:
        try:
            layout: KVLayout = plugin.hook.ninfer_kv_layout(head_dim=head_dim)
        except PluginIncompatible as refusal:
            refusals.append(refusal)
            continue
        # Layouts are for machines without torch as well, codecs are not.
        if importlib.util.find_spec("torch") is not None:
            import torch

            codec: KVCodec = plugin.hook.ninfer_kv_codec(layout=layout)
            try_codec(plugin, codec, layout, head_dim, torch.float32, torch.device("cpu"))
    if len(refusals) == len(HEAD_DIMS):
        raise refusals[-1]


def _difference(found: Sequence[object], wanted: Sequence[tuple[tuple[int, ...], torch.dtype]]) -> str | None:
    import torch

    if len(found) != len(wanted):
        return f"{len(found)} tensors, where the layout has {len(wanted)} planes"
    for index, (tensor, (shape, dtype)) in enumerate(zip(found, wanted, strict=True)):
        if not isinstance(tensor, torch.Tensor):
            return f"{type(tensor).__name__}, where a tensor belongs"
        if tuple(tensor.shape) != shape or tensor.dtype != dtype:
            return f"tensor {index} is {_words(tuple(tensor.shape), tensor.dtype)}, not {_words(shape, dtype)}"
    return None


def _words(shape: tuple[int, ...], dtype: torch.dtype) -> str:
    return f"{str(dtype).removeprefix('torch.')} {list(shape)}"

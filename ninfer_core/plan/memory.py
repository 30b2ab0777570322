"""What the program allocates, by pure arithmetic from the plan's numbers. The program allocates these very tensors,
so that the ledger and the device agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ninfer_core.api.artifact import DTYPE_BYTES, TensorSpec
from ninfer_core.api.geometry import BuildShape, Geometry, StateArray
from ninfer_core.api.kv import KVLayout
from ninfer_core.api.plan import Capacities, DeviceInfo
from ninfer_core.ops.workspace import accept, linear, paged_attention, partial_rope, sample
from ninfer_core.plan.units import MIB, ceiling_divide

PAGE_TOKENS = 64
"""Tokens of one KV page (docs/engine.md, "Pages")."""

DEVICE_CONTEXT_BYTES: Mapping[str, int] = MappingProxyType({"9.0": 720 * MIB})
"""CUDA context, loaded kernels and libraries by compute capability. Measured on an H200 with torch 2.11 and CUDA 13.0:
what the driver reports as used beyond what torch has reserved, 619 MiB after the first tensor and 687 MiB after
matrix products, convolutions, sorting and triangular solves; and the 32 MiB that torch reserves as the matrix
library's workspace."""
OTHER_DEVICE_CONTEXT_BYTES = 720 * MIB


def device_context_bytes(device: DeviceInfo) -> int:
    """Device memory that is taken before the first tensor is made."""
    if device.compute_capability is None:
        return 0
    return DEVICE_CONTEXT_BYTES.get(device.compute_capability, OTHER_DEVICE_CONTEXT_BYTES)


GRAPHS_BYTES = 72 * MIB
"""What the driver keeps for captured rounds. Measured on an H200 with CUDA 13.0: the same for 8 graphs of 50, 270 and
360 launches each."""


def graph_bytes(geometry: Geometry, shape: BuildShape) -> int:
    """What captured rounds take: the driver's share, and memory for the temporaries of one round that all of them share
    and nothing else may use: logits, in the activation dtype and in float32, and what is alive in a layer, with the
    sums that kernels share."""
    activation, attention = DTYPE_BYTES[shape.activation_dtype], geometry.attention
    columns = linear.DECODE_ROWS * shape.decode_columns
    logits = columns * geometry.vocabulary_rows * (activation + DTYPE_BYTES["float32"])
    splits = paged_attention.split_bytes(
        rows=shape.decode_rows,
        columns=shape.decode_columns,
        query_heads=attention.query_heads,
        kv_heads=attention.kv_heads,
        head_dim=attention.head_dim,
    )
    layer = columns * _LAYER_WIDTHS * geometry.hidden_size * activation + linear.most_shared_bytes(columns)
    return GRAPHS_BYTES + logits + layer + splits


_LAYER_WIDTHS = 64
"""Bounds what is alive of one column in a layer, in vectors as wide as the hidden state."""


def sampling_bytes(geometry: Geometry, shape: BuildShape, kernels: bool = False) -> int:
    """Temporaries of the largest choice of tokens: the model's last output, the logits (padded as matrix products
    pad them) and what is made of them, by the reference unless by `kernels`. The model's own temporaries are gone by
    then."""
    units = max(shape.prefill_tokens, shape.decode_rows * shape.decode_columns)
    output = units * geometry.hidden_size * DTYPE_BYTES[shape.activation_dtype]
    rows, columns, vocabulary = shape.decode_rows, shape.decode_columns, geometry.vocabulary_rows
    padded = max(rows, linear.DECODE_ROWS) * columns
    logits = padded * vocabulary * DTYPE_BYTES["float32"]
    if kernels:
        return output + logits + padded * vocabulary * _MAXIMA_BYTES
    if columns == 1:
        return output + logits + sample.workspace_bytes(rows=rows, vocabulary_rows=vocabulary)
    return output + logits + accept.workspace_bytes(rows=rows, columns=columns, vocabulary_rows=vocabulary)


_MAXIMA_BYTES = 1
"""Bounds what kernels leave of a logit: a number of 8 bytes for every few dozen of them."""


def attention_bytes(geometry: Geometry, layout: KVLayout, shape: BuildShape) -> int:
    """What attention needs beside the model's temporaries where there are kernels, by the format of the cache: one
    layer's pages, decoded for a prefill; or all that it computes by its reference, of a format without device functions
    or of heads without kernels. A model counts its kernels alone, since it does not know the format."""
    attention, activation = geometry.attention, DTYPE_BYTES[shape.activation_dtype]
    heads = {"kv_heads": attention.kv_heads, "head_dim": attention.head_dim, "activation": activation}
    if not layout.device_functions or not paged_attention.has_kernels(attention.head_dim, shape.activation_dtype):
        heads["query_heads"] = attention.query_heads
        chunk, rows, columns = shape.prefill_tokens, shape.decode_rows, shape.decode_columns
        rotated = max(chunk, rows * columns) * (attention.query_heads + attention.kv_heads) * attention.head_dim
        attended = max(
            paged_attention.prefill_bytes(rows=1, columns=chunk, **heads),
            paged_attention.decode_bytes(rows=rows, columns=columns, **heads),
        )
        return attended + partial_rope.workspace_bytes(elements=rotated, activation=activation)
    if not paged_attention.is_narrow(layout.bytes, attention.head_dim):
        return 0
    context_tokens = pages_for(shape.max_context) * PAGE_TOKENS
    return paged_attention.unpacked_bytes(context_tokens=context_tokens, **heads)


def pages_for(tokens: int, page_tokens: int = PAGE_TOKENS) -> int:
    """Pages that hold `tokens` tokens."""
    return ceiling_divide(tokens, page_tokens)


def kv_planes(geometry: Geometry, layout: KVLayout, pages: int, drafter_layers: int = 0) -> tuple[TensorSpec, ...]:
    """One tensor [layers, pages, kv_heads, page_tokens, elements] for each plane of the codec; the layers of a drafter
    come behind those of the model."""
    attention = geometry.attention
    return tuple(
        TensorSpec(
            name=f"{plane.part}.{plane.name}",
            shape=(attention.layers + drafter_layers, pages, attention.kv_heads, PAGE_TOKENS, plane.elements),
            dtype=plane.dtype,
        )
        for plane in layout.planes
    )


def page_bytes(geometry: Geometry, layout: KVLayout, drafter_layers: int = 0) -> int:
    """Bytes of one page in all attention layers."""
    return sum(plane.bytes for plane in kv_planes(geometry, layout, 1, drafter_layers))


def spare_pages(capacities: Capacities) -> int:
    """Pages behind those that rows can reserve. Columns of drafts may lie behind a row's reservation: one page, which
    all block tables name where they name nothing else, takes what they leave."""
    return 1 if capacities.draft_tokens else 0


def state_tensors(arrays: Sequence[StateArray], slots: int) -> tuple[TensorSpec, ...]:
    """State of the model or of a drafter: [layers, slots, *shape] for each array of a sequence."""
    return tuple(
        TensorSpec(name=array.name, shape=(array.layers, slots, *array.shape), dtype=array.dtype) for array in arrays
    )


def feature_tensors(geometry: Geometry, capacities: Capacities, taps: int, dtype: str) -> tuple[TensorSpec, ...]:
    """What a drafter reads of the last round's columns: [slots, columns, taps, hidden_size]."""
    shape = (capacities.state_slots, 1 + capacities.draft_tokens, taps, geometry.hidden_size)
    return (TensorSpec(name="features", shape=shape, dtype=dtype),)


def tapped_bytes(geometry: Geometry, shape: BuildShape) -> int:
    """Features of a unit at hand: of a chunk and the column before it, or of a round, of this one and the last."""
    columns = max(1 + shape.prefill_tokens, 2 * shape.decode_rows * shape.decode_columns)
    return columns * len(shape.taps) * geometry.hidden_size * DTYPE_BYTES[shape.activation_dtype]


def record_tensors(geometry: Geometry, slots: int, columns: int) -> tuple[TensorSpec, ...]:
    """Rings of what the columns of rounds of `columns` leave: [layers, slots, ring columns, *shape]."""
    return tuple(
        TensorSpec(
            name=array.name,
            shape=(array.layers, slots, array.ring_columns(columns), *array.shape),
            dtype=array.dtype,
        )
        for array in geometry.records
    )


def row_tensors(geometry: Geometry, capacities: Capacities) -> tuple[TensorSpec, ...]:
    """What a slot keeps between rounds, for each of C rows and W columns."""
    rows, columns = capacities.max_concurrency, 1 + capacities.draft_tokens
    table_pages = pages_for(capacities.max_context + capacities.draft_tokens)
    shapes: tuple[tuple[str, str, tuple[int, ...]], ...] = (
        ("block_tables", "int32", (rows, table_pages)),
        ("penalty_counts", "int32", (rows, geometry.vocabulary_rows)),
        ("lengths", "int64", (rows,)),
        ("candidates", "int64", (rows, columns)),
        ("offered", "int64", (rows,)),
        ("seeds", "int64", (rows,)),
        ("top_k", "int64", (rows,)),
        ("sampler", "float32", (rows, 5)),
    )
    return tuple(TensorSpec(name=name, dtype=dtype, shape=shape) for name, dtype, shape in shapes)

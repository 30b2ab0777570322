"""Small random block drafters, the code that such drafters are trained with as their oracle, and a sequence that a
drafter is shown piece by piece."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import msgspec
import torch
from ninfer_speculative import dflash, dflash2
from torch import Tensor
from torch.nn import functional

from ninfer_core.api import (
    ArtifactHeader,
    ArtifactIdentity,
    AttentionGeometry,
    BuildShape,
    Draft,
    DraftColumns,
    Drafter,
    DraftSampling,
    Geometry,
    Kernels,
    TensorSpec,
)
from tools.tiny_model.drafters import BlockDrafter, DraftGeometry

CPU = torch.device("cpu")
LAYERS = 6
"""Of the target."""

SIZES = DraftGeometry(
    hidden_size=64,
    vocab_size=96,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=32,
    intermediate_size=48,
    sliding_window=20,
    rope_theta=10_000.0,
    block_size=8,
    target_layer_ids=(4, 0, 3),
    mask_token_id=90,
    conv_group_size=16,
    selector_rank=8,
)


@dataclass(frozen=True, slots=True)
class Kind:
    """Which drafter: `windows` and `causal` of its layers, and how wide its blocks are; where and in what it computes,
    the oracle in float32."""

    second: bool
    windows: tuple[int | None, ...] = (20, 20)
    causal: bool | None = False
    columns: int = 8
    sizes: DraftGeometry = SIZES
    layers: int = LAYERS
    device: torch.device = CPU
    dtype: torch.dtype = torch.float32
    kernels: Kernels = "auto"


class SmallModel:
    """What a drafter uses of a target: embedding and head, or some rows of the head."""

    next_token_head = None

    def __init__(self, kind: Kind, proposed: Tensor | None = None) -> None:
        generator = torch.Generator(kind.device).manual_seed(1)
        table = (kind.sizes.vocab_size, kind.sizes.hidden_size)
        given = {"generator": generator, "device": kind.device}
        self.embedding = torch.randn(table, **given).to(kind.dtype)  # type: ignore[call-overload]
        self.head = (torch.randn(table, **given) / 4).to(kind.dtype)  # type: ignore[call-overload]
        self.draft_token_ids = proposed
        self.hidden: Tensor | None = None

    def embed(self, token_ids: Tensor) -> Tensor:
        return functional.embedding(token_ids, self.embedding)

    def draft_logits(self, hidden: Tensor) -> Tensor:
        self.hidden = hidden
        return hidden @ (self.head if self.draft_token_ids is None else self.head[self.draft_token_ids]).T

    def _unused(self, *arguments: object) -> Any:
        raise AssertionError("a drafter runs no part of the target but its embedding and head")

    prefill = decode = fold = logits = _unused


class Stored:
    """WeightSource over tensors in memory."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = tensors
        self.expected: list[str] = []

    def expect(self, names: Iterable[str]) -> None:
        self.expected = list(names)

    def read(self, name: str, device: torch.device) -> Tensor:
        return self.tensors[name].to(device)

    def read_into(self, name: str, out: Tensor, start: int = 0) -> None:
        out.copy_(self.tensors[name].view(-1)[start : start + out.numel()])


def trained(kind: Kind) -> BlockDrafter:
    """Weights that all matter."""
    torch.manual_seed(7)
    sizes = replace(kind.sizes, block_size=kind.columns, num_hidden_layers=len(kind.windows))
    with kind.device:
        drafter = BlockDrafter(sizes, second=kind.second)
    with torch.no_grad():
        for name, weight in drafter.named_parameters():
            if "norm" in name:
                weight.add_(torch.randn_like(weight) / 4)
            elif "conv" in name:
                weight.add_(torch.randn_like(weight) / 8)
            elif "codebook" in name:
                weight.copy_(torch.randn_like(weight))
            weight.copy_(weight.to(kind.dtype))
    return drafter.eval().requires_grad_(requires_grad=False)


def draft_config(kind: Kind, sizes: DraftGeometry) -> dict[str, Any]:
    inner = (
        *("block_size", "target_layer_ids", "mask_token_id"),
        *(("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k") if kind.second else ()),
    )
    given = asdict(sizes)
    config: dict[str, Any] = {
        "architectures": ["DFlash2DraftModel" if kind.second else "DFlashDraftModel"],
        "dflash_config": {key: given[key] for key in inner},
        "layer_types": ["full_attention" if window is None else "sliding_attention" for window in kind.windows],
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_theta": sizes.rope_theta, "rope_type": "default"},
        "sliding_window": max((window for window in kind.windows if window), default=None),
        "hidden_act": "silu",
        "num_target_layers": kind.layers,
    }
    if kind.causal is not None:
        config["is_causal"] = kind.causal
    keys = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    return config | {key: given[key] for key in (*keys, "head_dim", "vocab_size")}


def draft_header(kind: Kind, drafter: BlockDrafter) -> ArtifactHeader:
    tensors = {f"draft.{name}": value for name, value in drafter.state_dict().items()}
    return ArtifactHeader(
        source="small.ninfer",
        identity=ArtifactIdentity(model_id="small", weights_id="fp32", family="", format_version=0),
        config={},
        resources={"draft_config.json": json.dumps(draft_config(kind, drafter.geometry)).encode()},
        tensors=tuple(
            TensorSpec(name=name, shape=tuple(value.shape), dtype=dtype_name(kind), group="draft")
            for name, value in tensors.items()
        ),
    )


def dtype_name(kind: Kind) -> str:
    return str(kind.dtype).removeprefix("torch.")


def target_geometry(sizes: DraftGeometry = SIZES, layers: int = LAYERS) -> Geometry:
    return Geometry(
        hidden_size=sizes.hidden_size,
        layers=layers,
        vocabulary_rows=sizes.vocab_size,
        max_positions=4096,
        attention=AttentionGeometry(layers=1, query_heads=1, kv_heads=1, head_dim=32),
        state=(),
        records=(),
    )


def build_shape(columns: int, *, max_context: int = 256, rows: int = 4) -> BuildShape:
    return BuildShape(
        prefill_tokens=64,
        decode_rows=rows,
        decode_columns=columns,
        max_context=max_context,
        activation_dtype="float32",
    )


class Bench:
    """A drafter in ours and in the oracle's form, its state arrays, and sequences of random features."""

    def __init__(self, kind: Kind, *, slots: int = 4, proposed: Tensor | None = None, max_context: int = 256) -> None:
        self.kind, self.oracle, self.max_context = kind, trained(kind), max_context
        self.sizes = self.oracle.geometry
        self.model = SmallModel(kind, proposed)
        header, shape = draft_header(kind, self.oracle), build_shape(kind.columns, max_context=max_context)
        shape = msgspec.structs.replace(shape, activation_dtype=dtype_name(kind), kernels=kind.kernels)
        plugin = dflash2 if kind.second else dflash
        self.needs = plugin.ninfer_spec_needs(header, target_geometry(self.sizes, kind.layers), shape)
        source = Stored({f"draft.{name}": value.to(kind.dtype) for name, value in self.oracle.state_dict().items()})
        self.drafter: Drafter = plugin.ninfer_spec_build(header, shape, self.model, source, kind.device)
        # What was never stored may be anything.
        self.state = {
            array.name: torch.full((array.layers, slots, *array.shape), torch.nan, dtype=kind.dtype, device=kind.device)
            for array in self.needs.state
        }
        generator = torch.Generator(kind.device).manual_seed(11)
        given = {"generator": generator, "device": kind.device}
        taps = len(self.sizes.target_layer_ids)
        features = torch.randn(slots, max_context, taps, self.sizes.hidden_size, **given)  # type: ignore[call-overload]
        self.features = features.to(kind.dtype)
        self.tokens = torch.randint(0, 80, (slots, max_context), **given)  # type: ignore[call-overload]

    def columns(self, slots: list[int], starts: list[int], counts: list[int], width: int) -> DraftColumns:
        """The committed columns that begin at `starts`, and junk behind them."""
        start, slot, count = (torch.tensor(each, device=self.kind.device) for each in (starts, slots, counts))
        column = torch.arange(width, device=self.kind.device)
        place, row = start[:, None] + column, slot[:, None]
        junk = column >= count[:, None]
        lengths = start + count
        return DraftColumns(
            slots=slot,
            positions=place,
            token_ids=self.tokens[row, place + 1].masked_fill(junk, 79),
            features=self.features[row, place].masked_fill(junk[..., None, None], torch.nan),
            counts=count,
            anchors=self.tokens[row[:, 0], lengths],
            lengths=lengths,
            state=self.state,
            cache=_no_cache,
        )

    def ingest(self, slot: int, start: int, stop: int) -> None:
        self.drafter.ingest(self.columns([slot], [start], [stop - start], stop - start))

    def propose(self, slots: list[int], starts: list[int], counts: list[int], temperature: float = 0.0) -> Draft:
        columns = self.columns(slots, starts, counts, self.kind.columns)
        return self.drafter.propose(columns, self.sampling(columns.slots, temperature))

    def sampling(self, slots: Tensor, temperature: float) -> DraftSampling:
        return DraftSampling(torch.full((len(slots),), temperature, device=self.kind.device), slots + 100)

    def expected(self, slot: int, length: int) -> tuple[Tensor, Tensor]:
        """By the oracle, over the whole sequence: hidden states of the mask tokens [drafts, hidden], logits."""
        width, device = self.kind.columns, self.kind.device
        ids = torch.full((width,), self.sizes.mask_token_id, device=device)
        ids[0] = self.tokens[slot, length]
        at, index = length + torch.arange(width, device=device), torch.arange(length, device=device)
        context = self.oracle.context(self.features[slot, :length].flatten(1).float())[None]
        x = self.model.embed(ids)[None].float()
        for layer, visible in zip(self.oracle.layers, self._visible(at, index), strict=True):
            x = layer(x, context, at[None], index[None], visible[None, None])
        hidden = self.oracle.norm(x)[0, 1:]
        return hidden, hidden @ self.model.head.float().T

    def _visible(self, at: Tensor, index: Tensor) -> Iterator[Tensor]:
        """bool [columns, context + columns] of each layer."""
        column = torch.arange(len(at), device=at.device)
        for window in self.kind.windows:
            causal = self.kind.causal if self.kind.causal is not None else window is not None
            near = torch.ones(len(at), len(index), dtype=torch.bool, device=at.device)
            if window is not None:
                near = at[:, None] - index < window
            own = (column[None] <= column[:, None]) | (not causal)
            yield torch.cat((near, own), dim=1)


def _no_cache(lengths: Tensor) -> Any:
    raise AssertionError("a block drafter has no layers in the paged cache")

"""A model of the Qwen hybrid family of some hundred thousand random weights: the real code at the price of a mock.

Made in memory in milliseconds, the same in every process: a byte-level tokenizer with the family's control tokens,
the family's own chat template, three recurrent layers and one of attention, dense or with experts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from ninfer_core.api.artifact import ArtifactHeader, ArtifactIdentity, TensorSpec
from ninfer_core.api.plan import DeviceInfo, ExecutionPlan
from ninfer_core.artifact.dummy import DummyWeights
from ninfer_core.artifact.handle import ArtifactHandle
from ninfer_core.artifact.values import MATRIX
from ninfer_core.artifact.weights import OpenWeights
from ninfer_core.artifact.writer import write_container
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.resolve import resolve
from ninfer_core.plugins import PluginRegistry

if TYPE_CHECKING:
    import torch

MODEL_ID = "tiny-random"
TOKEN_ROWS = 320
"""Embedding rows: 256 bytes, 33 control tokens and padding that no sampler may choose."""

REDUCED_ROWS = 128
"""Tokens of the reduced head."""

_SEED = 20_26

_CONFIG: Mapping[str, object] = {
    "vocab_size": TOKEN_ROWS,
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "full_attention_interval": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "attn_output_gate": True,
    "mamba_ssm_dtype": "float32",
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "dtype": "float32",
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000,
        "partial_rotary_factor": 0.25,
        "mrope_section": [2, 1, 1],
        "mrope_interleaved": True,
    },
}
_DENSE: Mapping[str, object] = {"model_type": "qwen3_5_text", "intermediate_size": 128}
_EXPERTS: Mapping[str, object] = {
    "model_type": "qwen3_5_moe_text",
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
}


def tiny_header(*, experts: bool = False, drafting: bool = False) -> ArtifactHeader:
    """Identity, config, frontend resources and inventory of the tiny model. `drafting` adds a next-token head, and a
    reduced head of the first tokens."""
    from ninfer_models.qwen_hybrid.inventory import build_inventory

    config = {**_CONFIG, **(_EXPERTS if experts else _DENSE), **({"mtp_num_hidden_layers": 1} if drafting else {})}
    ids = TensorSpec(name="draft_head.token_ids", shape=(REDUCED_ROWS,), dtype="int32")
    header = ArtifactHeader(
        source=f"{MODEL_ID}{'-experts' if experts else ''}",
        identity=ArtifactIdentity(model_id=MODEL_ID, weights_id="fp32", family="qwen-hybrid", format_version=1),
        config=config,
        resources={"config.json": msgspec.json.encode(config), **_frontend_resources()},
        tensors=(ids,) if drafting else (),
    )
    specs = [
        spec if spec.name == ids.name else msgspec.structs.replace(spec, dtype="float32")
        for spec in build_inventory(header)
    ]
    return msgspec.structs.replace(header, tensors=tuple(specs))


def tiny_artifact(*, experts: bool = False, drafting: bool = False) -> ArtifactHandle:
    """The tiny model in memory."""
    header = tiny_header(experts=experts, drafting=drafting)
    return ArtifactHandle(header=header, notes=(), store=TinyStore(header))


def write_tiny_artifact(path: Path, *, experts: bool = False, drafting: bool = False) -> Path:
    """The tiny model as a `.ninfer` file, for what opens artifacts by name; returns `path`."""
    artifact = tiny_artifact(experts=experts, drafting=drafting)
    header = artifact.header
    write_container(
        path,
        identity=header.identity,
        resources=header.resources,
        tensors=header.tensors,
        chunks=artifact.store.chunks,
        overwrite=True,
    )
    return path


def tiny_plan(registry: PluginRegistry, header: ArtifactHeader, **options: Any) -> ExecutionPlan:
    """A plan for the tiny model on a CPU of 4 GiB. `options` are fields of ServeOptions."""
    device = DeviceInfo(kind="cpu", index=None, name="CPU", memory_bytes=4 << 30, compute_capability=None)
    return resolve(ServeOptions(**{"device": "cpu", **options}), registry, header, device)


@dataclass(frozen=True, slots=True)
class TinyStore:
    """Makes weights when they are read. Implements TensorStore."""

    header: ArtifactHeader

    def open_weights(self) -> OpenWeights:
        return TinyWeights(self.header)

    def chunks(self, name: str) -> Iterator[bytes]:
        import torch

        tensor = TinyWeights(self.header).read(name, torch.device("cpu"))
        yield tensor.numpy().tobytes()


class TinyWeights:
    """Matrices of unit gain, N(0, 1 / inputs), so that the logits of so small a model are far from uniform; the rest
    as the weights of dummies."""

    def __init__(self, header: ArtifactHeader) -> None:
        self._specs: dict[str, TensorSpec] = {spec.name: spec for spec in header.tensors}
        self._weights = DummyWeights(header, _SEED)

    def expect(self, names: Iterable[str]) -> None:
        """Nothing is gained by knowing."""

    def read(self, name: str, device: torch.device) -> torch.Tensor:
        tensor = self._weights.read(name, device)
        self._scale(name, tensor)
        return tensor

    def read_into(self, name: str, out: torch.Tensor, start: int = 0) -> None:
        self._weights.read_into(name, out, start)
        self._scale(name, out)

    def _scale(self, name: str, tensor: torch.Tensor) -> None:
        if len(self._specs[name].shape) > 1 and not name.endswith("conv1d.weight"):
            tensor.mul_(self._specs[name].shape[-1] ** -0.5 / MATRIX.standard_deviation)

    def close(self) -> None:
        """Nothing is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _frontend_resources() -> dict[str, bytes]:
    from ninfer_models.qwen_hybrid.frontend import dummy_resources
    from ninfer_models.qwen_hybrid.frontend.byte_alphabet import CHARACTER_OF_BYTE
    from ninfer_models.qwen_hybrid.frontend.vocabulary import ADDED_TOKENS, tokenizer_json

    vocabulary = {character: byte for byte, character in enumerate(CHARACTER_OF_BYTE)}
    stop_ids = [len(vocabulary) + ADDED_TOKENS.index(token) for token in ("<|im_end|>", "<|endoftext|>")]
    return {
        **dummy_resources(),
        "tokenizer.json": tokenizer_json(vocabulary, []),
        "generation_config.json": msgspec.json.encode({"eos_token_id": stop_ids}),
    }

"""Block drafters inside an artifact: which tensors their config asks for, and what is said when it is wrong."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from ninfer_models.qwen_hybrid.draft import REDUCED_HEAD
from ninfer_models.qwen_hybrid.dummies import dummy_headers
from ninfer_models.qwen_hybrid.inventory import build_inventory

from ninfer_core.api import DRAFT_CONFIG, ArtifactHeader, ArtifactInvalid, TensorSpec

# A published drafter of the 27B model (speculative.md section 1.3).
PUBLISHED: dict[str, Any] = {
    "architectures": ["DFlash2DraftModel"],
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_hidden_layers": 5,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "dflash_config": {
        "block_size": 8,
        "target_layer_ids": [5, 19, 33, 47, 61],
        "mask_token_id": 248070,
        "conv_kernel_size": 2,
        "conv_group_size": 16,
        "selector_rank": 256,
        "selector_top_k": 16,
    },
}


def with_draft(config: object, *tensors: TensorSpec) -> ArtifactHeader:
    header = dummy_headers({})["qwen3.8-27b"]
    resources = {DRAFT_CONFIG: config if isinstance(config, bytes) else msgspec.json.encode(config)}
    return msgspec.structs.replace(header, resources=resources, tensors=(*header.tensors, *tensors))


def drafted(header: ArtifactHeader) -> list[TensorSpec]:
    return [spec for spec in build_inventory(header) if spec.group == "draft"]


def test_a_published_drafter_is_counted_to_the_tensor_and_the_byte() -> None:
    found = drafted(with_draft(PUBLISHED))
    assert (len(found), sum(spec.elements for spec in found)) == (81, 1_924_404_480)
    assert all(spec.name.startswith("draft.") and spec.dtype == "bfloat16" for spec in found)
    first = drafted(with_draft(PUBLISHED | {"architectures": ["DFlashDraftModel"]}))
    assert len(first) == 5 * 11 + 3
    assert {spec.name for spec in first} < {spec.name for spec in found}


def test_settings_of_the_block_may_stand_at_the_top() -> None:
    flat = {key: value for key, value in PUBLISHED.items() if key != "dflash_config"} | PUBLISHED["dflash_config"]
    assert drafted(with_draft(flat)) == drafted(with_draft(PUBLISHED))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"architectures": ["Qwen3ForCausalLM"]}, "one of DFlashDraftModel, DFlash2DraftModel"),
        ({"hidden_size": 2048}, "5120, that of the target"),
        ({"dflash_config": PUBLISHED["dflash_config"] | {"target_layer_ids": [64]}}, "layers of the target, 0 to 63"),
        ({"dflash_config": PUBLISHED["dflash_config"] | {"mask_token_id": 248320}}, "below 248320"),
        ({"dflash_config": PUBLISHED["dflash_config"] | {"block_size": 17}}, "at most 16"),
        ({"dflash_config": PUBLISHED["dflash_config"] | {"conv_group_size": 17}}, "not a multiple"),
    ],
)
def test_a_wrong_config_is_refused_with_the_field(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ArtifactInvalid) as caught:
        build_inventory(with_draft(PUBLISHED | change))
    assert any(said in problem and DRAFT_CONFIG in problem for problem in caught.value.problems)


def test_what_is_no_object_is_refused() -> None:
    for broken in (b"[]", b"{", b"[" * 100_000):
        with pytest.raises(ArtifactInvalid) as caught:
            build_inventory(with_draft(broken))
        assert list(caught.value.problems) == [f"{DRAFT_CONFIG} is no JSON object"]


def test_a_reduced_head_has_as_many_rows_as_it_lists() -> None:
    dummy = dummy_headers({})["qwen3.8-27b"]
    header = msgspec.structs.replace(dummy, tensors=dummy.tensors[:-1])
    ids = TensorSpec(name=REDUCED_HEAD, shape=(40_000,), dtype="int32")
    listed = [s for s in build_inventory(msgspec.structs.replace(header, tensors=(*header.tensors, ids)))
              if s.group == "draft_head"]  # fmt: skip
    assert listed == [msgspec.structs.replace(ids, group="draft_head")]
    assert not [spec for spec in build_inventory(header) if spec.group == "draft_head"]

"""The list of tokens of a reduced head, as an artifact has it."""

from __future__ import annotations

import msgspec
from ninfer_models.qwen_hybrid.dummies import dummy_headers
from ninfer_models.qwen_hybrid.inventory import build_inventory
from ninfer_models.qwen_hybrid.reduced_head import REDUCED_HEAD

from ninfer_core.api import TensorSpec


def test_a_reduced_head_has_as_many_rows_as_it_lists() -> None:
    dummy = dummy_headers({})["qwen3.8-27b"]
    header = msgspec.structs.replace(dummy, tensors=[spec for spec in dummy.tensors if spec.name != REDUCED_HEAD])
    ids = TensorSpec(name=REDUCED_HEAD, shape=(40_000,), dtype="int32")
    stored = msgspec.structs.replace(header, tensors=(*header.tensors, ids))
    listed = [spec for spec in build_inventory(stored) if spec.group == "draft_head"]
    assert listed == [msgspec.structs.replace(ids, group="draft_head")]
    assert not [spec for spec in build_inventory(header) if spec.group == "draft_head"]

"""A hook that gives back what its spec does not say is the plugin's fault, by name, where it is called."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ninfer_core.api import AttentionGeometry, Geometry, KVLayout, KVPlane, StateArray, TensorSpec
from ninfer_core.plugins.returns import wrong_return

KEY = KVPlane(part="key", name="codes", dtype="int8", elements=64)
VALUE = KVPlane(part="value", name="codes", dtype="int8", elements=64)
GEOMETRY = Geometry(
    hidden_size=64,
    layers=2,
    vocabulary_rows=16,
    max_positions=8,
    attention=AttentionGeometry(layers=1, query_heads=4, kv_heads=2, head_dim=16),
    state=(StateArray(name="conv", layers=1, shape=(3, 8), dtype="bfloat16"),),
    records=(),
)
DRAFT_TENSOR = TensorSpec(name="draft.fc", shape=(2, 1), dtype="bfloat16", group="draft")
VOCABULARY = SimpleNamespace(
    output_format=SimpleNamespace(decoder=None, parser=None),
    stop_token_ids=(3,),
    token_domain=4,
    thinking_control_ids=(),
    token_bytes=None,
)


def vocabulary(**fields: Any) -> SimpleNamespace:
    return SimpleNamespace(**{**vars(VOCABULARY), **fields})


def changed(struct: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(struct, **fields)


@pytest.mark.parametrize(
    ("hook", "result"),
    [
        ("ninfer_kv_layout", KVLayout(planes=(KEY, VALUE))),
        ("ninfer_kv_layout", KVLayout(planes=(KEY, changed(KEY, name="scale"), VALUE))),
        ("ninfer_family_geometry", GEOMETRY),
        ("ninfer_family_inventory", ()),
        ("ninfer_family_resident", [TensorSpec(name="a", shape=(1,), dtype="bfloat16")]),
        ("ninfer_spec_inventory", ()),
        ("ninfer_spec_inventory", [DRAFT_TENSOR]),
        ("ninfer_family_workspace", 0),
        ("ninfer_family_match", False),
        ("ninfer_family_vocabulary", VOCABULARY),
        ("ninfer_check", ["no driver"]),
    ],
)
def test_what_the_spec_says_is_taken(hook: str, result: object) -> None:
    assert wrong_return(hook, result) is None


@pytest.mark.parametrize(
    ("hook", "result", "said"),
    [
        ("ninfer_kv_layout", 7, "int, where KVLayout belongs"),
        ("ninfer_kv_layout", KVLayout(planes=()), "planes of nothing"),
        ("ninfer_kv_layout", KVLayout(planes=(VALUE, KEY)), "planes of value, key"),
        ("ninfer_kv_layout", KVLayout(planes=(KEY,)), "planes of key"),
        ("ninfer_kv_layout", KVLayout(planes=(changed(KEY, dtype="fp6"), VALUE)), "dtype 'fp6', which is none of"),
        ("ninfer_kv_layout", KVLayout(planes=(changed(KEY, elements=0), VALUE)), "key.codes of 0 elements"),
        ("ninfer_kv_layout", KVLayout(planes=(changed(KEY, elements=0.5), VALUE)), "Expected `int`, got `float`"),
        ("ninfer_kv_layout", KVLayout(planes=(KEY, KEY, VALUE)), "two planes of one part"),
        ("ninfer_family_geometry", {"layers": 2}, "dict, where Geometry belongs"),
        ("ninfer_family_geometry", changed(GEOMETRY, layers="2"), "Expected `int`, got `str`"),
        ("ninfer_family_geometry", changed(GEOMETRY, vocabulary_rows=0), "vocabulary_rows 0, where at least 1"),
        (
            "ninfer_family_geometry",
            changed(GEOMETRY, attention=changed(GEOMETRY.attention, query_heads=3)),
            "3 query heads, no multiple of 2",
        ),
        (
            "ninfer_family_geometry",
            changed(GEOMETRY, state=(changed(GEOMETRY.state[0], dtype="bf16"),)),
            "dtype 'bf16', which is none of",
        ),
        (
            "ninfer_family_geometry",
            changed(GEOMETRY, records=(changed(GEOMETRY.state[0], kept=-1),)),
            "conv keeps -1 columns, where at least 0",
        ),
        (
            "ninfer_family_geometry",
            changed(GEOMETRY, state=(changed(GEOMETRY.state[0], kept=3),)),
            "conv in the state keeps columns, which only records do",
        ),
        ("ninfer_family_inventory", iter(()), "where a sequence of TensorSpec belongs"),
        ("ninfer_family_inventory", ["a"], "str, where TensorSpec belongs"),
        ("ninfer_family_resident", [TensorSpec(name="a", shape=(1,), dtype="half")], "dtype 'half'"),
        ("ninfer_spec_inventory", DRAFT_TENSOR, "TensorSpec, where a sequence of TensorSpec belongs"),
        ("ninfer_spec_inventory", [changed(DRAFT_TENSOR, name="fc")], "fc, where names begin with draft."),
        ("ninfer_spec_inventory", [changed(DRAFT_TENSOR, group="text")], "group 'text', where all are of 'draft'"),
        ("ninfer_family_workspace", 1.5, "float, where int belongs"),
        ("ninfer_family_workspace", -1, "-1 bytes"),
        ("ninfer_family_match", 1, "int, where bool belongs"),
        ("ninfer_family_resident", [TensorSpec(name="a", shape=(2, -1), dtype="bfloat16")], "a of [2, -1], where"),
        (
            "ninfer_family_geometry",
            changed(GEOMETRY, attention=changed(GEOMETRY.attention, query_heads=0)),
            "attention.query_heads 0, where at least 1",
        ),
        (
            "ninfer_family_geometry",
            changed(GEOMETRY, state=(changed(GEOMETRY.state[0], shape=(-3, 8)),)),
            "conv of [1, -3, 8], where at least 0",
        ),
        ("ninfer_family_frontend", object(), "without capabilities, presets, prepare, fewest_tokens"),
        ("ninfer_family_vocabulary", object(), "without output_format, stop_token_ids, token_domain"),
        ("ninfer_family_vocabulary", vocabulary(output_format=5), "int without decoder, parser"),
        ("ninfer_family_vocabulary", vocabulary(stop_token_ids=(4,)), "token id 4, where one of 0..3 belongs"),
        ("ninfer_family_vocabulary", vocabulary(thinking_control_ids=(-1,)), "token id -1, where one of 0..3 belongs"),
        ("ninfer_family_vocabulary", vocabulary(token_domain="x"), "str, where int belongs"),
        ("ninfer_family_dummies", [], "list, where a mapping"),
        ("ninfer_family_dummies", {"a": 1}, "int, where ArtifactHeader belongs"),
        ("ninfer_family_build", SimpleNamespace(prefill=1, decode=1, fold=1), "without logits"),
        ("ninfer_kv_codec", SimpleNamespace(layout=None), "without encode, decode"),
        ("ninfer_kv_codec", SimpleNamespace(layout=None, encode=None, decode=None), "where KVLayout belongs"),
        (
            "ninfer_kv_codec",
            SimpleNamespace(layout=KVLayout(planes=(), device_functions=True), encode=None, decode=None),
            "without device_functions",
        ),
        ("ninfer_protocol_lower", {}, "dict, where GenerationRequest belongs"),
        ("ninfer_check", [1], "Expected `str`, got `int`"),
    ],
)
def test_anything_else_is_named(hook: str, result: object, said: str) -> None:
    wrong = wrong_return(hook, result)
    assert wrong is not None and said in wrong

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.artifact import container
from ninfer_core.artifact.container import open_container

METADATA = {"format_version": "1", "model_id": "toy", "weights_id": "bf16", "family": "toy"}
PARTS = {
    "w": ("BF16", [2], b"1234"),
    "frontend/config.json": ("U8", [2], b"{}"),
    "frontend/tokenizer.json": ("U8", [3], b"tok"),
    "frontend/chat_template.jinja": ("U8", [0], b""),
}


def write(path: Path, parts: Mapping[str, tuple[str, list[int], bytes]], metadata: Mapping[str, str]) -> Path:
    members: dict[str, object] = {"__metadata__": metadata}
    data = b""
    for name, (code, shape, raw) in parts.items():
        members[name] = {"dtype": code, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    header = json.dumps(members).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    return path


def problems_of(path: Path) -> list[str]:
    with pytest.raises(ArtifactInvalid) as caught:
        open_container(path, "m.ninfer")
    assert caught.value.source == "m.ninfer"
    return list(caught.value.problems)


def test_a_container_is_identity_config_resources_and_weights(tmp_path: Path) -> None:
    handle = open_container(write(tmp_path / "m.ninfer", PARTS, {**METADATA, "license": "x"}), "m.ninfer")
    header = handle.header
    assert (header.source, header.identity.model_id, header.identity.format_version) == ("m.ninfer", "toy", 1)
    assert header.config == {}
    assert header.resources == {"config.json": b"{}", "tokenizer.json": b"tok", "chat_template.jinja": b""}
    assert [spec.name for spec in header.tensors] == ["w"] and handle.weight_bytes == 4


def test_all_that_is_missing_is_listed(tmp_path: Path) -> None:
    path = write(tmp_path / "m.ninfer", {}, {})
    assert problems_of(path) == [
        *(f"'__metadata__' has no {name}" for name in METADATA),
        "resource config.json is missing",
        "resource tokenizer.json is missing",
        "resource chat_template.jinja is missing",
        "it has no weights",
    ]


def test_another_format_version_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "m.ninfer", PARTS, {**METADATA, "format_version": "2"})
    assert problems_of(path) == ["it has format version '2'; this ninfer reads version 1"]


def test_resources_that_are_unknown_misshapen_or_unreadable(tmp_path: Path) -> None:
    parts = {
        **PARTS,
        "frontend/virus.exe": ("U8", [1], b"x"),
        "frontend/tokenizer.json": ("BF16", [1], b"ab"),
        "frontend/config.json": ("U8", [1], b"["),
    }
    said = "\n".join(problems_of(write(tmp_path / "m.ninfer", parts, METADATA)))
    assert "resource 'virus.exe': unknown" in said
    assert "resource 'tokenizer.json': is bfloat16 [1], not one row of uint8" in said
    assert "config.json: not JSON" in said


def test_a_resource_beyond_the_bound_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "MAX_RESOURCE_BYTES", 2)
    assert problems_of(write(tmp_path / "m.ninfer", PARTS, METADATA)) == [
        "resource 'tokenizer.json': has 3 bytes; at most 2 are read"
    ]


@pytest.mark.parametrize(
    ("member", "value", "said"),
    [
        ("model_id", "red\x1b[31m", "model_id is 'red\\x1b[31m'; only printable characters are allowed"),
        ("model_id", "m" * 201, "model_id has 201 characters; at most 200 are allowed"),
        ("model_id", "  ", "model_id must not be empty"),
        ("family", "two\nlines", "family is 'two\\nlines'; only printable characters are allowed"),
        ("weights_id", "int3", "weights_id is 'int3'; this release knows bf16, fp16, fp32, fp8, nvfp4"),
        ("weights_id", "fp32", "weights_id is 'fp32', but what is stored is bf16"),
    ],
)
def test_names_that_say_nothing_true_or_printable(tmp_path: Path, member: str, value: str, said: str) -> None:
    assert problems_of(write(tmp_path / "m.ninfer", PARTS, {**METADATA, member: value})) == [said]


def test_a_long_name_of_printable_characters_is_kept(tmp_path: Path) -> None:
    name = "Größe/" + "m" * 194
    handle = open_container(write(tmp_path / "m.ninfer", PARTS, {**METADATA, "model_id": name}), "m.ninfer")
    assert handle.header.identity.model_id == name

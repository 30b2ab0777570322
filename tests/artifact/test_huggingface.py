from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ninfer_core.api.artifact import TensorSpec
from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.artifact.handle import ArtifactHandle
from ninfer_core.artifact.huggingface import open_directory
from ninfer_core.testing.toy_artifacts import RESOURCES, toy_bytes, toy_specs, write_safetensors, write_toy_directory

INDEX = "model.safetensors.index.json"


def opened(path: Path) -> ArtifactHandle:
    return open_directory(path, str(path))


def problems_of(path: Path) -> list[str]:
    with pytest.raises(ArtifactInvalid) as caught:
        opened(path)
    return list(caught.value.problems)


@pytest.mark.parametrize("shards", [1, 3])
def test_a_directory_single_or_sharded(tmp_path: Path, shards: int) -> None:
    handle = opened(write_toy_directory(tmp_path / "toy-model", shards=shards))
    header = handle.header
    assert (header.identity.model_id, header.identity.weights_id) == ("toy-model", "bf16")
    assert (header.identity.family, header.identity.format_version) == ("", 0)
    assert header.config["model_type"] == "toy" and handle.notes == ()
    assert {spec.name: spec for spec in header.tensors} == {spec.name: spec for spec in toy_specs()}
    assert {name: header.resources[name] for name in RESOURCES} == RESOURCES
    assert header.resources["config.json"] == (tmp_path / "toy-model" / "config.json").read_bytes()
    for spec in header.tensors:
        assert b"".join(handle.store.chunks(spec.name)) == toy_bytes(spec)


@pytest.mark.parametrize(("dtype", "weights_id"), [("bfloat16", "bf16"), ("float16", "fp16"), ("float32", "fp32")])
def test_the_dtype_of_most_bytes_names_the_weights(tmp_path: Path, dtype: str, weights_id: str) -> None:
    specs = [*toy_specs(dtype=dtype), TensorSpec(name="A_log", shape=(2,), dtype="float32")]
    assert opened(write_toy_directory(tmp_path, specs)).header.identity.weights_id == weights_id


def test_a_snapshot_in_a_hub_cache_is_named_after_its_repository(tmp_path: Path) -> None:
    path = tmp_path / "models--Some--Toy-1B--it" / "snapshots" / ("0" * 40)
    assert opened(write_toy_directory(path)).header.identity.model_id == "Toy-1B--it"


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("tokenizer_config.json", {"chat_template": "T"}),
        (
            "tokenizer_config.json",
            {"chat_template": [{"name": "rag", "template": "R"}, {"name": "default", "template": "T"}]},
        ),
        ("chat_template.json", {"chat_template": "T"}),
    ],
)
def test_older_places_of_the_template(tmp_path: Path, file: str, content: object) -> None:
    write_toy_directory(tmp_path, resources={})
    (tmp_path / file).write_text(json.dumps(content))
    assert opened(tmp_path).header.resources["chat_template.jinja"] == b"T"
    (tmp_path / "chat_template.jinja").write_bytes(b"own file")
    assert opened(tmp_path).header.resources["chat_template.jinja"] == b"own file"


def test_a_template_of_another_form_is_a_problem(tmp_path: Path) -> None:
    write_toy_directory(tmp_path, resources={"tokenizer_config.json": b'{"chat_template": 3}'})
    assert problems_of(tmp_path) == ["chat_template is neither text nor a list with a template named 'default'"]


def test_files_beside_the_index_are_left_out_with_a_note_when_they_hold_something_new(tmp_path: Path) -> None:
    write_toy_directory(tmp_path, shards=2)
    write_safetensors(tmp_path / "model_mtp.safetensors", [TensorSpec(name="mtp.fc", shape=(1,), dtype="uint8")])
    write_safetensors(tmp_path / "consolidated.safetensors", toy_specs())
    (tmp_path / "broken.safetensors").write_bytes(b"")
    handle = opened(tmp_path)
    assert len(handle.notes) == 2
    assert handle.notes[0].startswith("broken.safetensors is left out: no index names it, and it is not valid")
    assert handle.notes[1] == "model_mtp.safetensors is left out: no index names it; only there are 'mtp.fc'"
    assert len(handle.header.tensors) == len(toy_specs())


def test_one_file_of_any_name_needs_no_index_and_several_do(tmp_path: Path) -> None:
    write_toy_directory(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "weights.safetensors")
    assert len(opened(tmp_path).header.tensors) == len(toy_specs())
    write_safetensors(tmp_path / "more.safetensors", toy_specs())
    (problem,) = problems_of(tmp_path)
    assert problem == f"it has 2 .safetensors files ('more.safetensors', 'weights.safetensors') and no {INDEX}"


def test_the_problems_of_all_shards_come_together(tmp_path: Path) -> None:
    specs = toy_specs()
    write_toy_directory(tmp_path, specs, shards=4)
    shard = [f"model-{number:05d}-of-00004.safetensors" for number in range(1, 5)]
    (tmp_path / shard[0]).unlink()
    (tmp_path / shard[1]).write_bytes(b"short")
    write_safetensors(tmp_path / shard[2], [*specs[2::4][1:], specs[3]])
    said = problems_of(tmp_path)
    assert f"{shard[0]}, which {INDEX} names, is not in the directory" in said
    assert f"{shard[1]}: it has 5 bytes; a header alone needs more than 8" in said
    assert f"'{specs[3].name}' is in {shard[2]} and in {shard[3]}" in said
    assert f"{shard[2]} lacks '{specs[2].name}', which {INDEX} says it holds" in said
    assert f"{shard[2]} holds '{specs[3].name}', which {INDEX} does not say" in said


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ("[]", f"{INDEX}: holds a list, not an object"),
        ("{", f"{INDEX}: not JSON"),
        ("{}", f"{INDEX} has no weight_map"),
        ('{"weight_map": {"a": "../outside.safetensors"}}', "which is no file of the directory"),
        ('{"weight_map": {"a": 3}}', "'3', which is no file of the directory"),
    ],
)
def test_a_bad_index(tmp_path: Path, index: str, said: str) -> None:
    write_toy_directory(tmp_path)
    (tmp_path / INDEX).write_text(index)
    assert any(said in problem for problem in problems_of(tmp_path))


def test_quantised_checkpoints_are_opened_and_unknown_methods_named(tmp_path: Path) -> None:
    specs = [
        *toy_specs(),
        TensorSpec(name="q.weight", shape=(2, 2), dtype="float8_e4m3fn"),
        TensorSpec(name="q.weight_scale_inv", shape=(1, 1), dtype="bfloat16"),
    ]
    for method in ("fp8", "modelopt", "compressed-tensors"):
        config = {"model_type": "toy", "quantization_config": {"quant_method": method}}
        header = opened(write_toy_directory(tmp_path / method, specs, config=config)).header
        assert header.identity.weights_id == "fp8" and len(header.tensors) == len(specs)
    for declared, named in (({"quant_method": "gptq"}, "'gptq'"), ({}, None), ([1], "'unnamed'")):
        config = {"model_type": "toy", "text_config": {"quantization_config": declared}}
        write_toy_directory(tmp_path / "other", config=config)
        if named is None:
            assert opened(tmp_path / "other").header.identity.weights_id == "bf16"
            continue
        (problem,) = problems_of(tmp_path / "other")
        assert problem == (
            f"config.json declares quantisation method {named}; those that are read are fp8, modelopt, "
            "compressed-tensors, with weights in fp8 (e4m3) or nvfp4"
        )


def test_a_directory_that_is_no_model(tmp_path: Path) -> None:
    assert problems_of(tmp_path) == ["it has no config.json, so it is no Hugging Face model directory"]
    (tmp_path / "m.ninfer").touch()
    assert "it holds 'm.ninfer': name the file" in problems_of(tmp_path)[0]


def test_no_weights_and_a_broken_config_are_both_said(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{'a': 1}")
    (tmp_path / "pytorch_model.bin").touch()
    config, weights = problems_of(tmp_path)
    assert config.startswith("config.json: not JSON")
    assert weights == "it has no .safetensors file; weights in other formats are not read"


def test_pipes_do_not_block_a_reader(tmp_path: Path) -> None:
    write_toy_directory(tmp_path)
    os.mkfifo(tmp_path / INDEX)
    (tmp_path / "model.safetensors").unlink()
    os.mkfifo(tmp_path / "model.safetensors")
    assert problems_of(tmp_path) == [f"{INDEX}: is no regular file"]
    (tmp_path / INDEX).unlink()
    assert problems_of(tmp_path) == ["model.safetensors: it is no regular file"]


def test_a_directory_name_that_is_no_utf_8(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"toy-\xff")
    assert opened(write_toy_directory(path)).header.identity.model_id == "toy-?"


def test_a_directory_name_becomes_a_printable_model_id(tmp_path: Path) -> None:
    assert opened(write_toy_directory(tmp_path / "red\x1b[31m\nline")).header.identity.model_id == "red?[31m?line"
    assert opened(write_toy_directory(tmp_path / ("m" * 240))).header.identity.model_id == "m" * 200

"""`ninfer plan` as a user meets it: any artifact, no GPU, no torch, every problem at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from ninfer_core.api.errors import PlanRejected
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.cli.plan import plan
from ninfer_core.cli.serve import log_plan
from ninfer_core.plan.options import ServeOptions, flag_name, option_infos
from ninfer_core.plan.prepare import prepare
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.telemetry import create_log
from ninfer_core.testing.tiny import tiny_header, write_tiny_artifact
from ninfer_core.testing.toy_artifacts import write_safetensors

MIB = 2**20


@pytest.fixture(autouse=True)
def no_gpu_and_no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    for name in [name for name in os.environ if name.startswith("NINFER_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_artifact(tmp_path_factory.mktemp("tiny") / "tiny.ninfer")


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(plan, [str(word) for word in words])


def json_of(*words: str | Path) -> dict[str, Any]:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.exception
    document: dict[str, Any] = json.loads(result.output)
    return document


def line_bytes(document: dict[str, Any], name: str) -> int:
    return next(int(line["bytes"]) for line in document["plan"]["ledger"]["lines"] if line["name"] == name)


def test_container(tiny: Path) -> None:
    document = json_of(tiny, "--max-context", "512")
    made = msgspec.convert(document["plan"], ExecutionPlan)
    assert made.digest == document["digest"]
    assert made.device.kind == "cpu"
    assert made.activation_dtype == "float32"
    assert made.capacities.kv_pages == 8
    assert made.ledger.planned_bytes + line_bytes(document, "headroom") == made.device.memory_bytes
    assert any("planned for the CPU" in note for note in document["notes"])


def test_hugging_face_directory(tmp_path: Path) -> None:
    header = tiny_header()
    for name, content in header.resources.items():
        (tmp_path / name).write_bytes(content)
    write_safetensors(tmp_path / "model.safetensors", header.tensors)
    document = json_of(tmp_path, "--device", "cpu", "--max-context", "512")
    assert document["plan"]["source"] == str(tmp_path)
    assert line_bytes(document, "weights") > 0


@pytest.mark.contract("OPT-6", "EXEC-7", "EXEC-23")
@pytest.mark.parametrize(
    ("name", "memory", "recurrent_mib", "conv_mib", "attention_layers", "kv_heads", "weight_bytes"),
    [
        ("dummy:qwen3.8-27b", "80GiB", 144, 2.8125, 16, 4, (50e9, 57e9)),
        ("dummy:qwen3.6-35b-a3b", "100GiB", 60, 1.40625, 10, 2, (66e9, 73e9)),
    ],
)
def test_real_shapes(
    name: str,
    memory: str,
    recurrent_mib: float,
    conv_mib: float,
    attention_layers: int,
    kv_heads: int,
    weight_bytes: tuple[float, float],
) -> None:
    """The numbers of docs/model.md, "Shapes", on a full card: eight rows of the whole context, the rest as KV."""
    words = ("--assume-device-memory", memory, "--max-context", "262144", "--max-concurrency", "8")
    document = json_of(name, *words, "--kv-capacity", "auto")
    state = {array["name"]: array for array in document["plan"]["geometry"]["state"]}
    assert sorted(state) == ["recurrent"]
    assert line_bytes(document, "recurrent_state") == 8 * recurrent_mib * MIB
    # Of the convolution's columns the last three are kept, and two rounds of one column each.
    assert line_bytes(document, "round_records") > 8 * conv_mib * MIB * 5 / 3
    page = 64 * attention_layers * kv_heads * 1024
    pages = document["plan"]["capacities"]["kv_pages"]
    assert line_bytes(document, "kv_pages") == pages * page
    assert 4096 <= pages <= 8 * 4096
    headroom = line_bytes(document, "headroom")
    assert headroom >= 2**30
    assert headroom < 2**30 + page or pages == 8 * 4096
    # 2 bytes each for 27e9 and 35e9 weights, names being rounded
    assert weight_bytes[0] < line_bytes(document, "weights") < weight_bytes[1]


def test_table_for_a_person(tiny: Path) -> None:
    result = run(tiny, "--max-context", "512", "--temperature", "0.5", "--no-cuda-graph")
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    for text in ("Plan ", "KV", "8 pages of 64 = 512 tokens", "headroom", "temperature 0.5", "100.0%", "Features"):
        assert text in result.output
    assert "prefix reuse  off (not built yet)" in result.output
    assert all(line == line.rstrip() for line in result.output.splitlines())
    assert "greedy" in run(tiny, "--greedy").output


@pytest.mark.contract("AUTH-1", "GEN-20")
def test_server_settings_without_the_key(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NINFER_API_KEY", "hunter2")
    words = (tiny, "--model-id", "mine", "--host", "::1", "--cors")
    document, table = json_of(*words), run(*words).output
    assert document["server"]["api_key"] is True
    assert document["server"]["model_id"] == "mine"
    assert "http://[::1]:8080, API key set, CORS" in table
    assert "hunter2" not in json.dumps(document) + table
    assert document["digest"] == json_of(tiny)["digest"]


def test_config_file_and_variables(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "c.toml"
    config.write_text(f'[model]\nartifact = "{tiny}"\n[engine]\nmax-context = 256\nmax-concurrency = 2\n')
    monkeypatch.setenv("NINFER_MAX_CONCURRENCY", "3")
    capacities = json_of("--config", config)["plan"]["capacities"]
    assert (capacities["max_context"], capacities["max_concurrency"]) == (256, 3)
    monkeypatch.setenv("NINFER_CONFIG", str(config))
    assert json_of("--max-concurrency", "4")["plan"]["capacities"]["max_concurrency"] == 4


def test_wrong_options_are_told_before_the_artifact_is_looked_for() -> None:
    result = run("nowhere.ninfer", "--vision", "--kv-dtype", "bf-16", "--device", "cpu")
    assert isinstance(result.exception, PlanRejected)
    assert [problem.code for problem in result.exception.problems] == ["not_built_yet", "plugin_unknown"]


@pytest.mark.contract("OPT-47")
def test_help_has_every_option_in_sections() -> None:
    text = run("--help").output
    for name, info in option_infos().items():
        if name != "artifact":
            assert f"  {flag_name(name)} " in text or f"  {flag_name(name)}\n" in text, name
        assert name == "artifact" or info.metavar in text
    for section in ("Server:", "Engine:", "Speculative decoding:", "Prefix cache:", "Sampling:", "Other options:"):
        assert f"\n{section}\n" in text


def test_command_line_ends_with_2_and_imports_no_torch(tiny: Path) -> None:
    script = (
        "import sys\n"
        "from ninfer_core.cli.main import main\n"
        f"good = main(['plan', {str(tiny)!r}, '--device', 'cpu', '--json'])\n"
        f"bad = main(['plan', {str(tiny)!r}, '--max-concurrency', '9'])\n"
        "heavy = {'torch', 'triton', 'litestar', 'transformers'} & set(sys.modules)\n"
        "print('ended', good, bad, sorted(heavy))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines()[-1] == "ended 0 2 []", done.stderr
    assert "plan_rejected: no plan can be made:" in done.stderr
    assert "1..8 (requests)" in done.stderr


@pytest.mark.contract("RESP-79")
def test_every_artifact_has_the_same_protocols(tiny: Path) -> None:
    words: list[tuple[str | Path, ...]] = [(tiny,), (), ("dummy:qwen3.6-35b-a3b", "--assume-device-memory", "100GiB")]
    pins = [[pin for pin in json_of(*each)["plan"]["pins"] if pin["kind"] == "protocol"] for each in words]
    assert [pin["name"] for pin in pins[0]] == ["anthropic", "openai-chat", "openai-responses"]
    assert pins[0] == pins[1] == pins[2]


@pytest.mark.parametrize("word", ["dummy:qwen3.8-27", "absent.ninfer"])
def test_artifact_that_is_not_there(word: str) -> None:
    result = run(word, "--device", "cpu")
    assert result.exception is not None
    assert getattr(result.exception, "code", "") == "artifact_invalid"


@pytest.mark.parametrize("content", [None, "[]"])
def test_a_script_is_checked_as_serving_checks_it(tiny: Path, tmp_path: Path, content: str | None) -> None:
    script = tmp_path / "script.json"
    if content is not None:
        script.write_text(content)
    rejected = run(tiny, "--scripted", script).exception
    assert isinstance(rejected, PlanRejected)
    assert [problem.code for problem in rejected.problems] == ["script_invalid"]
    script.write_text('[{"content": "x"}]')
    assert run(tiny, "--scripted", script).exit_code == 0


def test_what_plain_torch_computes_on_a_gpu_is_shown_and_warned_of(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (tiny, "--assume-device-memory", str(2**33), "--max-context", "512")
    said = "computed by plain torch, slowly: prefill of Gated DeltaNet"
    assert said in run(*words).output and said not in run(*words, "--kernels", "reference").output
    assert len(json_of(*words)["reference_operations"]) == 1

    options = ServeOptions(artifact=str(tiny), assume_device_memory=2**33, max_context=512)
    prepared = prepare(options, PluginRegistry.discover(environment={}))
    log_plan(create_log("warning"), prepared)
    (line,) = capsys.readouterr().err.splitlines()
    assert "WARNING reference_operation" in line and "no kernels for heads" in line

"""Flags over variables over file over defaults, and what is said when one of them is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from ninfer_core.api.errors import PlanRejected, Problem
from ninfer_core.plan.option_info import SecretText
from ninfer_core.plan.option_sources import LARGEST_FILE_BYTES, check_ranges, load_options
from ninfer_core.plan.options import ServeOptions


def problems_of(
    flags: dict[str, str | bool], environment: dict[str, str], config: Path | None = None
) -> tuple[Problem, ...]:
    with pytest.raises(PlanRejected) as caught:
        load_options(flags, environment, config)
    assert caught.value.exit_code == 2
    return caught.value.problems


def config_file(folder: Path, text: str) -> Path:
    path = folder / "server.toml"
    path.write_text(text)
    return path


def test_precedence(tmp_path: Path) -> None:
    config = config_file(
        tmp_path, "[server]\nport = 1001\nhost = 'a'\n[engine]\nmax-context = 100\nprefill-chunk = 256\n"
    )
    environment = {"NINFER_PORT": "1002", "NINFER_MAX_CONTEXT": "200", "PATH": "/bin"}
    options = load_options({"port": "1003"}, environment, config)
    assert (options.port, options.max_context, options.prefill_chunk, options.host) == (1003, 200, 256, "a")
    assert options.max_concurrency == 1
    assert options.origin("port") == "--port"
    assert options.origin("max_context") == "NINFER_MAX_CONTEXT"
    assert options.origin("prefill_chunk") == f"{config}:6 prefill-chunk"
    assert options.origin("max_concurrency") == "--max-concurrency"


def test_file_named_by_the_environment_loses_to_the_flag(tmp_path: Path) -> None:
    first, second = tmp_path / "1.toml", tmp_path / "2.toml"
    first.write_text("[server]\nport = 1\n")
    second.write_text("[server]\nport = 2\n")
    assert load_options({}, {"NINFER_CONFIG": str(first)}).port == 1
    assert load_options({}, {"NINFER_CONFIG": str(first)}, second).port == 2


def test_kinds_of_values_in_the_file(tmp_path: Path) -> None:
    text = """
    [model]
    artifact = "x.ninfer"
    [server]
    api-key = "secret"
    protocols = ["one", "two@package"]
    cors = true
    [engine]
    device = "cpu"
    kv-capacity = "auto"
    [sampling]
    temperature = 1
    top-k = 0
    seed = -5
    """
    options = load_options({}, {}, config_file(tmp_path, text))
    assert options.artifact == "x.ninfer"
    assert options.api_key == SecretText("secret")
    assert options.protocols == ("one", "two@package")
    assert options.cors is True
    assert (options.device, options.kv_capacity) == ("cpu", "auto")
    assert isinstance(options.temperature, float)
    assert (options.temperature, options.top_k, options.seed) == (1.0, 0, -5)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1073741824", 2**30), ("141GiB", 141 * 2**30), ("0.5 gib", 2**29), ("512MiB", 2**29), ("2048KiB", 2**21)],
)
def test_sizes(text: str, size: int) -> None:
    assert load_options({"assume_device_memory": text}, {}).assume_device_memory == size


@pytest.mark.parametrize("text", ["", "GiB", "1GB", "-1GiB", "1e9", "1.GiB", "9" * 60, "1KiB", "9999TiB"])
def test_sizes_that_are_none(text: str) -> None:
    (problem,) = problems_of({"assume_device_memory": text}, {})
    assert problem.code == "option_invalid"


def test_all_sources_are_reported_at_once(tmp_path: Path) -> None:
    config = config_file(
        tmp_path, '[engine]\n# a comment\nmax-context = 0\nprefil-chunk = 1\n\n[sampling]\ntop-p = "x"\n'
    )
    found = problems_of({"max_concurrency": "9"}, {"NINFER_PORT": "x", "NINFER_KV_DTYP": "fp8"}, config)
    messages = {problem.message: problem for problem in found}
    assert sorted(messages) == sorted(
        [
            f"{config}:3 max-context is 0, out of range: at least 1",
            f"{config}:4 engine.prefil-chunk: is no option",
            f"{config}:7 top-p is 'x', not a number",
            "environment variable NINFER_KV_DTYP is no option",
            "NINFER_PORT is 'x', not a whole number",
            "--max-concurrency is 9, out of range: at most 8",
        ]
    )
    assert "did you mean 'prefill-chunk'?" in messages[f"{config}:4 engine.prefil-chunk: is no option"].remedy
    assert "did you mean 'NINFER_KV_DTYPE'?" in messages["environment variable NINFER_KV_DTYP is no option"].remedy
    assert "1..8 (requests)" in messages["--max-concurrency is 9, out of range: at most 8"].remedy


def test_a_wrong_value_counts_even_where_a_right_one_goes_before_it() -> None:
    (problem,) = problems_of({"port": "80"}, {"NINFER_PORT": "none"})
    assert problem.message.startswith("NINFER_PORT")


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("max-context = 1\n", "1 max-context: stands outside its table", "move it under [engine]"),
        ("[server]\nmax-context = 1\n", "2 server.max-context: stands in the wrong table", "move it under [engine]"),
        ("[enigne]\n", "1 enigne: is no table of options", "did you mean 'engine'?"),
        ("[zzzzzz]\n", "1 zzzzzz: is no table of options", "the tables are model, server"),
        ("server = 3\n", "1 server: is a table", "write [server]"),
        ("[cache]\nzzzzzz = 1\n", "2 cache.zzzzzz: is no option", "the keys of [cache] are no-prefix-reuse"),
        ("[engine]\nmax_context = 1\n", "2 engine.max_context: is no option", "did you mean 'max-context'?"),
    ],
)
def test_misplaced_and_unknown_keys(tmp_path: Path, text: str, message: str, remedy: str) -> None:
    config = config_file(tmp_path, text)
    (problem,) = problems_of({}, {}, config)
    assert problem.code == "option_unknown"
    assert problem.message == f"{config}:{message}"
    assert remedy in problem.remedy


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("server.port", "true", "is True, not a whole number"),
        ("server.port", "80.0", "is 80.0, not a whole number"),
        ("server.port", "65536", "is 65536, out of range: at most 65535"),
        ("engine.assume-device-memory", "1", "is 1, out of range: at least "),
        ("server.cors", "1", "is 1, not true or false"),
        ("server.host", "7", "is 7, not a string"),
        ("server.protocols", '"a"', "is 'a', not a list of strings"),
        ("server.protocols", "[]", "names nothing"),
        ("server.protocols", '["a", "a"]', "names 'a' twice"),
        ("server.compat", '["claude"]', "names 'claude', not codex, claude-code"),
        ("engine.device", "1.5", "is 1.5, not a whole number or cpu"),
        ("sampling.temperature", "nan", "is nan, not a number"),
        ("sampling.temperature", "1979-05-27", "not a number"),
        ("logging.log-level", '"loud"', "is 'loud', not one of its words"),
        ("server.host", '"a\\u0000b"', "holds a zero byte"),
    ],
)
def test_values_of_the_wrong_kind_in_the_file(tmp_path: Path, key: str, value: str, reason: str) -> None:
    table, _, name = key.partition(".")
    (problem,) = problems_of({}, {}, config_file(tmp_path, f"[{table}]\n{name} = {value}\n"))
    assert problem.code == "option_invalid"
    assert reason in problem.message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    broken = config_file(tmp_path, "[server\n")
    large = tmp_path / "large.toml"
    large.write_bytes(b"#" * (LARGEST_FILE_BYTES + 1))
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    deep = tmp_path / "deep.toml"
    deep.write_text("a = " + "[" * 100_000)
    for path in (broken, large, binary, deep, tmp_path / "absent.toml", tmp_path):
        (problem,) = problems_of({}, {}, path)
        assert problem.code == "config_unreadable"
        assert str(path) in problem.message


@pytest.mark.contract("AUTH-1")
def test_a_wrong_key_is_not_repeated() -> None:
    (problem,) = problems_of({}, {"NINFER_API_KEY": "hunter2\x00"})
    assert "hunter2" not in problem.message + problem.remedy


@pytest.mark.parametrize("key", ["key\n", " key", "ke\ty", "ke\ry"])
def test_a_key_that_no_client_could_send_is_refused(key: str) -> None:
    (problem,) = problems_of({}, {"NINFER_API_KEY": key})
    assert "no HTTP header" in problem.message and key.strip() not in problem.message
    assert load_options({}, {"NINFER_API_KEY": "a key with \u00e9"}).api_key is not None


def test_the_trust_filter_is_no_option() -> None:
    assert load_options({}, {"NINFER_PLUGINS": "off"}) == ServeOptions()


def test_options_made_by_code_are_checked_too() -> None:
    options = ServeOptions(max_concurrency=9, temperature=float("nan"), device="gpu", cors=1, protocols=())  # type: ignore[arg-type]
    with pytest.raises(PlanRejected) as caught:
        check_ranges(options)
    found = {problem.message.split(" ")[0] for problem in caught.value.problems}
    assert found == {"--max-concurrency", "--temperature", "--device", "--cors", "--protocols"}
    check_ranges(ServeOptions())

"""The plan as a whole: what it says, what it is refused for, and what its digest depends on."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ninfer_core.api.artifact import ArtifactHeader, TensorSpec
from ninfer_core.api.errors import ArtifactInvalid, PlanRejected
from ninfer_core.api.plan import UNDECIDING, ExecutionPlan, Feature
from ninfer_core.plan.option_info import SecretText
from ninfer_core.plan.options import ServeOptions, option_infos
from ninfer_core.plan.resolve import resolve, resolve_for_serving
from ninfer_core.plugins.registry import PluginRegistry

BEHAVIOUR: dict[str, Any] = {
    "max_context": 4096,
    "kv_capacity": "auto",
    "max_concurrency": 2,
    "prefill_chunk": 128,
    "kernels": "reference",
    "no_cuda_graph": True,
    "default_max_tokens": 100,
    "no_thinking": True,
    "preserve_thinking": True,
    "default_thinking_budget": 128,
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 5,
    "min_p": 0.1,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "seed": 7,
    "greedy": True,
    "compat": ("codex",),
    "tolerant_tool_calls": True,
}
"""An option that changes what is generated or how much fits, with a value that is not its default."""
SERVER: dict[str, Any] = {
    "max_pending_requests": 17,
    "pending_timeout_ms": 1,
    "no_prefix_reuse": True,
    "host": "0.0.0.0",
    "port": 1,
    "api_key": SecretText("hunter2"),
    "model_id": "other",
    "max_request_mib": 1,
    "response_store_max_records": 7,
    "response_store_max_mib": 8,
    "cors": True,
    "scripted": "answers.json",
    "log_level": "debug",
    "log_stats_interval_ms": 0,
}
"""An option that changes none of that. What two of them switch off is off anyway, as long as it is not built."""
NAMES = {"artifact", "family", "weights", "protocols", "device", "assume_device_memory", "kv_dtype", "spec"}
"""Options that reach the plan as pins, device or artifact."""
DRAFTING = {"draft_tokens", "lm_head_draft"}
"""Options of a backend of speculation (see `test_speculation`)."""

HYPOTHESIS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_every_built_option_is_sorted() -> None:
    built = {name for name, info in option_infos().items() if info.built}
    assert built == set(BEHAVIOUR) | set(SERVER) | NAMES | DRAFTING


@given(chosen=st.sets(st.sampled_from(sorted(BEHAVIOUR))), server=st.sets(st.sampled_from(sorted(SERVER))))
@HYPOTHESIS
def test_digest_depends_on_behaviour_alone(
    chosen: set[str], server: set[str], registry: PluginRegistry, toy: Any
) -> None:
    behaviour = {name: BEHAVIOUR[name] for name in chosen}
    device, header = toy.cuda(4 * 2**30), toy.header()
    plain = resolve(ServeOptions(**behaviour), registry, header, device)
    with_server = resolve(
        ServeOptions(**behaviour, **{name: SERVER[name] for name in server}), registry, header, device
    )
    assert plain.digest == with_server.digest
    for name in set(BEHAVIOUR) - chosen:
        changed = resolve(ServeOptions(**behaviour, **{name: BEHAVIOUR[name]}), registry, header, device)
        # `auto` takes exactly what one request with the default context can use.
        same = name == "kv_capacity" and "max_concurrency" not in chosen
        # The reference is never captured.
        same = same or (name == "no_cuda_graph" and "kernels" in chosen)
        assert (changed.digest == plain.digest) is same, name


ELSEWHERE: dict[str, Any] = {"index": 1, "memory_bytes": 5 * 2**30}


def test_digest_is_not_of_places_names_and_prose(registry: PluginRegistry, toy: Any) -> None:
    replace = msgspec.structs.replace
    options, header = ServeOptions(), toy.header()
    plan = resolve(options, registry, header, toy.cuda())
    renamed = replace(header, source="elsewhere.ninfer", identity=replace(header.identity, model_id="other"))
    elsewhere = resolve(options, registry, renamed, replace(toy.cuda(), **ELSEWHERE))
    reworded = replace(
        plan,
        features=replace(plan.features, vision=Feature(plan.features.vision.on, "for a reason")),
        template=replace(plan.template, renderer_reason="for another"),
        ledger=replace(plan.ledger, lines=tuple(replace(line, formula="") for line in plan.ledger.lines)),
    )
    assert plan.digest == elsewhere.digest == reworded.digest
    assert plan != elsewhere


def test_digest_is_of_the_artifact_the_features_and_every_byte(registry: PluginRegistry, toy: Any) -> None:
    replace = msgspec.structs.replace
    plan = resolve(ServeOptions(), registry, toy.header(), toy.cuda())
    lines = plan.ledger.lines
    grown = tuple(replace(line, bytes=line.bytes + (line.name == "workspace")) for line in lines)
    others = {
        "weights": resolve(ServeOptions(), registry, replace(toy.header(), file_bytes=(9,)), toy.cuda()),
        "device": replace(plan, device=replace(plan.device, name="another GPU")),
        "feature": replace(plan, features=replace(plan.features, vision=Feature(True))),
        "bytes": replace(plan, ledger=replace(plan.ledger, lines=grown)),
        "pin": replace(plan, pins=(replace(plan.pins[0], version="1.1"), *plan.pins[1:])),
        "renderer": replace(plan, template=replace(plan.template, renderer="structured")),
        "domain": replace(plan, token_domain=plan.token_domain - 1),
    }
    assert len({plan.digest, *(other.digest for other in others.values())}) == 1 + len(others)


def test_every_field_of_a_plan_is_in_its_digest_or_said_not_to_be(registry: PluginRegistry, toy: Any) -> None:
    plan = resolve(ServeOptions(), registry, toy.header(), toy.cpu())
    assert set(plan._decisive()) | UNDECIDING == set(ExecutionPlan.__struct_fields__)
    assert set(plan._decisive()).isdisjoint(UNDECIDING)


@given(chosen=st.sets(st.sampled_from(sorted(BEHAVIOUR))))
@HYPOTHESIS
def test_plan_survives_its_json(chosen: set[str], registry: PluginRegistry, toy: Any) -> None:
    options = ServeOptions(**{name: BEHAVIOUR[name] for name in chosen})
    plan = resolve(options, registry, toy.header(), toy.cuda())
    again = msgspec.json.decode(msgspec.json.encode(plan), type=ExecutionPlan)
    assert again == plan
    assert again.digest == plan.digest


def toy_graph_bytes(rows: int) -> int:
    """What the driver keeps, and for 8 rows logits in 16 and in 32 bits and 64 vectors of a layer; sums of up to 578
    programs of 64 outputs, and of 128 splits of a context for each of 4 query heads of 32."""
    layer = 8 * 64 * 64 * 2 + 578 * 64 * 8 * 4
    return 72 * 2**20 + 8 * 512 * (2 + 4) + layer + rows * 4 * 128 * (32 + 2) * 4


@given(
    rows=st.integers(1, 8),
    max_context=st.integers(1, 32768),
    chunk=st.integers(1, 20),
    capacity=st.sampled_from([None, "auto"]),
    cuda=st.booleans(),
)
@HYPOTHESIS
def test_ledger_adds_up_to_the_device(
    rows: int, max_context: int, chunk: int, capacity: str | None, cuda: bool, registry: PluginRegistry, toy: Any
) -> None:
    device = toy.cuda() if cuda else toy.cpu()
    options = ServeOptions(
        max_concurrency=rows, max_context=max_context, prefill_chunk=128 * chunk, kv_capacity=capacity
    )
    plan = resolve(options, registry, toy.header(), device)
    assert plan.ledger.planned_bytes + plan.ledger.line("headroom").bytes == device.memory_bytes
    assert plan.ledger.device_bytes == device.memory_bytes
    names = [line.name for line in plan.ledger.lines]
    assert names == [
        "device_context",
        "weights",
        "kv_pages",
        "recurrent_state",
        "round_records",
        "row_buffers",
        "workspace",
        "graph_allowance",
        "headroom",
    ]
    value_bytes = 2 if cuda else 4
    bytes_of = {line.name: line.bytes for line in plan.ledger.lines}
    assert bytes_of["weights"] == 512 * 64 * value_bytes
    assert bytes_of["kv_pages"] == plan.capacities.kv_pages * 64 * 2 * 2 * (2 * 32 * 2)
    assert bytes_of["recurrent_state"] == rows * 6 * 4 * 16 * 16 * 4
    assert bytes_of["round_records"] == rows * 6 * (2 * 4 * 16 * 4 + (3 + 2) * 96 * value_bytes)
    assert bytes_of["device_context"] == (720 * 2**20 if cuda else 0)
    # block table and counters are int32; length, one candidate, their number, seed and top_k int64; 5 sampler settings
    assert bytes_of["row_buffers"] == rows * (4 * (-(-max_context // 64) + 512) + 8 * (1 + 1 + 1 + 1 + 1) + 4 * 5)
    assert bytes_of["graph_allowance"] == (toy_graph_bytes(rows) if cuda else 0)
    prefill = min(128 * chunk, max_context)
    family = prefill * 4096 + rows * 8192 + max_context * 16
    # last output; logits of the padding class in float32; by kernels a byte for each of them, by the reference counts,
    # penalties and keys
    chosen = max(rows, 8) * 512 * 1 if cuda else rows * 512 * 60
    sampling = max(prefill, rows) * 64 * value_bytes + max(rows, 8) * 512 * 4 + chosen
    assert bytes_of["workspace"] == max(family, sampling)
    assert plan.ledger.planned_bytes == sum(bytes_of.values()) - bytes_of["headroom"]


@pytest.mark.contract("OPT-45")
def test_what_a_plan_says(registry: PluginRegistry, toy: Any) -> None:
    options = ServeOptions(temperature=0.5, seed=3, no_thinking=True, preserve_thinking=True)
    plan = resolve(options, registry, toy.header(), toy.cpu())
    assert [(pin.kind, pin.name, pin.package, pin.version) for pin in plan.pins] == [
        ("family", "toy", "toy-plugins", "1.0"),
        ("kv", "bf16", "toy-plugins", "1.0"),
        ("protocol", "talk", "toy-plugins", "1.0"),
    ]
    assert plan.activation_dtype == "float32"
    assert (plan.geometry.vocabulary_rows, plan.token_domain) == (512, 490)
    assert (plan.sampling_overrides.temperature, plan.sampling_overrides.seed) == (0.5, 3)
    assert plan.sampling_overrides.top_p is None
    assert (plan.thinking.enable_thinking, plan.thinking.preserve_thinking) == (False, True)
    assert plan.presets.non_thinking.temperature == 0.7
    assert resolve(options, registry, toy.header(), toy.cuda()).activation_dtype == "bfloat16"


@pytest.mark.contract("OPT-29", "OPT-30")
def test_what_is_off_and_why(registry: PluginRegistry, toy: Any) -> None:
    default = resolve(ServeOptions(), registry, toy.header(), toy.cuda()).features
    assert default.cuda_graphs.words == "on"
    assert default.prefix_reuse.words == "off (not built yet)"
    assert default.speculation.words == default.vision.words == "off"
    chosen = ServeOptions(no_cuda_graph=True, no_prefix_reuse=True)
    features = resolve(chosen, registry, toy.header(), toy.cuda()).features
    assert features.cuda_graphs.words == features.prefix_reuse.words == "off"
    assert resolve(ServeOptions(), registry, toy.header(), toy.cpu()).features.cuda_graphs.words == "off (CPU)"
    plain = resolve(ServeOptions(kernels="reference"), registry, toy.header(), toy.cuda())
    assert (plain.kernels, plain.features.cuda_graphs.words) == ("reference", "off (reference kernels)")
    assert plain.ledger.line("graph_allowance").bytes == 0


def test_the_frontend_is_kept_for_serving(registry: PluginRegistry, toy: Any) -> None:
    resolution = resolve_for_serving(ServeOptions(), registry, toy.header(), toy.cpu())
    assert resolution.frontend.stop_token_ids == (1,)
    assert resolution.plan == resolve(ServeOptions(), registry, toy.header(), toy.cpu())
    assert resolution.family.pin == resolution.plan.pin("family")
    assert resolution.kv.pin == resolution.plan.pin("kv")


def test_options_and_plugin_names_are_refused_together(registry: PluginRegistry, toy: Any) -> None:
    options = ServeOptions(
        vision=True, draft_tokens=1, kv_dtype="int8", spec="dflahs", protocols=("talk", "x"), family="toi"
    )
    with pytest.raises(PlanRejected) as caught:
        resolve(options, registry, toy.header(), toy.cpu())
    codes = sorted(problem.code for problem in caught.value.problems)
    assert codes == ["not_built_yet"] * 2 + ["plugin_unknown"] * 3


def test_ranges_are_checked_first_and_each_problem_is_said_once(registry: PluginRegistry, toy: Any) -> None:
    with pytest.raises(PlanRejected) as caught:
        resolve(ServeOptions(max_concurrency=0, min_p=2.0, vision=True), registry, toy.header(), toy.cpu())
    assert [problem.code for problem in caught.value.problems] == ["option_invalid"] * 2


def test_wrong_tensors_are_refused_before_anything_else(registry: PluginRegistry, toy: Any) -> None:
    header: ArtifactHeader = msgspec.structs.replace(
        toy.header(),
        tensors=(
            TensorSpec(name="embed", shape=(512, 65), dtype="bfloat16"),
            TensorSpec(name="stray", shape=(1,), dtype="bfloat16"),
        ),
    )
    with pytest.raises(ArtifactInvalid) as caught:
        resolve(ServeOptions(max_context=99999), registry, header, toy.cpu(0))
    text = "\n".join(caught.value.problems)
    assert "embed" in text
    assert "stray" in text


def test_too_little_memory(registry: PluginRegistry, toy: Any) -> None:
    with pytest.raises(PlanRejected) as caught:
        resolve(ServeOptions(max_context=32768, max_concurrency=4), registry, toy.header(), toy.cuda(797 * 2**20))
    (problem,) = caught.value.problems
    assert problem.code == "memory_exceeded"
    for word in ("device_context 720.0 MiB", "weights", "kv_pages", "workspace", "too little"):
        assert word in problem.message
    assert "--max-context " in problem.remedy


@pytest.mark.parametrize("tokens", [513, 0])
def test_a_tokenizer_that_the_embedding_does_not_hold(tokens: int, registry: PluginRegistry, toy: Any) -> None:
    assert resolve(ServeOptions(), registry, toy.header(tokens=512), toy.cpu()).token_domain == 512
    with pytest.raises(ArtifactInvalid, match=f"ids up to {tokens - 1}, but the embedding has 512 rows"):
        resolve(ServeOptions(), registry, toy.header(tokens=tokens), toy.cpu())


def test_template_that_cannot(registry: PluginRegistry, toy: Any) -> None:
    options = ServeOptions(no_thinking=True, preserve_thinking=True)
    with pytest.raises(PlanRejected) as caught:
        resolve(options, registry, toy.header(thinking=False), toy.cpu())
    assert [problem.code for problem in caught.value.problems] == ["template_cannot"] * 2


def test_head_dimension_that_the_format_cannot_store(registry: PluginRegistry, toy: Any) -> None:
    with pytest.raises(PlanRejected) as caught:
        resolve(ServeOptions(), registry, toy.header(head_dim=24), toy.cpu())
    (problem,) = caught.value.problems
    assert problem.code == "plugin_incompatible"
    assert "not 24" in problem.message


def test_a_format_without_device_functions_runs_on_the_reference_and_the_plan_says_so(
    make_registry: Any, toy: Any
) -> None:
    source = (
        "from ninfer_core.api import KVLayout, KVPlane, hookimpl\n\n"
        "@hookimpl\ndef ninfer_kv_layout(head_dim):\n"
        "    planes = [KVPlane(part=p, name=p, dtype='int8', elements=head_dim) for p in ('key', 'value')]\n"
        "    return KVLayout(planes=tuple(planes))\n"
    )
    registry = make_registry({"slow": {"kv:slow": source}}, {"slow": '[kv.slow]\napi = 1\nsummary = "s"\n'})
    graphs = resolve(ServeOptions(kv_dtype="slow"), registry, toy.header(), toy.cuda()).features.cuda_graphs
    assert graphs.words == "off (KV format slow has no device functions: attention is the slow reference)"


def test_heads_that_have_no_kernels_run_on_the_reference_and_the_plan_says_so(
    registry: PluginRegistry, toy: Any
) -> None:
    plan = resolve(ServeOptions(), registry, toy.header(head_dim=16), toy.cuda())
    words = "off (no kernels for heads of 16 elements: attention is the slow reference)"
    assert plan.features.cuda_graphs.words == words
    assert plan.ledger.line("graph_allowance").bytes == 0


def test_plugins_that_cannot_live_together(make_registry: Any, toy: Any) -> None:
    manifest = '[kv.picky]\napi = 1\nsummary = "s"\nrequires = ["rotation"]\nconflicts = ["family.toy"]\n'
    source = "from ninfer_core.api import hookimpl\n\n@hookimpl\ndef ninfer_kv_layout(head_dim):\n    ...\n"
    registry = make_registry({"picky": {"kv:picky": source}}, {"picky": manifest})
    with pytest.raises(PlanRejected) as caught:
        resolve(ServeOptions(kv_dtype="picky"), registry, toy.header(), toy.cpu())
    assert [problem.code for problem in caught.value.problems] == ["plan_conflict"] * 2
    assert "needs rotation" in caught.value.problems[0].message


STABLE = """
import sys
from ninfer_core.api.plan import DeviceInfo
from ninfer_core.artifact import open_artifact
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.resolve import resolve
from ninfer_core.plugins.registry import PluginRegistry
registry = PluginRegistry.discover(environment={})
header = open_artifact(sys.argv[1], registry).header
device = DeviceInfo(kind="cuda", index=0, name="x", memory_bytes=200 * 2**30, compute_capability="9.0")
print(resolve(ServeOptions(), registry, header, device).digest, "torch" in sys.modules)
"""


def test_digest_is_the_same_in_every_process() -> None:
    answers = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", STABLE, "dummy:qwen3.6-35b-a3b"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        answers.add(done.stdout)
    (answer,) = answers
    assert answer.split()[1] == "False"


def test_compat_is_in_the_plan_in_one_order(registry: PluginRegistry, toy: Any) -> None:
    plan = resolve(ServeOptions(compat=("codex", "claude-code")), registry, toy.header(), toy.cpu())
    assert plan.compat == ("claude-code", "codex")


@pytest.mark.contract("OPT-39", "TOOL-15")
def test_tolerant_tool_calls_are_part_of_the_plan(registry: PluginRegistry, toy: Any) -> None:
    plain, tolerant = (
        resolve(ServeOptions(tolerant_tool_calls=given), registry, toy.header(), toy.cpu()) for given in (False, True)
    )
    assert (plain.tolerant_tool_calls, tolerant.tolerant_tool_calls) == (False, True)
    assert plain.digest != tolerant.digest
    assert plain.template.tools == plain.features.tool_calls.on
    assert (plain.features.tool_calls.words, tolerant.features.tool_calls.words) == ("on", "on (tolerant)")

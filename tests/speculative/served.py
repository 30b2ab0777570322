"""The embedded model with each backend, and requests whose outcomes are compared."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
import torch

from ninfer_core.api import ArtifactHeader, ExecutionPlan, Frontend, GenerationRequest, Message, TextPart
from ninfer_core.api.frontend import ThinkingDefaults
from ninfer_core.api.request import Channel
from ninfer_core.api.service import Finished, Speculation
from ninfer_core.artifact import open_artifact
from ninfer_core.artifact.handle import ArtifactHandle
from ninfer_core.engine.messages import Failed
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.build import build_program
from ninfer_core.program.runner import DeviceProgram
from ninfer_core.testing.histories import Bench
from ninfer_core.testing.tiny import tiny_plan

BACKENDS = ("mtp", "dflash", "dflash2")
QUESTIONS = (
    "What is the capital of France?",
    "Add 12 and 30.",
    "Hello!",
    "Name three colours.",
    "Write a short poem about the sea.",
    "How do you spell 'window'?",
    "Tell me a story about a dog and a river.",
    "Who are you?",
)
MOST_WAITING = 512
"""Of requests: tests send all of theirs at once."""
_SECOND_ONLY = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")


@cache
def registry() -> PluginRegistry:
    return PluginRegistry.discover()


@cache
def embedded() -> ArtifactHandle:
    return open_artifact(None, registry())


def with_draft_config(artifact: ArtifactHandle, config: dict[str, Any]) -> ArtifactHandle:
    raw = json.dumps(config).encode()
    resources = {**artifact.header.resources, "draft_config.json": raw}
    return _with_header(artifact, msgspec.structs.replace(artifact.header, resources=resources))


def draft_config(artifact: ArtifactHandle) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(artifact.header.resources["draft_config.json"])
    return config


def dflash_artifact() -> ArtifactHandle:
    """The embedded model with the DFlash that its DFlash2 was made from: that one's weights were not trained any
    further, so that they are what is left without the additions."""
    artifact = embedded()
    config = draft_config(artifact)
    inner = {key: value for key, value in config["dflash_config"].items() if key not in _SECOND_ONLY}
    added = ("_conv.", "candidate_selector.")
    kept = tuple(
        spec
        for spec in artifact.header.tensors
        if not (spec.name.startswith("draft.") and any(part in spec.name for part in added))
    )
    first = _with_header(artifact, msgspec.structs.replace(artifact.header, tensors=kept))
    return with_draft_config(first, config | {"architectures": ["DFlashDraftModel"], "dflash_config": inner})


def artifact_of(backend: str | None) -> ArtifactHandle:
    return dflash_artifact() if backend == "dflash" else embedded()


@dataclass(frozen=True)
class Served:
    """One program, for any number of benches one after the other."""

    plan: ExecutionPlan
    program: DeviceProgram
    frontend: Frontend

    def bench(self) -> Bench[DeviceProgram]:
        return Bench(self.plan, self.program, self.frontend)

    def prompt(self, question: str) -> tuple[tuple[int, ...], Channel]:
        request = GenerationRequest(messages=(Message(role="user", content=(TextPart(question),)),))
        prepared = self.frontend.prepare(request, ThinkingDefaults())
        return prepared.token_ids, prepared.initial_channel

    def channel(self, token_ids: tuple[int, ...] | list[int]) -> Channel:
        """What a prompt of tokens leaves open."""
        text = b"".join(map(self.frontend.token_bytes, token_ids)).decode()
        return "reasoning" if text.rstrip().endswith("<think>") else "content"


def serve(backend: str | None, artifact: ArtifactHandle | None = None, **options: Any) -> Served:
    """Keywords are ServeOptions."""
    artifact = artifact_of(backend) if artifact is None else artifact
    header: ArtifactHeader = artifact.header
    spec = {} if backend is None else {"spec": backend}
    asked = {
        "max_context": 1024,
        "max_concurrency": 4,
        "kv_capacity": 4 * 1024,
        "max_pending_requests": MOST_WAITING,
        **spec,
        **options,
    }
    plan = tiny_plan(registry(), header, **asked)
    with artifact.open_weights() as weights:
        program = build_program(plan, header, weights, registry(), torch.device("cpu"), lambda name, seconds: None)
    (offer,) = registry().offers("family")
    return Served(plan, program, registry().load(offer).hook.ninfer_family_frontend(header=header))


@dataclass(frozen=True)
class Wish:
    """One request; `cancel_after` boundaries it is cancelled, `wait` boundaries pass before it comes."""

    token_ids: tuple[int, ...] | list[int]
    channel: Channel
    max_output_tokens: int
    stop: tuple[str, ...] = ()
    thinking_budget: int | None = None
    greedy: bool = True
    seed: int = 0
    wait: int = 0
    cancel_after: int | None = None

    def submit(self, bench: Bench[DeviceProgram]) -> int:
        return bench.submit(
            token_ids=self.token_ids,
            channel=self.channel,
            max_output_tokens=self.max_output_tokens,
            stop=self.stop,
            thinking_budget=self.thinking_budget,
            greedy=self.greedy,
            seed=self.seed,
        )


@dataclass(frozen=True)
class Outcome:
    """What a client sees of an answer. `ending` is None for one that was cancelled."""

    text: dict[str, str]
    ending: tuple[object, ...] | None
    speculation: Speculation | None = None

    @property
    def seen(self) -> tuple[object, ...]:
        return (self.text, self.ending)

    def begins(self, whole: Outcome) -> bool:
        """Whether `whole` goes on from here; a cancelled answer may have come to its end as well."""
        if self.ending is not None:
            return self.seen == whole.seen
        return all(whole.text[channel].startswith(text) for channel, text in self.text.items())


def play(served: Served, wishes: Iterable[Wish]) -> list[Outcome]:
    """All wishes on one engine, each in its time."""
    bench = served.bench()
    wanted = list(wishes)
    ids: list[int] = []
    cancels: dict[int, int] = {}
    boundary = 0
    for wish in wanted:
        for _ in range(wish.wait):
            boundary = _step(bench, cancels, boundary)
        ids.append(wish.submit(bench))
        if wish.cancel_after is not None:
            cancels[ids[-1]] = boundary + wish.cancel_after
    while len(bench.observer.last) < len(ids):
        boundary = _step(bench, cancels, boundary)
    bench.check_nothing_leaked()
    return [_outcome(bench, request_id) for request_id in ids]


def tokens_per_round(outcomes: Iterable[Outcome]) -> float:
    """Of all rounds, those that were cut included: what an answer has beyond its first token, by its rounds."""
    told = [(outcome.speculation, outcome.ending) for outcome in outcomes if outcome.speculation and outcome.ending]
    rounds = sum(speculation.rounds for speculation, _ in told)
    return sum(ending[2] - 1 for _, ending in told) / rounds  # type: ignore[operator]


def random_wishes(prompts: list[tuple[tuple[int, ...], Channel]], draw: random.Random, most: int) -> list[Wish]:
    """Greedy and sampled ones, with limits, stops, budgets and cancels that fall into the middle of rounds. What closes
    thinking has 40 tokens: `most` leaves room for them."""
    stops = ("the", " is", "\n\n", "e", ".", "ing", "What")
    budgets = [draw.choice((None, None, 1, 3, 6)) for _ in prompts]
    return [
        Wish(
            token_ids=token_ids,
            channel=channel,
            max_output_tokens=draw.choice((1, 2, 7, most // 2, most, most)) if budget is None else most,
            stop=tuple(draw.sample(stops, draw.choice((0, 0, 0, 1, 2)))),
            thinking_budget=budget,
            greedy=draw.random() < 0.75,
            seed=draw.randrange(1 << 64),
            wait=draw.choice((0, 0, 1, 3)),
            cancel_after=draw.choice((None, None, None, None, 3, 8)),
        )
        for (token_ids, channel), budget in zip(prompts, budgets, strict=True)
    ]


def _step(bench: Bench[DeviceProgram], cancels: dict[int, int], boundary: int) -> int:
    for request_id in [each for each, at in cancels.items() if at <= boundary]:
        del cancels[request_id]
        bench.cancel(request_id)
    bench.step()
    return boundary + 1


def _outcome(bench: Bench[DeviceProgram], request_id: int) -> Outcome:
    last, text = bench.observer.last[request_id], bench.observer.text[request_id]
    if isinstance(last, Failed):
        assert last.code == "client_disconnected", last
        return Outcome(text, None)
    assert isinstance(last, Finished)
    usage = last.usage
    ending = (last.reason, last.stop_string, usage.output_tokens, usage.reasoning_tokens, usage.thinking_control_tokens)
    return Outcome(text, ending, last.speculation)


def _with_header(artifact: ArtifactHandle, header: ArtifactHeader) -> ArtifactHandle:
    return ArtifactHandle(header=header, notes=artifact.notes, store=artifact.store)

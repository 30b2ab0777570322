"""`DrafterConformance`: what a backend of speculation owes. Runs on the CPU in half a minute, with a real model.

Subclass it in a test module and name the plugin:

    class TestLookup(DrafterConformance):
        plugin = "ngram"

A drafter cannot make text wrong; that is the core's. It can be slow where it need not be: by drafts that depend on
other sequences, on how a prompt was cut, on rounds that were given up, or on a law that is not the one it drew from.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, cast

import msgspec
import pytest
import torch

from ninfer_core.api.artifact import ArtifactHeader
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.api.speculative import MOST_DRAFT_TOKENS, Drafter, DrafterNeeds, DraftTokens, HostDrafter
from ninfer_core.artifact import open_artifact
from ninfer_core.plan.pins import resolve_pinned
from ninfer_core.plan.sizing import build_shape, kernels_on
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.program.build import settle_threads
from ninfer_core.program.built_drafter import BuiltDrafter, drafts_on_host
from ninfer_core.program.contract import RowRound, RowSetup, Sampling
from ninfer_core.program.loading import load_model
from ninfer_core.program.pools import allocate_pools
from ninfer_core.program.runner import DeviceProgram
from ninfer_core.testing.tiny import tiny_artifact, tiny_plan
from ninfer_core.testing.watched_drafter import WatchedDrafter, WatchedHostDrafter

GREEDY = Sampling(temperature=0.0, top_p=1.0, top_k=20, min_p=0.0, presence_penalty=0.0, frequency_penalty=0.0, seed=0)
WARM = msgspec.structs.replace(GREEDY, temperature=0.8, top_p=0.95, seed=11)
OUTPUT = 12
DEVIATIONS = 4.5
"""How far off a law a count may be: once in some hundred thousand runs by chance."""

Take = Callable[[int], int]
Drafted = dict[tuple[int, ...], tuple[int, ...]]
"""Drafts by the text that they were made behind."""


def _all(offered: int) -> int:
    return offered


def _one(offered: int) -> int:
    return 1


def _some(seed: int) -> Take:
    draw = random.Random(seed)
    return lambda offered: draw.randint(1, offered)


@dataclass(frozen=True, slots=True)
class Stage:
    """A program, and its drafter to look at; None where it has none."""

    plan: ExecutionPlan
    header: ArtifactHeader
    program: DeviceProgram
    watched: WatchedDrafter | WatchedHostDrafter | None

    @property
    def law_width(self) -> int:
        return 0 if self.plan.drafter is None else self.plan.drafter.needs.law_width

    def run(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling = GREEDY,
        *,
        chunk: int = 512,
        take: Take = _all,
        forced: Sequence[int] = (),
        output: int = OUTPUT,
    ) -> tuple[list[list[int]], Drafted]:
        """One row for each prompt, together, `forced` put behind each of them after a few rounds -> texts with their
        prompts, and what was drafted."""
        texts = {row: [*prompt, first] for row, (prompt, first) in self._begin(prompts, sampling, chunk).items()}
        accepted = dict.fromkeys(texts, 1)
        drafted: Drafted = {}
        rounds, ends = 0, {row: len(text) + output + len(forced) for row, text in texts.items()}
        while open_rows := [row for row, text in texts.items() if len(text) < ends[row]]:
            rounds += 1
            if forced and rounds == 3:
                for row in open_rows:
                    self.program.control(RowRound(row=row, accepted=accepted[row]), forced)
                    texts[row].extend(forced)
                    accepted[row] = 1
            for row, candidates in self._round(open_rows, accepted, texts, drafted).items():
                kept = max(1, min(take(len(candidates)), len(candidates), ends[row] - len(texts[row])))
                texts[row].extend(candidates[:kept])
                accepted[row] = kept
        for row in texts:
            self.program.close_row(row)
        return list(texts.values()), drafted

    def _begin(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, chunk: int
    ) -> dict[int, tuple[Sequence[int], int]]:
        begun = {}
        for prompt in prompts:
            row = self.program.open_row(RowSetup(len(prompt), len(prompt) + 4 * OUTPUT, sampling))
            assert row is not None, "the plan has room for every row"
            first = None
            for start in range(0, len(prompt), chunk):
                first = self.program.prefill(row, prompt[start : start + chunk], start + chunk >= len(prompt))
            assert first is not None
            begun[row] = (prompt, first)
        return begun

    def _round(
        self, rows: Sequence[int], accepted: dict[int, int], texts: dict[int, list[int]], drafted: Drafted
    ) -> dict[int, tuple[int, ...]]:
        found = self.program.decode([RowRound(row=row, accepted=accepted[row]) for row in rows])
        for proposal in [] if self.watched is None else self.watched.proposals:
            text = tuple(texts[proposal.row])
            assert proposal.tokens == len(text)
            drafted[text] = proposal.drafts
        if self.watched is not None:
            self.watched.proposals.clear()
        return dict(zip(rows, found, strict=True))


class DrafterConformance:
    """`plugin` is `name` or `name@package`; its package must be installed. `artifact` has what it needs: None for a
    tiny random model, which is quick; `embedded:ninfer-tiny` has a DFlash2 drafter, a next-token head and a reduced
    head, all of them trained. `options` are fields of ServeOptions besides."""

    plugin: ClassVar[str]
    artifact: ClassVar[str | None] = None
    options: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    @pytest.fixture(scope="class")
    @classmethod
    def drafting(cls) -> Iterator[Stage]:
        yield from staged(cls.artifact, {"spec": cls.plugin, **cls.options})

    @pytest.fixture(scope="class")
    @classmethod
    def plain(cls) -> Iterator[Stage]:
        yield from staged(cls.artifact, {})

    def test_it_says_how_much_it_drafts(self, drafting: Stage) -> None:
        able = self._hook(drafting, "ninfer_spec_draft_tokens", header=drafting.header)
        assert isinstance(able, DraftTokens)
        assert 1 <= able.default <= able.most <= MOST_DRAFT_TOKENS

    def test_its_needs_are_the_same_whenever_it_is_asked(self, drafting: Stage) -> None:
        plan = drafting.plan
        shape = build_shape(plan.capacities, plan.activation_dtype, kernels_on(plan.device, plan.kernels))
        for groups in (("text",), ("text", "draft_head")):
            for columns in (2, 1 + plan.capacities.draft_tokens):
                asked = msgspec.structs.replace(shape, groups=groups, decode_columns=columns)
                given = {"header": drafting.header, "geometry": plan.geometry, "shape": asked}
                needs = self._hook(drafting, "ninfer_spec_needs", **given)
                assert isinstance(needs, DrafterNeeds) and needs == self._hook(drafting, "ninfer_spec_needs", **given)
                assert all(-1 <= tap < plan.geometry.layers for tap in needs.taps)
                if needs.runs_on == "host":
                    alone = DrafterNeeds(runs_on="host", groups=needs.groups)
                    assert needs == alone, "nothing of the device is given to a drafter on the host"

    def test_text_is_what_it_would_be_without(self, drafting: Stage, plain: Stage) -> None:
        for sampling in (GREEDY,) if drafting.law_width else (GREEDY, WARM):
            cut, _ = drafting.run(_prompts(drafting), sampling, take=_some(1))
            assert cut == plain.run(_prompts(drafting), sampling)[0]

    def test_drafts_depend_on_their_own_text_alone(self, drafting: Stage) -> None:
        """Not on batch mates, on chunks of the prompt, on what of a round was given up, on what was in the slot."""
        prompts = _prompts(drafting)
        _, together = drafting.run(prompts)
        for prompt, take in zip(reversed(prompts), (_some(2), _all, _one), strict=True):
            _, alone = drafting.run([prompt], chunk=7, take=take)
            assert set(alone) & set(together), "the texts went apart"
            _same(alone, together)

    def test_tokens_that_were_put_there_count_like_others(self, drafting: Stage) -> None:
        prompts = _prompts(drafting)
        texts, forced = drafting.run(prompts, forced=prompts[0][:5], output=2 * OUTPUT)
        assert any(forced.values()), "nothing was ever drafted, not even behind a phrase for the fourth time"
        for text in texts[:2]:
            # Anew, with all of it but the last tokens as the prompt, and a round at every place.
            _, anew = drafting.run([text[:-OUTPUT]], take=_one)
            assert set(anew) & set(forced), "the texts went apart"
            _same(anew, forced)

    def test_laws_are_those_that_drafts_were_drawn_from(self, drafting: Stage) -> None:
        if not isinstance(drafting.watched, WatchedDrafter) or not drafting.law_width:
            pytest.skip("its drafts are certain")
        for seed in range(3):
            drafting.run(_prompts(drafting), msgspec.structs.replace(WARM, seed=seed))
        tally = drafting.watched.likeliest
        assert tally.count > 100, "no draft of a sampled row had a law"
        assert abs(tally.drawn - tally.expected) <= DEVIATIONS * max(tally.variance, 1.0) ** 0.5

    def _hook(self, drafting: Stage, name: str, **given: object) -> object:
        registry = PluginRegistry.discover()
        hook = registry.load(registry.select("spec", self.plugin)).hook
        return getattr(hook, name)(**given)


def staged(artifact: str | None, options: Mapping[str, Any]) -> Iterator[Stage]:
    """A program of a plan with these options, as long as it is wanted. The artifact is that of DrafterConformance."""
    registry, device = PluginRegistry.discover(), torch.device("cpu")
    opened = tiny_artifact() if artifact is None else open_artifact(artifact, registry)
    header = opened.header
    roomy = {"max_context": 512, "max_concurrency": 3, "kv_capacity": 3 * 512, "kv_dtype": "bf16"}
    plan = tiny_plan(registry, header, **roomy, **options)
    plugins = resolve_pinned(plan, registry)
    settle_threads(plan, device)
    with opened.open_weights() as weights, torch.inference_mode():
        model, built = load_model(plan, plugins, header, weights, device)
        codec = plugins["kv"][0].hook.ninfer_kv_codec(layout=plan.kv_layout)
        pools = allocate_pools(plan, device)
        watched: WatchedDrafter | WatchedHostDrafter | None = None
        if built is not None and drafts_on_host(plan):
            watched = WatchedHostDrafter(cast("HostDrafter", built.drafter))
        elif built is not None and plan.drafter is not None:
            watched = WatchedDrafter(cast("Drafter", built.drafter), pools, plan.drafter.needs.law_width)
        seen = None if built is None or watched is None else BuiltDrafter(watched, built.label)
        program = DeviceProgram(plan, model, codec, pools, device, seen)
        yield Stage(plan, header, program, watched)
        program.close()


def _prompts(stage: Stage) -> list[list[int]]:
    """Texts that come back to what they have said, of one token and of more than a page."""
    draw = random.Random(7)
    domain = min(stage.plan.token_domain, 256)
    phrase = [draw.randrange(domain) for _ in range(23)]
    return [phrase * 3, [phrase[3]], [*phrase, *phrase[5:14], *phrase, *phrase[2:8]]]


def _same(found: Drafted, expected: Drafted) -> None:
    for text in set(found) & set(expected):
        assert found[text] == expected[text], f"other drafts behind the same {len(text)} tokens"

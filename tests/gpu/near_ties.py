"""Greedy text with drafts, in bfloat16 on a CUDA device, is the text without, except at near ties: the kernels of
several columns and of one add in other orders, and where two tokens are as good as equal the last bits decide. Each
first difference is looked at in float32 and has to be such a tie; how near that is, the steps without drafts say, by
how far bfloat16 moves the difference of two logits."""

from __future__ import annotations

import gc
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from ninfer_models.qwen_hybrid.geometry import build_geometry
from ninfer_models.qwen_hybrid.text import build_text_model

from ninfer_core.api import DrafterNeeds, ExecutionPlan, Model
from ninfer_core.artifact.handle import ArtifactHandle
from ninfer_core.bench.tap import LogitsTap
from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.harness import ModelHarness
from ninfer_core.testing.scripted_drafters import BACKEND, HostAdversary
from tests.gpu.greedy_texts import OUTPUT, Mixed, build, make_device, make_host, write

PROMPTS, LONGEST_PROMPT = 128, 150
MEASURED_PROMPTS = 24
"""Whose steps say how far bfloat16 moves the difference of two logits."""
STANDARD_DEVIATIONS = 6.0
"""Of such a difference: what is further apart in float32 does not change places by roundings."""
DRAFTERS = {"mtp": 3, "dflash2": 7, "on the device": 7, "on the host": 3}
"""With how many drafts."""
CUDA = torch.device("cuda")


@dataclass(slots=True)
class Noise:
    """What bfloat16 does to differences of two logits: those of the two best tokens of steps without drafts."""

    errors: list[float] = field(default_factory=list)
    regrets: list[float] = field(default_factory=list)
    """How far below the best, in float32, the chosen tokens are."""

    @property
    def tolerance(self) -> float:
        return STANDARD_DEVIATIONS * (sum(error * error for error in self.errors) / len(self.errors)) ** 0.5


@dataclass(frozen=True, slots=True)
class Subject:
    """A model of one case, and its texts without drafts."""

    name: str
    handle: ArtifactHandle
    registry: PluginRegistry
    prompts: list[list[int]]
    texts: list[list[int]]
    token_domain: int
    noise: Noise


class Exact:
    """The model in float32, of plain operations; only while no program is there, which others on the device thank."""

    def __init__(self, subject: Subject) -> None:
        header = subject.handle.header
        with subject.handle.open_weights() as weights:
            model = build_text_model(header, "float32", 1, weights, CUDA, "reference")
        self._harness = ModelHarness(model, build_geometry(header, "float32"), device=CUDA, slots=1, max_context=256)
        self._token_domain = subject.token_domain

    def logits(self, token_ids: Sequence[int], first: int) -> torch.Tensor:
        """float32 [len(token_ids) - first, token domain]: what follows each token from the place `first` on."""
        self._harness.begin(0)
        hidden = self._harness.prefill(0, token_ids)
        self._harness.advance(0, -len(token_ids))
        return self._harness.logits(hidden[first:])[:, : self._token_domain]


def make_subject(name: str, handle: ArtifactHandle, registry: PluginRegistry, prompts: list[list[int]]) -> Subject:
    """With its texts, and what bfloat16 does to logits on the way. `prompts` are PROMPTS."""
    made: list[LogitsTap] = []

    def tapped(model: Model) -> Model:
        made.append(LogitsTap(model))
        return made[0]

    program, domain = build(handle, registry, wrap_model=tapped)
    best: dict[int, list[tuple[list[int], float]]] = {number: [] for number in range(PROMPTS)}

    def look(numbers: Sequence[int]) -> None:
        if numbers[0] < MEASURED_PROMPTS:
            values, token_ids = made[0].round_logits(len(numbers))[:, :domain].topk(2)
            for place, number in enumerate(numbers):
                best[number].append((token_ids[place].tolist(), float(values[place, 0] - values[place, 1])))

    texts, _ = write(program, prompts, look=look)
    program.close()
    del program, made[:]
    collect()
    found = Subject(name, handle, registry, prompts, texts, domain, Noise())
    measure(found, best)
    collect()
    return found


def collect() -> None:
    gc.collect()
    torch.cuda.empty_cache()


def measure(subject: Subject, best: dict[int, list[tuple[list[int], float]]]) -> None:
    """Of the steps of the first prompts, `best` being the two best tokens of each and how far apart they were."""
    reference = Exact(subject)
    for number in range(MEASURED_PROMPTS):
        prompt, text = subject.prompts[number], subject.texts[number]
        exact = reference.logits([*prompt, *text[:-1]], len(prompt))
        for step, ((first, second), apart) in enumerate(best[number]):
            subject.noise.errors.append(apart - float(exact[step, first] - exact[step, second]))
            subject.noise.regrets.append(float(exact[step].max() - exact[step, text[step + 1]]))


def drafted(subject: Subject, name: str) -> tuple[list[list[int]], int]:
    """The texts with that drafter, and how many drafts were kept."""
    made: list[Mixed | HostAdversary] = []
    make, runs_on = (make_host, "host") if name == "on the host" else (make_device, "device")

    def remember(plan: ExecutionPlan) -> object:
        made.append(make(plan))
        return made[0]

    def know(row: int, number: int) -> None:
        """What the text is going to be, as far as an adversary wants to be right."""
        whole = [*subject.prompts[number], *subject.texts[number]]
        (adversary,) = made
        if isinstance(adversary, Mixed):
            adversary.texts[row].zero_()
            adversary.texts[row, : len(whole)].copy_(torch.tensor(whole))
        else:
            anything = random.Random(number).choices(range(subject.token_domain), k=len(whole))
            assert isinstance(adversary.answers, list)
            adversary.answers[row] = (whole, [token ^ 1 for token in whole], anything)[row % 3]

    if name in ("mtp", "dflash2"):
        program, _ = build(subject.handle, subject.registry, spec=name, draft_tokens=DRAFTERS[name])
        texts, kept = write(program, subject.prompts)
    else:
        options = {"spec": BACKEND, "draft_tokens": DRAFTERS[name]}
        program, _ = build(subject.handle, subject.registry, remember, DrafterNeeds(runs_on=runs_on), **options)
        texts, kept = write(program, subject.prompts, know)
    program.close()
    return texts, kept


def gaps_of(subject: Subject, texts: list[list[int]]) -> list[float]:
    """Of each text that is another one, at its first difference: how far the worse of the two tokens is below the best
    one in float32."""
    reference, gaps = Exact(subject), []
    for prompt, text, without in zip(subject.prompts, texts, subject.texts, strict=True):
        if text != without:
            place = next(place for place, pair in enumerate(zip(text, without, strict=True)) if pair[0] != pair[1])
            same = [*prompt, *text[:place]]
            (exact,) = reference.logits(same, len(same) - 1)
            gaps.append(float(exact.max() - torch.minimum(exact[text[place]], exact[without[place]])))
    return gaps


def check(subject: Subject, name: str, may_keep_none: bool = False) -> dict[str, object]:
    """Texts with that drafter differ at near ties alone; -> the figures of it. Only dummy drafters may keep none."""
    texts, kept = drafted(subject, name)
    collect()
    assert kept > 0 or may_keep_none
    gaps = gaps_of(subject, texts) if texts != subject.texts else []
    collect()
    noise = subject.noise
    found: dict[str, object] = {
        "prompts": len(subject.prompts),
        "tokens": OUTPUT,
        "drafts": DRAFTERS[name],
        "kept": kept,
        "differences": len(gaps),
        "largest gap": max(gaps, default=0.0),
        "tolerance": noise.tolerance,
        "largest error": max(map(abs, noise.errors)),
        "largest regret": max(noise.regrets),
        "measured steps": len(noise.errors),
    }
    assert max(noise.regrets) <= noise.tolerance, f"steps without drafts choose what float32 finds worse: {found}"
    assert all(gap <= noise.tolerance for gap in gaps), (found, sorted(gaps))
    return found

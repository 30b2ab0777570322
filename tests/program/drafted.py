"""The tiny model's program with a drafter that a test has made, prompts for it, and drivers of programs."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import torch

from ninfer_core.api import DrafterNeeds, ExecutionPlan
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.build import build_program
from ninfer_core.program.contract import MOST_IN_FLIGHT, RowRound, RowSetup, Sampling, Unit
from ninfer_core.program.runner import DeviceProgram
from ninfer_core.testing.scripted_drafters import BACKEND, Adversary, with_drafter, with_needs
from ninfer_core.testing.tiny import tiny_artifact, tiny_plan

MOST_ABANDONED = 6
ROOMY = {"max_context": 512, "max_concurrency": 8, "kv_capacity": 8 * 512}
"""Eight rows that can all be as long as the context."""

GREEDY = Sampling(temperature=0.0, top_p=1.0, top_k=20, min_p=0.0, presence_penalty=0.0, frequency_penalty=0.0, seed=0)
ON_HOST = DrafterNeeds(runs_on="host")


def sampled(seed: int, **changes: Any) -> Sampling:
    return msgspec.structs.replace(GREEDY, **{"temperature": 1.0, "seed": seed, **changes})


def prompt(length: int, seed: int = 0) -> list[int]:
    draw = random.Random(seed)
    return [draw.randrange(256) for _ in range(length)]


PROMPTS = [prompt(length, seed) for seed, length in enumerate([1, 5, 63, 64, 65, 130, 7, 200])]
SAMPLINGS = (
    GREEDY,
    sampled(1),
    sampled(2**64 - 1, top_p=0.8, min_p=0.02),
    sampled(5, top_k=3, presence_penalty=1.5, frequency_penalty=0.5),
    sampled(6, temperature=0.3),
    GREEDY,
    sampled(8, frequency_penalty=2.0),
    sampled(9, temperature=0.7, top_p=0.9),
)
WISHES = list(zip(PROMPTS, SAMPLINGS, strict=True))
"""A row's worth each, of `OUTPUT` tokens."""
OUTPUT = 24


def build_drafted(
    registry: PluginRegistry, make: Callable[[ExecutionPlan], object], needs: DrafterNeeds, **options: Any
) -> DeviceProgram:
    """A program with the drafter that `make` gives for its plan."""
    artifact = tiny_artifact()
    header = with_needs(artifact.header, needs)
    plan = tiny_plan(registry, header, spec=BACKEND, **{**ROOMY, **options})
    drafter = make(plan)
    with artifact.open_weights() as weights:
        return build_program(
            plan, with_drafter(header, drafter), weights, registry, torch.device("cpu"), lambda name, seconds: None
        )


def build_adversary(
    registry: PluginRegistry, kind: type[Adversary], draft_tokens: int, **options: Any
) -> tuple[DeviceProgram, Adversary]:
    """A program with a drafter of that kind, which knows no text yet."""
    made: list[Adversary] = []

    def make(plan: ExecutionPlan) -> Adversary:
        made.append(kind(plan.capacities.draft_tokens, plan.token_domain, no_text(plan)))
        return made[0]

    needs = DrafterNeeds(law_width=getattr(kind, "law_width", 0))
    return build_drafted(registry, make, needs, draft_tokens=draft_tokens, **options), made[0]


def no_text(plan: ExecutionPlan) -> torch.Tensor:
    """Room for what a test knows of every slot."""
    return torch.zeros(plan.capacities.state_slots, plan.capacities.max_context, dtype=torch.int64)


def tell(texts: torch.Tensor, row: int, tokens: Sequence[int]) -> None:
    """What `row` is going to be, prompt and answer, for a drafter that has `texts`."""
    texts[row, : len(tokens)] = torch.tensor(tokens)


def begin(
    program: DeviceProgram, tokens: Sequence[int], sampling: Sampling, output: int, chunk: int = 128
) -> tuple[int, int]:
    """A row behind its prompt -> (row, its first candidate)."""
    row = program.open_row(RowSetup(len(tokens), len(tokens) + output, sampling))
    assert row is not None
    candidate = None
    for first in range(0, len(tokens), chunk):
        candidate = program.prefill(row, tokens[first : first + chunk], first + chunk >= len(tokens))
    assert candidate is not None
    return row, candidate


def generate(program: DeviceProgram, tokens: Sequence[int], sampling: Sampling, count: int) -> list[int]:
    """All candidates of every round are taken, as far as `count` goes."""
    row, candidate = begin(program, tokens, sampling, count)
    made, accepted = [candidate], 1
    while len(made) < count:
        (offered,) = program.decode([RowRound(row=row, accepted=accepted)])
        made.extend(offered)
        accepted = len(offered)
    program.close_row(row)
    return made[:count]


def next_rounds(program: DeviceProgram, rows: dict[int, int]) -> dict[int, tuple[tuple[int, ...], int]]:
    """A round of rows, each with how many of its candidates are taken -> candidates and drafts checked by row."""
    unit = program.launch_decode([RowRound(row=row, accepted=accepted) for row, accepted in rows.items()])
    found = unit()
    return dict(zip(rows, zip(found, unit.drafted(), strict=True), strict=True))


class AheadOfUnits:
    """Answers `wishes`, prompts and how they are sampled, each with `output` tokens, with a round in flight most of the
    time. Rows come and go, some of them in vain: then the wish is answered again later. Of rounds that nothing was
    launched behind some candidates are taken where `cuts`, else all. `on_open` is told the row of a wish."""

    def __init__(
        self,
        program: DeviceProgram,
        wishes: Sequence[tuple[Sequence[int], Sampling]],
        output: int,
        draw: random.Random,
        *,
        cuts: bool,
        on_open: Callable[[int, int], None] = lambda row, wish: None,
        chunk: int = 128,
    ) -> None:
        self._program = program
        self._wishes = wishes
        self._output = output
        self._draw = draw
        self._cuts = cuts
        self._on_open = on_open
        self._chunk = chunk
        self._waiting = list(range(len(wishes)))
        self._made: dict[int, list[int]] = {}  # by wish, of those that have a row
        self._rows: dict[int, int] = {}
        self._accepted: dict[int, int] = {}
        self._flight: deque[tuple[Unit, list[int], dict[int, list[int]]]] = deque()
        self.texts: dict[int, list[int]] = {}
        self.seen: Counter[str] = Counter()

    def run(self) -> list[list[int]]:
        while len(self.texts) < len(self._wishes):
            if self._waiting and not self._flight:
                self._begin()
            if self._draw.random() < 0.8 or not self._flight:
                self._launch()
            while len(self._flight) >= MOST_IN_FLIGHT or (self._flight and self._draw.random() < 0.2):
                if self._made and self.seen["abandoned"] < MOST_ABANDONED and self._draw.random() < 0.25:
                    self._abandon(self._draw.choice(list(self._made)))
                self._collect()
        while self._flight:
            self._collect()
        return [self.texts[wish] for wish in range(len(self._wishes))]

    def _begin(self) -> None:
        """Prompts for all rows that are free."""
        while self._waiting and self._program.slots.free_slots:
            wish = self._waiting.pop(0)
            tokens, sampling = self._wishes[wish]
            row, candidate = begin(self._program, tokens, sampling, self._output, self._chunk)
            self._on_open(row, wish)
            self._rows[wish], self._made[wish], self._accepted[wish] = row, [candidate], 1

    def _launch(self) -> None:
        flying = {wish for _, wishes, made in self._flight for wish in wishes if self._made.get(wish) is made[wish]}
        on = [wish for wish in self._made if wish not in flying or len(self._made[wish]) + 1 < self._output]
        # As the engine does with rows whose thinking may have to be closed: they wait until they are collected.
        going = [wish for wish in on if wish not in flying or not self._cuts or self._draw.random() < 0.85]
        if not going:
            return
        self.seen["waited"] += len(on) - len(going)
        self.seen["ahead"] += bool(flying)
        rows = [RowRound(self._rows[each], None if each in flying else self._accepted[each]) for each in going]
        self._flight.append((self._program.launch_decode(rows), going, {wish: self._made[wish] for wish in going}))

    def _collect(self) -> None:
        unit, wishes, of_unit = self._flight.popleft()
        behind = {wish for _, later, made in self._flight for wish in later if made[wish] is self._made.get(wish)}
        for wish, candidates in zip(wishes, unit(), strict=True):
            made = self._made.get(wish)
            if made is None or made is not of_unit[wish]:
                continue  # the row has been closed meanwhile
            taken = min(len(candidates), self._output - len(made))
            if self._cuts and wish not in behind:
                taken = self._draw.randint(1, taken)
            made.extend(candidates[:taken])
            self._accepted[wish] = taken
            if len(made) == self._output:
                self.seen["ended in a round"] += taken < len(candidates)
                self.seen["ended ahead"] += wish in behind
                self.texts[wish] = made
                self._close(wish)

    def _abandon(self, wish: int) -> None:
        self.seen["abandoned"] += 1
        self._close(wish)
        self._waiting.append(wish)

    def _close(self, wish: int) -> None:
        self._program.close_row(self._rows.pop(wish))
        del self._made[wish], self._accepted[wish]

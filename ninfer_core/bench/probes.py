"""Is what was measured right? Logits of the program as it runs, against those of `--kernels reference` on the same
weights, decoded where they are codes.

The program answers greedily. The reference is given the answers as a prompt, so that both are asked the same question
at every position: chunked where the program went column by column, which is one more thing that is compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ninfer_core.bench.driver import Driver
from ninfer_core.bench.records import Check
from ninfer_core.bench.subject import Subject
from ninfer_core.bench.tolerances import AGREEMENT

NEAR_TIE = 4.0
"""In units of the error of one logit: both of two logits are off by it, which makes 1.4 of it for their difference, and
the largest of some positions is one of many that are close."""

COMPARED_COLUMNS = 32
"""Of each prompt, the last ones."""
COMPARED_ROWS = 3
"""Of those that run together: the reference is slow."""


@dataclass(frozen=True, slots=True)
class Probe:
    """`rows` prompts of `prompt_tokens` over `context_tokens` of random keys and values, prefilled in chunks of
    `chunk_tokens` and decoded together for `rounds`."""

    name: str
    context_tokens: int
    prompt_tokens: int
    chunk_tokens: int
    rows: int
    rounds: int

    @property
    def tokens(self) -> int:
        return self.context_tokens + self.prompt_tokens + self.rounds


@dataclass(frozen=True, slots=True)
class Evidence:
    """Of the rows that are compared: answers [rows][rounds + 1], and logits of prefill [rows, columns, vocabulary] and
    of decode [rows, rounds, vocabulary]."""

    answers: list[list[int]]
    prefill: torch.Tensor
    decode: torch.Tensor


def gather(driver: Driver, subject: Subject, probe: Probe) -> Evidence:
    """What the program says."""
    rows, answers, prefill, decode = [], [], [], []
    for number in range(probe.rows):
        row = driver.open(probe.context_tokens, probe.prompt_tokens, probe.rounds + 1, seed=number)
        subject.tap.watch_prefill(COMPARED_COLUMNS)
        first = driver.prefill(row, driver.prompt(number, probe.prompt_tokens), probe.chunk_tokens)
        prefill.append(subject.tap.prefill_logits())
        rows.append(row)
        answers.append([first])
    subject.tap.watch_prefill(0)
    for _ in range(probe.rounds):
        for answer, token in zip(answers, driver.round(rows), strict=True):
            answer.append(token)
        decode.append(subject.tap.round_logits(probe.rows, driver.columns)[:COMPARED_ROWS])
    driver.close(rows)
    return Evidence(answers[:COMPARED_ROWS], torch.stack(prefill[:COMPARED_ROWS]), torch.stack(decode, dim=1))


def compare(driver: Driver, subject: Subject, probe: Probe, evidence: Evidence, limit: float) -> Check:
    """The answers of `subject`, the reference, to the same questions. `limit` bounds the error of logits."""
    expected_prefill, expected_decode = [], []
    for number, answer in enumerate(evidence.answers):
        prompt = driver.prompt(number, probe.prompt_tokens)
        row = driver.open(probe.context_tokens, len(prompt) + probe.rounds, 1, seed=number)
        columns = evidence.prefill.shape[1] + probe.rounds
        subject.tap.watch_prefill(columns)
        driver.prefill(row, prompt + answer[:-1], subject.plan.capacities.prefill_chunk)
        logits = subject.tap.prefill_logits()
        expected_prefill.append(logits[: -probe.rounds])
        expected_decode.append(logits[-probe.rounds :])
        driver.close([row])
    subject.tap.watch_prefill(0)
    values: dict[str, float] = {}
    allowed: dict[str, float] = {}
    passed = True
    pairs = ((evidence.prefill, expected_prefill), (evidence.decode, expected_decode))
    for name, (actual, expected) in zip(("prefill", "decode"), pairs, strict=True):
        error, agreement = distance(actual, torch.stack(expected))
        same = same_argmax(actual, torch.stack(expected))
        values |= {f"{name}_error": error, f"{name}_agreement": agreement, f"{name}_same_argmax": same}
        allowed |= {f"{name}_error": limit, f"{name}_agreement": AGREEMENT}
        passed &= error <= limit and agreement >= AGREEMENT
    return Check(name=probe.name, passed=passed, values=values, limits=allowed, remark=str(probe))


def distance(actual: torch.Tensor, expected: torch.Tensor) -> tuple[float, float]:
    """actual, expected [..., vocabulary] -> (error, agreement): the root mean square of the difference over the
    standard deviation of the expected; the share of positions whose largest logit is the expected one, or one that
    the error makes as likely (NEAR_TIE). Not finite is infinitely far."""
    if not actual.isfinite().all():
        return float("inf"), 0.0
    difference = (actual - expected).square().mean().sqrt()
    chosen = expected.gather(-1, actual.argmax(-1, keepdim=True)).squeeze(-1)
    close = expected.amax(-1) - chosen <= NEAR_TIE * difference
    return (difference / expected.std()).item(), close.float().mean().item()


def same_argmax(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Share of positions with the very same largest logit."""
    return (actual.argmax(-1) == expected.argmax(-1)).float().mean().item()

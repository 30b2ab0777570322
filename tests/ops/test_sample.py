"""Sampling against the rules of docs/engine.md, "Choice of a token", written out in Python, and its random numbers."""

from __future__ import annotations

import math
from collections import Counter
from itertools import accumulate
from typing import Any

import pytest
import torch

from ninfer_core.ops.sample import CANDIDATES, Purpose, SamplerRows, count_tokens, sample, uniform

VOCABULARY, DOMAIN = 60, 50
MASK = (1 << 64) - 1


def _parameters(rows: int, **fields: Any) -> SamplerRows:
    """The same settings in every row, except for fields given as a list."""
    defaults: dict[str, Any] = {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": CANDIDATES,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "seed": 0,
    }
    kinds = {"top_k": torch.int64, "seed": torch.int64}
    tensors = {}
    for name, value in {**defaults, **fields}.items():
        values = value if isinstance(value, list) else [value] * rows
        tensors[name] = torch.tensor(values, dtype=kinds.get(name, torch.float32))
    return SamplerRows(**tensors)


def _signed(seed: int) -> int:
    return seed - (1 << 64) if seed >= 1 << 63 else seed


def _mix(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def _uniform(seed: int, position: int, purpose: int) -> float:
    """In unbounded integers, so that nothing can wrap by accident."""
    mixed = _mix((_mix((_mix(seed) + position) & MASK) + purpose) & MASK)
    return (mixed >> 11) / (1 << 53)


def _law(logits: list[float], counts: list[int], settings: dict[str, float]) -> list[tuple[int, float]]:
    """What is kept and with which weight, by descending adjusted logit."""
    adjusted = []
    for token in range(DOMAIN):
        value = logits[token] - settings["presence_penalty"] * (counts[token] > 0)
        adjusted.append(value - settings["frequency_penalty"] * counts[token])
    order = sorted(range(DOMAIN), key=lambda token: (-adjusted[token], token))[: int(settings["top_k"])]
    weights = [math.exp((adjusted[token] - adjusted[order[0]]) / settings["temperature"]) for token in order]
    whole, before, kept = math.fsum(weights), 0.0, []
    for index, (token, weight) in enumerate(zip(order, weights, strict=True)):
        if index == 0 or (before < settings["top_p"] * whole and weight >= settings["min_p"] * weights[0]):
            kept.append((token, weight))
        before += weight
    return kept


SETTINGS: list[dict[str, float]] = [
    {},
    {"temperature": 0.6, "top_p": 0.95},
    {"temperature": 2.0, "top_k": 1},
    {"top_k": 7, "top_p": 0.5},
    {"min_p": 0.1, "temperature": 1.5},
    {"presence_penalty": 1.5, "temperature": 0.7, "top_p": 0.8},
    {"frequency_penalty": 0.75, "presence_penalty": -0.5},
    {"top_p": 0.0},
    {"min_p": 1.0},
]


@pytest.mark.contract("OPT-41", "OPT-42")
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_draws_by_the_law(settings: dict[str, float]) -> None:
    rows = 200
    # Values on a grid of 2^-6: float32 penalties of eighths leave no rounding for the oracle to differ by.
    logits = (torch.randn(rows, VOCABULARY) * 128).round() / 64
    counts = torch.randint(0, 4, (rows, VOCABULARY), dtype=torch.int32)
    slots, positions = torch.randperm(rows), torch.arange(rows) * 3
    seeds = [_signed(_mix(row)) for row in range(rows)]
    tokens = sample(logits, _parameters(rows, seed=seeds, **settings), counts, slots, positions, DOMAIN)
    exact = {name: float(value[0]) for name, value in _fields(_parameters(1, **settings)).items()}
    for row in range(rows):
        kept = _law(logits[row].tolist(), counts[slots[row]].tolist(), exact)
        reached = list(accumulate(weight for _, weight in kept))
        aim = _uniform(_mix(row), int(positions[row]), 0) * reached[-1]
        assert int(tokens[row]) == next(token for (token, _), sum_ in zip(kept, reached, strict=True) if sum_ > aim)


def _fields(parameters: SamplerRows) -> dict[str, torch.Tensor]:
    return {name: getattr(parameters, name) for name in SamplerRows.__slots__}


@pytest.mark.contract("OPT-44")
def test_temperature_zero_is_the_lowest_of_the_largest_without_penalties() -> None:
    logits = torch.zeros(3, VOCABULARY)
    logits[0, [30, 20, 40]] = 5.0
    logits[1, DOMAIN] = 9.0  # a padding row: not a token
    counts = torch.full((3, VOCABULARY), 7, dtype=torch.int32)
    counts[:, 10] = 0
    greedy = _parameters(3, temperature=0.0, presence_penalty=2.0, frequency_penalty=2.0)
    assert sample(logits, greedy, counts, torch.arange(3), torch.arange(3), DOMAIN).tolist() == [20, 0, 0]


def test_greedy_and_sampled_rows_share_a_batch() -> None:
    logits = torch.randn(6, VOCABULARY)
    mixed = _parameters(6, temperature=[0.0, 1.0] * 3, seed=list(range(6)))
    counts, slots, positions = torch.zeros(6, VOCABULARY, dtype=torch.int32), torch.arange(6), torch.arange(6)
    together = sample(logits, mixed, counts, slots, positions, DOMAIN)
    for row in range(6):
        one = slice(row, row + 1)
        single = SamplerRows(**{name: value[one] for name, value in _fields(mixed).items()})
        assert sample(logits[one], single, counts, slots[one], positions[one], DOMAIN)[0] == together[row]
    assert together[::2].tolist() == logits[::2, :DOMAIN].argmax(-1).tolist()


def test_frequencies_follow_the_law() -> None:
    rows = 20_000
    logits = torch.tensor([1.0, 0.0, 2.0, -1.0, 0.5]).expand(rows, 5)
    parameters = _parameters(rows, temperature=0.8, seed=11)
    counts = torch.zeros(1, 5, dtype=torch.int32)
    tokens = sample(logits, parameters, counts, torch.zeros(rows).long(), torch.arange(rows), 5)
    found = Counter(tokens.tolist())
    expected = torch.softmax(logits[0].double() / 0.8, 0).tolist()
    statistic = sum((found[token] - rows * p) ** 2 / (rows * p) for token, p in enumerate(expected))
    assert statistic < 18.5  # chi-square with 4 degrees of freedom: one run in a thousand, and the seed is fixed


def test_never_outside_the_domain_nor_of_dropped_candidates() -> None:
    logits = torch.zeros(500, VOCABULARY)
    logits[:, DOMAIN:] = 50.0
    logits[:, 3] = 1.0
    parameters = _parameters(500, top_k=2, seed=list(range(500)))
    counts = torch.zeros(1, VOCABULARY, dtype=torch.int32)
    tokens = sample(logits, parameters, counts, torch.zeros(500).long(), torch.arange(500), DOMAIN)
    assert set(tokens.tolist()) == {3, 0}


def test_minus_zero_and_zero_are_equal() -> None:
    logits = torch.full((1, VOCABULARY), -0.0)
    logits[0, 5] = 0.0
    parameters = _parameters(1, top_k=1)
    counts = torch.zeros(1, VOCABULARY, dtype=torch.int32)
    assert sample(logits, parameters, counts, torch.zeros(1).long(), torch.zeros(1).long(), DOMAIN).item() == 0


@pytest.mark.contract("OPT-43")
def test_uniform_is_the_hash_of_its_three_integers() -> None:
    seeds = [0, 1, 12345, (1 << 63) - 1, 1 << 63, MASK]
    for position in (0, 1, 262_143):
        drawn = uniform(torch.tensor([_signed(seed) for seed in seeds]), torch.tensor(position), Purpose.TOKEN)
        assert drawn.tolist() == [_uniform(seed, position, 0) for seed in seeds]


def test_uniform_is_uniform_in_positions_and_in_seeds() -> None:
    many = torch.arange(100_000)
    for drawn in (uniform(torch.tensor(5), many, Purpose.TOKEN), uniform(many, torch.tensor(5), Purpose.TOKEN)):
        assert 0.0 <= drawn.min().item() < 1e-4
        assert 1 - 1e-4 < drawn.max().item() < 1.0
        cells = torch.histc(drawn.float(), bins=100, min=0.0, max=1.0)
        assert ((cells - 1000) ** 2 / 1000).sum().item() < 148.3  # chi-square, 99 degrees of freedom, 1 in 1,000
        lagged = torch.corrcoef(torch.stack((drawn[:-1], drawn[1:])))[0, 1].item()
        assert abs(lagged) < 0.01


def test_counts_follow_the_accepted_tokens() -> None:
    counts = torch.zeros(4, VOCABULARY, dtype=torch.int32)
    slots = torch.tensor([2, 0, 3])
    tokens = torch.tensor([[7, 7, 8], [1, 2, 3], [9, 9, 9]])
    count_tokens(counts, slots, tokens, torch.tensor([3, 1, 2]), torch.tensor([1.0, 0.5, 0.0]))
    expected = torch.zeros_like(counts)
    expected[2, 7], expected[2, 8], expected[0, 1] = 2, 1, 1
    assert torch.equal(counts, expected)


def test_nothing_accepted_counts_nothing() -> None:
    counts = torch.zeros(1, VOCABULARY, dtype=torch.int32)
    count_tokens(counts, torch.zeros(1).long(), torch.tensor([[4]]), torch.zeros(1).long(), torch.ones(1))
    assert not counts.any()

"""The Triton sampler against the reference: the same tokens for the same logits, in the interpreter or on a device."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ninfer_core.ops.sample import CANDIDATES, ChosenRows, ReferenceSampler, Sampler, SamplerTable, select

VOCABULARY, DOMAIN = 1100, 1050  # neither a whole number of groups
SLOTS = 6


@pytest.fixture(scope="module")
def sampler(kernel_device: torch.device) -> Sampler:
    from ninfer_core.ops.kernels.maxima import Launch
    from ninfer_core.ops.sample.triton import TritonSampler

    return TritonSampler(Launch(group_tokens=32, block_groups=16, maxima_warps=4, draw_warps=4))


def table(slots: int, **fields: Any) -> SamplerTable:
    """The same settings in every slot, except for fields given as a list."""
    defaults: dict[str, Any] = {
        "temperature": 1.0,
        "top_p": 1.0,
        "min_p": 0.0,
        "presence": 0.0,
        "frequency": 0.0,
        "top_k": CANDIDATES,
        "seed": 0,
    }
    values = {
        name: torch.tensor(value if isinstance(value, list) else [value] * slots)
        for name, value in {**defaults, **fields}.items()
    }
    numbers = torch.stack([values[name].float() for name in list(defaults)[:5]], dim=1)
    return SamplerTable(numbers, values["top_k"].long(), values["seed"].long())


def counts_of(slots: int) -> torch.Tensor:
    return torch.randint(0, 3, (slots, VOCABULARY), dtype=torch.int32)


def compare(sampler: Sampler, device: torch.device, logits: torch.Tensor, settings: SamplerTable, **more: Any) -> Any:
    """Both samplers on the same inputs, on slots in another order than the rows: -> tokens of `sampler`."""
    slots = more.get("slots", torch.randperm(settings.top_k.shape[0]))
    domain = more.get("domain", DOMAIN)
    counts = more.get("counts", counts_of(settings.top_k.shape[0]))
    positions = (torch.arange(logits.shape[0]) * 7).view(slots.shape[0], -1)
    columns = positions.shape[1]
    expected_candidates = torch.full((settings.top_k.shape[0], columns), -1)
    rows = ChosenRows(settings, counts, slots, positions, domain)
    expected = ReferenceSampler().sample(logits, rows, expected_candidates)
    there = SamplerTable(*(getattr(settings, name).to(device) for name in SamplerTable.__slots__))
    candidates = torch.full_like(expected_candidates, -1).to(device)
    others = (each.to(device) for each in (counts, slots, positions))
    actual = sampler.sample(logits.to(device), ChosenRows(there, *others, domain), candidates)
    assert torch.equal(actual.cpu(), expected)
    assert torch.equal(candidates.cpu(), expected_candidates)
    return actual.cpu()


SETTINGS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {},
    {"temperature": 0.6, "top_p": 0.95},
    {"temperature": [0.0, 1.0, 0.0, 2.0, 0.3, 1.0], "top_k": [20, 1, 3, 7, 20, 19]},
    {"temperature": 2.0, "top_k": 7, "top_p": 0.5},
    {"min_p": 0.1, "temperature": 1.5},
    {"presence": 1.5, "temperature": 0.7, "top_p": 0.8},
    {"frequency": 0.3, "presence": -0.7, "temperature": [1.0, 0.0, 0.5, 1.0, 1.7, 0.9]},
    {"top_p": 0.0},
    {"min_p": 1.0},
]


@pytest.mark.contract("OPT-41", "OPT-42", "OPT-44")
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_tokens_of_the_reference(sampler: Sampler, kernel_device: torch.device, settings: dict[str, Any]) -> None:
    logits = torch.randn(SLOTS * 2, VOCABULARY) * 3
    compare(sampler, kernel_device, logits, table(SLOTS, seed=[3, -5, 1 << 62, 0, -(1 << 63), 9], **settings))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_many_equal_logits_and_best_ones_in_one_group(
    sampler: Sampler, kernel_device: torch.device, dtype: torch.dtype
) -> None:
    """Order of equals, groups of which none, some or all tokens are chosen, and what lies behind the domain."""
    logits = (torch.randn(SLOTS, VOCABULARY) * 2).round() / 2
    logits[1] = 0.0
    logits[2, 32:64] = 9.0
    logits[3] = -torch.arange(VOCABULARY).float()
    logits[4, DOMAIN - 3 : DOMAIN] = 8.0
    logits[5, ::2] = -0.0
    logits[:, DOMAIN:] = 50.0
    spread = table(SLOTS, temperature=[50.0, 1.0, 1.0, 30.0, 5.0, 1.0], seed=list(range(SLOTS)))
    compare(sampler, kernel_device, logits.to(dtype), spread)
    compare(sampler, kernel_device, logits.to(dtype), table(SLOTS, temperature=0.0, presence=2.0))


def test_every_rank_is_drawn(sampler: Sampler, kernel_device: torch.device) -> None:
    rows, ranks = 24, 5
    logits = torch.randn(1, VOCABULARY).expand(rows, VOCABULARY).contiguous()
    settings = table(rows, temperature=100.0, top_k=ranks, seed=list(range(rows)))
    counts = torch.zeros(rows, VOCABULARY, dtype=torch.int32)
    tokens = compare(sampler, kernel_device, logits, settings, counts=counts)
    assert set(tokens.tolist()) == set(logits[0, :DOMAIN].topk(ranks).indices.tolist())


@pytest.mark.parametrize("domain", [1, 19, 20, 21, 257])
def test_small_domains(sampler: Sampler, kernel_device: torch.device, domain: int) -> None:
    logits = torch.randn(SLOTS, VOCABULARY)
    compare(sampler, kernel_device, logits, table(SLOTS, temperature=3.0, seed=list(range(SLOTS))), domain=domain)


def test_infinite_logits(sampler: Sampler, kernel_device: torch.device) -> None:
    logits = torch.randn(SLOTS, VOCABULARY)
    logits[0, 9:] = float("-inf")
    logits[1, :] = float("-inf")
    logits[1, 1000] = 1.0
    compare(sampler, kernel_device, logits, table(SLOTS, temperature=2.0, seed=list(range(SLOTS))))


def test_a_row_does_not_depend_on_its_batch_mates(sampler: Sampler, kernel_device: torch.device) -> None:
    logits = torch.randn(SLOTS, VOCABULARY)
    settings = table(SLOTS, temperature=[0.0, 1.0] * 3, seed=list(range(SLOTS)), frequency=0.5)
    counts, slots = counts_of(SLOTS), torch.arange(SLOTS)
    together = compare(sampler, kernel_device, logits, settings, slots=slots, counts=counts)
    there = SamplerTable(*(getattr(settings, name).to(kernel_device) for name in SamplerTable.__slots__))
    for row in range(SLOTS):
        one = slice(row, row + 1)
        inputs = (counts, slots[one], (torch.arange(SLOTS)[one] * 7).unsqueeze(1))
        candidates = torch.zeros(SLOTS, 1, dtype=torch.int64, device=kernel_device)
        others = (each.to(kernel_device) for each in inputs)
        alone = sampler.sample(logits[one].to(kernel_device), ChosenRows(there, *others, DOMAIN), candidates)
        assert alone.item() == together[row]


def test_the_cpu_and_whoever_asks_get_the_reference() -> None:
    assert isinstance(select(torch.device("cpu"), "auto"), ReferenceSampler)
    assert isinstance(select(torch.device("cuda"), "reference"), ReferenceSampler)

"""Every layer for itself, and how much of an error over all layers is roundings that no implementation can avoid.

Errors over many layers of random weights say little: a rounding in the first layer is a large difference in the last,
and with a router of random weights it changes which experts are chosen. So each layer of the reference is given what
the program's own layer before has left, and its result is held against the program's. What the differences of all
layers then come to at the logits is held against the reference's own noise: the same prompt, the residual stream
rounded once more behind every layer.
"""

from __future__ import annotations

import torch

from ninfer_core.bench.driver import Driver
from ninfer_core.bench.probes import COMPARED_COLUMNS, Probe, distance
from ninfer_core.bench.records import Check
from ninfer_core.bench.subject import Subject

HALF_UNIT = {torch.bfloat16: 2.0**-9, torch.float16: 2.0**-12, torch.float32: 2.0**-25}
"""Half a unit in the last place, as a share of a number."""


def gather_layers(driver: Driver, subject: Subject, probe: Probe) -> list[torch.Tensor]:
    """The residual stream after every layer [prompt_tokens, hidden_size], on the CPU, of the probe's first prompt."""
    streams: list[torch.Tensor] = []
    with subject.tap.observed(lambda index, hidden: streams.append(hidden[0].cpu())):
        _prefill(driver, probe)
    return streams


def check_layers(driver: Driver, subject: Subject, probe: Probe, streams: list[torch.Tensor], limit: float) -> Check:
    """The layers of `subject`, the reference, from the same inputs. `limit` bounds the norm of the difference over the
    norm of the stream, in every layer."""
    errors: list[float] = []

    def compare(index: int, hidden: torch.Tensor) -> None:
        theirs = streams[index].to(hidden.device)
        ours = hidden[0].float()
        errors.append(((theirs.float() - ours).norm() / ours.norm()).item())
        hidden[0].copy_(theirs)

    with subject.tap.observed(compare):
        _prefill(driver, probe)
    assert len(errors) == len(streams), "programs of one plan have the same layers"
    worst = max(errors, key=lambda error: error if error == error else float("inf"))
    return Check(
        name="layers",
        passed=worst <= limit,
        values={"worst_error": worst, "mean_error": sum(errors) / len(errors), "worst_layer": errors.index(worst)},
        limits={"worst_error": limit},
        remark="each layer from the inputs that the program's layer had, in a prefill",
    )


def reference_noise(driver: Driver, subject: Subject, probe: Probe) -> float:
    """Error of the logits, as `distance` has it, of the probe's first prompt when the residual stream is off by up to
    half a unit in its last place behind every layer."""
    generator = torch.Generator(subject.device).manual_seed(0)

    def disturb(index: int, hidden: torch.Tensor) -> None:
        noise = torch.rand(hidden.shape, generator=generator, device=hidden.device) * 2 - 1
        hidden.mul_(1 + noise * (2 * HALF_UNIT[hidden.dtype]))

    subject.tap.watch_prefill(COMPARED_COLUMNS)
    _prefill(driver, probe)
    expected = subject.tap.prefill_logits()
    subject.tap.watch_prefill(COMPARED_COLUMNS)
    with subject.tap.observed(disturb):
        _prefill(driver, probe)
    disturbed = subject.tap.prefill_logits()
    subject.tap.watch_prefill(0)
    return distance(disturbed, expected)[0]


def _prefill(driver: Driver, probe: Probe) -> None:
    row = driver.open(probe.context_tokens, probe.prompt_tokens, 1, seed=0)
    driver.prefill(row, driver.prompt(0, probe.prompt_tokens), probe.prompt_tokens)
    driver.close([row])

"""Trains the drafters of a finished target: the MTP head and DFlash together, then what DFlash2 adds to DFlash.

The target is frozen; its hidden states are made on the fly. With `--resume` the drafters there are trained further.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from tools.tiny_model.draft_files import Drafters, load_drafters, save_drafters
from tools.tiny_model.draft_loss import Lesson, block_loss, lesson, mtp_loss
from tools.tiny_model.encode import IGNORED, Rows
from tools.tiny_model.export import load_weights
from tools.tiny_model.geometry import Geometry
from tools.tiny_model.model import TinyModel
from tools.tiny_model.optimizer import Optimizer, schedule
from tools.tiny_model.step import PLAIN_STEPS, Arrays, TrainingStep
from tools.tiny_model.stream import BatchStream

ANCHORS = 96
CHUNK = 32


class Arranged:
    """Chooses the anchors of a batch, the same ones at every run."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, rows: Rows) -> Arrays:
        # An anchor is a token of the model whose successor is too, and that has something before it.
        learned = (rows.labels != IGNORED) & (rows.positions > 0)
        anchors = np.empty((len(rows.tokens), ANCHORS), np.int64)
        for row, places in enumerate(learned):
            choice = np.flatnonzero(places)
            anchors[row] = self.rng.choice(choice if len(choice) else np.arange(1, 2), ANCHORS)
        return rows.tokens, rows.positions, rows.labels, anchors


def main() -> None:
    arguments = parse()
    torch.manual_seed(arguments.seed)
    torch.set_float32_matmul_precision("high")
    arguments.out.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    stream = BatchStream(
        seed=arguments.seed, workers=arguments.workers, rows=arguments.rows, length=arguments.length, chunk=CHUNK,
        repeat=True,
    )  # fmt: skip
    with stream:
        target = TinyModel(Geometry.read())
        load_weights(target, arguments.target)
        target.to(device).requires_grad_(requires_grad=False)
        drafters = Drafters(target.geometry)
        if arguments.resume:
            load_drafters(drafters, arguments.resume)
        drafters.to(device)
        if not arguments.no_compile:
            torch._dynamo.config.recompile_limit = 64
            for layer in target.model.layers:
                layer.compile()
        batches = iter(stream)
        curves: dict[str, list[float]] = {}
        if arguments.first:
            both = nn.ModuleDict({"mtp": drafters.mtp, "dflash": drafters.dflash})
            curves["mtp + dflash"] = train(
                both, target, drafters, lambda given: mtp_loss(drafters.mtp, target, given)
                + block_loss(drafters.dflash, target, given), batches, arguments, arguments.first,
            )  # fmt: skip
            drafters.start_second()
            save_drafters(drafters, arguments.out)
        if arguments.second:
            added = drafters.added_by_second()
            curves["dflash2"] = train(
                added, target, drafters, lambda given: block_loss(drafters.dflash2, target, given), batches, arguments,
                arguments.second,
            )  # fmt: skip
            save_drafters(drafters, arguments.out)
    (arguments.out / "draft_losses.json").write_text(json.dumps(curves), encoding="utf-8")


def train(
    trained: nn.Module, target: TinyModel, drafters: Drafters, loss: Callable[[Lesson], Tensor], batches: object,
    arguments: argparse.Namespace, budget: float,
) -> list[float]:  # fmt: skip
    """Every tenth loss. The rates follow the clock or, with `--steps`, the count, as in `train.py`."""
    geometry = drafters.dflash.geometry

    def of_batch(tokens: Tensor, positions: Tensor, labels: Tensor, anchors: Tensor) -> Tensor:
        taps, block = geometry.target_layer_ids, geometry.block_size
        return loss(lesson(target, tokens, positions, labels, anchors, taps=taps, block=block, chunk=CHUNK))

    graph = target.model.embed_tokens.weight.is_cuda and not arguments.no_graph
    optimizer = Optimizer(trained, muon_rate=arguments.muon_rate, adam_rate=arguments.adam_rate)
    step = TrainingStep(trained, optimizer, of_batch, Arranged(arguments.seed), graph=graph)
    losses: list[float] = []
    done, began = 0, time.monotonic()
    for rows in batches:  # type: ignore[attr-defined]
        spent = time.monotonic() - began if done >= PLAIN_STEPS + 1 else 0.0
        progress = max(spent / budget, done / arguments.steps if arguments.steps else 0.0)
        if progress >= 1:
            break
        value = step(rows, schedule(progress, cooling=0.7))
        done += 1
        if done == PLAIN_STEPS + 1:
            # As in training the target, compiling is no progress.
            value.item()
            began = time.monotonic()
        if done % 10 == 1:
            losses.append(round(value.item(), 4))
            if done % 250 == 1:
                print(f"step {done} loss {losses[-1]} at {time.monotonic() - began:.1f} s", flush=True)
    print(f"{done} steps, last losses {losses[-3:]}", flush=True)
    return losses


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True, help="directory with the target's model.safetensors")
    parser.add_argument("--resume", type=Path, help="directory with drafters to continue from")
    parser.add_argument("--first", type=float, default=80, help="seconds for MTP and DFlash; 0: keep them")
    parser.add_argument("--second", type=float, default=40, help="seconds for DFlash2; 0: keep it")
    parser.add_argument("--steps", type=int, default=0, help="steps of each part; the seconds are the most it may take")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--muon-rate", type=float, default=0.02)
    parser.add_argument("--adam-rate", type=float, default=0.002)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--no-graph", action="store_true", help="launch every kernel instead of replaying a graph")
    return parser.parse_args()


if __name__ == "__main__":
    main()

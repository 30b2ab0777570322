"""Trains the drafters of a finished target: the MTP head and DFlash together, then what DFlash2 adds to DFlash.

The target is frozen; its hidden states are made on the fly. Steps are counted (`stages.py`). What does not come to its
end within `--budget` seconds keeps its state, ends with 3, and goes on when it is called again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from tools.tiny_model.draft_files import Drafters, save_drafters
from tools.tiny_model.draft_loss import Lesson, block_loss, lesson, mtp_loss
from tools.tiny_model.encode import IGNORED, Rows
from tools.tiny_model.export import WEIGHTS, load_weights
from tools.tiny_model.geometry import Geometry
from tools.tiny_model.loop import run_steps
from tools.tiny_model.model import TinyModel
from tools.tiny_model.optimizer import Optimizer, schedule
from tools.tiny_model.stages import DRAFTERS, DrafterStage
from tools.tiny_model.state import (
    OutOfTime,
    State,
    drop_state,
    load_state,
    read_state,
    said_to_the_caller,
    save_state,
    settings_digest,
)
from tools.tiny_model.step import Arrays, TrainingStep
from tools.tiny_model.stream import BatchStream

ANCHORS = 96


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


@dataclass(frozen=True, slots=True)
class Part:
    """`trained` is asked for when the part begins: it says which weights have gradients."""

    name: str
    steps: int
    trained: Callable[[], nn.Module]
    loss: Callable[[Lesson], Tensor]


def parts_of(drafters: Drafters, target: TinyModel, stage: DrafterStage) -> tuple[Part, Part]:
    def both() -> nn.Module:
        return nn.ModuleDict({"mtp": drafters.mtp, "dflash": drafters.dflash})

    def loss_of_both(given: Lesson) -> Tensor:
        return mtp_loss(drafters.mtp, target, given) + block_loss(drafters.dflash, target, given)

    return (
        Part("mtp + dflash", stage.first_steps, both, loss_of_both),
        Part(
            "dflash2", stage.second_steps, drafters.added_by_second, partial(block_loss, drafters.dflash2, target)
        ),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Training:
    stage: DrafterStage
    target: TinyModel
    drafters: Drafters
    batches: Iterator[Rows]
    out: Path
    settings: str
    graph: bool
    deadline: float

    def run(self) -> dict[str, list[float]]:
        """The losses of both parts. Raises OutOfTime, when `out` has the state, and StateOfOthers."""
        state = read_state(self.out, self.settings)
        curves: dict[str, list[float]] = {}
        for number, part in enumerate(parts_of(self.drafters, self.target, self.stage)):
            begun = state.losses[number] if state and number < len(state.losses) else None
            if begun is not None and len(begun) == part.steps:
                curves[part.name] = list(begun)
                next(islice(self.batches, part.steps, part.steps), None)
                continue
            if number and begun is None:
                self.drafters.start_second()
            curves[part.name] = self._run_part(part, begun, curves)
            save_drafters(self.drafters, self.out)
        return curves

    def _run_part(self, part: Part, begun: tuple[float, ...] | None, curves: dict[str, list[float]]) -> list[float]:
        stage, trained, arranged = self.stage, part.trained(), Arranged(self.stage.seed)
        optimizer = Optimizer(trained, muon_rate=stage.muon_rate, adam_rate=stage.adam_rate)
        step = TrainingStep(trained, optimizer, partial(self._loss, part.loss), arranged, graph=self.graph)
        if begun:
            load_state(self.out, self.drafters, optimizer)
            print(f"goes on after {len(begun)} steps of {part.name}, whose batches are made again", flush=True)
            for rows in islice(self.batches, len(begun)):
                arranged(rows)
        losses = run_steps(
            step, self.batches, steps=part.steps, before=begun or (), deadline=self.deadline,
            share=partial(schedule, cooling=stage.cooling),
        )  # fmt: skip
        if len(losses) < part.steps:
            kept = (*map(tuple, curves.values()), tuple(losses))
            save_state(self.out, State(settings=self.settings, losses=kept), self.drafters, optimizer)
            raise OutOfTime(len(losses), part.steps, self.out)
        return losses

    def _loss(
        self, loss: Callable[[Lesson], Tensor], tokens: Tensor, positions: Tensor, labels: Tensor, anchors: Tensor
    ) -> Tensor:
        sizes = self.drafters.dflash.geometry
        return loss(
            lesson(
                self.target, tokens, positions, labels, anchors, taps=sizes.target_layer_ids, block=sizes.block_size,
                chunk=self.stage.chunk,
            )
        )  # fmt: skip


def run_stage(arguments: argparse.Namespace, stage: DrafterStage) -> None:
    deadline = time.monotonic() + arguments.budget
    torch.manual_seed(stage.seed)
    torch.set_float32_matmul_precision("high")
    arguments.out.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    stream = BatchStream(
        seed=stage.seed, workers=arguments.workers, rows=stage.rows, length=stage.length, chunk=stage.chunk,
        repeat=True,
    )  # fmt: skip
    with stream:
        target = TinyModel(Geometry.read(stage.config))
        load_weights(target, arguments.target)
        target.to(device).requires_grad_(requires_grad=False)
        drafters = Drafters(target.geometry).to(device)
        if arguments.compile:
            torch._dynamo.config.recompile_limit = 64
            for layer in target.model.layers:
                layer.compile()
        training = Training(
            stage, target, drafters, iter(stream), arguments.out,
            settings_digest(stage, target.geometry, arguments.target / WEIGHTS),
            graph=device == "cuda" and not arguments.no_graph, deadline=deadline,
        )  # fmt: skip
        curves = training.run()
    drop_state(arguments.out)
    rounded = {name: [round(loss, 4) for loss in losses] for name, losses in curves.items()}
    (arguments.out / "draft_losses.json").write_text(json.dumps(rounded), encoding="utf-8")


def parse() -> tuple[argparse.Namespace, DrafterStage]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True, help="directory with the target's model.safetensors")
    parser.add_argument("--budget", type=float, default=480, help="seconds after which the state is kept instead")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--compile", action="store_true", help="compile the target: pays after some thousand steps")
    parser.add_argument("--no-graph", action="store_true", help="launch every kernel instead of replaying a graph")
    changed = parser.add_argument_group("other drafters than the shipped ones: to try something, or in a test")
    changed.add_argument("--first-steps", type=int, help="of MTP and DFlash")
    changed.add_argument("--second-steps", type=int, help="of DFlash2")
    changed.add_argument("--rows", type=int, help="packed rows per step")
    changed.add_argument("--length", type=int, help="tokens per row")
    changed.add_argument("--config", type=Path, help="of the target")
    arguments = parser.parse_args()
    given = {name: getattr(arguments, name) for name in ("first_steps", "second_steps", "rows", "length", "config")}
    return arguments, replace(DRAFTERS, **{name: value for name, value in given.items() if value is not None})


def main() -> None:
    with said_to_the_caller():
        run_stage(*parse())


if __name__ == "__main__":
    main()

"""Decode rounds as CUDA graphs, one for each number of rows: a round is one launch for the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ninfer_core.program.contract import Unit
from ninfer_core.program.rounds import Rounds


@dataclass(frozen=True, slots=True)
class _Captured:
    graph: torch.cuda.CUDAGraph
    found: torch.Tensor


class CapturedRounds:
    """Implements Rounds with what `capture_rounds` has captured. All graphs share the memory of their temporaries,
    so what one has found is gone with the next."""

    def __init__(self, rounds: Rounds, captured: Mapping[int, _Captured]) -> None:
        self._rounds = rounds
        self._captured = captured

    def run(self, rows: int, context_tokens: int) -> torch.Tensor:
        captured = self._captured[rows]
        captured.graph.replay()
        return captured.found

    def send(self, found: torch.Tensor) -> Unit:
        return self._rounds.send(found)


def capture_rounds(rounds: Rounds, most_rows: int, most_tokens: int) -> CapturedRounds:
    """Capture rounds of 1..`most_rows` rows, whose columns reach up to `most_tokens`. Each of them has been run before,
    so that nothing is compiled or loaded now; what the row buffers hold is neither read nor changed."""
    pool = torch.cuda.graph_pool_handle()
    captured: dict[int, _Captured] = {}
    for rows in range(most_rows, 0, -1):  # the largest first: the others find room in what it took
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            found = rounds.run(rows, most_tokens)
        captured[rows] = _Captured(graph, found)
    return CapturedRounds(rounds, captured)

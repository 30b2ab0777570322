"""Decode rounds as CUDA graphs, one for each number of rows: a round is one launch for the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from ninfer_core.program.rounds import Rounds


@dataclass(frozen=True, slots=True)
class _Captured:
    graph: torch.cuda.CUDAGraph
    candidates: torch.Tensor


class CapturedRounds:
    """Implements Rounds with what `capture_rounds` has captured. All graphs share the memory of their temporaries,
    so the candidates of one are gone with the next."""

    def __init__(self, captured: Mapping[int, _Captured]) -> None:
        self._captured = captured

    def run(self, rows: int, context_tokens: int) -> torch.Tensor:
        captured = self._captured[rows]
        captured.graph.replay()
        return captured.candidates


def capture_rounds(rounds: Rounds, most_rows: int, max_context: int) -> CapturedRounds:
    """Capture rounds of 1..`most_rows` rows over any context up to `max_context`. Each of them has been run before, so
    that nothing is compiled or loaded now; what the row buffers hold is neither read nor changed."""
    pool = torch.cuda.graph_pool_handle()
    captured: dict[int, _Captured] = {}
    for rows in range(most_rows, 0, -1):  # the largest first: the others find room in what it took
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            candidates = rounds.run(rows, max_context)
        captured[rows] = _Captured(graph, candidates)
    return CapturedRounds(captured)

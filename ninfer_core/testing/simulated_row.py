"""What the simulated program knows of an open row."""

from __future__ import annotations

from dataclasses import dataclass

from ninfer_core.program.contract import RowSetup


@dataclass(slots=True)
class SimulatedRow:
    """`offered` is what the row's last unit yielded; `uncollected` how many units nobody has seen, the last of which
    is a round where `in_round`, and took what nobody had seen where `assumed`; `waits` is whether a round has gone on
    without this row because nobody had seen what it was offered; `taken` how many tokens of the answer have been
    folded; `passed_over` is whether a round went on without this row, which then has to be told something else;
    `rounds_waited` and `singles_waited` are units of others that have run since this row's last one."""

    setup: RowSetup
    pages: tuple[int, ...]
    prefilled: int = 0
    taken: int = 0
    offered: tuple[int, ...] = ()
    uncollected: int = 0
    in_round: bool = False
    assumed: bool = False
    waits: bool = False
    passed_over: bool = False
    rounds_waited: int = 0
    singles_waited: int = 0

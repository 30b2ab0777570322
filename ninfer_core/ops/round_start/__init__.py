"""The beginning of a decode round: how many candidates of every row were taken becomes counters, lengths and inputs.

For every row, with its slot s, N = min(counted, offered[s]) and F = min(folded, offered[s]): so a round whose beginning
is launched before it is known what the last one offers takes all of that, up to what it is told.

    penalty_counts[s, candidates[s, i]] += 1        i in [0, N), unless the row is greedy
    lengths[s]  ← lengths[s] + F
    anchor      = candidates[s, max(N − 1, 0)]      the last candidate taken; a forced one, of which nothing counts
    position    = lengths[s] + column               of every new column
    block_table = block_tables[s]
    pending     = max(F, 1)                         columns that a drafter has not been shown: those folded now, or the
                                                    last one of what was committed otherwise

    inputs         [3, rows]                    int64: slots (all different), counted, folded; may be pinned memory of
                                                the host, where the device reads it as it is then
    candidates     [slots, columns]             int64: what the last unit offered
    offered        [slots]                      int64: how many of these count, at least 1
    lengths        [slots]                      int64, written
    block_tables   [slots, blocks]              int32
    penalty_counts [slots, vocabulary_rows]     int32, written
    table          `ops.sample.SamplerTable`
    RoundInputs    slots, folded (F), pending, lengths int64 [rows] and anchors int64 [rows, 1], all on the device;
                   positions int64 [rows, columns]; chosen_positions int64 [rows, columns]: index in the sequence of
                   the token that each column chooses; block_table int32 [rows, blocks]. For a drafter:
                   pending_positions int64 [rows, columns], those of the pending columns and on; pending_ids int64
                   [rows, columns], the slot's candidates, which stand behind these; temperature float32 [rows];
                   seeds int64 [rows]

Nothing else is written; slots that are not named are not touched.
"""

from __future__ import annotations

from ninfer_core.ops.round_start.reference import RoundInputs, SlotState, start_round
from ninfer_core.ops.round_start.select import StartRound, select

__all__ = ["RoundInputs", "SlotState", "StartRound", "select", "start_round"]

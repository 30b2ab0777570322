"""What every model family must hold to, as a class of tests to subclass.

    class TestMyFamily(FamilyConformance):
        @pytest.fixture(scope="class")
        @classmethod
        def subject(cls) -> FamilySubject: ...

The subject is a small random model on the CPU in float32, whose norms are not the identity: with norms at their
initial values most mistakes around them cannot be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ninfer_core.api import Geometry, Model
from ninfer_core.testing.harness import ModelHarness
from ninfer_core.testing.tolerances import FP32_LOGITS, Tolerance

PROMPT_TOKENS = 70
"""More than one chunk of the delta rule and one page, and a multiple of neither."""
SPLITS = ((1, 69), (2, 3, 65), (33, 37), (63, 7), (64, 6), (65, 5))


@dataclass(frozen=True, slots=True)
class FamilySubject:
    """A built model and an independent oracle of it. `decode_columns` is the W the model was built for, at least 3.

    oracle: token ids -> logits [tokens, vocabulary_rows] of every position.
    """

    model: Model
    geometry: Geometry
    oracle: Callable[[Sequence[int]], torch.Tensor]
    decode_columns: int

    def harness(self, columns: int = 1) -> ModelHarness:
        """New pools for rounds of so many columns."""
        return ModelHarness(self.model, self.geometry, device=torch.device("cpu"), columns=columns)


class FamilyConformance:
    """Tests of one `subject` fixture. A family for which a bound is not right says why where it overrides it."""

    logits_tolerance: Tolerance = FP32_LOGITS

    def test_prefill_has_the_logits_of_the_oracle(self, subject: FamilySubject) -> None:
        tokens = _tokens(subject, PROMPT_TOKENS)
        self.logits_tolerance.check(_one_shot(subject, tokens), subject.oracle(tokens))

    def test_prefill_in_chunks_is_one_shot(self, subject: FamilySubject) -> None:
        tokens = _tokens(subject, PROMPT_TOKENS)
        expected = _one_shot(subject, tokens)
        for split in SPLITS:
            run = subject.harness()
            run.begin(0)
            hidden = torch.cat([run.prefill(0, part) for part in _cut(tokens, split)])
            self.logits_tolerance.check(run.logits(hidden), expected)

    def test_decode_is_prefill(self, subject: FamilySubject) -> None:
        tokens = _tokens(subject, PROMPT_TOKENS)
        expected = _one_shot(subject, tokens)
        run = subject.harness()
        run.begin(0)
        run.prefill(0, tokens[:40])
        for index in range(40, PROMPT_TOKENS):
            hidden = run.decode([0], [[tokens[index]]], [int(index > 40)])
            self.logits_tolerance.check(run.logits(hidden)[0, 0], expected[index])

    def test_decode_of_several_columns_is_prefill(self, subject: FamilySubject) -> None:
        columns = subject.decode_columns
        tokens = _tokens(subject, PROMPT_TOKENS + columns)
        run = subject.harness(columns)
        run.begin(0)
        run.prefill(0, tokens[:PROMPT_TOKENS])
        hidden = run.decode([0], [tokens[PROMPT_TOKENS:]], [0])
        self.logits_tolerance.check(run.logits(hidden)[0], _one_shot(subject, tokens)[PROMPT_TOKENS:])

    def test_a_batch_is_its_rows_bit_for_bit(self, subject: FamilySubject) -> None:
        prompts = [_tokens(subject, length, seed=length) for length in (1, 5, 63, 64, 65, 70)]
        together, alone = subject.harness(), subject.harness()
        for slot, prompt in enumerate(prompts):
            for run in (together, alone):
                run.begin(slot)
                run.prefill(slot, prompt)
        for turn in range(4):
            slots = list(range(len(prompts)))[turn:]  # rows leave, and stand elsewhere in the batch
            ids = [[_tokens(subject, 1, seed=100 * turn + slot)[0]] for slot in slots]
            accepted = [int(turn > 0)] * len(slots)
            batch = together.logits(together.decode(slots[::-1], ids[::-1], accepted)).flip(0)
            for row, slot in enumerate(slots):
                single = alone.logits(alone.decode([slot], [ids[row]], accepted[:1]))
                assert torch.equal(batch[row], single[0]), f"row {row} of {len(slots)} in turn {turn}"

    def test_exactly_the_accepted_columns_are_folded(self, subject: FamilySubject) -> None:
        columns = subject.decode_columns
        tokens = _tokens(subject, 20)
        following = _tokens(subject, columns, seed=2)
        for accepted in range(columns + 1):
            run = subject.harness(columns)
            run.begin(0)
            run.prefill(0, tokens)
            run.decode([0], [_tokens(subject, columns, seed=1)], [0])
            after = run.logits(run.decode([0], [following], [accepted]))[0]
            plain = [*tokens, *_tokens(subject, columns, seed=1)[:accepted], *following]
            self.logits_tolerance.check(after, _one_shot(subject, plain)[-columns:])

    def test_folding_alone_commits_what_the_next_round_would(self, subject: FamilySubject) -> None:
        columns = subject.decode_columns
        states = []
        for alone in (True, False):
            run = subject.harness(columns)
            run.begin(3)
            run.prefill(3, _tokens(subject, 20))
            run.decode([3], [_tokens(subject, columns, seed=1)], [0])
            if alone:
                run.fold([3], [2])
            else:
                run.decode([3], [_tokens(subject, columns, seed=2)], [2])
            states.append(run.committed(3))
        _assert_same(*states)

    def test_a_round_that_is_given_up_leaves_no_trace(self, subject: FamilySubject) -> None:
        columns = subject.decode_columns
        run = subject.harness(columns)
        run.begin(0)
        run.prefill(0, _tokens(subject, 20))
        before = run.committed(0)
        first = run.decode([0], [_tokens(subject, columns, seed=1)], [0])
        _assert_same(run.committed(0), before)
        run.decode([0], [_tokens(subject, columns, seed=2)], [0])
        _assert_same(run.committed(0), before)
        assert torch.equal(run.decode([0], [_tokens(subject, columns, seed=1)], [0]), first)

    def test_slots_of_others_are_left_alone(self, subject: FamilySubject) -> None:
        run = subject.harness(subject.decode_columns)
        for slot in (1, 2):
            run.begin(slot)
            run.prefill(slot, _tokens(subject, 10, seed=slot))
        before = run.committed(1)
        run.prefill(2, _tokens(subject, 5))
        run.decode([2], [_tokens(subject, subject.decode_columns)], [0])
        run.fold([2], [1])
        _assert_same(run.committed(1), before)
        assert all(pool[:, 0].isnan().all() for pool in (run.arrays | run.records).values()), (
            "a slot of nobody was written"
        )

    def test_a_slot_that_is_used_again_knows_nothing(self, subject: FamilySubject) -> None:
        tokens = _tokens(subject, PROMPT_TOKENS)
        run = subject.harness()
        run.begin(0)
        first = run.prefill(0, tokens)
        run.decode([0], [[tokens[0]]], [0])
        run.begin(0)
        assert torch.equal(run.prefill(0, tokens), first)


def _tokens(subject: FamilySubject, count: int, seed: int = 0) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    rows = subject.geometry.vocabulary_rows
    return [int(token) for token in torch.randint(0, rows, (count,), generator=generator)]


def _cut(tokens: list[int], lengths: tuple[int, ...]) -> list[list[int]]:
    starts = [sum(lengths[:index]) for index in range(len(lengths))]
    return [tokens[start : start + length] for start, length in zip(starts, lengths, strict=True)]


def _one_shot(subject: FamilySubject, tokens: list[int]) -> torch.Tensor:
    run = subject.harness()
    run.begin(0)
    return run.logits(run.prefill(0, tokens))


def _assert_same(actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    for name, state in expected.items():
        assert torch.equal(actual[name], state), f"committed state '{name}' differs"

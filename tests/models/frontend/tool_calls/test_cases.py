"""Every parser case, by the engine's session and the family's decoder and parser, under many cuts."""

from __future__ import annotations

import random
import time
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from ninfer_models.qwen_hybrid.frontend.output_format import QwenOutputFormat

from ninfer_core.cli.parse import parse_text
from ninfer_core.cli.tools_file import effective_tools
from ninfer_core.testing.parser_cases import Parsed, ParserCase, check_parsed, read_parser_cases

CASES = read_parser_cases(Path(__file__).parents[3] / "cases" / "parser.jsonl")
RANDOM_CUTS = 50


def outcome(case: ParserCase, pieces: tuple[bytes, ...]) -> Parsed:
    assert case.engine_finish in ("stop", "length")
    parsed = parse_text(
        QwenOutputFormat(),
        pieces,
        tools=effective_tools(case.tools_document),
        channel=case.initial_channel,
        stop=tuple(case.stop),
        tolerant=case.tolerant,
        finish="length" if case.engine_finish == "length" else "stop",
    )
    value = msgspec.to_builtins(parsed)
    assert isinstance(value, dict)
    return value


def cut(data: bytes, offsets: list[int]) -> tuple[bytes, ...]:
    return tuple(data[start:end] for start, end in pairwise([0, *sorted(offsets), len(data)]))


@pytest.mark.contract("TOOL-1", "TOOL-12", "TOOL-13", "TOOL-14")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_case_has_its_outcome_in_its_own_pieces_in_one_and_in_single_bytes(case: ParserCase) -> None:
    data = b"".join(case.pieces)
    started = time.process_time()
    whole = outcome(case, (data,))
    check_parsed(case, whole)
    assert outcome(case, case.pieces) == whole
    assert outcome(case, tuple(data[at : at + 1] for at in range(len(data)))) == whole
    characters = case.model_output if case.chunks_b64 is None else ""
    assert not characters or outcome(case, tuple(character.encode() for character in characters)) == whole
    assert time.process_time() - started < 2 * case.check.get("max_seconds", 5.0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_case_has_its_outcome_at_random_cuts(case: ParserCase) -> None:
    data = b"".join(case.pieces)
    whole = outcome(case, (data,))
    random_cuts = random.Random(case.id)
    for count in range(1, RANDOM_CUTS + 1):
        offsets = [random_cuts.randint(0, len(data)) for _ in range(count % 12 + 1)]
        assert outcome(case, cut(data, offsets)) == whole, offsets


def test_there_are_many_cases_of_every_kind_in_both_modes() -> None:
    kinds = [case.kind for case in CASES]
    assert len({case.id for case in CASES}) == len(CASES) >= 180
    assert {kind: kinds.count(kind) >= 4 for kind in kinds} == dict.fromkeys(
        ("tool-parse", "tool-types", "tool-stream", "reasoning", "utf8", "stop"), True
    )
    assert sum(case.tolerant for case in CASES) >= 20

"""Do a request's tokens depend on its batch mates? Greedy answers alone, against those in ever other company."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ninfer_core.bench.driver import Driver
from ninfer_core.bench.records import Check

LONGEST_PROMPT_TOKENS = 160


@dataclass(frozen=True, slots=True)
class Mixes:
    """`count` companies of rows that answer `prompts` different prompts with `answer_tokens` tokens each."""

    count: int
    prompts: int = 16
    answer_tokens: int = 16


def check_invariance(driver: Driver, most_rows: int, mixes: Mixes, chunk_tokens: int) -> Check:
    """Rows come and go at random; every change of the company is a mix. Each answer, cut off where its row left, must
    be how the answer alone begins."""
    generator, most_tokens = random.Random(mixes.count), mixes.answer_tokens
    lengths = [generator.randrange(1, LONGEST_PROMPT_TOKENS) for _ in range(mixes.prompts)]
    alone = [_answer_alone(driver, number, tokens, chunk_tokens, most_tokens) for number, tokens in enumerate(lengths)]
    company: dict[int, tuple[int, list[int]]] = {}
    requests = rounds = differing = 0
    for _ in range(mixes.count):
        for row in list(company):
            if (len(company) > 1 and generator.random() < 0.25) or len(company[row][1]) >= most_tokens:
                number, answer = company.pop(row)
                differing += answer[:most_tokens] != alone[number][: len(answer)]
                driver.close([row])
        for _ in range(generator.randint(not company, most_rows - len(company))):
            number = generator.randrange(mixes.prompts)
            row, first = _begin(driver, number, lengths[number], chunk_tokens, most_tokens)
            company[row] = (number, [first])
            requests += 1
        rows = list(company)
        generator.shuffle(rows)
        room = most_tokens - max(len(answer) for _, answer in company.values())
        for _ in range(min(room, generator.randint(1, 6))):
            rounds += 1
            for row, token in zip(rows, driver.round(rows), strict=True):
                company[row][1].append(token)
    for row, (number, answer) in company.items():
        differing += answer != alone[number][: len(answer)]
        driver.close([row])
    return Check(
        name="batch invariance",
        passed=differing == 0,
        values={"differing_error": differing, "mixes": mixes.count, "requests": requests, "rounds": rounds},
        limits={"differing_error": 0},
    )


def _begin(driver: Driver, number: int, tokens: int, chunk_tokens: int, answer_tokens: int) -> tuple[int, int]:
    """-> (row, first token of the answer)."""
    row = driver.open(0, tokens, answer_tokens, seed=0)
    return row, driver.prefill(row, driver.prompt(number, tokens), chunk_tokens)


def _answer_alone(driver: Driver, number: int, tokens: int, chunk_tokens: int, answer_tokens: int) -> list[int]:
    row, first = _begin(driver, number, tokens, chunk_tokens, answer_tokens)
    answer = [first, *(driver.round([row])[0] for _ in range(answer_tokens - 1))]
    driver.close([row])
    return answer

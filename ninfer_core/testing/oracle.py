"""What the simulated program's tokens must become for a request, found the slow way: every prefix from scratch."""

from __future__ import annotations

from dataclasses import dataclass

from ninfer_core.api.request import Channel
from ninfer_core.engine.messages import Submit
from ninfer_core.testing.simulated_frontend import CONTROL_IDS, STOP_TOKEN, THINK_END_TOKEN, answer_token


@dataclass(frozen=True)
class Answer:
    text: dict[str, str]
    reason: str
    stop_string: str | None
    output_tokens: int
    reasoning_tokens: int
    control_tokens: int


def expected(submit: Submit, max_context: int) -> Answer:
    """What the candidate stream must become, found by decoding every prefix of it from scratch."""
    room = max_context - len(submit.token_ids)
    limit = min(submit.max_output_tokens, room)
    limit_reason = "context_capacity" if room < submit.max_output_tokens else "output_limit"
    stops: dict[str, tuple[str, ...]] = dict.fromkeys(submit.stop_channels, submit.stop)
    tokens: list[int] = []
    control = 0
    while len(tokens) < limit:
        tokens.append(answer_token(submit.sampling.seed, len(tokens)))
        ended = tokens[-1] == STOP_TOKEN
        over = ended or len(tokens) == limit
        channels = split(tokens, submit.initial_channel, complete=over)
        for channel, text in channels.items():
            cut, stop = first_stop(text, stops.get(channel, ()))
            if stop is not None:
                return _answer({**channels, channel: cut}, "stop_string", stop, tokens, control, submit)
        if over:
            return _answer(channels, "stop_token" if ended else limit_reason, None, tokens, control, submit)
        thinking = submit.initial_channel == "reasoning" and THINK_END_TOKEN not in tokens
        if thinking and len(tokens) == submit.thinking_budget:
            tokens += CONTROL_IDS
            control = len(CONTROL_IDS)
            stops["reasoning"] = ()
    return _answer({"reasoning": "", "content": ""}, limit_reason, None, tokens, control, submit)


def split(tokens: list[int], initial: Channel, *, complete: bool) -> dict[str, str]:
    """Both channels' text; without `complete` an unfinished character at the very end is left out."""
    reasoning: list[int] = []
    rest = list(tokens)
    closed = initial == "content"
    if not closed:
        closed = THINK_END_TOKEN in tokens
        cut = tokens.index(THINK_END_TOKEN) if closed else len(tokens)
        reasoning, rest = tokens[:cut], tokens[cut + 1 :]
    return {
        "reasoning": _text(reasoning, complete or closed),
        "content": _text(rest, complete),
    }


def _text(tokens: list[int], complete: bool) -> str:
    data = bytes(token for token in tokens if token < 256)
    text = data.decode("utf-8", "replace")
    if complete:
        return text
    for tail in range(1, min(3, len(data)) + 1):
        if _may_go_on(data[-tail:]):
            return data[:-tail].decode("utf-8", "replace")
    return text


def _may_go_on(tail: bytes) -> bool:
    """Whether these bytes are a proper beginning of some UTF-8 character."""
    try:
        tail.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and error.start == 0
    return False


def first_stop(text: str, stops: tuple[str, ...]) -> tuple[str, str | None]:
    ends = [(text.index(stop) + len(stop), -len(stop), stop) for stop in stops if stop in text]
    if not ends:
        return text, None
    end, _, stop = min(ends)
    return text[: end - len(stop)], stop


def _answer(
    text: dict[str, str], reason: str, stop: str | None, tokens: list[int], control: int, submit: Submit
) -> Answer:
    reasoning = 0
    if submit.initial_channel == "reasoning":
        reasoning = tokens.index(THINK_END_TOKEN) + 1 if THINK_END_TOKEN in tokens else len(tokens)
    return Answer(text, reason, stop, len(tokens), reasoning, control)

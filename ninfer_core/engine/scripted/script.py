"""The file of `ninfer serve --scripted`: answers to give, checked before anything starts.

A JSON array of answers, an object with the member `answers`, or one answer a line.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any, Literal

import msgspec

from ninfer_core.api.errors import PlanRejected, Problem

MAX_FILE_BYTES = 32 << 20
"""Half of what one message to the engine process may hold."""

MAX_UNIT_MS = 10_000
"""Longest unit of a scripted engine. Cancelling and stopping wait for one."""

_HELP = "docs/scripted.md shows the form of the file"


class ScriptedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call that the answer makes, written the way the model's own template writes calls."""

    name: str
    arguments: dict[str, Any] = {}


class ScriptedAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One answer. What it says is `reasoning`, `content` and `tool_calls`, or `raw`, or its tokens themselves.

    `match` asks for this text in the last user message. `raw` is text as a model generates it, `chunks` are texts
    and `chunks_b64` bytes that are a token each; without those, a token has `chunk_characters` characters or
    `chunk_bytes` bytes. `tokens_per_round` is how many tokens the engine gets of the program at once. `delay_ms`
    passes for every token, `prompt_delay_ms` for every unit of the prompt. With `finish` `length` the answer goes on
    without text until a limit ends it; with `fail` the engine fails after the last token.
    """

    match: str | None = None
    reasoning: str = ""
    content: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    raw: str | None = None
    chunks: tuple[str, ...] | None = None
    chunks_b64: tuple[str, ...] | None = None
    chunk_characters: int | None = None
    chunk_bytes: int | None = None
    tokens_per_round: int = 1
    delay_ms: float = 0.0
    prompt_delay_ms: float = 0.0
    finish: Literal["stop", "length"] = "stop"
    fail: bool = False

    @property
    def structured(self) -> bool:
        """Whether it is said in parts, which the template puts together."""
        return self.raw is None and self.chunks is None and self.chunks_b64 is None


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """All answers, in the order of the file."""

    answers: tuple[ScriptedAnswer, ...]


def read_script(path: Path) -> Script:
    """Raises PlanRejected with everything that is wrong with the file."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _rejected(path, [f"it cannot be read: {error.strerror}"]) from None
    if len(data) > MAX_FILE_BYTES:
        raise _rejected(path, [f"it is over {MAX_FILE_BYTES} bytes"])
    try:
        listed = _listed(data)
        script = msgspec.convert({"answers": listed}, Script)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _rejected(path, [str(error)]) from None
    problems = [
        f"answer {number}: says nothing; it needs content, tool_calls, raw or chunks, which may be empty"
        for number, answer in enumerate(listed)
        if not set(answer) - {"match"}
    ]
    problems += [
        f"answer {number}: {problem}" for number, answer in enumerate(script.answers) for problem in problems_of(answer)
    ]
    if not script.answers:
        problems.append("it has no answer")
    if problems:
        raise _rejected(path, problems)
    return script


def _listed(data: bytes) -> list[dict[str, Any]]:
    """The answers, whichever of its three forms the file has. Raises msgspec.DecodeError."""
    try:
        document = msgspec.json.decode(data)
    except msgspec.DecodeError:
        document = msgspec.json.Decoder().decode_lines(data)
    if isinstance(document, dict):
        document = document.get("answers", [document])
    return msgspec.convert(document, list[dict[str, Any]])


def problems_of(answer: ScriptedAnswer) -> list[str]:
    """What is wrong with one answer, a line each."""
    problems = []
    forms = {"raw": answer.raw, "chunks": answer.chunks, "chunks_b64": answer.chunks_b64}
    given = [name for name, value in forms.items() if value is not None]
    if answer.reasoning or answer.content or answer.tool_calls:
        given.append("reasoning, content and tool_calls")
    if len(given) > 1:
        problems.append(f"says what it says twice: {' and '.join(given)}")
    cuts = {"chunk_characters": answer.chunk_characters, "chunk_bytes": answer.chunk_bytes}
    asked = [name for name, value in cuts.items() if value is not None]
    if len(asked) > 1 or (asked and (answer.chunks is not None or answer.chunks_b64 is not None)):
        problems.append(f"is cut more than once: leave out {' or '.join(asked)}")
    problems += [f"{name} must be 1 or more" for name, value in cuts.items() if value is not None and value < 1]
    if not 1 <= answer.tokens_per_round <= 1024:
        problems.append("tokens_per_round must be between 1 and 1024")
    for name, milliseconds in (
        ("delay_ms times tokens_per_round", answer.delay_ms * answer.tokens_per_round),
        ("prompt_delay_ms", answer.prompt_delay_ms),
    ):
        if not 0 <= milliseconds <= MAX_UNIT_MS:
            problems.append(f"{name} is {milliseconds:g}; a unit may last between 0 and {MAX_UNIT_MS} ms")
    try:
        _decoded(answer.chunks_b64 or ())
    except (binascii.Error, ValueError):
        problems.append("chunks_b64 holds something that is not base64")
    return problems


def pieces_of(answer: ScriptedAnswer, text: str) -> tuple[bytes, ...]:
    """The tokens of the answer. `text` is what it says where its tokens are not given themselves."""
    if answer.chunks is not None:
        return tuple(chunk.encode() for chunk in answer.chunks)
    if answer.chunks_b64 is not None:
        return _decoded(answer.chunks_b64)
    if answer.chunk_bytes is not None:
        data, size = text.encode(), answer.chunk_bytes
        return tuple(data[start : start + size] for start in range(0, len(data), size))
    characters = answer.chunk_characters or 4
    return tuple(text[start : start + characters].encode() for start in range(0, len(text), characters))


def _decoded(chunks: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(base64.b64decode(chunk, validate=True) for chunk in chunks)


def _rejected(path: Path, problems: list[str]) -> PlanRejected:
    return PlanRejected([Problem(code="script_invalid", message=f"{path}: {text}", remedy=_HELP) for text in problems])

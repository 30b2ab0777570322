"""What every protocol must hold to, as a class of tests to subclass.

    class TestMyProtocol(ProtocolConformance):
        subject = ProtocolSubject(build=ninfer_protocol_build, lower=ninfer_protocol_lower, path="/v1/mine", ...)

The protocol runs behind the layers of a server over a scripted service, in the process of the tests; with `sdk_text`
also on a real port. What a protocol calls its fields and its errors is in the subject, since only the protocol knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from ninfer_core.api.errors import ErrorCategory, GenerationFailed, RequestError, ServerOverloaded
from ninfer_core.api.protocol import ProtocolContext, ProtocolRoutes
from ninfer_core.api.request import GenerationRequest
from ninfer_core.serving.asgi import Application
from ninfer_core.testing.scripted_application import exchange, listening, scripted_application
from ninfer_core.testing.scripted_service import EventScript, ScriptedService

LARGE_TEXT = "x" * 2**20
"""A prompt that no protocol should understand on the event loop."""

KEEP_ALIVE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class ProtocolSubject:
    """One protocol and its one generating endpoint.

    request: what a client sends for the prompt given to it, without a stream.
    stream: the fields to add for a stream.
    text: the answer's text in the JSON of a whole answer.
    stream_text: the same in the text of a stream, comments and all.
    stream_ends: whether that stream has the end of a good answer.
    stream_error: the code of the error that ends that stream, None in a good one.
    error_code: the code in the JSON of an error.
    statuses: the HTTP status of each category.
    broken_code: what the latter is when the core says `generation_failed`, in a protocol with codes of its own.
    sdk_text: with the protocol's client at a base URL, the text of a stream for the prompt given to it.
    """

    build: Callable[..., ProtocolRoutes]
    lower: Callable[..., GenerationRequest]
    path: str
    request: Callable[[str], dict[str, Any]]
    stream: Mapping[str, Any]
    text: Callable[[Any], str]
    stream_text: Callable[[str], str]
    stream_ends: Callable[[str], bool]
    stream_error: Callable[[str], str | None]
    error_code: Callable[[Any], str]
    statuses: Mapping[ErrorCategory, int]
    broken_code: str = "generation_failed"
    sdk_text: Callable[[str, str], str] | None = None


class _Run:
    """The protocol over one script, and what happened."""

    def __init__(self, subject: ProtocolSubject, script: EventScript | None = None) -> None:
        self._subject = subject
        self.service = ScriptedService(script)
        self.app: Application = scripted_application(
            self.service, [subject.build], keep_alive_seconds=KEEP_ALIVE_SECONDS, max_request_bytes=2**23
        )

    def ask(self, prompt: str = "Say OK.", *, stream: bool = False) -> httpx.Response:
        body = self._subject.request(prompt) | dict(self._subject.stream if stream else {})
        return exchange(self.app, "POST", self._subject.path, json=body)


class ProtocolConformance:
    """Tests of one `subject`. In the end of each no generation is open."""

    subject: ProtocolSubject
    pieces: tuple[str, ...] = ("Hello", " <there>\n", "🙂", "data: x\n\n", "\u2028.")

    def script(self, **fields: Any) -> EventScript:
        return EventScript(pieces=[("content", piece) for piece in self.pieces], **fields)

    def test_a_whole_answer_has_the_text_and_closes_its_generation(self) -> None:
        run = _Run(self.subject, self.script())
        answer = run.ask()
        assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, "application/json")
        assert self.subject.text(answer.json()) == "".join(self.pieces)
        assert run.service.open_generations == 0

    def test_a_stream_has_the_same_text_and_an_end(self) -> None:
        run = _Run(self.subject, self.script())
        answer = run.ask(stream=True)
        assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, "text/event-stream")
        assert self.subject.stream_text(answer.text) == "".join(self.pieces)
        assert self.subject.stream_ends(answer.text) and self.subject.stream_error(answer.text) is None
        assert run.service.open_generations == 0

    def test_a_stream_is_made_of_events_and_comments(self) -> None:
        text = _Run(self.subject, self.script()).ask(stream=True).content.decode()
        assert text.endswith("\n\n")
        for frame in text.removesuffix("\n\n").split("\n\n"):
            check_frame(frame)

    def test_silence_is_broken_by_something_a_client_may_skip(self) -> None:
        answer = _Run(self.subject, self.script(pause_seconds=3 * KEEP_ALIVE_SECONDS)).ask(stream=True).text
        assert len([frame for frame in answer.split("\n\n") if frame.startswith(":")]) >= len(self.pieces)
        assert self.subject.stream_text(answer) == "".join(self.pieces)

    @pytest.mark.parametrize("stream", [False, True])
    def test_what_the_routes_start_is_what_the_hook_lowers(self, stream: bool) -> None:
        run = _Run(self.subject)
        assert run.ask(stream=stream).status_code == 200
        lowered = self.subject.lower(body=json.dumps(self.subject.request("Say OK.")).encode())
        (started,) = run.service.requests
        assert (started.messages, started.tools, started.template) == (
            lowered.messages,
            lowered.tools,
            lowered.template,
        )

    def test_the_service_is_given_the_scope_of_the_request(self) -> None:
        """Else a place would be free before its answer is out (contract EXEC-4)."""
        run = _Run(self.subject)
        run.ask()
        (scope,) = run.service.scopes
        assert scope is not None and scope["path"] == self.subject.path

    def test_large_bodies_are_understood_away_from_the_event_loop(self) -> None:
        run = _Run(self.subject)
        run.ask()
        assert run.service.offloads == 0, "handing a small body to a thread costs more than it spares"
        assert run.ask(LARGE_TEXT).status_code == 200
        assert run.service.offloads > 0

    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize("category", ErrorCategory, ids=lambda category: category.value)
    def test_a_refusal_has_the_status_of_its_category(self, category: ErrorCategory, stream: bool) -> None:
        refusal = RequestError("words of its own", code="a_code")
        refusal.category = category
        answer = _Run(self.subject, self.script(refusal=refusal)).ask(stream=stream)
        assert (answer.status_code, self.subject.error_code(answer.json())) == (
            self.subject.statuses[category],
            "a_code",
        )
        assert "words of its own" in answer.text

    def test_every_category_has_a_status_and_no_answer_to_a_client_is_a_success(self) -> None:
        assert set(self.subject.statuses) == set(ErrorCategory)
        assert all(400 <= status < 600 for status in self.subject.statuses.values())

    def test_a_failure_of_a_whole_answer_is_an_error(self) -> None:
        run = _Run(self.subject, self.script(failure=GenerationFailed("broken")))
        answer = run.ask()
        assert answer.status_code == self.subject.statuses[ErrorCategory.INTERNAL]
        assert self.subject.error_code(answer.json()) == "generation_failed"
        assert run.service.open_generations == 0

    def test_a_failure_in_a_stream_is_told_and_nothing_ends_well(self) -> None:
        run = _Run(self.subject, self.script(failure=GenerationFailed("broken")))
        answer = run.ask(stream=True)
        assert answer.status_code == 200
        assert self.subject.stream_error(answer.text) == self.subject.broken_code
        assert not self.subject.stream_ends(answer.text)
        assert run.service.open_generations == 0

    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"a": NaN}', b'"\xff"'], ids=repr)
    def test_what_is_no_json_object_is_refused(self, body: bytes) -> None:
        answer = exchange(_Run(self.subject).app, "POST", self.subject.path, content=body)
        assert (answer.status_code, self.subject.error_code(answer.json())) == (
            self.subject.statuses[ErrorCategory.INVALID_REQUEST],
            "invalid_json",
        )

    def test_errors_of_its_paths_have_its_form(self) -> None:
        routes = self.subject.build(context=ProtocolContext(service=ScriptedService(), keep_alive_seconds=5))
        assert any(self.subject.path.startswith(prefix) for prefix in routes.path_prefixes)
        wire = routes.wire_error(ServerOverloaded(capacity=3))
        assert wire.status == self.subject.statuses[ErrorCategory.OVERLOADED]
        assert self.subject.error_code(wire.body) == "server_overloaded"

    def test_its_client_reads_a_stream(self) -> None:
        if self.subject.sdk_text is None:
            pytest.skip("the subject names no client")
        with listening(_Run(self.subject, self.script()).app) as url:
            assert self.subject.sdk_text(url, "Say OK.") == "".join(self.pieces)


def check_frame(frame: str) -> None:
    """A comment, or at most one `event` and exactly one `data` of JSON or `[DONE]`: no other line or line end."""
    lines = frame.split("\n")
    if all(line.startswith(":") for line in lines):
        return
    fields = [line.partition(": ") for line in lines]
    names = [name for name, _, _ in fields]
    assert names in (["data"], ["event", "data"]), f"not an event: {frame!r}"
    payload = fields[-1][2]
    assert payload.splitlines() == [payload], "a client would take this for more than one line"
    if payload != "[DONE]":
        json.loads(payload)

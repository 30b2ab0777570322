"""Typed errors. The core raises them; each protocol maps `code` to its wire form, the CLI to an exit code.

`code` is part of the public contract. A message says what was wrong with the numbers in it, then what
would work. Errors that a client can cause are `RequestError`s, errors that stop a start are `StartupError`s.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import msgspec


class ErrorCategory(Enum):
    """Whose fault it is and what helps: enough for a protocol that does not know a `code` by name."""

    INVALID_REQUEST = "invalid_request"
    AUTHENTICATION = "authentication"
    NOT_FOUND = "not_found"
    TOO_LARGE = "too_large"
    OVERLOADED = "overloaded"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    CANCELLED = "cancelled"
    INTERNAL = "internal"
    STARTUP = "startup"


class NinferError(Exception):
    """Base of every error with a stable `code`."""

    code = "internal_error"
    category = ErrorCategory.INTERNAL

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


# --- errors that end one request -------------------------------------------------------------------


MAX_MESSAGE_CHARACTERS = 2000
MAX_PARAM_CHARACTERS = 200
"""Messages quote what a client sent, and so do the names of fields: both would else be as long as its body."""


class RequestError(NinferError):
    """Ends one request. `param` names the offending field in the client's own spelling. The middle of what is too long
    is left out, since a message has the place at its beginning and the way out at its end."""

    code = "invalid_request"
    category = ErrorCategory.INVALID_REQUEST

    def __init__(self, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(_without_middle(message, MAX_MESSAGE_CHARACTERS))
        if code is not None:
            self.code = code
        self.param = None if param is None else _without_middle(param, MAX_PARAM_CHARACTERS)


def _without_middle(text: str, most_characters: int) -> str:
    if len(text) <= most_characters:
        return text
    kept = most_characters // 2
    return f"{text[:kept]}... ({len(text) - 2 * kept} characters) ...{text[-kept:]}"


class InvalidPrompt(RequestError):
    """The normalised conversation breaks a rule of the template (contract CHAT-37)."""

    code = "invalid_prompt"


class ContextLengthExceeded(RequestError):
    """The prepared prompt leaves no room under the context ceiling (contract MEDIA-2). `at_least`: it is so long
    that nobody counted to the end."""

    code = "context_length_exceeded"

    def __init__(
        self, *, prompt_tokens: int, max_context: int, param: str | None = "messages", at_least: bool = False
    ) -> None:
        super().__init__(
            f"the prompt has {'at least ' if at_least else ''}{prompt_tokens} tokens and this server's context holds "
            f"{max_context}; "
            "shorten the conversation or start the server with a larger --max-context",
            param=param,
        )
        self.prompt_tokens = prompt_tokens
        self.max_context = max_context


class ThinkingBudgetCapacityInsufficient(RequestError):
    """The output goes on past the thinking budget, but not far enough to close thinking and answer (TMPL-14)."""

    code = "thinking_budget_capacity_insufficient"

    def __init__(self, *, budget: int, control_tokens: int, limit: int) -> None:
        needed = budget + control_tokens + 1
        fitting = budget - (needed - limit)
        smaller = f", or give a budget of {fitting} tokens or less" if fitting > 0 else ""
        super().__init__(
            f"after {budget} tokens of thinking, closing it takes {control_tokens} and the answer at least 1: {needed} "
            f"in all, and there is room for {limit}; allow {needed} tokens of output{smaller}",
            param="thinking_budget",
        )
        self.budget = budget
        self.control_tokens = control_tokens
        self.limit = limit


class TooManyTools(RequestError):
    """More tools than a request may have, in number or in bytes of their definitions (decision 48)."""

    code = "too_many_tools"

    def __init__(self, problem: str) -> None:
        super().__init__(f"tools: {problem}; send those that this turn may need", param="tools")


class ModelNotFound(RequestError):
    """Another model than the one this server has (decision 16)."""

    code = "model_not_found"
    category = ErrorCategory.NOT_FOUND

    def __init__(self, *, asked: str, served: str) -> None:
        super().__init__(f"no model '{asked}' here; this server serves '{served}'", param="model")


class RequestTooLarge(RequestError):
    """The raw body is over `--max-request-mib`, found before it is parsed (contract MEDIA-6)."""

    code = "request_too_large"
    category = ErrorCategory.TOO_LARGE

    def __init__(self, *, limit_bytes: int) -> None:
        super().__init__(
            f"the request body is larger than {limit_bytes} bytes (--max-request-mib); send less or raise the limit"
        )


class AuthenticationFailed(RequestError):
    """The key is missing or wrong (contract AUTH-1)."""

    code = "invalid_api_key"
    category = ErrorCategory.AUTHENTICATION

    def __init__(self) -> None:
        super().__init__("this server needs its API key: 'Authorization: Bearer KEY' or 'x-api-key: KEY'")


class ServerOverloaded(RequestError):
    """The lifetime capacity is taken (contract EXEC-4, EXEC-5)."""

    code = "server_overloaded"
    category = ErrorCategory.OVERLOADED

    def __init__(self, *, capacity: int) -> None:
        super().__init__(
            f"all {capacity} places are taken (--max-concurrency + --max-pending-requests); try again later"
        )


class RequestQueueTimeout(RequestError):
    """The pending deadline passed before admission, or with `counting` before a prompt was counted (EXEC-5)."""

    code = "request_queue_timeout"
    category = ErrorCategory.TIMEOUT

    def __init__(self, *, waited_ms: int, counting: bool = False) -> None:
        super().__init__(
            f"the prompt was not counted within {waited_ms} ms (--pending-timeout-ms); send less, or try again later"
            if counting
            else f"the request waited {waited_ms} ms without being admitted (--pending-timeout-ms)"
        )
        self.waited_ms = waited_ms


class ServiceUnavailable(RequestError):
    """The engine has failed or is gone; `/health` says 503 as well (contract GEN-3)."""

    code = "service_unavailable"
    category = ErrorCategory.UNAVAILABLE

    def __init__(self, reason: str) -> None:
        super().__init__(f"the engine is not available: {reason}")


class RequestCancelled(RequestError):
    """The client went away or asked for the end; seen in logs, never on the wire."""

    code = "client_disconnected"
    category = ErrorCategory.CANCELLED

    def __init__(self) -> None:
        super().__init__("the request was cancelled by its client")


class ClientTooSlow(RequestError):
    """The client takes less of its answer than is generated, for longer than the server keeps text for it."""

    code = "client_too_slow"
    category = ErrorCategory.CANCELLED

    def __init__(self, *, unread_characters: int) -> None:
        super().__init__(
            f"{unread_characters} characters of the answer were waiting to be read; read faster, or ask for less"
        )


class GenerationFailed(RequestError):
    """The engine could not finish this one request; others are not affected."""

    code = "generation_failed"
    category = ErrorCategory.INTERNAL


# --- errors that stop a start or a command ---------------------------------------------------------


class StartupError(NinferError):
    """Ends a command with `exit_code`; the CLI prints `code: message`."""

    code = "startup_error"
    category = ErrorCategory.STARTUP
    exit_code = 2


class PluginUnknown(StartupError):
    code = "plugin_unknown"


class PluginAmbiguous(StartupError):
    """Several packages offer one name; `name@package` chooses."""

    code = "plugin_ambiguous"


class PluginBroken(StartupError):
    """A selected plugin failed to import, or breaks the hook contract."""

    code = "plugin_broken"


class PluginIncompatible(StartupError):
    """A selected plugin asks for another API version, a missing module or another device."""

    code = "plugin_incompatible"


class PluginProvisional(StartupError):
    """A third party's plugin of a kind whose hooks are not settled yet (PROVISIONAL_KINDS)."""

    code = "plugin_provisional"


class ArtifactInvalid(StartupError):
    """The artifact cannot be used; `problems` has one line for each thing that is wrong."""

    code = "artifact_invalid"

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        super().__init__(f"{source} cannot be used ({len(problems)} problem{'s'[: len(problems) != 1]}):\n{listed}")
        self.source = source
        self.problems = tuple(problems)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that keeps a plan from being made, with the option that would solve it."""

    code: str
    message: str
    remedy: str


class PlanRejected(StartupError):
    """All problems of one planning stage, together."""

    code = "plan_rejected"

    def __init__(self, problems: Sequence[Problem]) -> None:
        lines = [f"  {problem.code}: {problem.message}\n      -> {problem.remedy}" for problem in problems]
        super().__init__("no plan can be made:\n" + "\n".join(lines))
        self.problems = tuple(problems)


class StartFailed(StartupError):
    """The plan was made, but the machine did not give what it needs."""

    code = "start_failed"
    exit_code = 1

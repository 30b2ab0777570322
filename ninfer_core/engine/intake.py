"""From a submitted request to a record: everything that is checked before anything is touched."""

from __future__ import annotations

from ninfer_core.api.errors import ContextLengthExceeded, InvalidPrompt, RequestError
from ninfer_core.api.frontend import OutputVocabulary
from ninfer_core.api.plan import Capacities
from ninfer_core.engine.messages import Submit
from ninfer_core.engine.records import RequestRecord
from ninfer_core.engine.session import Ending, OutputSession
from ninfer_core.engine.thinking_budget import check_thinking_budget


class Intake:
    """Holds requests to the plan, and gives each its session."""

    __slots__ = ("_control_tokens", "_max_context", "_pool_tokens", "_stop_token_ids", "_vocabulary")

    def __init__(self, capacities: Capacities, vocabulary: OutputVocabulary) -> None:
        self._vocabulary = vocabulary
        self._max_context = capacities.max_context
        self._pool_tokens = capacities.kv_pages * capacities.page_tokens
        self._stop_token_ids = frozenset(vocabulary.stop_token_ids)
        self._control_tokens = len(vocabulary.thinking_control_ids)

    def record(self, submit: Submit) -> RequestRecord:
        """Raises a RequestError with the numbers for what the plan cannot serve."""
        prompt_tokens = len(submit.token_ids)
        if prompt_tokens > self._max_context:
            raise ContextLengthExceeded(prompt_tokens=prompt_tokens, max_context=self._max_context)
        if prompt_tokens == 0:
            raise InvalidPrompt("the prompt has no tokens; send at least one message", param="messages")
        assert submit.max_output_tokens >= 0, "an answer of less than nothing would take another request's pages"
        room = self._max_context - prompt_tokens
        limit = min(submit.max_output_tokens, room)
        if prompt_tokens + limit > self._pool_tokens:
            raise RequestError(
                f"prompt and output need {prompt_tokens} + {limit} tokens and the whole KV pool holds "
                f"{self._pool_tokens}; ask for less output or start the server with a larger --kv-capacity",
                code=ContextLengthExceeded.code,
                param="messages",
            )
        budget = submit.thinking_budget if submit.initial_channel == "reasoning" else None
        if budget is not None:
            check_thinking_budget(budget, control_tokens=self._control_tokens, limit=limit)
        ending = Ending("context_capacity" if room < submit.max_output_tokens else "output_limit")
        session = OutputSession(
            self._vocabulary.output_format.decoder(self._vocabulary.token_bytes, submit.initial_channel),
            stop_token_ids=self._stop_token_ids,
            stop=submit.stop,
            stop_channels=submit.stop_channels,
            limit=limit,
            limit_ending=ending,
            thinking_budget=budget,
        )
        return RequestRecord(submit, limit, ending, session)

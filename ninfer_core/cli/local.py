"""A model on this terminal: the engine inline, one request at a time."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from ninfer_core.api.request import Channel, GenerationRequest, Message, TemplateOptions, TextPart
from ninfer_core.api.service import Finished
from ninfer_core.api.whole_answer import whole_answer
from ninfer_core.cli.options import some_serve_options
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.prepare import Prepared, prepare
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.program.start import start_program
from ninfer_core.serving.inline_link import InlineLink
from ninfer_core.serving.service import EngineService
from ninfer_core.telemetry import create_log

OnDelta = Callable[[Channel, str], None]

QUIET_LEVEL = "warning"
"""Log level of a terminal command, unless one is asked for: the answer is what matters here."""


def local_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The serve options that mean something without a server, as `options`."""
    return some_serve_options(
        "artifact",
        "family",
        "weights",
        "device",
        "max_context",
        "kv_capacity",
        "prefill_chunk",
        "kv_dtype",
        "spec",
        "draft_tokens",
        "lm_head_draft",
        "vision",
        "kernels",
        "no_cuda_graph",
        "default_max_tokens",
        "no_thinking",
        "preserve_thinking",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "presence_penalty",
        "frequency_penalty",
        "seed",
        "greedy",
        "log_level",
    )(function)


class LocalModel:
    """A started engine. Calls block; a KeyboardInterrupt out of `answer` has cancelled that answer alone."""

    def __init__(self, prepared: Prepared, service: EngineService, runner: asyncio.Runner) -> None:
        self.prepared = prepared
        self._service = service
        self._runner = runner

    def answer(self, request: GenerationRequest, on_delta: OnDelta) -> tuple[Message, Finished]:
        """The whole answer as a turn of history. Raises a RequestError."""
        return self._runner.run(self._answer(request, on_delta))

    async def _answer(self, request: GenerationRequest, on_delta: OnDelta) -> tuple[Message, Finished]:
        answer = await whole_answer(await self._service.start(request, None), on_delta)
        message = Message(
            role="assistant",
            content=(TextPart(answer.content),) if answer.content else (),
            reasoning=answer.reasoning or None,
        )
        return message, answer.finished


@contextmanager
def local_model(options: ServeOptions) -> Iterator[LocalModel]:
    """Plan, build and start; stop in the end. Raises StartupErrors."""
    chosen = "log_level" in options.origins
    log = create_log(options.log_level if chosen else QUIET_LEVEL, tracebacks=chosen)
    prepared = prepare(options, PluginRegistry.discover())
    plan, frontend = prepared.plan, prepared.resolution.frontend

    def build(on_phase: Callable[[str, float], None]) -> Any:
        with contextlib.closing(prepared.artifact.open_weights()) as weights:
            return start_program(plan, prepared.artifact.header, weights, prepared.registry, on_phase)

    link = InlineLink(plan, frontend, build, log)
    with asyncio.Runner() as runner:
        try:
            runner.run(link.start(lambda name, seconds: log.info("phase_done", phase=name, seconds=seconds)))
            service = runner.run(_service(prepared, link, log))
            yield LocalModel(prepared, service, runner)
            runner.run(service.close())
        finally:
            runner.run(link.stop())


async def _service(prepared: Prepared, link: InlineLink, log: Any) -> EngineService:
    return EngineService(prepared.plan, prepared.resolution.frontend, link, prepared.plan.identity.model_id, log)


class TerminalPrinter:
    """The answer on stdout, reasoning dimmed on stderr. Control codes only where a terminal is."""

    def __init__(self) -> None:
        self._open_channel: Channel | None = None

    def write(self, channel: Channel, text: str) -> None:
        if channel != self._open_channel and self._open_channel is not None:
            self.end_line()
        self._open_channel = channel
        if channel == "reasoning":
            # click drops the style by itself where stderr is no terminal.
            click.secho(text, dim=True, nl=False, err=True)
            sys.stderr.flush()
        else:
            click.echo(text, nl=False)
            sys.stdout.flush()

    def end_line(self) -> None:
        if self._open_channel is not None:
            click.echo(err=self._open_channel == "reasoning")
            self._open_channel = None


def thinking_options(reasoning_effort: str | None) -> TemplateOptions:
    """`none` switches thinking off, any other word is the template's (contract TMPL-4)."""
    if reasoning_effort == "none":
        return TemplateOptions(enable_thinking=False)
    return TemplateOptions(reasoning_effort=reasoning_effort)


def report_line(finished: Finished) -> str:
    """One line about an answer: tokens, end, speed."""
    usage, timings = finished.usage, finished.timings
    prompt_rate = _rate(usage.prompt_tokens - usage.cached_tokens, timings.prompt_seconds)
    rate = _rate(max(usage.output_tokens - 1, 0), timings.generation_seconds)
    reasoning = f" ({usage.reasoning_tokens} reasoning)" if usage.reasoning_tokens else ""
    return (
        f"{usage.prompt_tokens} prompt tokens at {prompt_rate}, {usage.output_tokens} output tokens{reasoning} "
        f"at {rate}, ended by {finished.reason}"
    )


def _rate(tokens: int, seconds: float) -> str:
    return f"{tokens / seconds:.1f} tokens/s" if seconds > 0 else "no measurable rate"

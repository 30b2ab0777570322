"""Options of the front process: address, wire limits, media, thinking and sampling defaults, logs."""

from __future__ import annotations

from typing import Annotated, get_args

import msgspec

from ninfer_core.api.protocol import Compat
from ninfer_core.api.request import TOP_K_CAP
from ninfer_core.plan.option_info import INTEGER_LIMIT, SecretText, integer, number, switch, text

LOG_LEVELS = ("trace", "debug", "info", "warning", "error", "critical", "off")
PRESET = "the artifact's preset"


class FrontOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The half of `ServeOptions` that the front process answers for."""

    # --- server
    host: Annotated[str, text("server", "OPT-1", "Address to listen on.", metavar="HOST")] = "127.0.0.1"
    port: Annotated[int, integer("server", "OPT-2", 1, 65535, "TCP port to listen on.")] = 8080
    api_key: Annotated[
        SecretText | None,
        text(
            "server",
            "OPT-3",
            "Key that clients must send as a bearer token or x-api-key. Better given in the environment.",
            kind="secret",
            default="none asked for",
            example='"a long random string"',
            metavar="KEY",
        ),
    ] = None
    model_id: Annotated[
        str | None,
        text(
            "server",
            "OPT-4",
            "Public name of the model; selects and changes nothing else.",
            default="the artifact's model_id",
            example='"my-model"',
            metavar="ID",
        ),
    ] = None
    max_request_mib: Annotated[
        int, integer("server", "OPT-15", 1, INTEGER_LIMIT, "Largest raw request body.", unit="MiB")
    ] = 384
    cors: Annotated[bool, switch("server", "OPT-40", "Send permissive CORS headers, for browser clients.")] = False
    protocols: Annotated[
        tuple[str, ...] | None,
        text(
            "server",
            "",
            "Protocol plugins to serve.",
            kind="names",
            default="every one that is installed",
            example='["openai-chat"]',
            metavar="NAME,...",
        ),
    ] = None
    scripted: Annotated[
        str | None,
        text(
            "server",
            "",
            "File of answers to serve instead of a model's, through everything but the model (docs/scripted.md).",
            kind="path",
            default="off",
            example='"answers.json"',
            metavar="FILE",
        ),
    ] = None
    compat: Annotated[
        tuple[str, ...] | None,
        text(
            "server",
            "",
            "Deviations from the contract for stock clients.",
            kind="names",
            default="off",
            choices=get_args(Compat),
            example='["codex"]',
            metavar="NAME,...",
        ),
    ] = None

    # --- media
    vision: Annotated[bool, switch("media", "OPT-28", "Load the vision tower, accept media.", built=False)] = False
    media_cache_mib: Annotated[
        int | None,
        integer(
            "media",
            "OPT-16",
            0,
            INTEGER_LIMIT,
            "Prepared media kept for reuse; 0 keeps none.",
            unit="MiB",
            default="1024",
            built=False,
        ),
    ] = None
    media_live_mib: Annotated[
        int | None,
        integer(
            "media",
            "OPT-17",
            1,
            INTEGER_LIMIT,
            "All prepared media that anything refers to.",
            unit="MiB",
            default="2048",
            built=False,
        ),
    ] = None
    media_preprocess_threads: Annotated[
        int | None,
        integer(
            "media",
            "OPT-18",
            0,
            64,
            "Host threads that decode media; 0 chooses up to 16 from the host.",
            unit="threads",
            default="0",
            built=False,
        ),
    ] = None
    allow_private_media: Annotated[
        bool, switch("media", "", "Fetch media from loopback, link-local and private addresses too.", built=False)
    ] = False

    # --- responses
    response_store_max_records: Annotated[
        int, integer("responses", "OPT-20", 1, INTEGER_LIMIT, "Stored responses.", unit="records")
    ] = 1024
    response_store_max_mib: Annotated[
        int,
        integer(
            "responses",
            "OPT-21",
            1,
            INTEGER_LIMIT,
            "Memory of stored responses: envelopes, items and context.",
            unit="MiB",
        ),
    ] = 256

    # --- thinking
    no_thinking: Annotated[bool, switch("thinking", "OPT-37", "Thinking is off where a request says nothing.")] = False
    preserve_thinking: Annotated[
        bool,
        switch("thinking", "OPT-38", "Reasoning of closed turns stays in later prompts where a request says nothing."),
    ] = False
    default_thinking_budget: Annotated[
        int | None,
        integer(
            "thinking",
            "OPT-27",
            1,
            2**32 - 1,
            "Thinking tokens after which the block is closed, where a request sets no budget.",
            unit="tokens",
            default="unset",
            example="4096",
        ),
    ] = None
    tolerant_tool_calls: Annotated[
        bool, switch("thinking", "OPT-39", "Recover complete tool calls from a malformed wrapper.")
    ] = False

    # --- sampling
    temperature: Annotated[
        float | None,
        number("sampling", "OPT-41", 0, 2, "Temperature where a request sets none.", default=PRESET, example="0.7"),
    ] = None
    top_p: Annotated[
        float | None,
        number("sampling", "OPT-41", 0, 1, "Nucleus mass where a request sets none.", default=PRESET, example="0.95"),
    ] = None
    top_k: Annotated[
        int | None,
        integer(
            "sampling",
            "OPT-41",
            0,
            TOP_K_CAP,
            f"Candidates kept where a request sets none; 0 stands for the cap of {TOP_K_CAP}.",
            default=PRESET,
            example="20",
        ),
    ] = None
    min_p: Annotated[
        float | None,
        number(
            "sampling",
            "OPT-41",
            0,
            1,
            "Least share of the best candidate's probability where a request sets none.",
            default=PRESET,
            example="0.0",
        ),
    ] = None
    presence_penalty: Annotated[
        float | None,
        number(
            "sampling", "OPT-42", -2, 2, "Presence penalty where a request sets none.", default=PRESET, example="0.0"
        ),
    ] = None
    frequency_penalty: Annotated[
        float | None,
        number(
            "sampling", "OPT-42", -2, 2, "Frequency penalty where a request sets none.", default=PRESET, example="0.0"
        ),
    ] = None
    seed: Annotated[
        int | None,
        integer(
            "sampling",
            "OPT-43",
            -(2**63),
            2**63 - 1,
            "Seed where a request sets none.",
            default="a fresh random one for each request",
            example="1",
        ),
    ] = None
    greedy: Annotated[bool, switch("sampling", "OPT-44", "Exact argmax for every request, whatever it asks for.")] = (
        False
    )

    # --- logging
    log_level: Annotated[
        str,
        text(
            "logging",
            "OPT-12",
            "Least severe record that is written to stderr.",
            kind="choice",
            choices=LOG_LEVELS,
            metavar="LEVEL",
        ),
    ] = "info"
    log_stats_interval_ms: Annotated[
        int,
        integer("logging", "OPT-11", 0, INTEGER_LIMIT, "Time between throughput records; 0 writes none.", unit="ms"),
    ] = 5000
    request_log_jsonl: Annotated[
        str | None,
        text(
            "logging",
            "OPT-19",
            "File that a JSON line for each request event is appended to.",
            kind="path",
            default="off",
            example='"requests.jsonl"',
            metavar="FILE",
            built=False,
        ),
    ] = None

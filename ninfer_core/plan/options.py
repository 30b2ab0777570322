"""What the user said: every option of the server, with nothing derived. Resolving it is another module's work."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, get_type_hints

import msgspec

from ninfer_core.plan.option_info import INTEGER_LIMIT, TABLE_TITLES, OptionInfo, integer, switch, text, unit_and_range
from ninfer_core.plan.options_front import FrontOptions


class ServeOptions(FrontOptions, frozen=True, kw_only=True):
    """One field for each option, under the flag's own name.

    None means that the option was not given and its default depends on others. `origins` says where a given value
    was written (`--max-context`, `NINFER_MAX_CONTEXT`, `server.toml:12 max-context`), for messages.
    """

    # --- model
    artifact: Annotated[
        str | None,
        text(
            "model",
            "GEN-2",
            "What to serve: a .ninfer file, a Hugging Face directory, or dummy:NAME.",
            default="the embedded tiny model",
            example='"models/qwen3_8_27b.ninfer"',
        ),
    ] = None
    family: Annotated[
        str | None,
        text(
            "model",
            "",
            "Model family plugin, where more than one claims the artifact.",
            default="the one that claims the artifact",
            example='"qwen-hybrid"',
            metavar="NAME",
        ),
    ] = None

    weights: Annotated[
        str | None,
        text(
            "model",
            "",
            "Numeric form of the matrices. fp8 and nvfp4 are made from weights in 16 bits or more on their way to the "
            "device; `ninfer convert --weights` makes them once.",
            kind="choice",
            choices=("bf16", "fp8", "nvfp4"),
            default="as the artifact has them",
            example='"fp8"',
            metavar="FORM",
        ),
    ] = None

    # --- engine
    device: Annotated[
        int | str | None,
        text(
            "engine",
            "OPT-13",
            "CUDA device index, or cpu.",
            kind="device",
            minimum=0,
            maximum=INTEGER_LIMIT,
            default="0 if there is a GPU, else cpu",
            example="0",
            metavar="N|cpu",
        ),
    ] = None
    assume_device_memory: Annotated[
        int | None,
        text(
            "engine",
            "",
            "Plan for a CUDA device of this much memory, whatever is installed.",
            kind="size",
            minimum=2**20,
            maximum=2**50,
            unit="bytes",
            default="what the device has",
            example='"141GiB"',
            metavar="SIZE",
        ),
    ] = None
    max_context: Annotated[
        int | None,
        integer(
            "engine",
            "OPT-5",
            1,
            INTEGER_LIMIT,
            "Ceiling of one sequence, prompt and answer together.",
            unit="tokens",
            default="8192, or the model's own limit if that is lower",
            example="8192",
        ),
    ] = None
    kv_capacity: Annotated[
        int | str | None,
        text(
            "engine",
            "OPT-6",
            "KV tokens shared by all requests, in pages of 64; auto takes what the device has left less 1 GiB.",
            kind="capacity",
            minimum=1,
            maximum=INTEGER_LIMIT,
            unit="tokens",
            default="max-context",
            example='"auto"',
            metavar="N|auto",
        ),
    ] = None
    max_concurrency: Annotated[
        int, integer("engine", "OPT-7", 1, 8, "Requests that generate at the same time.", unit="requests")
    ] = 1
    max_pending_requests: Annotated[
        int,
        integer(
            "engine", "OPT-8", 1, INTEGER_LIMIT, "Requests that may wait beyond those that generate.", unit="requests"
        ),
    ] = 16
    pending_timeout_ms: Annotated[
        int,
        integer(
            "engine",
            "OPT-9",
            1,
            INTEGER_LIMIT,
            "Longest time from arrival to admission, preparation included.",
            unit="ms",
        ),
    ] = 30_000
    prefill_chunk: Annotated[
        int,
        integer(
            "engine", "OPT-10", 128, INTEGER_LIMIT, "Prompt tokens of one prefill unit.", unit="tokens", multiple=128
        ),
    ] = 1024
    default_max_tokens: Annotated[
        int, integer("engine", "OPT-26", 1, INTEGER_LIMIT, "Output limit of a request that names none.", unit="tokens")
    ] = 8192
    kv_dtype: Annotated[
        str,
        text(
            "engine",
            "OPT-22",
            "KV format plugin: bf16, fp8, or one that is installed. int8, nvfp4 and k8v4 are not built yet.",
            metavar="NAME",
        ),
    ] = "bf16"
    kernels: Annotated[
        str,
        text(
            "engine",
            "",
            "What computes: auto takes the fastest kernels for the device, reference the plain torch operations that "
            "they are tested against.",
            kind="choice",
            choices=("auto", "reference"),
            metavar="WHICH",
        ),
    ] = "auto"
    no_cuda_graph: Annotated[bool, switch("engine", "OPT-29", "Launch decode rounds without CUDA graphs.")] = False

    # --- speculation
    spec: Annotated[
        str | None,
        text(
            "speculation",
            "OPT-23",
            "Speculative backend plugin: mtp, dflash or dflash2.",
            default="off",
            example='"mtp"',
            metavar="NAME",
        ),
    ] = None
    draft_tokens: Annotated[
        int | None,
        integer(
            "speculation",
            "OPT-24",
            1,
            15,
            "Tokens drafted in a round: 1..5 with mtp, 1..15 with dflash and dflash2. Needs --spec.",
            unit="tokens",
            default="the backend's own",
            example="3",
        ),
    ] = None
    lm_head_draft: Annotated[
        bool, switch("speculation", "OPT-25", "Draft with the reduced proposal head. Needs --spec.")
    ] = False

    # --- cache
    no_prefix_reuse: Annotated[
        bool,
        switch(
            "cache",
            "OPT-30",
            "Start every request from the root of its prompt. Excludes the other options of this table.",
        ),
    ] = False
    device_state_slots: Annotated[
        int | None,
        integer(
            "cache",
            "OPT-31",
            0,
            INTEGER_LIMIT,
            "Checkpoints kept on the device, beside one state for each concurrent request.",
            unit="slots",
            default="max-concurrency",
            example="4",
            built=False,
        ),
    ] = None
    host_state_slots: Annotated[
        int | None,
        integer(
            "cache",
            "OPT-32",
            0,
            INTEGER_LIMIT,
            "Checkpoints kept in pinned host memory.",
            unit="slots",
            default="8",
            built=False,
        ),
    ] = None
    host_kv_mib: Annotated[
        int | None,
        integer(
            "cache",
            "OPT-33",
            0,
            INTEGER_LIMIT,
            "Pinned host memory for KV pages.",
            unit="MiB",
            default="8192",
            built=False,
        ),
    ] = None
    max_private_continuations: Annotated[
        int | None,
        integer(
            "cache",
            "OPT-34",
            0,
            INTEGER_LIMIT,
            "Conversations whose end is kept for their next turn.",
            default="2 * max-concurrency",
            example="8",
            built=False,
        ),
    ] = None
    max_shared_prefixes: Annotated[
        int | None,
        integer(
            "cache",
            "OPT-35",
            0,
            INTEGER_LIMIT,
            "Prefixes kept for several conversations.",
            default="max(max-concurrency, 4)",
            example="4",
            built=False,
        ),
    ] = None
    max_long_anchors_per_continuation: Annotated[
        int | None,
        integer(
            "cache",
            "OPT-36",
            0,
            INTEGER_LIMIT,
            "Earlier points of a long conversation that are kept.",
            default="2",
            built=False,
        ),
    ] = None
    context_cost_presets: Annotated[
        str | None,
        text(
            "cache",
            "OPT-14",
            "JSON file with measured costs of transfers and prefill.",
            kind="path",
            default="generic and compiled costs",
            example='"costs.json"',
            metavar="FILE",
            built=False,
        ),
    ] = None

    origins: dict[str, str] = msgspec.field(default_factory=dict)

    def origin(self, name: str) -> str:
        """Where the option was written; its flag when that is not known."""
        return self.origins.get(name, flag_name(name))


def flag_name(name: str) -> str:
    """`max_context` -> `--max-context`; the artifact is an argument."""
    return "ARTIFACT" if name == "artifact" else "--" + key_name(name)


def key_name(name: str) -> str:
    """`max_context` -> `max-context`, the key in the TOML file."""
    return name.replace("_", "-")


def variable_name(name: str) -> str:
    """`max_context` -> `NINFER_MAX_CONTEXT`."""
    return f"NINFER_{name.upper()}"


@cache
def option_infos() -> Mapping[str, OptionInfo]:
    """Metadata of every option by field name, in the order of the class."""
    hints = get_type_hints(ServeOptions, include_extras=True)
    infos = {
        name: item
        for name in ServeOptions.__struct_fields__
        for item in getattr(hints[name], "__metadata__", ())
        if isinstance(item, OptionInfo)
    }
    return MappingProxyType(infos)


@cache
def option_defaults() -> Mapping[str, object]:
    """The value of every option when it is not given."""
    options = ServeOptions()
    return MappingProxyType({name: getattr(options, name) for name in option_infos()})


def default_text(name: str) -> str:
    """How the default of an option reads."""
    info, default = option_infos()[name], option_defaults()[name]
    if default is None:
        return info.default
    if isinstance(default, bool):
        return "on" if default else "off"
    return str(default)


def facts_text(name: str) -> str:
    """Unit, range, default and state of an option in one line; a switch says no more than that it is off."""
    info = option_infos()[name]
    legal = "" if info.kind == "switch" else unit_and_range(info)
    parts = (legal, f"default: {default_text(name)}", "" if info.built else "not built yet")
    return "; ".join(part for part in parts if part)


def options_by_table() -> Mapping[str, tuple[str, ...]]:
    """Names of the options of each table of the TOML file, in the order of the manual."""
    infos = option_infos()
    return {table: tuple(name for name, info in infos.items() if info.table == table) for table in TABLE_TITLES}

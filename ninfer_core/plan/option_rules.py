"""Rules between options, and options for what is not built yet. None of it needs a plugin or an artifact."""

from __future__ import annotations

from ninfer_core.api.errors import Problem
from ninfer_core.artifact.identity import name_problem
from ninfer_core.plan.options import ServeOptions, flag_name, option_infos

CACHE_CAPACITIES = (
    "device_state_slots",
    "host_state_slots",
    "host_kv_mib",
    "max_private_continuations",
    "max_shared_prefixes",
    "max_long_anchors_per_continuation",
)
"""Options that `--no-prefix-reuse` excludes, whatever their value (contract OPT-30)."""


def option_problems(options: ServeOptions) -> list[Problem]:
    """What options within their ranges say against each other, and those that ask for what is not built."""
    return [*_model_id(options), *_conflicts(options), *_not_built(options)]


def _model_id(options: ServeOptions) -> list[Problem]:
    """The rule of the artifact's own name holds for the name that replaces it."""
    problem = None if options.model_id is None else name_problem(options.model_id)
    if problem is None:
        return []
    message = f"{options.origin('model_id')} {problem}"
    return [Problem(code="option_invalid", message=message, remedy="choose a short name of printable characters")]


def not_built(what: str, remedy: str) -> Problem:
    return Problem(code="not_built_yet", message=f"{what} is not built yet in this release", remedy=remedy)


def _conflicts(options: ServeOptions) -> list[Problem]:
    found: list[tuple[str, str]] = []
    if options.no_prefix_reuse:
        given = [name for name in CACHE_CAPACITIES if getattr(options, name) is not None]
        listed = ", ".join(options.origin(name) for name in given)
        if given:
            found.append((f"{options.origin('no_prefix_reuse')} excludes {listed}", "give one or the other"))
    if options.spec is None:
        for name in ("draft_tokens", "lm_head_draft"):
            if getattr(options, name):
                found.append(
                    (f"{options.origin(name)} needs a speculative backend", f"add --spec or drop {flag_name(name)}")
                )
    if options.device == "cpu" and options.assume_device_memory is not None:
        found.append(
            (
                f"{options.origin('assume_device_memory')} is for CUDA devices, and {options.origin('device')} is cpu",
                "drop one of them",
            )
        )
    return [Problem(code="option_conflict", message=message, remedy=remedy) for message, remedy in found]


def _not_built(options: ServeOptions) -> list[Problem]:
    return [
        not_built(f"what {options.origin(name)} asks for", f"leave {flag_name(name)} out")
        for name, info in option_infos().items()
        if not info.built and _asks_for_something(name, getattr(options, name))
    ]


def _asks_for_something(name: str, value: object) -> bool:
    return value is not None and value is not False

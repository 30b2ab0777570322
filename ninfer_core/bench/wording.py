"""Results as lines and tables for a terminal."""

from __future__ import annotations

from ninfer_core.api.service import Speculation
from ninfer_core.bench.records import Check, Figure, LoadFigure, Profile, Roof, Run


def closing_lines(run: Run) -> list[str]:
    """What is said of a run when it has ended, its figures and checks left out."""
    lines = [line for profile in run.profiles for line in profile_lines(profile)]
    if run.roof is not None:
        lines.append(roof_line(run.roof))
    return [*lines, *(f"note     {remark}" for remark in run.remarks)]


def figure_line(figure: Figure) -> str:
    where = (
        f"{figure.rows} rows over {figure.context_tokens} tokens"
        if figure.case == "decode"
        else f"{figure.tokens:.0f} tokens in chunks of {figure.chunk_tokens}"
    )
    if figure.draft_tokens:
        where += f", {figure.tokens / figure.rows:.2f} of {1 + figure.draft_tokens} tokens"
    line = f"{figure.case:8} {where:36} {figure.seconds * 1e3:10.3f} ms  {figure.tokens_per_second:10.1f} tokens/s"
    line = line if figure.fraction is None else f"{line}  {figure.fraction:6.1%} of the roof"
    return line if figure.speculation is None else f"{line}  {_drafts(figure.speculation)}"


def _drafts(drafts: Speculation) -> str:
    """`kept 81/62/40 %, 3 of 16 without`: of the rounds of all rows, by the place of a draft in them."""
    shares = "/".join(f"{100 * kept / drafts.rounds:.0f}" for kept in drafts.accepted_per_position)
    without = f"{drafts.fallback_steps} of {drafts.rounds} without" if drafts.fallback_steps else ""
    return ", ".join(filter(None, (f"kept {shares} %" if shares else "", without)))


def load_line(figure: LoadFigure) -> str:
    """Milliseconds at the median, the 90th and the 99th of a hundred."""
    first, between = (
        "/".join(f"{seconds * 1e3:.1f}" for seconds in percentiles.values())
        for percentiles in (figure.first_token_seconds, figure.between_tokens_seconds)
    )
    errors = "".join(f", {count} x {error}" for error, count in figure.errors.items())
    left = f", {figure.not_started} not started (--seconds)" if figure.not_started else ""
    return (
        f"{figure.concurrency:3} clients  {figure.tokens_per_second:8.1f} tokens/s  first token {first} ms  "
        f"between tokens {between} ms  {figure.requests} requests{errors}{left}"
    )


def check_line(check: Check) -> str:
    values = "  ".join(f"{name} {value:.4g}" for name, value in check.values.items())
    limits = ", ".join(f"{name} {limit:.4g}" for name, limit in check.limits.items())
    return f"{'right' if check.passed else 'WRONG'}    {check.name}: {values}  (limits: {limits})"


def roof_line(roof: Roof) -> str:
    fp8 = "" if roof.fp8_matmul_flops is None else f", fp8 {roof.fp8_matmul_flops / 1e12:.0f}"
    copy, matmul = roof.copy_bytes_per_second / 1e12, roof.matmul_flops / 1e12
    return f"roof     copy {copy:.3f} TB/s, matmul {matmul:.0f}{fp8} TFLOP/s"


def profile_lines(profile: Profile, most: int = 20) -> list[str]:
    total = sum(kernel.microseconds for kernel in profile.kernels)
    launches = sum(kernel.launches for kernel in profile.kernels)
    where = f"{profile.rows} rows over {profile.context_tokens} tokens"
    lines = [f"{profile.case} of {where}: {total:.0f} us in {launches:.0f} launches"]
    for kernel in profile.kernels[:most]:
        share = kernel.microseconds / total
        lines.append(f"{kernel.microseconds:10.1f} us  {share:6.1%}  x{kernel.launches:<6.0f} {kernel.name}")
    return lines

"""The tokens that end thinking at its budget (contract TMPL-12): Qwen's published early-stop sentence, then the close.

They are committed without sampling, so they must be exactly that text and must not end the answer.
"""

from __future__ import annotations

from ninfer_core.api import ArtifactInvalid
from ninfer_models.qwen_hybrid.frontend.control_tokens import THINK_CLOSE
from ninfer_models.qwen_hybrid.frontend.tokenizer import Control, Piece, QwenTokenizer

GUIDANCE = (
    "\n\n Considering the limited time by the user, I have to give the solution based on the thinking directly now.\n"
)
AFTER_CLOSE = "\n\n"


def thinking_control_ids(source: str, tokenizer: QwenTokenizer, stop_token_ids: tuple[int, ...]) -> tuple[int, ...]:
    """Ids of guidance, close marker and the blank line after it.

    Raises ArtifactInvalid when they do not decode to that text byte for byte, or hold a stop token.
    """
    close_id = tokenizer.control.id_of.get(THINK_CLOSE)
    if close_id is None:
        raise _invalid(source, f"its template thinks and its vocabulary has no added token {THINK_CLOSE!r}")
    pieces: tuple[Piece, ...] = (GUIDANCE, Control(close_id, THINK_CLOSE), AFTER_CLOSE)
    token_ids = tokenizer.encode(pieces)
    decoded = b"".join(map(tokenizer.token_bytes, token_ids))
    if decoded != (GUIDANCE + THINK_CLOSE + AFTER_CLOSE).encode():
        raise _invalid(source, f"the text that ends thinking at its budget comes back as {decoded!r}")
    if stops := sorted(set(token_ids) & set(stop_token_ids)):
        raise _invalid(source, f"the text that ends thinking at its budget holds the stop token {stops[0]}")
    return token_ids


def _invalid(source: str, problem: str) -> ArtifactInvalid:
    return ArtifactInvalid(f"{source}: tokenizer.json", [problem])

"""A rendering -> ids and exact frontiers."""

from __future__ import annotations

from collections.abc import Sequence

from ninfer_core.api import Frontier
from ninfer_models.qwen_hybrid.frontend.renderer.segments import Mark, Rendering, RequestText, TemplateText
from ninfer_models.qwen_hybrid.frontend.tokenizer import Control, Piece, QwenTokenizer


def tokenize(rendering: Rendering, tokenizer: QwenTokenizer) -> tuple[tuple[int, ...], tuple[Frontier, ...]]:
    """The ids of the whole prompt, and its frontiers in the order of their tokens.

    Stretches between control tokens are encoded each on its own, so a mark beside a control token is a frontier. A
    mark inside a stretch is one exactly if the text before it, encoded alone, gives the first ids of the stretch;
    otherwise there is none (contract PCACHE-7). The start of the prompt is no frontier.
    """
    pieces = rendering.pieces
    places = [_at_edge(place, pieces) for place in _places(rendering)]
    texts = [piece for piece in pieces if isinstance(piece, str)]
    heads = [_text(pieces, piece)[:characters] for piece, characters in places if characters]
    encoded = tokenizer.encode_texts([*texts, *heads])
    ids_of_text, ids_of_head = iter(encoded[: len(texts)]), iter(encoded[len(texts) :])
    ids_of_piece = [[piece.token_id] if isinstance(piece, Control) else next(ids_of_text) for piece in pieces]
    starts = [0]
    for ids in ids_of_piece:
        starts.append(starts[-1] + len(ids))
    frontiers: list[Frontier] = []
    for mark, (piece, characters) in zip(rendering.marks, places, strict=True):
        head = next(ids_of_head) if characters else []
        tokens = starts[piece] + len(head)
        if tokens and (not head or ids_of_piece[piece][: len(head)] == head):
            frontiers.append(_frontier(mark, tokens))
    return tuple(token_id for ids in ids_of_piece for token_id in ids), tuple(frontiers)


def _frontier(mark: Mark, tokens: int) -> Frontier:
    return Frontier(kind=mark.kind, tokens=tokens, message=mark.message, part=mark.part)


def _places(rendering: Rendering) -> list[tuple[int, int]]:
    """(index of a piece, characters into it) of every mark, in one pass."""
    places: list[tuple[int, int]] = []
    marks = iter(rendering.marks)
    mark = next(marks, None)
    piece = characters = 0
    for index in range(len(rendering.segments) + 1):
        while mark is not None and mark.segment == index:
            places.append((piece, characters))
            mark = next(marks, None)
        if index == len(rendering.segments):
            break
        segment = rendering.segments[index]
        if isinstance(segment, (TemplateText, RequestText)):
            characters += len(segment.text)
        else:
            piece += 1 + (characters > 0)
            characters = 0
    return places


def _at_edge(place: tuple[int, int], pieces: Sequence[Piece]) -> tuple[int, int]:
    """The end of a stretch is the start of the piece after it."""
    piece, characters = place
    return (piece + 1, 0) if characters and characters == len(_text(pieces, piece)) else place


def _text(pieces: Sequence[Piece], index: int) -> str:
    piece = pieces[index]
    assert isinstance(piece, str)
    return piece

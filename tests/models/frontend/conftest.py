"""A small trained vocabulary with all of Qwen's control tokens, and frontends over it."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
from ninfer_models.qwen_hybrid.frontend import QwenFrontend, build_frontend
from ninfer_models.qwen_hybrid.frontend.byte_alphabet import CHARACTER_OF_BYTE
from ninfer_models.qwen_hybrid.frontend.vocabulary import tokenizer_json
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from ninfer_core.api import ArtifactHeader, ArtifactIdentity

CORPUS = [
    "The plan is read before a byte is spent; every queue, cache and wait has a bound.\n\n" * 3,
    "def answer(question: str) -> int:\n    return len(question) * 3 + 14\n\n\n",
    "Größe, naïve café, Ωμέγα, привет мир, こんにちは世界, 你好，世界。 مرحبا بالعالم हिन्दी में",
    "system user assistant tools function parameter think reasoning effort medium low xhigh <tools> </tools>",
    '{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}',
]

FilesOf = Callable[[bytes], dict[str, bytes]]
FrontendOf = Callable[..., QwenFrontend]


def make_header(resources: dict[str, bytes], model_id: str = "somebody-12b") -> ArtifactHeader:
    identity = ArtifactIdentity(model_id=model_id, weights_id="bf16", family="qwen-hybrid", format_version=1)
    return ArtifactHeader(source="test artifact", identity=identity, config={}, resources=resources, tensors=())


@pytest.fixture(scope="session")
def small_resources() -> dict[str, bytes]:
    """As official files are: the last seven added tokens stand only in `tokenizer_config.json`."""
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.NFC()
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=900, initial_alphabet=list(CHARACTER_OF_BYTE), show_progress=False)
    trained.train_from_iterator(CORPUS, trainer)
    model = json.loads(trained.to_str())["model"]
    file = json.loads(tokenizer_json(model["vocab"], [tuple(merge) for merge in model["merges"]]))
    late = file["added_tokens"][26:]
    file["added_tokens"] = file["added_tokens"][:26]
    decoder = {str(token.pop("id")): token for token in late}
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": decoder,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False,
    }
    return {"tokenizer.json": json.dumps(file).encode(), "tokenizer_config.json": json.dumps(config).encode()}


@pytest.fixture(scope="session")
def templates() -> dict[str, bytes]:
    ours = files("ninfer_models.qwen_hybrid.frontend") / "assets" / "chat_template.jinja"
    assets = Path(__file__).parent / "assets"
    return {
        "tiny": ours.read_bytes(),
        "3.8": (assets / "style_3_8.jinja").read_bytes(),
        "3.6": (assets / "style_3_6.jinja").read_bytes(),
    }


@pytest.fixture(scope="session")
def frontend_of(small_resources: dict[str, bytes], templates: dict[str, bytes]) -> FrontendOf:
    """A frontend of the small vocabulary with a template, by name or as text; more resources replace or add."""

    def build(template: str, model_id: str = "somebody-12b", **more: bytes) -> QwenFrontend:
        text = templates.get(template, template.encode())
        named = {name.replace("_json", ".json"): data for name, data in more.items()}
        return build_frontend(make_header({**small_resources, "chat_template.jinja": text, **named}, model_id))

    return build

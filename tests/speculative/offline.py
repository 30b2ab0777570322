"""Accepted lengths by the code that the embedded model and its drafters were trained with: every column computed anew
from the whole text, no cache, no rounds."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ninfer_core.artifact.handle import ArtifactHandle
from tools.tiny_model.draft_files import Drafters
from tools.tiny_model.draft_measure import CHUNK, Drafter, Seen, draft_block, draft_mtp, run_target
from tools.tiny_model.geometry import Geometry
from tools.tiny_model.model import TinyModel

BACKENDS = {"mtp": 3, "dflash": 7, "dflash2": 7}
"""Drafts of a round, as measured when they were trained."""
_AT_ONCE = 32


class Offline:
    """The embedded target and its drafters."""

    def __init__(self, artifact: ArtifactHandle) -> None:
        self.target = TinyModel(Geometry.read())
        self.drafters = Drafters(self.target.geometry)
        with artifact.open_weights() as weights, torch.no_grad():
            stored = {spec.name for spec in artifact.header.tensors}
            modules = {"": self.target, "mtp.": self.drafters.mtp, "draft.": self.drafters.dflash2}
            for prefix, module in modules.items():
                for name, parameter in module.named_parameters():
                    assert prefix + name in stored, f"{prefix}{name} is in no artifact"
                    parameter.copy_(weights.read(prefix + name, torch.device("cpu")))
        shared = self.drafters.dflash2.state_dict()
        self.drafters.dflash.load_state_dict({name: shared[name] for name in self.drafters.dflash.state_dict()})
        self._ways: dict[str, Drafter] = {
            "mtp": draft_mtp(self.drafters.mtp),
            "dflash": draft_block(self.drafters.dflash),
            "dflash2": draft_block(self.drafters.dflash2),
        }

    @torch.inference_mode()
    def drafts(self, backend: str, text: Sequence[int], first: int) -> torch.Tensor:
        """What a greedy round drafts for each anchor of `text` from position `first` on: [anchors, drafts]."""
        length = -(-(len(text) + 1) // CHUNK) * CHUNK
        tokens = torch.zeros(1, length, dtype=torch.int64)
        tokens[0, : len(text)] = torch.tensor(text)
        hidden, residuals = run_target(self.target, tokens)
        drafted = []
        for start in range(first, len(text), _AT_ONCE):
            counts = torch.arange(start, min(start + _AT_ONCE, len(text))) + 1
            rows = len(counts)
            seen = Seen(
                tokens.expand(rows, -1),
                counts,
                hidden.expand(rows, -1, -1),
                [each.expand(rows, -1, -1) for each in residuals],
            )
            drafted.append(self._ways[backend](self.target, seen, 0.0, BACKENDS[backend]).tokens)
        return torch.cat(drafted)

    def rounds(self, backend: str, text: Sequence[int], first: int) -> list[int]:
        """How many tokens each round gives when `text` is what the target says from position `first` on, whose token
        came with the prompt. The last round may go beyond the text."""
        drafts = self.drafts(backend, text, first).tolist()
        place, offered = first, []
        while place + 1 < len(text):
            coming = text[place + 1 :]
            kept = 0
            for draft, token in zip(drafts[place - first], coming, strict=False):
                if draft != token:
                    break
                kept += 1
            offered.append(kept + 1)
            place += kept + 1
        return offered

"""A drafter beside a model: what is said where the two plugins do not go together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ninfer_core.api import DrafterNeeds, PluginIncompatible
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.loading import build_model
from ninfer_core.testing.scripted_drafters import BACKEND, HostAdversary, with_needs
from ninfer_core.testing.tiny import tiny_header, tiny_plan


def built(registry: PluginRegistry, needs: DrafterNeeds, model: object, drafter: object) -> object:
    """The drafter, of plugins that give these."""
    header = with_needs(tiny_header(), needs)
    plan = tiny_plan(registry, header, spec=BACKEND, draft_tokens=2, max_context=256)
    plugins: Any = {
        "family": (
            SimpleNamespace(
                offer=SimpleNamespace(label="family plugin 'plain'"),
                hook=SimpleNamespace(ninfer_family_build=lambda **given: model),
            ),
        ),
        "spec": (
            SimpleNamespace(
                offer=SimpleNamespace(label="spec plugin 'eager'"),
                hook=SimpleNamespace(ninfer_spec_build=lambda **given: drafter),
            ),
        ),
    }
    weights: Any = None
    _, made = build_model(plan, plugins, header, weights, torch.device("cpu"))
    return None if made is None else made.drafter


def test_a_model_that_gives_drafters_nothing_is_drafted_for_on_the_host_alone(scripted: PluginRegistry) -> None:
    with pytest.raises(PluginIncompatible, match=r"'eager' drafts on the device.*'plain' cannot be drafted with"):
        built(scripted, DrafterNeeds(), object(), object())
    drafter = HostAdversary()
    assert built(scripted, DrafterNeeds(runs_on="host"), object(), drafter) is drafter

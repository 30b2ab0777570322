"""Hook specs of the five kinds. Hooks are called while planning and building, never for a request or a token.

A plugin is a module named by an entry point of the group `ninfer.<kind>`; the entry point's name is the word
that users type. The module implements the hooks of its kind with `@hookimpl` and imports torch inside
`build` hooks only, so that planning stays free of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

if TYPE_CHECKING:
    import torch

    from ninfer_core.api.artifact import ArtifactHeader, TensorSpec, WeightSource
    from ninfer_core.api.frontend import Frontend, OutputFormat, OutputVocabulary
    from ninfer_core.api.geometry import BuildShape, Geometry
    from ninfer_core.api.kv import KVCodec, KVLayout
    from ninfer_core.api.media import MediaConfig, MediaDecoder
    from ninfer_core.api.model import Model
    from ninfer_core.api.plan import DeviceInfo
    from ninfer_core.api.protocol import ProtocolContext, ProtocolRoutes
    from ninfer_core.api.request import GenerationRequest
    from ninfer_core.api.speculative import Drafter, DrafterNeeds, DraftTokens, HostDrafter

hookspec = pluggy.HookspecMarker("ninfer")
hookimpl = pluggy.HookimplMarker("ninfer")

Spec = TypeVar("Spec", bound=Callable[..., Any])
_OPTIONAL_MARK = "ninfer_optional"


def optional(spec: Spec) -> Spec:
    """Marks a hook that a plugin may leave out: calling it then gives None."""
    setattr(spec, _OPTIONAL_MARK, True)
    return spec


def is_optional(kind: str, hook: str) -> bool:
    """Whether a plugin of `kind` may leave `hook` out."""
    return hasattr(getattr(SPECS_BY_KIND[kind], hook), _OPTIONAL_MARK)


class CommonHooks:
    """Hooks that a plugin of any kind may implement."""

    @optional
    @hookspec(firstresult=True)
    def ninfer_check(self, device: DeviceInfo) -> Sequence[str] | None:
        """What keeps this plugin from working on this machine, a line each; for `ninfer plugins check`."""


class ProtocolHooks(CommonHooks):
    @hookspec(firstresult=True)
    def ninfer_protocol_build(self, context: ProtocolContext) -> ProtocolRoutes:
        """The protocol's routes over the one generation service."""
        raise NotImplementedError

    @hookspec(firstresult=True)
    def ninfer_protocol_lower(self, body: bytes) -> GenerationRequest:
        """What the routes would start for that body, whatever model it names; for `ninfer render`. Raises the same
        RequestErrors."""
        raise NotImplementedError


class FamilyHooks(CommonHooks):
    @hookspec(firstresult=True)
    def ninfer_family_match(self, header: ArtifactHeader) -> bool:
        """Whether this artifact is one of ours, by exact identity or config fields. Two claims are an error."""
        raise NotImplementedError

    @hookspec(firstresult=True)
    def ninfer_family_geometry(self, header: ArtifactHeader, activation_dtype: str) -> Geometry:
        """Shapes from the artifact's config; state that is stored as activations are has `activation_dtype`.
        Raises ArtifactInvalid, listing every field that is wrong."""
        raise NotImplementedError

    @hookspec(firstresult=True)
    def ninfer_family_inventory(self, header: ArtifactHeader) -> Sequence[TensorSpec]:
        """Every tensor the family knows for this config, under the names and dtypes this header uses, with
        its feature group. The core reports what is missing, misshapen or unknown before anything is read."""
        raise NotImplementedError

    @optional
    @hookspec(firstresult=True)
    def ninfer_family_matrices(self, header: ArtifactHeader) -> Sequence[str] | None:
        """Names of those plain tensors [..., outputs, inputs] of this header that the family can also have in fp8 and
        nvfp4 (`ninfer_core.api.stored_matrix`), and that are encoded when the user asks for such weights."""
        raise NotImplementedError

    @hookspec(firstresult=True)
    def ninfer_family_resident(
        self, header: ArtifactHeader, activation_dtype: str, groups: Sequence[str]
    ) -> Sequence[TensorSpec]:
        """What the model holds on the device once it is built with these `groups` of tensors, `text` always among them:
        the `weights` line of the ledger."""
        raise NotImplementedError

    @hookspec(firstresult=True)
    def ninfer_family_frontend(self, header: ArtifactHeader) -> Frontend:
        """Tokenizer, template and the reading of output, from the artifact's resources: for the front process."""
        raise NotImplementedError

    @optional
    @hookspec(firstresult=True)
    def ninfer_family_vocabulary(self, header: ArtifactHeader) -> OutputVocabulary:
        """The same output side as the frontend has, without what only prompts need: for the engine process. A family
        without this hook has its whole frontend built there."""
        raise NotImplementedError

    @hookspec(firstresult=True)
    def ninfer_family_output_format(self) -> OutputFormat:
        """How generated text is read, for tools that have text and no artifact (`ninfer parse`)."""
        raise NotImplementedError

    @hookspec(firstresult=True)
    def ninfer_family_workspace(self, header: ArtifactHeader, shape: BuildShape) -> int:
        """Upper bound of the bytes of temporaries that the model's own work needs at once, logits included, the
        sampler's share not. Pure arithmetic, from what `ninfer_core.ops.workspace` says of the operations."""
        raise NotImplementedError

    @optional
    @hookspec(firstresult=True)
    def ninfer_family_reference_operations(self, header: ArtifactHeader) -> Sequence[str] | None:
        """What of this model no kernel takes on a CUDA device, so that plain torch computes it, slowly: the operation
        and why, in a few words for a person each. Planning shows them and a server warns of them, unless the user
        asks for the reference anyway."""
        raise NotImplementedError

    @hookspec(firstresult=True)
    def ninfer_family_build(
        self, header: ArtifactHeader, shape: BuildShape, weights: WeightSource, device: torch.device
    ) -> Model:
        """Load the text weights and return the model."""
        raise NotImplementedError

    @optional
    @hookspec(firstresult=True)
    def ninfer_family_dummies(self) -> Mapping[str, ArtifactHeader] | None:
        """Headers of real shapes for `dummy:NAME`, whose weights are random and made on the device."""


class KVHooks(CommonHooks):
    @hookspec(firstresult=True)
    def ninfer_kv_layout(self, head_dim: int) -> KVLayout:
        """The planes a page owns. Pure arithmetic; raises PluginIncompatible for a head dimension it cannot store."""
        raise NotImplementedError

    @hookspec(firstresult=True)
    def ninfer_kv_codec(self, layout: KVLayout) -> KVCodec:
        """The codec for that layout."""
        raise NotImplementedError


class SpecHooks(CommonHooks):
    @optional
    @hookspec(firstresult=True)
    def ninfer_spec_inventory(self, header: ArtifactHeader, geometry: Geometry) -> Sequence[TensorSpec] | None:
        """Every tensor of the draft checkpoint that the artifact has beside its target, in group `draft`, under its
        name there: `draft.` and the checkpoint's own. `draft_config.json` among the resources is the checkpoint's
        config. None where that is another drafter's; raises PluginIncompatible for one that it knows and cannot draft
        with, for this target or at all."""
        raise NotImplementedError

    @hookspec(firstresult=True)
    def ninfer_spec_draft_tokens(self, header: ArtifactHeader) -> DraftTokens:
        """How many tokens it can draft a round with this artifact. Raises PluginIncompatible, which says what the
        artifact lacks and how it would get it."""
        raise NotImplementedError

    @hookspec(firstresult=True)
    def ninfer_spec_needs(self, header: ArtifactHeader, geometry: Geometry, shape: BuildShape) -> DrafterNeeds:
        """What the plan has to pay for; called for more than one shape. `shape.groups` has `draft_head` when the user
        wants drafts from the reduced head, and else nothing of a drafter. Raises PluginIncompatible."""
        raise NotImplementedError

    @hookspec(firstresult=True)
    def ninfer_spec_build(
        self, header: ArtifactHeader, shape: BuildShape, model: Model, weights: WeightSource, device: torch.device
    ) -> Drafter | HostDrafter:
        """The drafter: on the device or the host, as its needs say."""
        raise NotImplementedError


class MediaHooks(CommonHooks):
    @hookspec(firstresult=True)
    def ninfer_media_decoder(self, config: MediaConfig) -> MediaDecoder:
        """The decoder for this artifact's processor config."""
        raise NotImplementedError


SPECS_BY_KIND: Mapping[str, type[CommonHooks]] = {
    "protocol": ProtocolHooks,
    "family": FamilyHooks,
    "kv": KVHooks,
    "spec": SpecHooks,
    "media": MediaHooks,
}

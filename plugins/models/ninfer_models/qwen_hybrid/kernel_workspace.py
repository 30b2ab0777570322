"""Bytes of temporaries of a unit of work on a device whose operations have kernels.

As in `reference_workspace`, but for what the routes of kernels make, which is a fraction of it. Where no kernels take a
layer's mixer, the reference's temporaries stand in their place. Attention is counted by its kernels: whether they take
it depends on the format of the cache, too, which the core knows. No torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ninfer_core.api import ArtifactHeader
from ninfer_core.ops.workspace import FLOAT32, INT64, gated_delta, linear, moe, paged_attention, partial_rope
from ninfer_core.ops.workspace.linear_tiles import Form
from ninfer_models.qwen_hybrid.config import Experts, QwenHybridConfig
from ninfer_models.qwen_hybrid.inventory import Naming
from ninfer_models.qwen_hybrid.reference_workspace import mixer_bytes
from ninfer_models.qwen_hybrid.resident import EMBEDDING, HEAD, ResidentMatrix, list_residents

Forms = Mapping[str, frozenset[Form]]
"""In which forms the matrices of one name are, over all layers."""


def matrix_forms(header: ArtifactHeader, config: QwenHybridConfig, groups: tuple[str, ...]) -> Forms:
    """Raises ArtifactInvalid."""
    found: dict[str, set[Form]] = {EMBEDDING: {"dense"}}
    for each in list_residents(config, Naming(header, config), "bfloat16", groups):
        if isinstance(each, ResidentMatrix):
            form: Form = "fp8_groups" if each.format == "fp8" and each.scale_groups > 1 else each.format
            found.setdefault(each.name.rpartition(".")[2], set()).add(form)
    return {name: frozenset(forms) for name, forms in found.items()}


@dataclass(frozen=True, slots=True)
class KernelUnit:
    """Bytes of each place for one unit of work of up to `rows` × `columns` tokens. `row_class`, 0 for a prefill, is
    that of its matrix products; `head_class` that of the head."""

    config: QwenHybridConfig
    activation: int
    forms: Forms
    rows: int
    columns: int
    row_class: int
    head_class: int

    def peak(self) -> int:
        """The residual stream before a part, and the part's largest place, its result included."""
        vector = self._values(self.config.hidden_size)
        parts = max(self._attention(), self._delta_net(), self._feed_forward())
        return self._angles() + max(vector + parts, 2 * vector, vector + self._head())

    def next_token_peak(self) -> int:
        """Of the next-token head: the embedded tokens, their norm and both inputs side by side stay, and the norm of
        the hidden states until they are joined. The logits of its drafts are fewer than those of a round."""
        hidden = self.config.hidden_size
        vector = self._values(hidden)
        joint = vector + self._product("joint", 2 * hidden, hidden)
        layer = vector + max(self._attention(), self._feed_forward())
        return self._angles() + 3 * vector + max(joint, layer)

    @property
    def _prefill(self) -> bool:
        return self.row_class == 0

    @property
    def _tokens(self) -> int:
        return self.rows * self.columns

    def _values(self, width: int) -> int:
        return self._tokens * width * self.activation

    def _angles(self) -> int:
        """Rotation tables, positions and token ids."""
        return partial_rope.angle_bytes(tokens=self._tokens, pairs=self.config.rope.pairs) + 4 * self._tokens * INT64

    def _out(self, name: str, inputs: int) -> int:
        """Back into the residual stream, with what goes in."""
        return self._values(inputs) + self._product(name, inputs, self.config.hidden_size, residual=True)

    def _product(
        self,
        name: str,
        inputs: int,
        outputs: int,
        *,
        normed: bool = False,
        gated: bool = False,
        residual: bool = False,
    ) -> int:
        return max(
            linear.kernel_bytes(
                form,
                rows=self._tokens,
                inputs=inputs,
                outputs=outputs,
                row_class=self.row_class,
                activation=self.activation,
                normed=normed,
                gated=gated,
                residual=residual,
            )
            for form in self.forms[name]
        )

    def _attention(self) -> int:
        config = self.config
        width, projected = config.query_heads * config.head_dim, 2 * (config.query_heads + config.kv_heads)
        projected *= config.head_dim
        attended = paged_attention.kernel_bytes(
            rows=self.rows,
            columns=self.columns,
            query_heads=config.query_heads,
            kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            activation=self.activation,
            prefill=self._prefill,
        )
        out = self._out("mixer_out", width)
        first = self._product("query_gate_key_value", config.hidden_size, projected, normed=True)
        return max(first, self._values(projected) + max(attended, out))

    def _delta_net(self) -> int:
        config = self.config
        width, gates = config.value_heads * config.value_dim, 2 * config.value_heads
        wide = config.conv_channels + width
        places = []
        if "qkv_z_b_a" in self.forms:
            places.append(self._product("qkv_z_b_a", config.hidden_size, wide + gates, normed=True))
        places += [
            linear.pair_bytes(
                form,
                rows=self._tokens,
                inputs=config.hidden_size,
                outputs=wide,
                beside=gates,
                row_class=self.row_class,
                activation=self.activation,
            )
            for form in self.forms.get("qkv_z", ())
        ]
        out = self._out("mixer_out", width)
        return max(*places, self._values(wide + gates) + max(self._mixer(), out), out)

    def _mixer(self) -> int:
        """Columns mixed, and what is made on the way."""
        config = self.config
        heads = {"value_heads": config.value_heads, "key_dim": config.key_dim, "value_dim": config.value_dim}
        layer = {"conv_width": config.conv_width, "key_dim": config.key_dim, "value_dim": config.value_dim}
        result = self._values(config.value_heads * config.value_dim)
        if self._prefill and self.activation < FLOAT32 and gated_delta.prefills_by_kernels(**layer):
            return result + gated_delta.kernel_prefill_bytes(
                rows=self.rows, columns=self.columns, key_heads=config.key_heads, activation=self.activation, **heads
            )
        if not self._prefill and gated_delta.decodes_by_kernels(**layer):
            return result
        return mixer_bytes(config, self.rows, self.columns, self.activation, prefill=self._prefill)

    def _feed_forward(self) -> int:
        if self.config.experts is not None:
            return self._experts(self.config.experts)
        assert self.config.intermediate_size is not None
        return self._swiglu("gate_up", "down", self.config.intermediate_size, normed=True)

    def _swiglu(self, gate_up: str, down: str, width: int, *, normed: bool) -> int:
        hidden = self.config.hidden_size
        opened = self._product(gate_up, hidden, 2 * width, normed=normed, gated=True)
        return max(opened, self._out(down, width))

    def _experts(self, experts: Experts) -> int:
        config, width, shared_width = self.config, experts.intermediate_size, experts.shared_intermediate_size
        sizes = {"tokens": self._tokens, "hidden": config.hidden_size, "width": width, "activation": self.activation}
        sizes |= {"experts": experts.count, "per_token": experts.per_token}
        if moe.takes_few(self.row_class):
            return moe.few_bytes(shared_width=shared_width, **sizes)
        coded = self.forms["experts_gate_up"] != {"dense"}
        shared = self._swiglu("shared_gate_up", "shared_down", shared_width, normed=False)
        return moe.many_bytes(coded=coded, **sizes) + shared

    def _head(self) -> int:
        """Logits as the product gives them and in float32: of every column of a round, of the last one of a prefill."""
        config = self.config
        rows = self.rows if self._prefill else self._tokens
        product = max(
            linear.kernel_bytes(
                form,
                rows=rows,
                inputs=config.hidden_size,
                outputs=config.vocabulary_rows,
                row_class=self.head_class,
                activation=self.activation,
            )
            for form in self.forms[EMBEDDING if config.tied_head else HEAD]
        )
        return product + rows * config.vocabulary_rows * FLOAT32

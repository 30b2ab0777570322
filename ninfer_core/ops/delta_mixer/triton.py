"""The mixer on CUDA: what is launched, with which blocks."""

from __future__ import annotations

import torch

from ninfer_core.ops.delta_mixer.kernels.chunks import convolve_kernel, solve_kernel
from ninfer_core.ops.delta_mixer.kernels.decode import decode_kernel, fold_kernel
from ninfer_core.ops.delta_mixer.kernels.sequence import read_kernel, scan_kernel
from ninfer_core.ops.delta_mixer.launch import Launch, partition
from ninfer_core.ops.delta_mixer.reference import ReferenceMixer
from ninfer_core.ops.delta_mixer.solved import Solved
from ninfer_core.ops.delta_mixer.values import MixerColumns, MixerState, MixerWeights
from ninfer_core.ops.workspace.gated_delta import CHUNK_COLUMNS, CONV_WIDTH, decodes_by_kernels, prefills_by_kernels


class TritonMixer:
    """Implements `DeltaMixer` for convolutions of width 4 and head dimensions that are powers of two; other layers
    take the reference, and so do prefills of float32 activations or of heads narrower than 64."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._reference = ReferenceMixer()
        self._decode_options = {"launch_pdl": True} if launch.dependent else {}
        self._solve_options = _options(launch.solve_warps, launch.solve_registers)
        self._read_options = _options(launch.read_warps, launch.read_registers)
        self._precision = "ieee" if launch.interpreted else "tf32"

    def prefill(
        self,
        columns: MixerColumns,
        weights: MixerWeights,
        state: MixerState,
        layer: int,
        slots: torch.Tensor,
        lengths: torch.Tensor,
    ) -> torch.Tensor:
        """See the package."""
        # Interpreted, a prefill is in float32, and right for narrow heads too.
        interpreted = self._launch.interpreted and decodes_by_kernels(**_layer(weights))
        compiled = columns.qkv.dtype != torch.float32 and prefills_by_kernels(**_layer(weights))
        if not (interpreted or compiled):
            return self._reference.prefill(columns, weights, state, layer, slots, lengths)
        rows, count = columns.qkv.shape[:2]
        chunks = -(-count // CHUNK_COLUMNS)
        solved = Solved.empty(rows, chunks, self._launch.memory_every, weights, columns.qkv)
        self._convolve(columns, weights, state, layer, slots, lengths, solved)
        self._solve(columns, weights, solved)
        self._scan(columns, weights, state, layer, slots, lengths, solved)
        return self._read(columns, weights, solved)

    def _convolve(
        self,
        columns: MixerColumns,
        weights: MixerWeights,
        state: MixerState,
        layer: int,
        slots: torch.Tensor,
        lengths: torch.Tensor,
        solved: Solved,
    ) -> None:
        rows, count = columns.qkv.shape[:2]
        chunks, tile = solved.chunks, self._launch.convolve_tile
        units = 2 * weights.key_heads + weights.value_heads
        convolve_kernel[(units, chunks * CHUNK_COLUMNS // tile, rows)](
            *_strided(columns.qkv),
            weights.conv,
            state.column[layer],
            slots,
            lengths,
            solved.query,
            solved.key,
            solved.base,
            count,
            chunks * CHUNK_COLUMNS,
            **_heads(weights),
            COLUMN_RING=state.column.shape[2],
            TILE=tile,
            num_warps=self._launch.convolve_warps,
        )

    def _solve(self, columns: MixerColumns, weights: MixerWeights, solved: Solved) -> None:
        rows, count = columns.qkv.shape[:2]
        chunks = solved.chunks
        solve_kernel[(weights.value_heads, chunks, rows)](
            *_strided(columns.b, columns.a),
            weights.a_log,
            weights.dt_bias,
            solved.key,
            solved.base,
            solved.pull,
            solved.running,
            count,
            chunks,
            **_heads(weights),
            PRECISION=self._precision,
            **self._solve_options,
        )

    def _scan(
        self,
        columns: MixerColumns,
        weights: MixerWeights,
        state: MixerState,
        layer: int,
        slots: torch.Tensor,
        lengths: torch.Tensor,
        solved: Solved,
    ) -> None:
        rows, count = columns.qkv.shape[:2]
        # Narrow parts are faster as long as all of them run at once.
        narrow, wide = (min(part, weights.value_dim) for part in self._launch.scan_parts)
        part = narrow if weights.value_width // narrow <= self._launch.multiprocessors else wide
        scan_kernel[(weights.value_dim // part, weights.value_heads, rows)](
            *_strided(columns.qkv),
            solved.key,
            solved.base,
            solved.pull,
            solved.running,
            solved.before,
            state.memory[layer],
            state.column[layer],
            slots,
            lengths,
            count,
            solved.chunks,
            **_heads(weights),
            COLUMN_RING=state.column.shape[2],
            EVERY=self._launch.memory_every,
            PART=part,
            STAGES=self._launch.scan_stages,
            PRECISION=self._precision,
            num_warps=self._launch.scan_warps,
        )

    def _read(self, columns: MixerColumns, weights: MixerWeights, solved: Solved) -> torch.Tensor:
        rows, count = columns.qkv.shape[:2]
        out = torch.empty(rows, count, weights.value_width, dtype=columns.gate.dtype, device=columns.gate.device)
        read_kernel[(weights.value_heads, solved.chunks, rows)](
            *_strided(columns.gate),
            weights.gate_norm,
            solved.query,
            solved.key,
            solved.base,
            solved.running,
            solved.before,
            out,
            weights.epsilon,
            count,
            solved.chunks,
            **_heads(weights),
            EVERY=self._launch.memory_every,
            STAGES=self._launch.read_stages,
            SILU=weights.activation == "silu",
            PRECISION=self._precision,
            **self._read_options,
        )
        return out

    def decode(
        self,
        columns: MixerColumns,
        weights: MixerWeights,
        state: MixerState,
        layer: int,
        slots: torch.Tensor,
        lengths: torch.Tensor,
        accepted: torch.Tensor,
    ) -> torch.Tensor:
        """See the package."""
        if not decodes_by_kernels(**_layer(weights)):
            return self._reference.decode(columns, weights, state, layer, slots, lengths, accepted)
        rows, count = columns.qkv.shape[:2]
        out = torch.empty(rows, count, weights.value_width, dtype=columns.gate.dtype, device=columns.gate.device)
        decode_kernel[(weights.value_heads, rows)](
            *_strided(columns.qkv, columns.gate, columns.b, columns.a),
            weights.conv,
            weights.a_log,
            weights.dt_bias,
            weights.gate_norm,
            *(x[layer] for x in (state.memory, state.column, state.key, state.update, state.decay)),
            slots,
            lengths,
            accepted,
            out,
            weights.epsilon,
            COLUMNS=count,
            **_heads(weights),
            COLUMN_RING=state.column.shape[2],
            RING=state.key.shape[2],
            SILU=weights.activation == "silu",
            AHEAD=self._launch.decode_ahead,
            DEPENDENT=self._launch.dependent,
            **partition(weights.key_dim, weights.value_dim, self._launch.decode_warps),
            **self._decode_options,
        )
        return out

    def fold(self, state: MixerState, slots: torch.Tensor, lengths: torch.Tensor, accepted: torch.Tensor) -> None:
        """See the package."""
        layers, total_slots, value_heads, key_dim, value_dim = state.memory.shape
        if not decodes_by_kernels(conv_width=CONV_WIDTH, key_dim=key_dim, value_dim=value_dim):
            self._reference.fold(state, slots, lengths, accepted)
            return
        fold_kernel[(value_heads, slots.shape[0], layers)](
            state.memory,
            state.key,
            state.update,
            state.decay,
            slots,
            lengths,
            accepted,
            total_slots,
            KEY_HEADS=state.key.shape[3],
            VALUE_HEADS=value_heads,
            KEY_DIM=key_dim,
            VALUE_DIM=value_dim,
            RING=state.key.shape[2],
            **partition(key_dim, value_dim, self._launch.decode_warps),
        )


def _options(warps: int, registers: int) -> dict[str, int]:
    return {"num_warps": warps} | ({"maxnreg": registers} if registers else {})


def _strided(*tensors: torch.Tensor) -> tuple[torch.Tensor | int, ...]:
    """Each with its strides over rows and columns."""
    return tuple(each for x in tensors for each in (x, x.stride(0), x.stride(1)))


def _heads(weights: MixerWeights) -> dict[str, int]:
    return {
        "KEY_HEADS": weights.key_heads,
        "VALUE_HEADS": weights.value_heads,
        "KEY_DIM": weights.key_dim,
        "VALUE_DIM": weights.value_dim,
    }


def _layer(weights: MixerWeights) -> dict[str, int]:
    """What decides whether kernels take a layer."""
    return {"conv_width": weights.conv.shape[1], "key_dim": weights.key_dim, "value_dim": weights.value_dim}

"""The Qwen3.5 / 3.6 / 3.8 hybrid family: Gated DeltaNet with gated attention, dense and MoE."""

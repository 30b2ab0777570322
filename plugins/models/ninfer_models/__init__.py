"""Model families of ninfer: the Qwen hybrid family and its embedded tiny model."""

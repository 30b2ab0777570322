"""KV formats of ninfer."""

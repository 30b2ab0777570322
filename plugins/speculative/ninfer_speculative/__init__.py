"""Speculative backends of ninfer; none is built yet."""

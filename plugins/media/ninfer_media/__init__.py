"""Media plugins of ninfer; none is built yet."""

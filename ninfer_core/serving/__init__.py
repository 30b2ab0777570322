"""The front process: HTTP, limits, keys, the generation service, and the link to the engine."""

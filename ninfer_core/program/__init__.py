"""Device side: pools, the KV cache over a codec, the runner of rounds."""

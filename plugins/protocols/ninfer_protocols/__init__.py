"""Protocol plugins of ninfer: OpenAI Chat Completions."""

"""OpenAI Chat Completions as a ninfer protocol plugin."""

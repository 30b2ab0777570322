"""bf16 KV: values stored as they are."""

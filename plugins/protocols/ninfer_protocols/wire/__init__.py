"""Building blocks that every HTTP protocol of this distribution shares: strict JSON, server-sent events,
identifiers, and the OpenAI form of errors."""

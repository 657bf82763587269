"""HTTP: the OpenAI-compatible interface and our own."""

"""Sources become documents, documents become chunks."""

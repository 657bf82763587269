"""Chunks become vectors and postings; questions become passages."""

"""Embedding models behind one protocol, one module per engine."""

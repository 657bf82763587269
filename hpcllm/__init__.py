"""HPC-LLM: answers questions about a computing centre from the centre's own documentation."""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["__version__"]

"""Generation back ends behind one protocol, one module per engine."""

from __future__ import annotations

from hpcllm.models.backends.base import (
    Backend,
    GenerationResult,
    GenerationSettings,
    Message,
    TextStream,
)
from hpcllm.models.backends.load import load_backend

__all__ = [
    "Backend",
    "GenerationResult",
    "GenerationSettings",
    "Message",
    "TextStream",
    "load_backend",
]

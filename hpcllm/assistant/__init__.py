"""A question becomes passages, a prompt, a draft and a checked, cited answer.

The door is :class:`Assistant`; training and evaluation also use :func:`build_messages`.
"""

from __future__ import annotations

from hpcllm.assistant.assistant import Assistant, Options, Writer
from hpcllm.assistant.prompt import Prompt, PromptBudget, build_messages

__all__ = ["Assistant", "Options", "Prompt", "PromptBudget", "Writer", "build_messages"]

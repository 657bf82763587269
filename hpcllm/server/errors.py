"""Errors that only a server can meet; each has its status in :mod:`hpcllm.server.statuses`.

The tree::

    HpcLlmError
    ├── NotFoundError     no such conversation, answer or model
    ├── ConflictError     the conversation is being answered already
    └── AccessError       the caller has not said who they are, or may not do this
"""

from __future__ import annotations

from hpcllm.errors import HpcLlmError


class NotFoundError(HpcLlmError):
    """No record of that id exists, or it belongs to somebody else."""


class ConflictError(HpcLlmError):
    """What was asked for cannot be done while something else is going on."""


class AccessError(HpcLlmError):
    """The caller is not known, or is known and may not do this.

    Attributes:
        is_known: whether the caller is known.
    """

    def __init__(self, message: str, *, is_known: bool = False) -> None:
        self.is_known = is_known
        super().__init__(message)

"""Every error that the package raises on purpose.

The tree, by what the caller can do about it::

    HpcLlmError
    ├── ConfigError          the workspace, its settings or a source list must be mended
    ├── MissingExtraError    an optional package must be installed
    ├── IngestError          a document or a source cannot be read
    ├── StoreError           the index is missing, damaged or of another format
    ├── ModelError           a model is unknown, absent, damaged or does not fit
    │   └── DownloadError    no place that holds the model's files could be reached
    ├── GenerationError      a generation back end failed or refused a request
    │   └── BusyError        the back end is full now; trying again later can help
    ├── EvaluationError      questions, systems or results cannot be used
    └── TrainingError        a recipe, a data set or a checkpoint cannot be used

Messages say what was wrong, the value received, what was expected and what to do next.
The shells (command line, HTTP, Slack) translate these into exit codes, statuses and sentences.
"""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


class HpcLlmError(Exception):
    """Root of all errors raised on purpose by this package."""


class ConfigError(HpcLlmError):
    """The workspace, its settings or a content file must be mended before going on.

    Attributes:
        problems: one line a problem, all that were found.
    """

    def __init__(self, message: str, problems: Iterable[str] = ()) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join([message, *(f"  - {problem}" for problem in self.problems)]))


class MissingExtraError(HpcLlmError):
    """A package that belongs to an optional extra is not installed."""


class IngestError(HpcLlmError):
    """A document or a source cannot be read."""


class StoreError(HpcLlmError):
    """The index is missing, damaged or of another format."""


class ModelError(HpcLlmError):
    """A model is unknown, absent, damaged or does not fit."""


class DownloadError(ModelError):
    """No place that holds the model's files could be reached."""


class GenerationError(HpcLlmError):
    """A generation back end failed or refused a request."""


class BusyError(GenerationError):
    """The back end is full now.

    Attributes:
        retry_after_s: seconds after which another try makes sense.
    """

    def __init__(self, message: str, *, retry_after_s: float = 2.0) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)


class EvaluationError(HpcLlmError):
    """Questions, systems or results cannot be used."""


class TrainingError(HpcLlmError):
    """A recipe, a data set or a checkpoint cannot be used."""


def import_extra(name: str, extra: str) -> Any:
    """Import module ``name``, naming the extra that brings it when it is absent.

    Args:
        name: dotted module name, such as ``"torch"``.
        extra: extra of this package that installs it, such as ``"train"``.

    Raises:
        MissingExtraError: the module is not installed. A module that is installed but fails to
            import one of its own needs raises its own error unchanged.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name != name.partition(".")[0] and exc.name != name:
            raise
        raise MissingExtraError(
            f"{name} is needed here and not installed: pip install 'hpcllm[{extra}]'"
        ) from exc


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest known name, else an empty string."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {matches[0]!r}?" if matches else ""

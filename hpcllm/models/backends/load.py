"""Make a back end from a catalog entry: the one table of engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcllm.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from hpcllm.models.backends.base import Backend
    from hpcllm.models.backends.openai_api import Secret
    from hpcllm.models.catalog import ModelEntry


def load_backend(
    name: str,
    entry: ModelEntry,
    *,
    models_dir: Path,
    threads: int = 1,
    parallel: int = 1,
    base_url: str | None = None,
    api_key: Secret | None = None,
    served_name: str | None = None,
) -> Backend:
    """Load a model.

    Args:
        name: ``llamacpp``, ``openai``, or ``auto``: ``openai`` where ``base_url`` is given.
        entry: the model.
        models_dir: folder of models, for engines of this process.
        threads: threads of an engine of this process.
        parallel: answers generated at the same time by an engine of this process.
        base_url: address of an OpenAI-compatible server, ending in ``/v1``.
        api_key: key for that server.
        served_name: name of the model on that server; None takes the catalog id.

    Raises:
        ConfigError: the name is not known, or ``openai`` has no address.
        ModelError: the model is not on this machine, damaged, or cannot be loaded.
    """
    chosen = ("openai" if base_url else "llamacpp") if name == "auto" else name
    if chosen not in BACKENDS:
        known = ["auto", *BACKENDS]
        raise ConfigError(
            f"there is no back end {name!r}{nearest(name, known)}. Known back ends: "
            f"{', '.join(known)}"
        )
    return BACKENDS[chosen](
        entry,
        models_dir=models_dir,
        threads=threads,
        parallel=parallel,
        base_url=base_url,
        api_key=api_key,
        served_name=served_name,
    )


def _llamacpp(
    entry: ModelEntry, *, models_dir: Path, threads: int, parallel: int, **_: object
) -> Backend:
    from hpcllm.models.backends.llamacpp import EngineOptions, LlamaCppBackend
    from hpcllm.models.files import local_files

    files = local_files(entry, models_dir)
    options = EngineOptions(
        context_tokens=entry.engine_context,
        parallel=parallel,
        threads=threads,
        speculation=entry.speculation,
    )
    return LlamaCppBackend.load(files[entry.main_file().name], id=entry.id, options=options)


def _openai(
    entry: ModelEntry,
    *,
    base_url: str | None,
    api_key: Secret | None,
    served_name: str | None,
    **_: object,
) -> Backend:
    from hpcllm.models.backends.openai_api import OpenAiBackend

    if not base_url:
        raise ConfigError(
            "the openai back end needs an address: set model.base_url in hpcllm.toml to one like "
            "http://localhost:8000/v1"
        )
    return OpenAiBackend(
        base_url,
        served_name or entry.id,
        api_key=api_key,
        id=entry.id,
        context_tokens=entry.engine_context,
    )


BACKENDS: Mapping[str, Callable[..., Backend]] = {"llamacpp": _llamacpp, "openai": _openai}
"""Back end by name; each imports its engine when it is called."""

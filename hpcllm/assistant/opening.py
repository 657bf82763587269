"""Build an assistant from a workspace: settings become plain arguments here.

Role: behind :meth:`hpcllm.assistant.assistant.Assistant.open`; engines are imported on use.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from hpcllm.assistant.assistant import EXTRACTIVE, Assistant, Options, Writer
from hpcllm.assistant.prompt import PromptBudget
from hpcllm.errors import MissingExtraError, ModelError, StoreError
from hpcllm.models.backends.base import GenerationSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpcllm.index.generation import Generation
    from hpcllm.index.ranker import Ranker
    from hpcllm.models.backends.base import Backend
    from hpcllm.models.backends.load import TriedModel
    from hpcllm.models.catalog import ModelEntry
    from hpcllm.workspace import Workspace

logger = logging.getLogger(__name__)

SERVED_BUDGET = PromptBudget(tokens=4000, passages=12)
"""For a model behind a server that the catalog does not know."""
SERVED_CONTEXT_TOKENS = 8192
"""Context assumed for such a model."""
KEY_VARIABLE = "HPCLLM_API_KEY"


def open_assistant(workspace: Workspace, *, model: str | None = None) -> Assistant:
    """See :meth:`Assistant.open`."""
    from hpcllm.index.embedders import load_embedder
    from hpcllm.index.search import Searcher

    settings = workspace.settings
    generation = _generation(workspace)
    embedder = load_embedder(
        settings.index.embedder,
        models_dir=workspace.models_dir,
        threads=workspace.threads,
        question_adapter=settings.index.question_adapter,
    )
    writer, unavailable = load_writer(workspace, model or settings.model.id)
    return Assistant(
        Searcher(generation, embedder),
        embedder=embedder,
        ranker=ranker_of(workspace),
        writer=writer,
        options=options_of(workspace, clusters=generation.manifest.clusters),
        unavailable=unavailable,
    )


def ranker_of(workspace: Workspace, name: str | None = None) -> Ranker | None:
    """Return a ranker, or None where none is wanted or its files are missing.

    A ranker is an adapter of the default embedder and comes with its files; a site with another
    embedder does without.

    Args:
        workspace: whose settings and models are used.
        name: of the ranker; None takes the workspace's, an empty text means none.
    """
    from hpcllm.index.ranker import BASE_ID, load_ranker

    name = workspace.settings.retrieval.ranker if name is None else name
    if not name or workspace.settings.index.embedder != BASE_ID:
        return None
    return load_ranker(name, models_dir=workspace.models_dir, threads=workspace.threads)


def options_of(workspace: Workspace, *, clusters: Sequence[str] = ()) -> Options:
    """Return the assistant's options from a workspace's settings.

    Args:
        workspace: whose settings are used.
        clusters: clusters that the index has pages of; the site's own is added.
    """
    site, retrieval = workspace.settings.site, workspace.settings.retrieval
    return Options(
        passages=retrieval.passages,
        minimum_evidence=retrieval.minimum_evidence,
        answer_words=workspace.settings.model.answer_words,
        support=site.support,
        language=site.language,
        cluster=site.cluster,
        clusters=tuple(dict.fromkeys(name for name in (site.cluster, *clusters) if name)),
        patience_s=workspace.settings.model.patience_s,
    )


def load_writer(workspace: Workspace, model: str) -> tuple[Writer | None, str]:
    """Load a workspace's model.

    Args:
        workspace: whose settings and models folder are used.
        model: catalog id, ``extractive``, any name that the server at ``base_url`` knows, or
            ``transformers:ID[+ADAPTER_FOLDER]``, see :mod:`hpcllm.models.backends.load`.

    Returns:
        The writer and an empty text; or None and why the model cannot be used, with the remedy
        (empty where no model was asked for).

    Raises:
        ModelError: the catalog does not know the model and no server is set, or a model that is
            tried with torch cannot be loaded.
    """
    from hpcllm.models.backends.load import TriedModel
    from hpcllm.models.catalog import load_catalog

    settings = workspace.settings.model
    if EXTRACTIVE in (model, settings.backend):
        return None, ""
    catalog = load_catalog(workspace.catalog_file)
    if tried := TriedModel.named(model):
        return tried_writer(workspace, tried, catalog.get(tried.id)), ""
    served = settings.backend == "openai" or (settings.backend == "auto" and settings.base_url)
    if served and model not in {entry.id for entry in catalog}:
        return _served_writer(model, settings.base_url or ""), ""
    entry = catalog.get(model)
    try:
        backend = _backend(workspace, entry)
    except (ModelError, MissingExtraError) as exc:
        logger.warning("answering by extraction: %s", exc)
        return None, f"{model} cannot be used: {exc}"
    return writer_of(entry, backend, served=bool(served)), ""


def writer_of(entry: ModelEntry, backend: Backend, *, served: bool = False) -> Writer:
    """Return the writer for a loaded model with its catalog entry's prompt settings."""
    return Writer(
        backend,
        budget=PromptBudget(tokens=entry.prompt_tokens, passages=entry.passages),
        settings=GenerationSettings(
            answer_tokens=entry.answer_tokens,
            temperature=entry.temperature,
            repeat_penalty=entry.repeat_penalty,
        ),
        adapted=entry.adapted,
        quotes=entry.quotes,
        refusal_evidence=entry.refusal_evidence,
        sha256="" if served else entry.main_file().sha256,
    )


def tried_writer(workspace: Workspace, tried: TriedModel, entry: ModelEntry) -> Writer:
    """Return the writer for a model that is tried with torch, with or without an adapter.

    Args:
        workspace: whose models are used; a relative adapter is looked for in the current folder,
            then in the workspace and among the runs of its training.
        tried: what was asked for.
        entry: its base.

    Raises:
        MissingExtraError: the packages of the extra ``train`` are not installed.
        ModelError: the model or the adapter cannot be loaded.
    """
    from dataclasses import replace
    from pathlib import Path

    from hpcllm.models.adapters import WEIGHTS_FILE
    from hpcllm.models.backends.load import load_tried
    from hpcllm.models.files import sha256_of

    roots = (Path.cwd(), workspace.root, workspace.training_dir / "runs")
    backend = load_tried(
        tried, entry, models_dir=workspace.models_dir, roots=roots, threads=workspace.threads
    )
    writer = writer_of(entry, backend)
    folder = tried.adapter_folder(roots)
    return (
        replace(writer, adapted=True, adapter=sha256_of(folder / WEIGHTS_FILE))
        if folder
        else writer
    )


def _backend(workspace: Workspace, entry: ModelEntry) -> Backend:
    from hpcllm.models.backends.load import load_backend
    from hpcllm.models.backends.openai_api import Secret

    settings = workspace.settings.model
    key = os.environ.get(KEY_VARIABLE)
    return load_backend(
        settings.backend,
        entry,
        models_dir=workspace.models_dir,
        threads=workspace.threads,
        parallel=settings.parallel,
        base_url=settings.base_url,
        api_key=Secret(key) if key else None,
    )


def _served_writer(model: str, base_url: str) -> Writer:
    from hpcllm.models.backends.openai_api import OpenAiBackend, Secret

    key = os.environ.get(KEY_VARIABLE)
    backend = OpenAiBackend(
        base_url,
        model,
        api_key=Secret(key) if key else None,
        context_tokens=SERVED_CONTEXT_TOKENS,
    )
    return Writer(backend, budget=SERVED_BUDGET)


def _generation(workspace: Workspace) -> Generation:
    from hpcllm.index.generation import open_current

    try:
        return open_current(workspace.index_dir)
    except StoreError as exc:
        if "hpcllm ingest" in str(exc):
            raise
        raise StoreError(f"{exc}. Build the index with: hpcllm ingest") from exc

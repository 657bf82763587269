"""Systems under evaluation: rows of a TOML file, and what answers for each of them.

Role: ``systems.toml -> System -> Answerer``. A system is a model (or none), with or without an
adapter, with or without retrieval, and what of its output counts.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hpcllm.errors import ConfigError, ModelError, nearest
from hpcllm.models.backends.load import TriedModel
from hpcllm.workspace import problems_of, read_toml

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hpcllm.assistant.assistant import Writer
    from hpcllm.evaluation.answering import Answerer
    from hpcllm.models.backends.base import Backend
    from hpcllm.models.catalog import Catalog, ModelEntry
    from hpcllm.workspace import Workspace

SYSTEMS_FILE = "systems.toml"
"""The default systems, in the corpus folder."""
PATIENCE_S = 3600.0
"""Seconds given to a draft: what a system can answer must not depend on what else the machine does.
Users' patience is ``[model] patience_s``; how long answers take stands beside the scores."""
EXTRACTIVE = "extractive"


class System(BaseModel):
    """One system: a row ``[[system]]``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")
    """Names the result file."""
    model: str
    """Catalog id, ``extractive``, with ``base_url`` any name that the server knows, or
    ``transformers:ID[+ADAPTER_FOLDER]`` for an adapter that is tried with torch."""
    label: str = ""
    """Shown in tables; empty shows the id."""
    adapter: str = ""
    """LoRA file in GGUF format, relative to the workspace; the model then counts as adapted."""
    retrieval: bool = True
    """Whether passages are found and shown to the model."""
    output: Literal["checked", "draft"] = "checked"
    """``checked``: what users see, the extractive answer where a draft fails its checks.
    ``draft``: what the model wrote, unchecked. Both come from the same generation."""
    passages: int = Field(8, ge=1, le=50)
    """Passages retrieved."""
    prompt_passages: int | None = Field(None, ge=1, le=50)
    """Most passages in the prompt; None takes the catalog's number."""
    prompt_tokens: int | None = Field(None, ge=100)
    """Budget of passages and question; None takes the catalog's number."""
    answer_tokens: int | None = Field(None, ge=1)
    """Most tokens of an answer; None takes the catalog's number."""
    minimum_evidence: float | None = Field(None, ge=0.0, le=1.0)
    """Evidence below which it abstains; None takes the workspace's setting, 0 answers all."""
    ranker: str | None = None
    """Adapter that chooses the quoted lines; None takes the workspace's, empty takes none."""
    quotes: bool | None = None
    """Whether quoted lines follow the model's answer; None takes the catalog's word."""
    backend: Literal["auto", "llamacpp", "openai"] = "auto"
    """Engine; ``auto`` takes ``openai`` where ``base_url`` is set."""
    base_url: str | None = None
    """OpenAI-compatible endpoint ending in ``/v1``; the key is read from ``HPCLLM_API_KEY``."""
    parallel: int = Field(1, ge=1, le=64)
    """Questions answered at the same time; times are comparable at 1 only."""
    attempts: int = Field(3, ge=1, le=10)
    """Tries before a question counts as failed."""
    parameters: int = Field(0, ge=0)
    """Parameters of the model for the report; 0 takes the catalog's number."""

    @model_validator(mode="after")
    def _fits_together(self) -> System:
        if self.model == EXTRACTIVE and (not self.retrieval or self.adapter):
            raise ValueError("model 'extractive' needs retrieval and takes no adapter")
        if self.backend == "openai" and not self.base_url:
            raise ValueError("backend 'openai' needs base_url, such as http://localhost:8000/v1")
        if self.adapter and self.base_url:
            raise ValueError("adapter is for models of this process; a server loads its own")
        return self

    def answer_settings(self) -> dict[str, Any]:
        """Return what decides the answers: all but the id, the label and what is scored."""
        return self.model_dump(
            exclude={"id", "label", "output", "parallel", "attempts", "parameters"}
        )


class SystemsFile(BaseModel):
    """A file of systems."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    system: tuple[System, ...] = Field(min_length=1)


def load_systems(path: Path, *, only: Sequence[str] = ()) -> list[System]:
    """Read systems.

    Args:
        path: the TOML file.
        only: ids to take; empty takes all.

    Raises:
        ConfigError: the file is wrong (all problems are listed), ids repeat, or an id of ``only``
            is not there.
    """
    try:
        systems = SystemsFile.model_validate(read_toml(path)).system
    except ValidationError as exc:
        raise ConfigError(
            f"{path} has {exc.error_count()} problem(s):", list(problems_of(exc, SystemsFile))
        ) from exc
    ids = [system.id for system in systems]
    if doubled := sorted({name for name in ids if ids.count(name) > 1}):
        raise ConfigError(f"{path} uses ids twice: {', '.join(doubled)}")
    if unknown := [f"{name}{nearest(name, ids)}" for name in only if name not in ids]:
        raise ConfigError(f"{path} has no system {'; '.join(unknown)}. Systems: {', '.join(ids)}")
    return [system for system in systems if not only or system.id in only]


def check_systems(systems: Sequence[System], catalog: Catalog) -> None:
    """Refuse systems whose model the catalog does not know, before anything runs.

    Raises:
        ModelError: an unknown model; the message names the system, the known ids and the nearest.
    """
    for system in systems:
        if system.model == EXTRACTIVE or system.base_url:
            continue
        try:
            tried = TriedModel.named(system.model)
            catalog.get(tried.id if tried else system.model)
        except ModelError as exc:
            raise ModelError(f"system {system.id!r}: {exc}") from exc


def site_catalog(workspace: Workspace) -> Catalog:
    """Return the shipped catalog with the workspace's own models."""
    from hpcllm.models.catalog import load_catalog

    return load_catalog(workspace.catalog_file)


def open_system(
    system: System, workspace: Workspace, *, generation_name: str | None = None
) -> Answerer:
    """Load what a system needs and return what answers for it.

    Args:
        system: the row of the TOML.
        workspace: whose index, models and settings are used.
        generation_name: generation of the index to answer from; None takes the current one.

    Raises:
        ModelError: the model is unknown or its files are missing: the message says how to get
            them. Unlike the assistant, an evaluation never falls back to another system.
        StoreError: there is no index.
    """
    from hpcllm.evaluation.fingerprints import code_sha256

    code_sha256()  # before the code is imported, so that an edit meanwhile cannot pass for it
    from hpcllm.assistant.assistant import Assistant
    from hpcllm.assistant.opening import options_of, ranker_of
    from hpcllm.evaluation.answering import AssistantAnswerer, ClosedBookAnswerer
    from hpcllm.index.embedders import load_embedder
    from hpcllm.index.generation import Generation, open_current
    from hpcllm.index.search import Searcher

    writer = load_system_writer(system, workspace)
    if writer is not None and not system.retrieval:
        return ClosedBookAnswerer(writer, settings=system.answer_settings())
    if generation_name:
        generation = Generation(workspace.index_dir / generation_name)
    else:
        generation = open_current(workspace.index_dir)
    embedder = load_embedder(
        workspace.settings.index.embedder,
        models_dir=workspace.models_dir,
        threads=workspace.threads,
        question_adapter=workspace.settings.index.question_adapter,
    )
    options = options_of(workspace, clusters=generation.manifest.clusters)
    changes: dict[str, Any] = {"passages": system.passages, "patience_s": PATIENCE_S}
    if system.minimum_evidence is not None:
        changes["minimum_evidence"] = system.minimum_evidence
    assistant = Assistant(
        Searcher(generation, embedder),
        embedder=embedder,
        ranker=ranker_of(workspace, system.ranker),
        writer=writer,
        options=_replaced(options, changes),
    )
    return AssistantAnswerer(assistant, settings=system.answer_settings())


def load_system_writer(system: System, workspace: Workspace) -> Writer | None:
    """Load the model of a system; None for the extractive one."""
    from hpcllm.assistant.opening import (
        SERVED_BUDGET,
        SERVED_CONTEXT_TOKENS,
        tried_writer,
        writer_of,
    )

    if system.model == EXTRACTIVE:
        return None
    catalog = site_catalog(workspace)
    known = {entry.id: entry for entry in catalog}
    if system.model not in known and system.base_url:
        from hpcllm.assistant.assistant import Writer
        from hpcllm.models.backends.openai_api import OpenAiBackend

        backend: Backend = OpenAiBackend(
            system.base_url,
            system.model,
            api_key=_key(),
            context_tokens=SERVED_CONTEXT_TOKENS,
        )
        return _adjusted(Writer(backend, budget=SERVED_BUDGET), system, workspace)
    if tried := TriedModel.named(system.model):
        return _adjusted(tried_writer(workspace, tried, catalog.get(tried.id)), system, workspace)
    entry = catalog.get(system.model)
    served = bool(system.base_url)
    writer = writer_of(entry, _backend(system, entry, workspace), served=served)
    return _adjusted(writer, system, workspace)


def _backend(system: System, entry: ModelEntry, workspace: Workspace) -> Backend:
    from hpcllm.models.backends.load import load_backend

    if system.adapter:
        return _adapted_backend(system, entry, workspace)
    return load_backend(
        system.backend,
        entry,
        models_dir=workspace.models_dir,
        threads=workspace.threads,
        parallel=system.parallel,
        base_url=system.base_url,
        api_key=_key(),
    )


def _adapted_backend(system: System, entry: ModelEntry, workspace: Workspace) -> Backend:
    from hpcllm.models.backends.llamacpp import EngineOptions, LlamaCppBackend
    from hpcllm.models.files import local_files

    path = workspace.root / system.adapter
    if not path.is_file():
        raise ModelError(
            f"system {system.id!r}: adapter {system.adapter} does not exist in {workspace.root}: "
            "name a LoRA file in GGUF format"
        )
    options = EngineOptions(
        context_tokens=entry.engine_context,
        parallel=system.parallel,
        threads=workspace.threads,
        speculation=entry.speculation,
        adapters=((str(path), 1.0),),
    )
    files = local_files(entry, workspace.models_dir)
    return LlamaCppBackend.load(files[entry.main_file().name], id=entry.id, options=options)


def _adjusted(writer: Writer, system: System, workspace: Workspace) -> Writer:
    budget: dict[str, Any] = {}
    if system.prompt_passages is not None:
        budget["passages"] = system.prompt_passages
    if system.prompt_tokens is not None:
        budget["tokens"] = system.prompt_tokens
    settings = writer.settings
    if system.answer_tokens is not None:
        settings = _replaced(settings, {"answer_tokens": system.answer_tokens})
    changes: dict[str, Any] = {"budget": _replaced(writer.budget, budget), "settings": settings}
    if system.quotes is not None:
        changes["quotes"] = system.quotes
    if system.adapter:
        changes |= {"adapted": True, "adapter": _file_hash(workspace.root / system.adapter)}
    adjusted: Writer = _replaced(writer, changes)
    return adjusted


def _replaced(record: Any, changes: dict[str, Any]) -> Any:
    from dataclasses import replace

    return replace(record, **changes)


def _file_hash(path: Path) -> str:
    from hpcllm.evaluation.fingerprints import file_sha256

    return file_sha256(path)


def _key() -> Any:
    from hpcllm.assistant.opening import KEY_VARIABLE
    from hpcllm.models.backends.openai_api import Secret

    key = os.environ.get(KEY_VARIABLE)
    return Secret(key) if key else None

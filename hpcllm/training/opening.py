"""Open what data sets are made from: sites with their indexes, and the model that will read them.

Role: settings of workspaces become plain arguments here; the commands call nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpcllm.assistant.prompt import PromptBudget
from hpcllm.errors import TrainingError
from hpcllm.models.torch_weights import gguf_file
from hpcllm.training.assembly import Reader, Site
from hpcllm.training.dataset import SiteMaterial
from hpcllm.training.tokens import token_counter
from hpcllm.workspace import Workspace, read_toml

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hpcllm.models.catalog import ModelEntry

FACTS_FILE = "site.toml"
OWN_WEIGHT = 2.0
"""Weight of the workspace's own site among the further ones, whose weight is 1."""


def open_materials(space: Workspace, others: Sequence[Path] = ()) -> list[SiteMaterial]:
    """Open the workspace's own site and further ones.

    Args:
        space: the workspace whose model is trained.
        others: folders of further workspaces with an index, such as public documentation.

    Raises:
        ConfigError: a folder is no workspace.
        StoreError: a workspace has no index.
    """
    own = _material(space, OWN_WEIGHT)
    return [own, *(_material(Workspace.find(folder), 1.0) for folder in others)]


def _material(space: Workspace, weight: float) -> SiteMaterial:
    from hpcllm.index.embedders import load_embedder
    from hpcllm.index.generation import open_current
    from hpcllm.index.search import Searcher

    settings = space.settings
    generation = open_current(space.index_dir)
    embedder = load_embedder(
        settings.index.embedder, models_dir=space.models_dir, threads=space.threads
    )
    clusters = dict.fromkeys([settings.site.cluster, *generation.manifest.clusters])
    site = Site(
        name=space.root.name if settings.site.name == "HPC support" else settings.site.name,
        searcher=Searcher(generation, embedder),
        cluster=settings.site.cluster,
        clusters=tuple(name for name in clusters if name),
    )
    facts_path = space.corpus_dir / FACTS_FILE
    facts: dict[str, Any] = read_toml(facts_path) if facts_path.is_file() else {}
    return SiteMaterial(site, weight, facts)


def open_reader(entry: ModelEntry, models_dir: Path) -> Reader:
    """Return what a model of the catalog can read, counted by its own tokenizer.

    Raises:
        ModelError: its GGUF file is not on this machine.
        TrainingError: the model is no generator.
    """
    if entry.kind != "generator":
        raise TrainingError(f"{entry.id} is an embedder; data sets are made for a generator")
    budget = PromptBudget(tokens=entry.prompt_tokens, passages=entry.passages)
    return Reader(budget, token_counter(gguf_file(entry, models_dir)))

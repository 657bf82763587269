from __future__ import annotations

from pathlib import Path

import pytest

from hpcllm.assistant import Assistant
from hpcllm.assistant.opening import load_writer, options_of, ranker_of, writer_of
from hpcllm.errors import ModelError, StoreError
from hpcllm.index.build import build_generation
from hpcllm.index.embedders import Embedder, load_embedder, question_file
from hpcllm.index.embedders.hashing import HashEmbedder
from hpcllm.models.adapters import merge_adapter
from hpcllm.models.backends.scripted import ScriptedBackend
from hpcllm.models.catalog import load_catalog
from hpcllm.records import Chunk, Document
from hpcllm.workspace import Workspace
from tests.unit.index.tiny_encoder import write_adapter, write_encoder

from .helpers import GPU_TEXT

SETTINGS = """\
[site]
support = "help@site.example"
cluster = "meridian"
[index]
embedder = "hashing"
[retrieval]
minimum_evidence = 0.05
"""


def workspace(root: Path, more: str = "") -> Workspace:
    (root / "hpcllm.toml").write_text(SETTINGS + more, encoding="utf-8")
    return Workspace.find(root)


def build_index(root: Path, embedder: Embedder | None = None) -> None:
    document = Document("docs", "gpu.md", "GPU jobs", GPU_TEXT, url="https://docs.example/gpu")
    chunk = Chunk("0" * 32, "docs", "gpu.md", "GPU jobs", ("GPU jobs",), "", GPU_TEXT, 0, 60)
    build_generation(root / "index", [chunk], [document], embedder or HashEmbedder())


def test_a_workspace_with_an_index_answers_by_extraction_where_the_model_is_missing(
    tmp_path: Path,
) -> None:
    build_index(tmp_path)
    space = workspace(tmp_path, '[model]\nid = "hpc-smollm2-135m"\n')
    with Assistant.open(space) as assistant:
        answer = assistant.answer("How do I request a100 cards with gres?")
    assert answer.model == "extractive"
    assert "--gres=gpu:a100:2" in answer.text
    assert "hpcllm models pull hpc-smollm2-135m" in answer.fallback
    assert answer.receipt and answer.receipt.generation.startswith("gen-")
    assert answer.receipt.chunk_ids == ("0" * 32,)


@pytest.mark.parametrize(("chosen", "used"), [("q", "q"), ("", "")])
def test_questions_are_read_with_the_adapter_that_the_settings_name(
    tmp_path: Path, chosen: str, used: str
) -> None:
    text = SETTINGS.replace('"hashing"', f'"tiny"\nquestion_adapter = "{chosen}"')
    (tmp_path / "hpcllm.toml").write_text(text, encoding="utf-8")
    space = Workspace.find(tmp_path)
    model = write_encoder(space.models_dir / "tiny")
    adapter = write_adapter(tmp_path / "adapter")
    merge_adapter(model, adapter, model.with_name(question_file("q")), "int8")
    build_index(tmp_path, load_embedder("tiny", models_dir=space.models_dir))
    with Assistant.open(space, model="extractive") as assistant:
        assert getattr(assistant.embedder, "question_adapter", None) == used
        assert assistant.search("the home disk quota")[0].path == "gpu.md"


def test_extraction_that_was_chosen_is_no_fallback(tmp_path: Path) -> None:
    build_index(tmp_path)
    with Assistant.open(workspace(tmp_path), model="extractive") as assistant:
        assert assistant.answer("How do I request cards?").fallback == ""


def test_without_an_index_the_error_names_the_command_that_builds_it(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="hpcllm ingest"):
        Assistant.open(workspace(tmp_path), model="extractive")


def test_an_unknown_model_is_an_error_that_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="did you mean 'smollm2-135m-instruct'"):
        load_writer(workspace(tmp_path), "smollm2-135m-instruc")


def test_a_server_may_serve_a_model_that_the_catalog_does_not_know(tmp_path: Path) -> None:
    served = workspace(tmp_path, '[model]\nbase_url = "http://127.0.0.1:1/v1"\n')
    writer, unavailable = load_writer(served, "site/llama-tuned")
    assert unavailable == "" and writer is not None
    assert writer.backend.id == "site/llama-tuned"
    assert writer.budget.passages == 12 and not writer.adapted
    writer.backend.close()


def test_a_site_adds_models_in_a_catalog_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "models.toml").write_text(
        """\
[[models]]
id = "site-model"
kind = "generator"
family = "llama"
parameters = 1
context = 2048
licence = "none"
passages = 2
prompt_tokens = 300
[[models.files]]
name = "site.gguf"
size = 1
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
places = [{ kind = "path", path = "/nowhere" }]
""",
        encoding="utf-8",
    )
    writer, unavailable = load_writer(workspace(tmp_path), "site-model")
    assert writer is None and "hpcllm models pull site-model" in unavailable


def test_prompt_settings_come_from_the_catalog() -> None:
    entry = load_catalog().get("smollm2-135m-instruct")
    writer = writer_of(entry, ScriptedBackend(["x"]))
    assert (writer.budget.tokens, writer.budget.passages) == (entry.prompt_tokens, entry.passages)
    assert writer.settings.answer_tokens == entry.answer_tokens
    assert writer.sha256 == entry.main_file().sha256
    assert writer_of(entry, ScriptedBackend(["x"]), served=True).sha256 == ""


def test_options_come_from_settings_and_the_index(tmp_path: Path) -> None:
    options = options_of(workspace(tmp_path), clusters=("halley", "meridian"))
    assert options.support == "help@site.example"
    assert (options.cluster, options.minimum_evidence) == ("meridian", 0.05)
    assert options.clusters == ("meridian", "halley")


def test_a_site_with_another_embedder_does_without_the_ranker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "hpcllm.toml").write_text('[index]\nembedder = "hashing"\n')
    assert ranker_of(Workspace.find(tmp_path)) is None
    assert not caplog.text


def test_a_missing_ranker_is_told_with_the_remedy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPCLLM_HOME", str(tmp_path / "home"))
    (tmp_path / "hpcllm.toml").write_text("")
    space = Workspace.find(tmp_path)
    assert ranker_of(space) is None
    assert "hpcllm models pull all-minilm-l6-v2" in caplog.text
    assert ranker_of(space, "") is None

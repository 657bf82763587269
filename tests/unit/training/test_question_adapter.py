from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpcllm.errors import TrainingError
from hpcllm.index.embedders.hashing import HashEmbedder
from hpcllm.index.search import Searcher
from hpcllm.index.text import embedding_text, vector_key
from hpcllm.models.adapters import read_config, read_tensors
from hpcllm.training.decontamination import Text
from hpcllm.training.handwritten import HandwrittenQuestion
from hpcllm.training.retriever.encoder import SentenceEncoder
from hpcllm.training.retriever.learn import RetrieverSettings
from hpcllm.training.retriever.pairs import build_pairs
from hpcllm.training.retriever.question_adapter import (
    banks_of,
    train_question_adapter,
    without_overlaps,
)
from tests.unit.index.tiny_encoder import WORDS, write_encoder
from tests.unit.training.helpers import JOBS, STORAGE, document, make_site

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

DIMENSION = 256
"""Of the hashing embedder: what the encoder has to reach."""


@pytest.fixture
def searcher(tmp_path: Path) -> Searcher:
    site = make_site(tmp_path / "index", document(STORAGE, "storage.md"), document(JOBS, "jobs.md"))
    return site.searcher


def asked(number: int = 1, **fields: Any) -> HandwrittenQuestion:
    values = {
        "id": f"t-{number}",
        "question": "the home disk quota",
        "answer": "50 GB.",
        "source": "docs",
        "path": "storage.md",
        "heading": "",
        "kind": "table_lookup",
        "facts": ("50 GB",),
        **fields,
    }
    return HandwrittenQuestion(**values)


@pytest.fixture
def encoder(tmp_path: Path) -> Callable[[], SentenceEncoder]:
    transformers = pytest.importorskip("transformers")
    folder = write_encoder(tmp_path / "encoder").parent

    def make() -> SentenceEncoder:
        torch.manual_seed(0)
        config = transformers.BertConfig(
            vocab_size=len(WORDS),
            hidden_size=DIMENSION,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
        )
        model = transformers.BertModel(config, add_pooling_layer=False)
        return SentenceEncoder(folder, model=model, bf16=False)

    return make


def train(searcher: Searcher, encoder: SentenceEncoder, output: Path, **options: Any) -> Any:
    questions = options.pop("questions", [asked(n) for n in range(4)])
    settings = {"passages": "frozen", "rank": 2, "alpha": 4, "passes": 3, "batch": 2}
    return train_question_adapter(
        questions,
        [searcher],
        encoder,
        output,
        evaluation=options.pop("evaluation", []),
        embedder=HashEmbedder(),
        settings=RetrieverSettings(**{**settings, "learning_rate": 0.01, **options}),
    )


def test_rows_of_an_answer_and_of_what_stands_beside_it(searcher: Searcher) -> None:
    pairs, _ = build_pairs([asked()], [searcher], negatives=0)
    banks, kept = banks_of([searcher], pairs)
    assert kept == pairs
    bank, rows = banks["docs"], searcher.generation.store.vector_rows()
    chunks = searcher.generation.store.chunks_of("docs", "storage.md")
    answering = [chunk for chunk in chunks if embedding_text(chunk) in pairs[0].positives]
    assert bank.positives["t-1"] == sorted(rows[vector_key(chunk)] for chunk in answering)
    assert bank.positives["t-1"]
    assert not set(bank.positives["t-1"]) & set(bank.neutral["t-1"])
    assert len(bank.vectors) == searcher.generation.manifest.vectors


def test_a_pair_whose_answer_has_no_vector_is_left_out(
    searcher: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs, _ = build_pairs([asked()], [searcher], negatives=0)
    monkeypatch.setattr(type(searcher.generation.store), "vector_rows", lambda _: {})
    assert banks_of([searcher], pairs)[1] == []


def test_what_an_evaluation_asks_is_left_out(searcher: Searcher) -> None:
    questions = [asked(1), asked(2, question="quota")]
    pairs, _ = build_pairs(questions, [searcher], negatives=0)
    evaluation = [Text("e-1", "question", "The home disk quota?")]
    kept, report = without_overlaps(pairs, evaluation, HashEmbedder())
    assert [pair.id for pair in kept] == ["t-2"]
    assert [overlap.example for overlap in report.hits] == ["t-1"]


def test_the_adapter_is_written_as_merging_reads_it(
    searcher: Searcher, encoder: Callable[[], SentenceEncoder], tmp_path: Path
) -> None:
    report = train(searcher, encoder(), tmp_path / "out")
    tensors, config = read_tensors(tmp_path / "out"), read_config(tmp_path / "out")
    name = "base_model.model.encoder.layer.0.attention.self.query.lora_B.weight"
    assert tensors[name].shape == (DIMENSION, 2)
    assert {array.dtype for array in tensors.values()} == {np.dtype(np.float16)}
    assert len(tensors) == 2 * 6
    assert any(np.any(array) for key, array in tensors.items() if "lora_B" in key)
    assert (config["r"], config["lora_alpha"]) == (2, 4)
    written = json.loads((tmp_path / "out" / "training.json").read_text(encoding="utf-8"))
    assert written["best_pass"] == report.best_pass
    assert written["questions_by_source"] == {"docs": 4}
    assert (tmp_path / "out" / "overlap.md").is_file()


def test_it_ends_after_the_pass_asked_for(
    searcher: Searcher, encoder: Callable[[], SentenceEncoder], tmp_path: Path
) -> None:
    report = train(searcher, encoder(), tmp_path / "out", stop_after=2, patience=9)
    assert len(report.losses) == 2


def test_the_same_seed_gives_the_same_adapter(
    searcher: Searcher, encoder: Callable[[], SentenceEncoder], tmp_path: Path
) -> None:
    for name in ("one", "two"):
        train(searcher, encoder(), tmp_path / name)
    one, two = ((tmp_path / n / "adapter_model.safetensors").read_bytes() for n in ("one", "two"))
    assert one == two


def test_questions_without_an_index_are_refused(
    searcher: Searcher, encoder: Callable[[], SentenceEncoder], tmp_path: Path
) -> None:
    with pytest.raises(TrainingError, match=r"page is in no index.*name their workspaces"):
        train(searcher, encoder(), tmp_path / "out", questions=[asked(source="elsewhere")])


def test_settings_that_need_a_new_index_are_refused(
    searcher: Searcher, encoder: Callable[[], SentenceEncoder], tmp_path: Path
) -> None:
    with pytest.raises(TrainingError, match="'shared' would need a new index; expected 'frozen'"):
        train(searcher, encoder(), tmp_path / "out", passages="shared")

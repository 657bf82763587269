"""Trains the adapter that questions are read with, from hand-written questions and their indexes.

Role: puts pairs, the vectors of the indexes and the training loop together, and writes what ships.
Only the reading of questions is learnt; the vectors of passages stay as they are, so that an index
need not be built anew and a site may switch the adapter on and off.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcllm.errors import TrainingError, import_extra
from hpcllm.index.text import embedding_text, vector_key
from hpcllm.models.adapters import CONFIG_FILE, WEIGHTS_FILE
from hpcllm.training.decontamination import Text, find_overlaps
from hpcllm.training.retriever.encoder import ADAPTED_LAYERS, with_adapter
from hpcllm.training.retriever.learn import Bank, RetrieverSettings, learn
from hpcllm.training.retriever.pairs import build_pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from hpcllm.index.embedders.base import Embedder
    from hpcllm.index.search import Searcher
    from hpcllm.training.decontamination import OverlapReport
    from hpcllm.training.handwritten import HandwrittenQuestion
    from hpcllm.training.retriever.encoder import SentenceEncoder
    from hpcllm.training.retriever.learn import LearnReport
    from hpcllm.training.retriever.pairs import Pair

logger = logging.getLogger(__name__)

REPORT_FILE = "training.json"
OVERLAP_FILE = "overlap.md"
BASE = "sentence-transformers/all-MiniLM-L6-v2"

SETTINGS = RetrieverSettings(passages="frozen", passes=4, stop_after=2)
"""Those of the adapter that ships."""


def train_question_adapter(
    questions: Iterable[HandwrittenQuestion],
    searchers: Sequence[Searcher],
    encoder: SentenceEncoder,
    output: Path,
    *,
    evaluation: Sequence[Text],
    embedder: Embedder,
    settings: RetrieverSettings = SETTINGS,
) -> LearnReport:
    """Train the adapter and write it with its report and the overlap with evaluation questions.

    Args:
        questions: what to learn from; those whose page is in no index are left out.
        searchers: one an index; their vectors are what questions learn to come near to.
        encoder: the untrained encoder; its model is adapted in place.
        output: folder to write to.
        evaluation: questions and answers that must not be learnt: what overlaps is left out.
        embedder: compares questions by meaning, for that.
        settings: how; ``passages`` must be ``frozen``.

    Raises:
        TrainingError: nothing is left to learn from, or ``settings`` are for another kind.
        MissingExtraError: torch, peft or safetensors is not installed.
    """
    if settings.passages != "frozen":
        raise TrainingError(
            f"passages = {settings.passages!r} would need a new index; expected 'frozen'"
        )
    pairs, left_out = build_pairs(questions, searchers, negatives=0)
    pairs, overlap = without_overlaps(pairs, evaluation, embedder)
    banks, pairs = banks_of(searchers, pairs)
    if not pairs:
        raise TrainingError(
            f"no question has its answer in an index ({dict(left_out)}): build the indexes of the "
            "sites that the questions are about, and name their workspaces"
        )
    encoder.model = with_adapter(
        encoder.model, rank=settings.rank, alpha=settings.alpha, dropout=settings.dropout
    )
    output.mkdir(parents=True, exist_ok=True)
    (output / OVERLAP_FILE).write_text(overlap.to_markdown(), encoding="utf-8")
    report = learn(
        encoder,
        pairs,
        settings,
        banks=banks,
        on_best=lambda model: save_adapter(model, output, settings),
    )
    _write_report(output, report, settings, pairs, left_out)
    return report


def without_overlaps(
    pairs: Sequence[Pair], evaluation: Sequence[Text], embedder: Embedder
) -> tuple[list[Pair], OverlapReport]:
    """Return the pairs that no evaluation question is too close to, and what was found."""
    asked = [Text(pair.id, "question", pair.question) for pair in pairs]
    report = find_overlaps(asked, evaluation, embedder=embedder)
    hits = {overlap.example for overlap in report.hits}
    return [pair for pair in pairs if pair.id not in hits], report


def banks_of(
    searchers: Sequence[Searcher], pairs: Sequence[Pair]
) -> tuple[dict[str, Bank], list[Pair]]:
    """Return the vectors to learn against, by source, and the pairs whose answers are among them.

    What stands in the same section as an answer without being one counts neither as right nor as
    wrong. A pair whose answer has no vector of its own, such as a copy of another page, is left
    out: it would have nothing to come near to.
    """
    banks: dict[str, Bank] = {}
    for searcher in searchers:
        generation = searcher.generation
        sources = {source for source, _ in generation.store.pages()} - banks.keys()
        rows = generation.store.vector_rows()
        vectors = generation.dense.vectors(np.arange(generation.manifest.vectors))
        bank = Bank(vectors, {}, {})
        for pair in pairs:
            if pair.source in sources:
                right, neutral = _rows_of(pair, searcher, rows)
                bank.positives[pair.id], bank.neutral[pair.id] = right, neutral
        banks |= dict.fromkeys(sources, bank)
    kept = [p for p in pairs if p.source in banks and banks[p.source].positives[p.id]]
    return banks, kept


def _rows_of(pair: Pair, searcher: Searcher, rows: dict[bytes, int]) -> tuple[list[int], list[int]]:
    """Return the rows of the chunks that answer, and of the others of their sections."""
    chunks = searcher.generation.store.chunks_of(pair.source, pair.path)
    answering = [chunk for chunk in chunks if embedding_text(chunk) in pair.positives]
    sections = {chunk.headings for chunk in answering}
    right = {rows[vector_key(chunk)] for chunk in answering if vector_key(chunk) in rows}
    beside = {
        rows[vector_key(chunk)]
        for chunk in chunks
        if chunk.headings in sections and vector_key(chunk) in rows
    }
    return sorted(right), sorted(beside - right)


def save_adapter(model: Any, folder: Path, settings: RetrieverSettings) -> None:
    """Write an adapter; see :func:`write_adapter`."""
    write_adapter(model, folder, rank=settings.rank, alpha=settings.alpha, dropout=settings.dropout)


def write_adapter(model: Any, folder: Path, *, rank: int, alpha: int, dropout: float) -> None:
    """Write an adapter in peft's form, in float16, with only what merging needs as settings."""
    peft = import_extra("peft", "train")
    safetensors = import_extra("safetensors.numpy", "train")
    tensors = {
        name: values.detach().cpu().numpy().astype(np.float16)
        for name, values in sorted(peft.get_peft_model_state_dict(model).items())
    }
    config = {
        "base_model_name_or_path": BASE,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "lora_alpha": alpha,
        "lora_dropout": dropout,
        "peft_type": "LORA",
        "r": rank,
        "target_modules": sorted(ADAPTED_LAYERS),
        "use_dora": False,
        "use_rslora": False,
    }
    safetensors.save_file(tensors, folder / WEIGHTS_FILE)
    (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    logger.info("wrote %s", folder / WEIGHTS_FILE)


def _write_report(
    output: Path,
    report: LearnReport,
    settings: RetrieverSettings,
    pairs: Sequence[Pair],
    left_out: Any,
) -> None:
    by_source: dict[str, int] = {}
    for pair in pairs:
        by_source[pair.source] = by_source.get(pair.source, 0) + 1
    content = {
        "settings": settings.model_dump(),
        "questions": len(pairs),
        "held_out": sum(pair.held_out for pair in pairs),
        "questions_by_source": dict(sorted(by_source.items())),
        "left_out": dict(left_out),
        **asdict(report),
    }
    (output / REPORT_FILE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

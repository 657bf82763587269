from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from hpcllm.training.retriever.learn import Bank, RetrieverSettings, learn
from hpcllm.training.retriever.pairs import Pair

torch = pytest.importorskip("torch")

WORDS = ("disk", "queue", "quota", "partition", "login", "ssh")


class WordEncoder:
    """Reads texts as sums of one trainable row for each known word."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.EmbeddingBag(len(WORDS), 8, mode="sum")

    def forward(self, texts: Sequence[str]) -> Any:
        rows = [torch.tensor([WORDS.index(w) for w in text.split()]) for text in texts]
        vectors = torch.stack([self.model(row[None])[0] for row in rows])
        return torch.nn.functional.normalize(vectors, dim=1)


def pairs() -> list[Pair]:
    """Each question asks with a synonym; pages 1 to 40 put some of them apart."""
    found = []
    for number in range(40):
        for asked, held in (("disk", "quota"), ("queue", "partition"), ("login", "ssh")):
            others = tuple(w for w in ("quota", "partition", "ssh") if w != held)
            found.append(
                Pair(f"{number}-{asked}", asked, held, "docs", f"{number}", "en", (held,), others)
            )
    return found


def test_questions_come_nearer_to_what_answers_them() -> None:
    encoder = WordEncoder()
    kept: list[Any] = []
    settings = RetrieverSettings(learning_rate=0.05, passes=3, batch=6, patience=3)
    report = learn(encoder, pairs(), settings, on_best=kept.append)
    assert report.held_out_losses[-1] < report.held_out_losses[0] / 2
    assert report.best_pass > 0
    assert len(kept) >= 1
    with torch.no_grad():
        cosines = encoder.forward(["disk"]) @ encoder.forward(["quota", "partition", "ssh"]).T
    assert int(cosines.argmax()) == 0


def test_the_same_seed_gives_the_same_losses() -> None:
    settings = RetrieverSettings(learning_rate=0.05, passes=2, batch=6)
    first, second = (learn(WordEncoder(), pairs(), settings) for _ in range(2))
    assert first.losses == second.losses
    assert first.held_out_losses == second.held_out_losses


def test_it_stops_when_pages_kept_apart_do_not_gain() -> None:
    settings = RetrieverSettings(learning_rate=1e-12, passes=9, batch=6, patience=2, negatives=0)
    report = learn(WordEncoder(), pairs(), settings)
    assert len(report.losses) < 9
    assert len(report.losses) - report.best_pass == 2


def frozen_bank(neutral: list[int]) -> tuple[list[Pair], Bank]:
    vectors = np.eye(8, dtype=np.float32)[:3]
    rows = {"quota": 0, "partition": 1, "ssh": 2}
    made = pairs()
    return made, Bank(
        vectors,
        {pair.id: [rows[pair.positives[0]]] for pair in made},
        {pair.id: neutral for pair in made},
    )


def test_frozen_passages_are_rows_of_the_index() -> None:
    made, bank = frozen_bank([])
    before = bank.vectors.copy()
    encoder = WordEncoder()
    settings = RetrieverSettings(passages="frozen", learning_rate=0.05, passes=3, batch=6)
    report = learn(encoder, made, settings, banks={"docs": bank})
    assert report.held_out_losses[-1] < report.held_out_losses[0]
    assert np.array_equal(bank.vectors, before)
    with torch.no_grad():
        assert int(encoder.forward(["login"])[0, :3].argmax()) == 2


def test_neutral_rows_cost_nothing() -> None:
    made, bank = frozen_bank([])
    disks = [pair for pair in made if pair.question == "disk"]
    alone = Bank(bank.vectors, bank.positives, {pair.id: [1, 2] for pair in disks})
    settings = RetrieverSettings(passages="frozen", passes=1, batch=6)
    report = learn(WordEncoder(), disks, settings, banks={"docs": alone})
    assert report.losses[0] == pytest.approx(0.0, abs=1e-4)


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ValidationError, match="learning_rat"):
        RetrieverSettings.model_validate({"learning_rat": 1e-3})

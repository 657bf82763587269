"""Lists for the ranker: which pieces count as answers, and which stand beside them."""

from __future__ import annotations

from typing import Any

from hpcllm.records import Passage
from hpcllm.training.retriever.ranker_lists import build_lists, some_of_each_source
from tests.unit.assistant.helpers import passage

QUOTA = (
    "Home folders hold 50 GB. Project folders hold 1 TB. Scratch is emptied after 30 days. "
    "Backups are kept for two weeks. Quotas are shown by the command quota. "
    "Ask the desk for more room. Files of former users are archived."
)


def row(**changes: Any) -> dict[str, Any]:
    given = {
        "id": "a1",
        "kind": "hand_how_to",
        "source": "handbook",
        "path": "storage/quota.md",
        "question": "how much fits into home?",
        "completion": "50 GB in home folders. [1]",
    }
    return given | changes


def search(question: str) -> list[Passage]:
    return [passage(QUOTA, path="storage/quota.md")]


def test_the_piece_that_holds_the_answer_comes_first() -> None:
    (found,) = build_lists([row()], {"handbook": search}, seed=1)
    assert found.answered
    assert found.pieces[0].text == "Home folders hold 50 GB."
    assert found.shares[0] > 0.9 and max(found.shares[1:]) < 0.4
    assert found.pieces[0].title == passage("").title


def test_an_answer_on_another_page_counts_less() -> None:
    (here,) = build_lists([row()], {"handbook": search}, seed=1)
    (there,) = build_lists([row(path="elsewhere.md")], {"handbook": search}, seed=1)
    assert there.shares[0] == round(here.shares[0] * 0.75, 3)


def test_a_refusal_gives_pieces_none_of_which_answers() -> None:
    refusal = row(kind="refusal_near", completion="The documentation does not say.")
    (found,) = build_lists([refusal], {"handbook": search}, seed=1)
    assert not found.answered and set(found.shares) == {0.0} and len(found.pieces) == 5


def test_what_cannot_be_learnt_from_is_left_out() -> None:
    rows = [
        row(completion="Nothing of this kind stands anywhere."),
        row(kind="hand_follow_up"),
        row(source="unknown"),
    ]
    assert build_lists(rows, {"handbook": search}, seed=1) == []


def test_the_same_seed_gives_the_same_lists() -> None:
    first = build_lists([row()], {"handbook": search}, seed=3)
    assert first == build_lists([row()], {"handbook": search}, seed=3)


def test_mined_examples_are_capped_by_source() -> None:
    rows = [row(kind="option", id=str(n)) for n in range(3)]
    rows += [row(kind="refusal_near", id="r"), row(source="other", id="o")]
    kept = some_of_each_source(rows, most_mined=2, leave_out={"other"})
    assert [r["id"] for r in kept] == ["0", "1", "r"]

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hpcllm.errors import GenerationError
from hpcllm.index.embedders.hashing import HashEmbedder
from hpcllm.models.backends.scripted import Fault, ScriptedBackend
from hpcllm.training.records import Seed
from hpcllm.training.teacher import filtered, teach, without_repeats
from tests.unit.training.helpers import document, make_site, sections

PAGE = """\
# Archive

## Restore

Files in the archive come back within 6 hours after `arc restore FILE`. Only the owner of a file can
ask for it; others get the message that they have no right. Every restore is noted in the log.
"""


def made(question: str, answer: str) -> Seed | None:
    (section,) = sections(PAGE)
    return filtered({"question": question, "answer": answer}, section, document(PAGE))


def test_an_answer_whose_facts_stand_in_the_section_is_kept() -> None:
    seed = made("how do I get a file back?", "Run `arc restore FILE`; it takes up to 6 hours.")
    assert seed is not None
    assert seed.kind == "taught_how_to"
    assert "arc restore FILE" in seed.statements[0].quote


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("how do I get a file back?", "Run `arc recall FILE`."),
        ("how long does it take?", "Within 9 hours."),
        ("is it 6 hours after `arc restore FILE`?", "6 hours after `arc restore FILE`."),
        ("who can ask for it?", "The owner."),
        ("how long?", "6 hours " + "and so on " * 40),
        ("", "6 hours"),
    ],
)
def test_what_cannot_be_trusted_is_left_out(question: str, answer: str) -> None:
    assert made(question, answer) is None


def test_a_teacher_is_asked_section_by_section_until_enough_is_kept(tmp_path: Path) -> None:
    site = make_site(tmp_path / "index", document(PAGE))
    reply = "Here it is:\n" + json.dumps(
        [
            {"question": "restore from archive", "answer": "`arc restore FILE`", "kind": "keyword"},
            {"question": "wrong", "answer": "`rm -rf x`"},
        ]
    )
    (seed,) = teach(ScriptedBackend([reply]), [site], limit=5, seed=1)
    assert (seed.question, seed.kind) == ("restore from archive", "taught_keyword")


def test_a_reply_that_is_no_list_gives_nothing(tmp_path: Path) -> None:
    site = make_site(tmp_path / "index", document(PAGE))
    assert teach(ScriptedBackend(["[not json]"]), [site], limit=5, seed=1) == []


def test_a_teacher_that_keeps_failing_is_given_up(tmp_path: Path) -> None:
    pages = [document(PAGE.replace("Archive", f"Archive {n}"), f"{n}.md") for n in range(6)]
    site = make_site(tmp_path / "index", *pages)
    backend = ScriptedBackend([Fault(GenerationError("down"))])
    with pytest.raises(GenerationError, match="down"):
        teach(backend, [site], limit=5, seed=1)


def test_questions_that_say_the_same_are_kept_once() -> None:
    first = made("how do I get a file back?", "`arc restore FILE`")
    assert first is not None
    same = replace(first, question="How do I get a file back ?")
    turned = replace(first, question="a file back how do I get?")
    other = replace(first, question="restore time limits")
    assert [s.question for s in without_repeats([first, same, other], None)] == [
        first.question,
        other.question,
    ]
    assert without_repeats([first, turned, other], HashEmbedder()) == [first, other]

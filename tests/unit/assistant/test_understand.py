from __future__ import annotations

import pytest

from hpcllm.assistant.understand import clusters_in, understand
from hpcllm.records import Turn

ASKED = Turn("user", "What is the maximum walltime in the gpu partition on Meridian?")
SAID = Turn("assistant", "24 hours [1].")
CLUSTERS = ("meridian", "halley")


@pytest.mark.parametrize(
    "question", ["and for gpu-long?", "Can I extend it?", "how much memory", "e quanto a halley?"]
)
def test_a_follow_up_takes_over_what_the_question_before_named(question: str) -> None:
    found = understand(question, [ASKED, SAID])
    assert found.is_follow_up
    assert found.standalone.startswith(question)
    assert "walltime" in found.standalone
    assert "the" not in found.standalone.split("(")[1].split()


def test_a_question_that_stands_by_itself_is_left_alone() -> None:
    question = "How do I copy large files from my laptop to project storage?"
    found = understand(question, [ASKED, SAID])
    assert (found.standalone, found.is_follow_up) == (question, False)


def test_a_first_question_is_never_a_follow_up() -> None:
    assert understand("and it?").standalone == "and it?"


def test_words_the_follow_up_has_are_not_repeated() -> None:
    found = understand("and the walltime there?", [ASKED])
    assert found.standalone.lower().count("walltime") == 1


def test_a_follow_up_of_a_follow_up_reaches_back_to_the_subject() -> None:
    history = [ASKED, SAID, Turn("user", "and for gpu-long?"), Turn("assistant", "7 days [1].")]
    assert "walltime" in understand("and the memory?", history).standalone


def test_another_cluster_replaces_the_one_before() -> None:
    found = understand("and on Halley?", [ASKED, SAID], cluster="meridian", clusters=CLUSTERS)
    assert found.cluster == "halley"
    assert "Meridian" not in found.standalone


def test_a_follow_up_stays_on_the_cluster_of_the_question_before() -> None:
    assert understand("and for gpu-long?", [ASKED], clusters=CLUSTERS).cluster == "meridian"


def test_two_clusters_in_one_question_search_all_pages() -> None:
    question = "Is the quota larger on Halley or on Meridian?"
    assert understand(question, cluster="halley", clusters=CLUSTERS).cluster is None


def test_the_chosen_cluster_holds_where_none_is_named() -> None:
    assert understand("What is the quota?", cluster="halley", clusters=CLUSTERS).cluster == "halley"


def test_cluster_names_match_as_whole_words() -> None:
    assert clusters_in("the HALLEY login", CLUSTERS) == ["halley"]
    assert clusters_in("halleys comet", CLUSTERS) == []


def test_short_follow_ups_keep_the_language_of_the_conversation() -> None:
    history = [Turn("user", "Qual é o tempo máximo de um job?")]
    assert understand("gpu-long?", history).language == "pt"

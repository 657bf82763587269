from __future__ import annotations

import re
from dataclasses import replace
from html import escape
from typing import Any

import pytest

from hpcllm.records import Check, Citation
from hpcllm.server.store import Store
from hpcllm.server.stored import StoredAnswer
from hpcllm.ui.texts import Texts
from hpcllm.ui.tickets import MAIL_CHARACTERS, mail_link, ticket_text
from hpcllm.ui.turns import Frame, answer_turn, error_turn, live_turn, question_html
from tests.unit.server.helpers import QUOTA, answer
from tests.unit.ui.test_rendering import read

ENGLISH = Texts("en")


def stored(store: Store, **changes: Any) -> StoredAnswer:
    return store.record_answer(answer(**changes), channel="web")


class TestAnswer:
    def test_shows_text_checks_and_sources(self, store: Store, frame: Frame) -> None:
        html = answer_turn(stored(store), frame, position=0)
        assert "Checked against the sources: citations" in html
        assert 'href="#source-aaaaaaaaaaaaaaaa-1"' in html
        assert 'id="source-aaaaaaaaaaaaaaaa-1"' in html
        assert QUOTA in html
        assert 'href="https://d.example/s#quota"' in html
        assert 'href="../../pages/docs/storage.md#quota"' in html
        assert "0.01 s" in html

    def test_says_what_did_not_hold(self, store: Store, frame: Frame) -> None:
        checks = (Check("citations", True), Check("commands", False, "`--gpu` is not in [1]"))
        html = answer_turn(stored(store, checks=checks), frame)
        assert "Did not hold: commands and options" in html
        assert "`--gpu` is not in [1]" in html

    def test_a_check_of_another_part_is_shown_by_its_name(self, store: Store, frame: Frame) -> None:
        html = answer_turn(stored(store, checks=(Check("job_script", True),)), frame)
        assert "Checked against the sources: job_script" in html

    def test_says_why_it_was_extracted(self, store: Store, frame: Frame) -> None:
        reason = (
            "the model's draft was dropped because a command or option in it is not on the pages "
            "that it cites (`--foo`)"
        )
        html = answer_turn(stored(store, model="extractive", fallback=reason), frame)
        assert (
            "The model&#x27;s draft was dropped because a command or option in it is not on the "
            "pages; this answer quotes the pages word for word." in html
        )
        assert escape(reason) in html
        html = answer_turn(store.answer("a" * 16), replace(frame, texts=Texts("pt")))
        assert "descartado porque um comando ou opção dele não está nas páginas; esta" in html

    @pytest.mark.parametrize(
        ("reason", "said"),
        [
            ("the draft failed its check of cited: x", "a statement in it had no source;"),
            ("the model needed more than 20 s", "The model took too long;"),
            ("the model is busy: 3 are waiting", "The model is busy;"),
            ("smollm2 cannot be used: no file", "The model is not available;"),
        ],
    )
    def test_every_reason_is_a_sentence(
        self, store: Store, frame: Frame, reason: str, said: str
    ) -> None:
        html = answer_turn(stored(store, model="extractive", fallback=reason), frame)
        assert f"{said} this answer quotes the pages" in html

    @pytest.mark.parametrize(
        ("notice", "badges"),
        [
            ("From a ticket, 2026-03-01", ["From a ticket, 2026-03-01"]),
            ("From a ticket", ["From a ticket"]),
            ("From a ticket, 2026-03-01. Halley is gone.", ["From a ticket, 2026-03-01", "Out of"]),
            ("Halley is gone.", ["Out of date"]),
        ],
    )
    def test_a_source_from_a_ticket_says_so(
        self, store: Store, frame: Frame, notice: str, badges: list[str]
    ) -> None:
        cited = Citation(1, 1, "desk", "t/1", "Quota", None, (), "50 GB", notice)
        html = answer_turn(stored(store, citations=(cited,)), frame)
        shown = re.findall(r'<em class="hl-badge[^>]*>([^<]*)', html)
        assert [a[: len(b)] for a, b in zip(shown, badges, strict=True)] == badges
        assert ('<p class="hl-notice">Halley is gone.</p>' in html) == ("Halley" in notice)
        html = answer_turn(store.answer("a" * 16), replace(frame, texts=Texts("pt")))
        assert ("De um chamado" in html) == ("ticket" in notice)

    def test_marks_pages_that_are_out_of_date(self, store: Store, frame: Frame) -> None:
        old = Citation(
            1, 1, "docs", "old.md", "Old", None, ("Old",), "Use `qsub`.", "Halley is gone."
        )
        html = answer_turn(stored(store, citations=(old,)), frame)
        assert "Out of date" in html and "Halley is gone." in html
        assert "Open this section" not in html

    def test_links_to_unknown_hosts_are_left_out(self, store: Store, frame: Frame) -> None:
        html = answer_turn(stored(store), replace(frame, known_hosts=frozenset()))
        assert "https://d.example/s#quota" not in html.split('data-copy="')[0]

    def test_only_a_conversation_can_be_edited(self, store: Store, frame: Frame) -> None:
        recorded = stored(store)
        assert 'data-do="edit"' in answer_turn(recorded, frame, position=4)
        assert 'data-position="4"' in answer_turn(recorded, frame, position=4)
        shared = answer_turn(recorded, frame)
        assert 'data-do="edit"' not in shared and 'data-do="again"' not in shared

    def test_shows_what_this_reader_said_before(self, store: Store, frame: Frame) -> None:
        recorded = stored(store)
        vote = store.give_feedback("a" * 16, "down", reason="outdated", comment="see <new>")
        html = answer_turn(recorded, frame, vote=vote)
        assert 'data-do="down" aria-pressed="true"' in html
        assert 'value="outdated" checked' in html and "see &lt;new&gt;</textarea>" in html

    def test_what_everybody_wrote_is_escaped(self, store: Store, frame: Frame) -> None:
        bad = "\"><script>x</script>'"
        cited = Citation(1, 1, "docs", "a.md", bad, None, (bad,), bad, bad)
        html = answer_turn(
            stored(store, question=bad, text=f"{bad} [1]", citations=(cited,), fallback=bad),
            frame,
            position=0,
        )
        assert "script" not in read(html).tags


class TestAbstention:
    def test_shows_the_nearest_pages_and_drafts_a_ticket(self, store: Store, frame: Frame) -> None:
        html = answer_turn(stored(store, abstained=True, checks=()), frame)
        assert "Not documented" in html and "Nearest pages" in html
        assert "Draft a ticket" in html and "mailto:help@hpc.example?subject=" in html
        assert "Checked against" not in html

    def test_the_ticket_holds_what_support_needs_and_no_secret(self, store: Store) -> None:
        question = "Why? token=ghp_0123456789abcdefABCDEF0123456789abcd me@uni.example /home/ada1/x"
        recorded = stored(store, question=question, standalone_question="Why is it slow?")
        draft = ticket_text(replace(recorded, question=question, cluster="meridian"), ENGLISH)
        assert "Cluster: meridian" in draft and "Searched for:\nWhy is it slow?" in draft
        assert "- Storage (storage.md)" in draft and "Receipt: aaaaaaaaaaaaaaaa" in draft
        assert "ghp_" not in draft and "me@uni" not in draft and "ada1" not in draft

    def test_mail_links_are_short_enough_and_made_for_addresses_alone(self, store: Store) -> None:
        recorded = stored(store)
        long = mail_link("Ask help@hpc.example.", recorded, "x" * 5000, ENGLISH)
        assert long is not None and len(long) < MAIL_CHARACTERS
        assert long.startswith("mailto:help@hpc.example?subject=")
        assert mail_link("https://tickets.hpc.example/", recorded, "x", ENGLISH) is None


class TestProgress:
    def test_an_open_fence_is_closed_while_it_is_written(self) -> None:
        html = live_turn("q", ENGLISH, status="Writing", text="Run:\n```bash\nsbatch")
        assert "<code>sbatch\n</code>" in html and "Writing" in html

    def test_a_draft_that_may_be_replaced_looks_like_one(self) -> None:
        assert "hl-draft" in live_turn("q", ENGLISH, status="", is_draft=True)
        assert "hl-draft" not in live_turn("q", ENGLISH, status="")

    def test_an_error_is_told_at_once_to_screen_readers(self) -> None:
        html = error_turn("<q>", ENGLISH, "Try again in 3 seconds")
        assert 'role="alert"' in html and "Try again in 3 seconds" in html and "<q>" not in html

    def test_a_long_question_is_folded(self) -> None:
        assert "<details" in question_html("line\n" * 400, ENGLISH)
        assert "<details" not in question_html("short", ENGLISH)

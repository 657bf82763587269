from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from hpcllm.errors import ConfigError, HpcLlmError, StoreError
from hpcllm.records import Turn
from hpcllm.server.errors import NotFoundError
from hpcllm.server.store import Store
from tests.unit.server.helpers import QUESTION, RIGHT, answer

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def begin(store: Store, owner: str = "ada") -> str:
    return store.start_conversation("web", owner=owner, cluster="meridian").id


class TestConversations:
    def test_an_answer_appends_question_and_answer(self, store: Store) -> None:
        conversation = begin(store)
        store.record_answer(answer("a" * 16), channel="web", conversation_id=conversation)
        store.record_answer(
            answer("b" * 16, question="And scratch?", text="1 TB [1]."),
            channel="web",
            conversation_id=conversation,
        )
        messages = store.messages(conversation, owner="ada")
        assert [(m.position, m.role, m.text, m.receipt_id) for m in messages] == [
            (0, "user", QUESTION, None),
            (1, "assistant", RIGHT, "a" * 16),
            (2, "user", "And scratch?", None),
            (3, "assistant", "1 TB [1].", "b" * 16),
        ]
        assert store.history(conversation, limit=2) == (
            Turn("user", "And scratch?"),
            Turn("assistant", "1 TB [1]."),
        )
        assert store.history(conversation, limit=0) == ()

    def test_the_title_is_the_first_question(self, store: Store) -> None:
        conversation = begin(store)
        assert store.conversations("ada") == []  # nothing was said yet
        store.record_answer(answer(), channel="web", conversation_id=conversation)
        store.record_answer(
            answer("b" * 16, question="Other"), channel="web", conversation_id=conversation
        )
        listed = store.conversations("ada")
        assert [(c.id, c.title, c.cluster) for c in listed] == [
            (conversation, QUESTION, "meridian")
        ]

    def test_the_latest_conversation_comes_first(self, store: Store) -> None:
        first, second = begin(store), begin(store)
        for number, conversation in enumerate((first, second, first)):
            store.record_answer(
                answer(f"{number:016x}"), channel="web", conversation_id=conversation
            )
        assert [c.id for c in store.conversations("ada")] == [first, second]
        assert [c.id for c in store.conversations("ada", limit=1, offset=1)] == [second]
        assert store.conversations("bob") == []

    def test_somebody_elses_is_not_found(self, store: Store) -> None:
        conversation = begin(store)
        for use in (store.conversation, store.messages, store.delete_conversation):
            with pytest.raises(NotFoundError, match="begin a new one"):
                use(conversation, owner="eve")
        assert store.conversation(conversation).owner == "ada"

    def test_an_external_id_finds_the_same_one_again(self, store: Store) -> None:
        made = store.start_conversation("slack", external_id="C1/17.1", owner="U1")
        again = store.start_conversation("slack", external_id="C1/17.1", owner="U2")
        assert again == made
        assert store.find_conversation("slack", "C1/17.1") == made
        assert store.find_conversation("slack", "C1/17.2") is None

    def test_rewinding_drops_messages_and_keeps_answers(self, store: Store) -> None:
        conversation = begin(store)
        for number in range(2):
            store.record_answer(
                answer(f"{number:016x}"), channel="web", conversation_id=conversation
            )
        store.rewind(conversation, 2)
        assert [m.receipt_id for m in store.messages(conversation)] == [None, "0" * 16]
        assert store.answer(f"{1:016x}").text == RIGHT
        store.record_answer(answer("f" * 16), channel="web", conversation_id=conversation)
        assert [m.position for m in store.messages(conversation)] == [0, 1, 2, 3]

    def test_deleting_takes_everything_along(self, store: Store) -> None:
        conversation = begin(store)
        store.record_answer(answer(), channel="web", conversation_id=conversation)
        store.give_feedback("a" * 16, "down")
        store.delete_conversation(conversation, owner="ada")
        with store.engine.connect() as connection:
            for table in ("messages", "answers", "citations", "feedback", "gaps"):
                assert connection.scalar(text(f"SELECT count(*) FROM {table}")) == 0, table

    def test_the_cluster_can_be_changed(self, store: Store) -> None:
        conversation = begin(store)
        store.set_cluster(conversation, None)
        assert store.conversation(conversation).cluster is None

    def test_an_unknown_channel_is_named_with_the_known_ones(self, store: Store) -> None:
        with pytest.raises(HpcLlmError, match=r"channel is 'wb'.*'slack'.*did you mean 'web'"):
            store.start_conversation("wb")

    def test_a_name_that_is_too_long_is_refused(self, store: Store) -> None:
        with pytest.raises(HpcLlmError, match="owner has 201 characters, at most 200"):
            store.start_conversation("web", owner="x" * 201)


class TestAnswers:
    def test_everything_comes_back(self, store: Store) -> None:
        given = answer(fallback="the model is busy")
        store.record_answer(given, channel="api", cluster="meridian")
        stored = store.answer("a" * 16)
        assert stored.citations == [citation.to_json() for citation in given.citations]
        assert stored.checks == [{"name": "citations", "passed": True, "detail": "1 of 1"}]
        assert stored.passages[0]["path"] == "storage.md"
        assert "text" not in stored.passages[0]
        assert stored.receipt["chunk_ids"] == ["c" * 32]
        assert (stored.timings_ms, stored.tokens) == (
            {"total": 12.3},
            {"prompt": 30, "generated": 9},
        )
        assert (stored.cluster, stored.fallback) == ("meridian", "the model is busy")
        assert stored.created.tzinfo is UTC
        assert store.answers() == [stored]

    def test_secrets_and_personal_data_are_redacted(self, store: Store) -> None:
        asked = "I am ada@example.org, my password is s3cret-pw! and it fails"
        store.record_answer(
            answer(
                question=asked,
                standalone_question=asked,
                text="Write to help@hpc.example, not token=9f8a7b6c5d4e3f2a1b0c",
            ),
            channel="api",
        )
        stored = store.answer("a" * 16)
        for written in (stored.question, stored.standalone_question):
            assert "ada@" not in written
            assert "s3cret" not in written
        assert "help@hpc.example" in stored.text  # documentation names it on purpose
        assert "9f8a7b6c" not in stored.text
        with store.engine.connect() as connection:
            assert "s3cret" not in str(connection.execute(text("SELECT * FROM answers")).all())

    def test_one_without_receipt_is_refused(self, store: Store) -> None:
        with pytest.raises(HpcLlmError, match="without a receipt"):
            store.record_answer(answer(receipt=None), channel="api")

    def test_an_unknown_conversation_records_nothing(self, store: Store) -> None:
        with pytest.raises(NotFoundError, match="no conversation 'nope'"):
            store.record_answer(answer(), channel="web", conversation_id="nope")
        assert store.answers() == []

    def test_an_unknown_receipt_is_not_found(self, store: Store) -> None:
        with pytest.raises(NotFoundError, match="no answer with receipt 'beef'"):
            store.answer("beef")


class TestFeedbackAndGaps:
    def test_a_later_judgement_replaces_the_earlier_one(self, store: Store) -> None:
        store.record_answer(answer(), channel="web")
        store.give_feedback("a" * 16, "down", reason="wrong", comment="mail me@x.org", author="u1")
        store.give_feedback("a" * 16, "up", author="u1")
        store.give_feedback("a" * 16, "down", author="u2")
        found = store.feedback("a" * 16)
        assert [(f.author, f.rating, f.reason) for f in found] == [
            ("u2", "down", ""),
            ("u1", "up", ""),
        ]

    def test_comments_are_redacted_and_cut(self, store: Store) -> None:
        store.record_answer(answer(), channel="web")
        given = store.give_feedback("a" * 16, "up", comment="me@example.org " + "x" * 5000)
        assert given.comment.startswith("[redacted: e-mail address] xxx")
        assert len(given.comment) < 4100

    def test_abstaining_opens_a_gap(self, store: Store) -> None:
        store.record_answer(answer(abstained=True), channel="slack")
        store.record_answer(answer("b" * 16), channel="slack")
        (gap,) = store.gaps()
        assert (gap.kind, gap.state, gap.answer.question) == ("unanswered", "open", QUESTION)

    def test_a_vote_down_opens_a_gap_until_it_is_taken_back(self, store: Store) -> None:
        store.record_answer(answer(), channel="web")
        for author in ("u1", "u2"):
            store.give_feedback("a" * 16, "down", reason="outdated", author=author)
        (gap,) = store.gaps(kind="voted_down")
        assert [f.author for f in gap.feedback] == ["u2", "u1"]
        store.give_feedback("a" * 16, "up", author="u1")
        assert [f.author for f in store.gaps()[0].feedback] == ["u2"]
        store.give_feedback("a" * 16, "up", author="u2")
        assert store.gaps() == []

    def test_an_unanswered_question_stays_a_gap_when_votes_change(self, store: Store) -> None:
        store.record_answer(answer(abstained=True), channel="web")
        store.give_feedback("a" * 16, "down")
        store.give_feedback("a" * 16, "up")
        assert [gap.kind for gap in store.gaps()] == ["unanswered"]

    def test_settled_gaps_are_listed_apart(self, store: Store) -> None:
        store.record_answer(answer(abstained=True), channel="web")
        assert store.settle_gaps([store.gaps()[0].id, 999], "written", note="quota.md") == 1
        assert store.gaps() == []
        assert [(g.state, g.note) for g in store.gaps(state=None)] == [("written", "quota.md")]
        assert store.gaps(state="written", since=datetime.now(UTC) + timedelta(days=1)) == []

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("a" * 16, "meh"), "rating is 'meh'; expected 'up', 'down'"),
            (("b" * 16, "up"), "no answer with receipt"),
        ],
    )
    def test_what_cannot_be_judged(
        self, store: Store, arguments: tuple[str, str], message: str
    ) -> None:
        store.record_answer(answer(), channel="web")
        with pytest.raises(HpcLlmError, match=message):
            store.give_feedback(*arguments)

    def test_unknown_reasons_and_states(self, store: Store) -> None:
        store.record_answer(answer(), channel="web")
        with pytest.raises(HpcLlmError, match="did you mean 'outdated'"):
            store.give_feedback("a" * 16, "down", reason="outdatd")
        with pytest.raises(HpcLlmError, match="state is 'closed'"):
            store.settle_gaps([1], "closed")


class TestDeliveries:
    def test_an_event_is_taken_on_once(self, store: Store) -> None:
        assert store.claim("slack:Ev1", {"text": "hi"})
        assert not store.claim("slack:Ev1", {"text": "hi"})
        assert [(d.key, d.payload) for d in store.unfinished("slack:")] == [
            ("slack:Ev1", {"text": "hi"})
        ]
        store.finish("slack:Ev1")
        assert store.unfinished("slack:") == []
        assert not store.claim("slack:Ev1", {})

    def test_only_one_of_many_threads_takes_it_on(self, store: Store) -> None:
        with ThreadPoolExecutor(8) as pool:
            claims = list(pool.map(lambda _: store.claim("slack:Ev2", {}), range(24)))
        assert claims.count(True) == 1

    def test_prefixes_are_no_patterns(self, store: Store) -> None:
        store.claim("slackXEv1", {})
        assert store.unfinished("slack_") == []

    def test_handled_events_are_forgotten_and_open_ones_are_not(self, store: Store) -> None:
        for key in ("slack:done", "slack-message:done", "slack:open", "other:done"):
            store.claim(key, {})
            if key != "slack:open":
                store.finish(key)
        assert store.forget_finished("slack", before=LONG_AGO) == 0
        assert store.forget_finished("slack", before=datetime.now(UTC)) == 2
        assert store.claim("slack:done", {})
        assert not store.claim("slack:open", {})
        assert not store.claim("other:done", {})

    def test_a_key_is_needed(self, store: Store) -> None:
        with pytest.raises(HpcLlmError, match="must name the event"):
            store.claim("", {})


class TestStatistics:
    def fill(self, store: Store) -> None:
        conversation = begin(store)
        store.record_answer(answer("1" * 16), channel="web", conversation_id=conversation)
        store.record_answer(answer("2" * 16, fallback="busy", model="extractive"), channel="api")
        store.record_answer(answer("3" * 16, abstained=True, citations=()), channel="api")
        store.give_feedback("1" * 16, "up", author="u1")
        store.give_feedback("1" * 16, "down", reason="wrong", author="u2")
        store.give_feedback("1" * 16, "down", reason="outdated", author="u3")

    def test_totals(self, store: Store) -> None:
        self.fill(store)
        totals = store.statistics.totals(LONG_AGO)
        assert (totals.answers, totals.abstained, totals.fallbacks) == (3, 1, 1)
        assert (totals.up, totals.down, totals.conversations) == (1, 2, 1)
        assert totals.by_reason == {"wrong": 1, "outdated": 1}
        assert totals.by_channel == {"web": 1, "api": 2}
        assert totals.by_model == {"scripted": 2, "extractive": 1}

    def test_days(self, store: Store) -> None:
        self.fill(store)
        (day,) = store.statistics.daily(LONG_AGO)
        assert (day.answers, day.abstained, day.down) == (3, 1, 1)
        assert day.day == datetime.now(UTC).date().isoformat()

    def test_cited_pages(self, store: Store) -> None:
        self.fill(store)
        (page,) = store.statistics.cited_pages(LONG_AGO)
        assert (page.path, page.url, page.citations, page.down) == (
            "storage.md",
            "https://d.example/s",
            2,
            1,
        )
        assert page.last.tzinfo is UTC

    def test_pages_that_an_abstention_names_are_not_cited(self, store: Store) -> None:
        store.record_answer(answer("4" * 16, abstained=True), channel="web")
        assert store.statistics.cited_pages(LONG_AGO) == []

    def test_an_empty_store(self, store: Store) -> None:
        totals = store.statistics.totals(LONG_AGO)
        assert (totals.answers, totals.abstained, totals.by_model) == (0, 0, {})
        assert store.statistics.daily(LONG_AGO) == []
        assert store.statistics.cited_pages(LONG_AGO) == []


class TestForgetting:
    def test_only_what_is_old_goes(self, store: Store) -> None:
        conversation = begin(store)
        store.record_answer(answer("1" * 16), channel="web", conversation_id=conversation)
        store.record_answer(answer("2" * 16), channel="api")
        store.claim("slack:old", {})
        with store.engine.begin() as connection:
            for statement in (
                "UPDATE answers SET created = '2001-01-01 00:00:00' WHERE id LIKE '1%'",
                "UPDATE conversations SET updated = '2001-01-01 00:00:00'",
                "UPDATE deliveries SET created = '2001-01-01 00:00:00'",
            ):
                connection.execute(text(statement))
        assert store.forget(days=30) == 1
        assert [a.receipt_id for a in store.answers()] == ["2" * 16]
        assert store.unfinished("slack:") == []
        with pytest.raises(NotFoundError):
            store.conversation(conversation)


class TestOpening:
    def test_the_file_is_private(self, store: Store, tmp_path: Path) -> None:
        mode = (tmp_path / "var" / "hpcllm.db").stat().st_mode
        assert stat.S_IMODE(mode) == 0o600

    def test_it_can_be_opened_again_and_by_two(self, store: Store, tmp_path: Path) -> None:
        store.record_answer(answer(), channel="api")
        with Store.open(tmp_path / "var" / "hpcllm.db") as second:
            assert second.answer("a" * 16).text == RIGHT
            second.record_answer(answer("b" * 16), channel="slack")
        assert len(store.answers()) == 2

    def test_many_writers_wait_for_each_other(self, store: Store) -> None:
        conversation = begin(store)

        def write(number: int) -> Any:
            return store.record_answer(
                answer(f"{number:016x}"), channel="web", conversation_id=conversation
            )

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(write, range(40)))
        assert [m.position for m in store.messages(conversation)] == list(range(80))

    def test_a_damaged_file_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "broken.db"
        path.write_bytes(b"this is no database" * 100)
        with pytest.raises(StoreError, match=r"broken\.db failed: file is not a database"):
            Store.open(path)

    def test_a_newer_revision_is_refused(self, store: Store, tmp_path: Path) -> None:
        with store.engine.begin() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        with pytest.raises(StoreError, match=r"revision '9999'.*install the newer hpcllm"):
            Store.open(tmp_path / "var" / "hpcllm.db")

    def test_a_folder_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(StoreError, match=r"cannot be made: .*; choose another place"):
            Store.open(tmp_path / "file" / "hpcllm.db")

    @pytest.mark.parametrize("url", ["nonsense://x/y", "://"])
    def test_an_unknown_kind_of_database(self, url: str) -> None:
        with pytest.raises(ConfigError, match=r"postgresql\+psycopg://"):
            Store.open(url)

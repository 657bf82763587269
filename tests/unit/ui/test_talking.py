from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hpcllm.errors import StoreError
from hpcllm.server.errors import NotFoundError
from hpcllm.server.service import AssistantService
from hpcllm.server.store import Store
from hpcllm.ui.talking import OPENING_S, Asking, Talker, View
from hpcllm.ui.turns import Frame
from tests.unit.server.helpers import QUESTION, RIGHT, build_site, open_assistant, run, until

Scenario = Callable[[Talker], Awaitable[Any]]
ADA, BOB = "browser:ada", "browser:bob"


@pytest.fixture
def talking(index_dir: Path, store: Store, frame: Frame) -> Callable[..., Any]:
    """Run a scenario with a talker over a scripted assistant."""

    def begin(scenario: Scenario, *, waiting: int = 16, **options: Any) -> Any:
        async def whole() -> Any:
            assistant = open_assistant(index_dir, options.pop("answers", (RIGHT,)), **options)
            service = AssistantService(assistant, store=store, waiting=waiting)
            talker = Talker(
                service, store, frame=frame, clusters=("meridian",), start="<p>start</p>"
            )
            try:
                return await scenario(talker)
            finally:
                await until(lambda: service.load.running == service.load.waiting == 0)
                await service.close()

        return run(whole())

    return begin


async def views(talker: Talker, question: str = QUESTION, **options: Any) -> list[View]:
    asking = Asking(question, **{"owner": ADA, "tab": "t1", **options})
    return [view async for view in talker.respond(asking)]


def test_an_answer_is_shown_step_by_step_and_recorded(
    talking: Callable[..., Any], store: Store
) -> None:
    seen: list[View] = talking(views, delay_s=0.02)
    assert (seen[0].question, seen[0].is_busy) == ("", True)
    written = [view.live for view in seen if view.live and "Writing" in view.live]
    assert len(written) > 1 and len(written[0]) < len(written[-1])
    last = seen[-1]
    assert (last.live, last.is_busy) == ("", False)
    assert last.log is not None and "50 GB" in last.log and last.conversation_id in last.log
    assert len(store.messages(last.conversation_id or "", owner=ADA)) == 2
    assert all("\n" not in (view.log or "") + (view.live or "") for view in seen)


@pytest.mark.parametrize("has_ticket", [True, False])
def test_tickets_are_searched_where_ticked_and_there(
    talking: Callable[..., Any], index_dir: Path, has_ticket: bool
) -> None:
    build_site(index_dir, has_ticket=has_ticket)
    question = "Was the quota of the whale project raised?"

    async def scenario(talker: Talker) -> Any:
        return (await views(talker, question, scopes=("tickets", "news")))[-1]

    last: View = talking(scenario, answers=("It was raised to 80 GB [1].",))
    assert last.log is not None
    assert ("From a ticket, 2026-03-01" in last.log) == has_ticket


def test_a_follow_up_goes_on_with_the_conversation_on_record(
    talking: Callable[..., Any], store: Store
) -> None:
    async def scenario(talker: Talker) -> Any:
        first = (await views(talker))[-1]
        return (await views(talker, "And for groups?", conversation_id=first.conversation_id))[-1]

    last: View = talking(scenario)
    assert len(store.history(last.conversation_id or "")) == 4
    assert last.log is not None and last.log.count("<article") == 2


def test_nobody_goes_on_with_or_reads_the_conversation_of_another(
    talking: Callable[..., Any], store: Store
) -> None:
    async def scenario(talker: Talker) -> Any:
        mine = (await views(talker))[-1].conversation_id or ""
        forged = await views(talker, owner=BOB, tab="t2", conversation_id=mine)
        replaced = await views(talker, owner=BOB, tab="t2", conversation_id=mine, position=0)
        return mine, forged[-1], replaced[-1], talker.open(mine, BOB), talker.open(mine, ADA)

    mine, forged, replaced, stranger, owner = talking(scenario)
    for view in (forged, replaced):
        assert view.conversation_id == "" and view.log == "<p>start</p>"
        assert "not yours or no longer exists" in view.live
    assert stranger.log is None and stranger.conversation_id is None
    assert "50 GB" in owner.log
    assert len(store.messages(mine)) == 2


def test_editing_drops_what_followed(talking: Callable[..., Any], store: Store) -> None:
    async def scenario(talker: Talker) -> Any:
        one = (await views(talker))[-1].conversation_id
        await views(talker, "Second question about home?", conversation_id=one)
        return await views(talker, "Other question?", conversation_id=one, position=0)

    seen: list[View] = talking(scenario)
    kept = [m.text for m in store.messages(seen[-1].conversation_id or "") if m.role == "user"]
    assert kept == ["Other question?"]
    # The new question is there before the old one leaves: no empty page in between.
    assert "Other question?" in (seen[0].live or "") and seen[0].log is None


def test_stopping_keeps_what_was_written(talking: Callable[..., Any], store: Store) -> None:
    async def scenario(talker: Talker) -> Any:
        seen: list[View] = []
        stopped: list[bool] = []
        async for view in talker.respond(Asking(QUESTION, ADA, "t1")):
            seen.append(view)
            # Once: a view made before the stop is seen may come after the answer has ended.
            if view.live and "home folder is" in view.live and not stopped:
                stopped.append(talker.stop("t1"))
        assert stopped == [True]
        assert not talker.stop("t1")
        return seen[-1]

    last: View = talking(scenario, answers=(f"{RIGHT} {'word ' * 200}",), delay_s=0.02)
    assert last.is_busy is False
    (recorded,) = store.answers()
    assert "word word word word word word word" not in recorded.text
    assert last.log is not None and recorded.receipt_id in last.log


def test_stopping_while_waiting_gives_the_question_back(talking: Callable[..., Any]) -> None:
    async def scenario(talker: Talker) -> Any:
        first = asyncio.create_task(views(talker))
        await until(lambda: talker.service.load.running)
        second: list[View] = []
        async for view in talker.respond(Asking("Mine?", BOB, "t2")):
            second.append(view)
            if view.live and "Waiting" in view.live:
                talker.stop("t2")
        talker.stop("t1")
        await first
        return second

    seen: list[View] = talking(scenario, answers=("word " * 400,), delay_s=0.02)
    assert seen[-1].question == "Mine?" and "Stopped before anything" in (seen[-1].live or "")


def test_a_full_server_says_when_to_come_back_and_drops_nothing(
    talking: Callable[..., Any], store: Store
) -> None:
    async def scenario(talker: Talker) -> Any:
        mine = (await views(talker))[-1].conversation_id
        other = asyncio.create_task(views(talker, owner=BOB, tab="t2"))
        await until(lambda: talker.service.load.running)
        again = await views(talker, "Again?", conversation_id=mine, position=0)
        talker.stop("t2")
        await other
        return mine, again[-1]

    mine, last = talking(scenario, waiting=0, answers=(RIGHT, "word " * 400), delay_s=0.01)
    assert "Try again in 10 seconds" in last.live and last.question == "Again?"
    assert len(store.messages(mine)) == 2


def test_errors_of_ours_are_logged_under_a_reference(
    talking: Callable[..., Any],
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise StoreError("the disk /secret/place is full")

    monkeypatch.setattr(store, "start_conversation", fail)
    last = talking(views)[-1]
    assert "/secret/place" not in last.live and "tell support the reference" in last.live
    reference = last.live.partition("reference ")[2][:8]
    assert f"[{reference}] the disk /secret/place is full" in caplog.text


def test_questions_that_cannot_be_taken_say_why(talking: Callable[..., Any]) -> None:
    async def scenario(talker: Talker) -> Any:
        return (
            await views(talker, "  "),
            (await views(talker, "x" * 20_001))[-1],
            (await views(talker, cluster="nowhere"))[-1],
        )

    empty, long, lost = talking(scenario)
    assert empty == []
    assert "20001 characters" in long.live and "keep the lines" in long.live
    assert "This cluster is not known any more" in lost.live


def test_leaving_the_page_frees_the_place(talking: Callable[..., Any], store: Store) -> None:
    async def scenario(talker: Talker) -> Any:
        stream = talker.respond(Asking(QUESTION, ADA, "t1"))
        async for view in stream:
            if view.live and "Writing" in view.live:
                break
        await stream.aclose()
        await until(lambda: not talker.service.load.running)

    talking(scenario, answers=("word " * 400,), delay_s=0.02)
    assert store.answers() == []


def test_earlier_chats_are_those_of_the_same_browser(talking: Callable[..., Any]) -> None:
    async def scenario(talker: Talker) -> Any:
        await views(talker)
        return talker.open("", ADA), talker.open("", BOB), talker.open("", "")

    ada, bob, nobody = talking(scenario)
    assert QUESTION in ada.earlier
    assert QUESTION not in bob.earlier and QUESTION not in nobody.earlier


def test_a_conversation_that_was_deleted_begins_anew(
    talking: Callable[..., Any], store: Store
) -> None:
    async def scenario(talker: Talker) -> Any:
        mine = (await views(talker))[-1].conversation_id or ""
        store.delete_conversation(mine)
        return mine, (await views(talker, conversation_id=mine))[-1]

    mine, last = talking(scenario)
    assert last.conversation_id == "" and last.question == QUESTION
    with pytest.raises(NotFoundError):
        store.messages(mine)


def test_the_search_goes_on_while_the_page_draws(talking: Callable[..., Any]) -> None:
    async def scenario(talker: Talker) -> int:
        answering = talker.respond(Asking(QUESTION, ADA, "t1"))
        await anext(answering)
        await until(lambda: talker.service.load.running == 1)
        await answering.aclose()
        await until(lambda: talker.service.load.running == 0)
        return len(talker._cancels)

    assert talking(scenario, delay_s=0.5) == 0


def test_a_page_that_is_closed_at_once_leaves_nothing_behind(talking: Callable[..., Any]) -> None:
    async def scenario(talker: Talker) -> tuple[int, int]:
        answering = talker.respond(Asking(QUESTION, ADA, "t1"))
        await anext(answering)
        await answering.aclose()
        await asyncio.sleep(0.05)
        return talker.service.load.running, len(talker._cancels)

    assert talking(scenario, delay_s=0.5) == (0, 0)


def test_what_lasts_too_short_to_be_read_is_not_drawn(talking: Callable[..., Any]) -> None:
    seen: list[View] = talking(views)
    shown = [view.live for view in seen if view.live]
    assert "Reading" in shown[0] and "50 GB" not in shown[0]
    assert "Writing" in shown[1] and not any("Searching" in live for live in shown)


def test_a_slow_search_is_shown_at_once(
    talking: Callable[..., Any], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = store.start_conversation

    def start_slowly(*args: Any, **kwargs: Any) -> Any:
        time.sleep(3 * OPENING_S)
        return start(*args, **kwargs)

    monkeypatch.setattr(store, "start_conversation", start_slowly)
    seen: list[View] = talking(views)
    assert "Searching" in (seen[0].live or "")
    assert (seen[0].question, seen[0].is_busy) == ("", True)
    assert all(view.question is None for view in seen[1:])

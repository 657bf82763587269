from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hpcllm.errors import BusyError, GenerationError, HpcLlmError
from hpcllm.models.backends.scripted import Fault
from hpcllm.records import Turn
from hpcllm.server.errors import ConflictError, NotFoundError
from hpcllm.server.service import AssistantService
from hpcllm.server.store import Store
from tests.unit.server.helpers import (
    QUESTION,
    RIGHT,
    build_site,
    collect,
    open_assistant,
    run,
    until,
)

Scenario = Callable[[AssistantService], Awaitable[Any]]


def serving(index_dir: Path, scenario: Scenario, **options: Any) -> Any:
    """Run a scenario on a service over the index; it must leave nothing running."""
    keys = ("store", "parallel", "waiting")
    kept = {key: options.pop(key) for key in keys if key in options}
    answers = options.pop("answers", (RIGHT,))

    async def whole() -> Any:
        assistant = open_assistant(index_dir, answers, **options)
        service = AssistantService(assistant, index_dir=index_dir, **kept)
        try:
            result = await scenario(service)
            await until(lambda: service.load.running == service.load.waiting == 0)
        finally:
            await service.close()
        return result

    return run(whole())


class TestStreaming:
    def test_the_events_come_in_order_and_the_answer_is_on_record(
        self, index_dir: Path, store: Store
    ) -> None:
        async def scenario(service: AssistantService) -> Any:
            return await collect(service.stream(QUESTION, channel="web"))

        events = serving(index_dir, scenario, store=store)
        kinds = [event.kind for event in events]
        assert kinds[:2] == ["searching", "passages"]
        assert kinds[-2:] == ["checks", "done"]
        assert "".join(e.payload for e in events if e.kind == "token") == RIGHT
        done = events[-1].payload
        recorded = store.answer(done.receipt.id)
        assert (recorded.text, recorded.channel) == (RIGHT, "web")

    def test_a_conversation_is_its_history(self, index_dir: Path, store: Store) -> None:
        conversation = store.start_conversation("web", owner="ada").id

        async def scenario(service: AssistantService) -> Any:
            await service.answer(QUESTION, conversation_id=conversation, owner="ada")
            await service.answer("And why?", conversation_id=conversation, owner="ada")
            return service.assistant.writer.backend.requests  # type: ignore[union-attr]

        requests = serving(index_dir, scenario, store=store)
        assert QUESTION in requests[1][-1].content
        roles = [message.role for message in store.messages(conversation)]
        assert roles == ["user", "assistant", "user", "assistant"]

    def test_without_a_conversation_the_caller_brings_the_history(self, index_dir: Path) -> None:
        history = (Turn("user", QUESTION), Turn("assistant", RIGHT))

        async def scenario(service: AssistantService) -> Any:
            return await service.answer("And why is that so?", history=history)

        assert "quota" in serving(index_dir, scenario).standalone_question

    def test_the_model_fails_and_extraction_stands_in(self, index_dir: Path) -> None:
        async def scenario(service: AssistantService) -> Any:
            return await service.answer(QUESTION)

        answer = serving(index_dir, scenario, answers=[Fault(GenerationError("out of memory"))])
        assert answer.model == "extractive"
        assert "out of memory" in answer.fallback

    def test_without_a_model(self, index_dir: Path) -> None:
        async def scenario(service: AssistantService) -> Any:
            assert (service.model, service.is_draft_trusted) == ("extractive", True)
            return await service.answer(QUESTION)

        assert "50 GB" in serving(index_dir, scenario, answers=None).text

    def test_an_answer_that_cannot_be_recorded_is_given_all_the_same(
        self, index_dir: Path, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        with store.engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE citations")

        async def scenario(service: AssistantService) -> Any:
            return await service.answer(QUESTION)

        with caplog.at_level(logging.ERROR):
            assert serving(index_dir, scenario, store=store).text == RIGHT
        assert "an answer could not be recorded" in caplog.text


class TestRefusing:
    @pytest.mark.parametrize(
        ("question", "options", "kind", "message"),
        [
            (" ", {}, HpcLlmError, "the question is empty"),
            ("x" * 20_001, {}, HpcLlmError, "20001 characters, at most 20000"),
            ("Why?", {"conversation_id": "nope"}, NotFoundError, "no conversation 'nope'"),
            (
                "Why?",
                {"conversation_id": "nope", "history": [Turn("user", "x")]},
                HpcLlmError,
                "either conversation_id or history",
            ),
        ],
    )
    def test_before_anything_is_begun(
        self,
        index_dir: Path,
        store: Store,
        question: str,
        options: dict[str, Any],
        kind: type[Exception],
        message: str,
    ) -> None:
        async def scenario(service: AssistantService) -> None:
            with pytest.raises(kind, match=message):
                await service.begin(question, **options)

        serving(index_dir, scenario, store=store)

    def test_somebody_elses_conversation(self, index_dir: Path, store: Store) -> None:
        conversation = store.start_conversation("web", owner="ada").id

        async def scenario(service: AssistantService) -> None:
            with pytest.raises(NotFoundError):
                await service.begin("Why?", conversation_id=conversation, owner="eve")

        serving(index_dir, scenario, store=store)

    def test_a_second_question_in_the_same_conversation(
        self, index_dir: Path, store: Store
    ) -> None:
        conversation = store.start_conversation("web").id

        async def scenario(service: AssistantService) -> None:
            first = await service.begin(QUESTION, conversation_id=conversation)
            with pytest.raises(ConflictError, match="being answered already"):
                await service.begin(QUESTION, conversation_id=conversation)
            first.abandon()
            await service.answer(QUESTION, conversation_id=conversation)

        serving(index_dir, scenario, store=store)
        assert len(store.messages(conversation)) == 2

    def test_too_many_callers(self, index_dir: Path) -> None:
        async def scenario(service: AssistantService) -> list[Any]:
            return await asyncio.gather(
                *(service.answer(QUESTION) for _ in range(8)), return_exceptions=True
            )

        results = serving(index_dir, scenario, waiting=3, delay_s=0.01)
        busy = [result for result in results if isinstance(result, BusyError)]
        assert len(busy) == 4  # one runs, three wait
        assert all(result.text == RIGHT for result in results if result not in busy)

    def test_a_store_is_needed_for_conversations(self, index_dir: Path) -> None:
        async def scenario(service: AssistantService) -> None:
            with pytest.raises(HpcLlmError, match="keeps no conversations"):
                await service.begin("Why?", conversation_id="x")

        serving(index_dir, scenario)


class TestLeaving:
    LONG = RIGHT + " word" * 200

    def test_breaking_off_frees_the_place_and_leaves_no_trace(
        self, index_dir: Path, store: Store
    ) -> None:
        conversation = store.start_conversation("web").id

        async def scenario(service: AssistantService) -> None:
            stream = await service.begin(QUESTION, conversation_id=conversation)
            async for event in stream:
                if event.kind == "token":
                    break
            assert service.load.running == 1
            stream.abandon()
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
            await until(lambda: service.load.running == 0)

        serving(index_dir, scenario, store=store, answers=[self.LONG], delay_s=0.01)
        assert store.messages(conversation) == []

    def test_a_cancelled_task_frees_the_place(self, index_dir: Path) -> None:
        async def scenario(service: AssistantService) -> None:
            tasks = [asyncio.create_task(service.answer(QUESTION)) for _ in range(3)]
            await until(lambda: service.load.waiting == 2)
            tasks[1].cancel()  # waits
            tasks[0].cancel()  # runs
            await asyncio.gather(*tasks[:2], return_exceptions=True)
            assert (await tasks[2]).text

        serving(index_dir, scenario, answers=[self.LONG, RIGHT], delay_s=0.005)

    def test_one_that_is_abandoned_before_its_turn(self, index_dir: Path) -> None:
        async def scenario(service: AssistantService) -> None:
            first = await service.begin(QUESTION)
            second = await service.begin(QUESTION)
            assert (first.is_waiting, second.is_waiting, second.ahead) == (False, True, 0)
            second.abandon()
            first.abandon()
            assert (service.load.running, service.load.waiting) == (0, 0)

        serving(index_dir, scenario)

    def test_stopping_keeps_what_was_written(self, index_dir: Path, store: Store) -> None:
        conversation = store.start_conversation("web").id
        long = f"{RIGHT} " + "The quota of the home folder is 50 GB [1]. " * 50

        async def scenario(service: AssistantService) -> Any:
            cancel = threading.Event()
            events = service.stream(QUESTION, conversation_id=conversation, cancel=cancel)
            seen = ""
            async for event in events:
                if event.kind == "token":
                    seen += event.payload
                if "50 GB [1]." in seen:
                    cancel.set()
                if event.kind == "done":
                    return event.payload
            raise AssertionError("it did not end with done")

        answer = serving(index_dir, scenario, store=store, answers=[long], delay_s=0.002)
        assert answer.text.startswith(RIGHT)
        assert len(answer.text) < len(long) / 2
        assert store.messages(conversation)[1].text == answer.text

    def test_closing_ends_what_is_running(self, index_dir: Path) -> None:
        async def whole() -> None:
            assistant = open_assistant(index_dir, [self.LONG], delay_s=0.01)
            service = AssistantService(assistant)
            stream = await service.begin(QUESTION)
            await anext(stream)
            await service.close()
            with pytest.raises(StopAsyncIteration):
                await anext(stream)

        run(whole())


class TestSearching:
    def test_it_is_not_queued_behind_the_model(self, index_dir: Path) -> None:
        async def scenario(service: AssistantService) -> Any:
            stream = await service.begin(QUESTION)
            await anext(stream)
            found = await service.search("home quota", k=1)
            stream.abandon()
            return found

        (passage,) = serving(index_dir, scenario, answers=["word " * 300], delay_s=0.01)
        assert passage.path == "storage.md"

    def test_an_empty_query(self, index_dir: Path) -> None:
        async def scenario(service: AssistantService) -> None:
            with pytest.raises(HpcLlmError, match="empty"):
                await service.search("")

        serving(index_dir, scenario)


class TestFollowing:
    def test_a_new_generation_is_served_and_the_old_one_kept_while_it_is_used(
        self, index_dir: Path
    ) -> None:
        gate = threading.Event()

        def held_up(_: object) -> str:
            gate.wait(10)
            return RIGHT

        async def scenario(service: AssistantService) -> Any:
            old = service.assistant.searcher.generation
            stream = await service.begin(QUESTION)
            while (await anext(stream)).kind != "passages":
                pass
            new = await asyncio.to_thread(build_site, index_dir, quota="75 GB")
            assert await service.refresh()
            assert not await service.refresh()
            (found,) = await service.search("home quota", k=1)
            assert old.document("docs", "storage.md") is not None  # still open
            gate.set()
            last = [event async for event in stream][-1].payload
            await until(lambda: old._lock is None)
            after = await service.answer(QUESTION)
            return old.name, new, last, after, found.text

        old, new, last, after, text = serving(index_dir, scenario, answers=[held_up])
        assert (last.receipt.generation, after.receipt.generation) == (old, new)
        assert "75 GB" in text

    def test_a_generation_that_cannot_be_used_is_refused_once(
        self, index_dir: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def scenario(service: AssistantService) -> Any:
            (index_dir / "current").write_text("gen-nonsense\n")
            for _ in range(3):
                assert not await service.refresh()
            problem = service.index_problem
            answer = await service.answer(QUESTION)
            build_site(index_dir, quota="75 GB")
            assert await service.refresh()
            return problem, answer, service.index_problem

        with caplog.at_level(logging.WARNING, "hpcllm.server"):
            problem, answer, healed = serving(index_dir, scenario)
        assert "gen-nonsense cannot be served" in problem
        assert (answer.text, healed) == (RIGHT, "")
        assert sum(r.name == "hpcllm.server.following" for r in caplog.records) == 1

    def test_it_looks_by_itself(self, index_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("hpcllm.server.service.FOLLOW_S", 0.01)

        async def scenario(service: AssistantService) -> None:
            await service.start()
            new = build_site(index_dir, quota="75 GB")
            await until(lambda: service.assistant.searcher.generation.name == new)

        serving(index_dir, scenario)

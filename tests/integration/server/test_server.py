"""The server as a process: real sockets, real clients, many callers, crashes."""

from __future__ import annotations

import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

from hpcllm.server.store import Store
from tests.integration.server.conftest import Server
from tests.unit.server.helpers import QUESTION, RIGHT, build_site

pytestmark = [pytest.mark.network, pytest.mark.slow]

Start = Callable[..., Server]


def client_of(server: Server, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", **options)


def say(text: str = QUESTION) -> Any:
    return [{"role": "user", "content": text}]


class TestOpenAiClient:
    def test_plain_streamed_models_and_errors(self, start: Start) -> None:
        with client_of(start(), max_retries=0) as client:
            assert [model.id for model in client.models.list()] == ["hpcllm", "scripted"]
            assert client.models.retrieve("hpcllm").owned_by == "hpcllm"
            plain = client.chat.completions.create(model="hpcllm", messages=say())
            assert plain.choices[0].message.content == RIGHT
            assert (plain.model_extra or {})["citations"][0]["path"] == "storage.md"
            with client.chat.completions.create(
                model="hpcllm",
                messages=say(),
                stream=True,
                stream_options={"include_usage": True},
                temperature=0.2,
                extra_body={"cluster": "meridian"},
            ) as stream:
                chunks = list(stream)
            text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            assert text == RIGHT
            assert chunks[-1].usage is not None
            assert (chunks[-2].model_extra or {})["answer"] == RIGHT
            with pytest.raises(openai.NotFoundError) as missing:
                client.chat.completions.create(model="gpt", messages=say())
            assert missing.value.code == "not_found"
            with pytest.raises(openai.BadRequestError) as bad:
                client.chat.completions.create(model="hpcllm", messages=say(" "))
            assert "the question is empty" in bad.value.message

    def test_it_comes_back_when_the_server_is_busy(self, start: Start) -> None:
        server = start(delay_s=0.05, waiting=0)
        hasty, patient = client_of(server, max_retries=0), client_of(server, max_retries=6)
        with hasty, patient, ThreadPoolExecutor(2) as pool:
            first = pool.submit(hasty.chat.completions.create, model="hpcllm", messages=say())
            server.wait_for(running=1)
            with pytest.raises(openai.RateLimitError) as busy:
                hasty.chat.completions.create(model="hpcllm", messages=say())
            assert int(busy.value.response.headers["retry-after"]) >= 1
            later = patient.chat.completions.create(model="hpcllm", messages=say())
            assert later.choices[0].message.content == RIGHT
            assert first.result().choices[0].message.content == RIGHT


def ask(server: Server, **changes: Any) -> httpx.Response:
    return httpx.post(f"{server.url}/api/ask", json={"question": QUESTION} | changes, timeout=60)


class TestManyCallers:
    def test_eight_at_once_all_get_their_answer(self, start: Start) -> None:
        server = start(delay_s=0.01, parallel=2)
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: ask(server), range(24)))
        assert {answer.json()["answer"] for answer in answers} == {RIGHT}
        assert len({answer.json()["receipt"]["id"] for answer in answers}) == 24
        health = server.health()
        assert (health["running"], health["waiting"]) == (0, 0)
        with Store.open(server.folder / "var" / "hpcllm.db") as store:
            assert len(store.answers()) == 24

    def test_beyond_the_limit_they_are_sent_away_with_a_time(self, start: Start) -> None:
        server = start(delay_s=0.02, waiting=2)
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: ask(server), range(8)))
        refused = [answer for answer in answers if answer.status_code == 429]
        assert len(refused) >= 3  # at least one runs and two wait
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        assert all(a.json()["answer"] == RIGHT for a in answers if a.status_code == 200)


class TestLeaving:
    @pytest.mark.parametrize("stream", [True, False])
    def test_a_caller_that_hangs_up_frees_its_place(self, start: Start, stream: bool) -> None:
        server = start(delay_s=0.05, words=2000)  # two minutes to write
        body = f'{{"question": "{QUESTION}", "stream": {str(stream).lower()}}}'
        request = (
            "POST /api/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        )
        host, port = server.url.removeprefix("http://").split(":")
        callers = []
        for _ in range(3):
            caller = socket.create_connection((host, int(port)))
            caller.sendall(request.encode())
            callers.append(caller)
        server.wait_for(running=1, waiting=2)
        for caller in callers:
            caller.close()
        server.wait_for(running=0, waiting=0)
        with Store.open(server.folder / "var" / "hpcllm.db") as store:
            assert store.answers() == []


class TestFollowing:
    def test_generations_change_under_load(self, start: Start) -> None:
        server = start(delay_s=0.002, parallel=2)
        names = [server.health()["generation"]]
        failures: list[str] = []
        seen: set[str] = set()
        stop = threading.Event()

        def load() -> None:
            while not stop.is_set():
                answer = ask(server)
                if answer.status_code == 200:
                    seen.add(answer.json()["receipt"]["generation"])
                else:
                    failures.append(answer.text)

        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        for number in range(3):
            names.append(build_site(server.folder / "index", quota=f"{60 + number} GB"))
            server.wait_for(generation=names[-1], status="ok")
        time.sleep(0.5)
        stop.set()
        for thread in threads:
            thread.join()
        assert failures == []
        assert seen == set(names)


class TestCrashing:
    def test_what_was_recorded_survives_a_kill(self, start: Start) -> None:
        server = start(delay_s=0.001, parallel=4)
        given: list[str] = []

        def load() -> None:
            while True:
                try:
                    given.append(ask(server).json()["receipt"]["id"])
                except httpx.TransportError:
                    return

        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        while len(given) < 20:
            time.sleep(0.01)
        server.process.send_signal(signal.SIGKILL)
        for thread in threads:
            thread.join()
        path = server.folder / "var" / "hpcllm.db"
        with sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.close()
        again = start()
        for receipt in given:
            assert httpx.get(f"{again.url}/api/receipts/{receipt}").status_code == 200

    def test_it_ends_when_it_is_told_to(self, start: Start) -> None:
        server = start()
        ask(server)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) in (0, -signal.SIGTERM)


def test_behind_a_proxy_that_strips_a_prefix(start: Start) -> None:
    server = start(root_path="/support")
    assert ask(server).json()["answer"] == RIGHT  # what the proxy passes on
    page = httpx.get(f"{server.url}/openapi.json").json()
    assert page["servers"] == [{"url": "/support"}]

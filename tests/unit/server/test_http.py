"""The application in process: routes, guards, errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from hpcllm.errors import GenerationError, StoreError
from hpcllm.models.backends.scripted import Fault
from hpcllm.server.access import Access
from hpcllm.server.app import create_app
from hpcllm.server.credentials import Credentials, write_credentials
from hpcllm.server.schemas import (
    AnswerOut,
    ErrorOut,
    FeedbackOut,
    HealthOut,
    RecordedOut,
    SearchOut,
)
from hpcllm.server.service import AssistantService
from hpcllm.server.store import Store
from tests.unit.server.helpers import QUESTION, RIGHT, build_site, open_assistant

PASSWORD, STAFF = "correct horse", "battery staple"
Serve = Callable[..., TestClient]


@pytest.fixture
def serve(index_dir: Path, store: Store) -> Iterator[Serve]:
    """Make a client of a server over the two pages."""
    clients: list[TestClient] = []

    def start(
        answers: Any = (RIGHT,),
        *,
        adapted: bool = True,
        root_path: str = "",
        minimum_evidence: float = 0.0,
        waiting: int = 16,
        **options: Any,
    ) -> TestClient:
        assistant = open_assistant(
            index_dir, answers, adapted=adapted, minimum_evidence=minimum_evidence
        )
        service = AssistantService(assistant, index_dir=index_dir, store=store, waiting=waiting)
        app = create_app(service, store, **options)
        client = TestClient(
            app, "http://localhost", root_path=root_path, raise_server_exceptions=False
        )
        clients.append(client.__enter__())
        return client

    yield start
    for client in clients:
        client.__exit__()


@pytest.fixture
def access(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Access, str]:
    """Both passwords and a key."""
    monkeypatch.setattr("hpcllm.server.credentials.SCRYPT_COST", 2)
    held = Credentials.empty().with_password(PASSWORD, "user").with_password(STAFF, "staff")
    held, key = held.with_key("bot")
    write_credentials(tmp_path / "access.json", held)
    return Access(tmp_path / "access.json"), key


def events_of(text: str) -> list[tuple[str, Any]]:
    """Parse server-sent events into names and data."""
    found = []
    for block in text.strip().split("\n\n"):
        if block.startswith(":"):
            continue
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        found.append((fields["event"], json.loads(fields["data"])))
    return found


class TestAsk:
    def test_json(self, serve: Serve) -> None:
        answer = AnswerOut.model_validate(
            serve().post("/api/ask", json={"question": QUESTION}).json()
        )
        assert (answer.answer, answer.citations[0].path) == (RIGHT, "storage.md")
        assert answer.conversation_id is None

    @pytest.mark.parametrize("by", ["flag", "header"])
    def test_events(self, serve: Serve, by: str) -> None:
        body = {"question": QUESTION} | ({"stream": True} if by == "flag" else {})
        headers = {"accept": "text/event-stream"} if by == "header" else {}
        response = serve().post("/api/ask", json=body, headers=headers)
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-accel-buffering"] == "no"
        events = events_of(response.text)
        names = [name for name, _ in events]
        assert names[:2] == ["searching", "passages"]
        assert names[-2:] == ["checks", "done"]
        assert "".join(data["text"] for name, data in events if name == "token") == RIGHT
        assert {passage["path"] for passage in events[1][1]["passages"]} >= {"storage.md"}
        AnswerOut.model_validate(events[-1][1])

    def test_a_draft_that_fails_is_replaced(self, serve: Serve) -> None:
        response = serve(["The quota is 99 TB, see `rm --all-of-it`."]).post(
            "/api/ask", json={"question": QUESTION, "stream": True}
        )
        replaced = [data["text"] for name, data in events_of(response.text) if name == "replace"]
        assert len(replaced) == 1
        assert "50 GB" in replaced[0]

    def test_a_conversation_that_the_server_remembers(self, serve: Serve, store: Store) -> None:
        client = serve()
        first = client.post("/api/ask", json={"question": QUESTION, "remember": True}).json()
        conversation = first["conversation_id"]
        again = client.post("/api/ask", json={"question": "Why?", "conversation_id": conversation})
        assert again.json()["conversation_id"] == conversation
        assert len(store.messages(conversation)) == 4

    def test_an_index_that_breaks_midway(
        self, serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def broken(*_: object, **__: object) -> None:
            raise StoreError("/srv/secret/place is damaged")

        monkeypatch.setattr("hpcllm.index.search.Searcher.search", broken)
        client = serve()
        plain = client.post("/api/ask", json={"question": QUESTION})
        streamed = client.post("/api/ask", json={"question": QUESTION, "stream": True})
        assert plain.status_code == 503
        assert "/srv" not in plain.text + streamed.text
        name, data = events_of(streamed.text)[-1]
        assert (name, data["error"]["code"]) == ("error", "unavailable")
        reference = data["error"]["message"].split()[-1]
        assert f"[{reference}] /srv/secret/place is damaged" in caplog.text

    @pytest.mark.parametrize(
        ("body", "param", "message"),
        [
            ({}, "question", "Field required"),
            ({"question": ""}, "question", "at least 1 character"),
            ({"question": " \n"}, "question", "it is empty: ask something"),
            ({"question": "x" * 20_001}, "question", "at most 20000 characters"),
            ({"question": 7}, "question", "valid string"),
            ({"question": "q", "strem": True}, "strem", "Extra inputs are not permitted"),
            ({"question": "q", "stream": "yes"}, "stream", "valid boolean"),
            ({"question": "q", "conversation_id": "../x"}, "conversation_id", "match pattern"),
            ({"question": "q", "history": [{"role": "system", "text": "x"}]}, None, "'user' or"),
        ],
    )
    def test_what_is_not_valid(
        self, serve: Serve, body: dict[str, Any], param: str | None, message: str
    ) -> None:
        response = serve().post("/api/ask", json=body)
        assert response.status_code == 400
        error = ErrorOut.model_validate(response.json()).error
        assert message in error.message
        assert error.code == "invalid_request"
        assert param is None or error.param == param

    @pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b"[]", b'"x"', b'{"question": "\\ud800"}'])
    def test_what_is_no_json(self, serve: Serve, body: bytes) -> None:
        response = serve().post(
            "/api/ask", content=body, headers={"content-type": "application/json"}
        )
        assert response.status_code == 400
        ErrorOut.model_validate(response.json())

    def test_history_and_conversation_exclude_each_other(self, serve: Serve) -> None:
        body = {
            "question": "q",
            "conversation_id": "0" * 32,
            "history": [{"role": "user", "text": "x"}],
        }
        response = serve().post("/api/ask", json=body)
        assert (response.status_code, "either conversation_id or history" in response.text) == (
            400,
            True,
        )

    def test_an_unknown_conversation(self, serve: Serve) -> None:
        body = {"question": "q", "conversation_id": "0" * 32}
        assert serve().post("/api/ask", json=body).status_code == 404


class TestTickets:
    QUERY = "Was the quota of the whale project raised?"

    def test_they_are_found_where_asked_for(self, serve: Serve, index_dir: Path) -> None:
        build_site(index_dir, has_ticket=True)
        client = serve()
        without = client.get("/api/search", params={"q": self.QUERY}).json()
        assert "desk.jsonl/7" not in {p["path"] for p in without["passages"]}
        asked = {"q": self.QUERY, "scopes": "tickets"}
        found = SearchOut.model_validate(client.get("/api/search", params=asked).json())
        assert (found.passages[0].path, found.passages[0].notice) == (
            "desk.jsonl/7",
            "From a ticket, 2026-03-01",
        )

    def test_an_answer_from_one_says_so(self, serve: Serve, index_dir: Path) -> None:
        build_site(index_dir, has_ticket=True)
        body = {"question": self.QUERY, "scopes": ["tickets"]}
        answer = serve(["The quota was raised to 80 GB [1]."]).post("/api/ask", json=body).json()
        assert answer["citations"][0]["notice"] == "From a ticket, 2026-03-01"

    def test_an_index_without_any_refuses(self, serve: Serve) -> None:
        client = serve()
        body = {"question": QUESTION, "scopes": ["tickets"]}
        refused = (
            client.post("/api/ask", json=body),
            client.get("/api/search", params={"q": QUESTION, "scopes": "tickets"}),
        )
        for response in refused:
            assert response.status_code == 400
            assert "holds documentation alone" in response.json()["error"]["message"]


class TestOtherRoutes:
    def test_search(self, serve: Serve) -> None:
        response = serve().get("/api/search", params={"q": "home quota", "k": 1})
        found = SearchOut.model_validate(response.json())
        assert [passage.path for passage in found.passages] == ["storage.md"]

    @pytest.mark.parametrize("query", ["", "?q=", "?q=%20", "?q=x&k=0", "?q=x&k=51", "?q=x&k=a"])
    def test_searches_that_are_not_valid(self, serve: Serve, query: str) -> None:
        assert serve().get(f"/api/search{query}").status_code == 400

    def test_feedback_and_receipt(self, serve: Serve, store: Store) -> None:
        client = serve()
        receipt = client.post("/api/ask", json={"question": QUESTION}).json()["receipt"]["id"]
        body = {"receipt_id": receipt, "rating": "down", "reason": "wrong", "comment": "a@b.org!"}
        given = FeedbackOut.model_validate(client.post("/api/feedback", json=body).json())
        assert given.comment == "[redacted: e-mail address]!"
        assert [f.reason for f in store.feedback(receipt)] == ["wrong"]
        recorded = RecordedOut.model_validate(client.get(f"/api/receipts/{receipt}").json())
        assert (recorded.answer, recorded.receipt.id) == (RIGHT, receipt)

    @pytest.mark.parametrize(
        ("changes", "status"),
        [
            ({"receipt_id": "0" * 16}, 404),
            ({"receipt_id": "xyz"}, 400),
            ({"rating": "meh"}, 400),
            ({"reason": "bored"}, 400),
        ],
    )
    def test_feedback_that_is_refused(
        self, serve: Serve, changes: dict[str, str], status: int
    ) -> None:
        body = {"receipt_id": "0" * 16, "rating": "up"} | changes
        assert serve().post("/api/feedback", json=body).status_code == status

    def test_unknown_receipts_and_paths(self, serve: Serve) -> None:
        client = serve()
        assert client.get("/api/receipts/" + "0" * 16).status_code == 404
        missing = client.get("/nothing")
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")
        wrong = client.get("/api/ask")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")

    def test_health(self, serve: Serve, store: Store) -> None:
        client = serve()
        health = HealthOut.model_validate(client.get("/healthz").json())
        assert (health.status, health.model, health.problems) == ("ok", "scripted", [])
        with store.engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE citations")
        assert client.get("/healthz").status_code == 200

    def test_health_without_a_database(
        self, serve: Serve, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken() -> None:
            raise StoreError("gone")

        monkeypatch.setattr(store, "ping", broken)
        response = serve().get("/healthz")
        assert (response.status_code, response.json()["status"]) == (503, "failing")

    def test_the_description_has_examples_and_only_what_is_answered(self, serve: Serve) -> None:
        schema = serve().get("/openapi.json").json()
        assert set(schema["paths"]) == {
            "/api/ask",
            "/api/search",
            "/api/feedback",
            "/api/receipts/{receipt_id}",
            "/v1/chat/completions",
            "/v1/models",
            "/v1/models/{model}",
            "/healthz",
        }
        assert schema["components"]["schemas"]["AskIn"]["examples"]
        assert '"422"' not in json.dumps(schema)


class TestOpenAi:
    def ask(self, client: TestClient, **changes: Any) -> Any:
        body = {"model": "hpcllm", "messages": [{"role": "user", "content": QUESTION}]}
        return client.post("/v1/chat/completions", json=body | changes)

    def chunks(self, response: Any) -> list[dict[str, Any]]:
        lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
        assert lines[-1] == "[DONE]"
        return [json.loads(line) for line in lines[:-1]]

    def streamed(self, client: TestClient) -> tuple[str, dict[str, Any]]:
        """Return the text that a client would show, and the last chunk."""
        chunks = self.chunks(self.ask(client, stream=True))
        text = "".join(c["choices"][0]["delta"].get("content", "") for c in chunks)
        return text, chunks[-1]

    def test_plain(self, serve: Serve) -> None:
        body = self.ask(serve()).json()
        assert body["choices"][0]["message"]["content"] == RIGHT
        assert body["choices"][0]["finish_reason"] == "stop"
        assert body["usage"]["completion_tokens"] == len(RIGHT.split())
        assert body["citations"][0]["path"] == "storage.md"
        assert body["receipt"]["id"] in body["id"]

    def test_streamed(self, serve: Serve) -> None:
        text, last = self.streamed(serve())
        assert text == last["answer"] == RIGHT
        assert last["choices"][0]["finish_reason"] == "stop"
        assert last["citations"][0]["n"] == 1

    def test_usage_comes_in_a_chunk_of_its_own(self, serve: Serve) -> None:
        options = {"include_usage": True}
        chunks = self.chunks(self.ask(serve(), stream=True, stream_options=options))
        assert (chunks[-1]["choices"], chunks[-1]["usage"]["completion_tokens"]) == ([], 10)
        assert all(chunk["usage"] is None for chunk in chunks[:-1])

    def test_a_trusted_draft_that_fails_is_followed_by_the_checked_answer(
        self, serve: Serve
    ) -> None:
        text, last = self.streamed(serve(["The quota is 99 TB, see `rm --all-of-it`."]))
        assert text.startswith("The quota is 99 TB")
        assert "did not pass its checks" in text
        assert text.endswith(last["answer"])
        assert "50 GB" in last["answer"]

    def test_an_untrusted_draft_is_never_sent_unchecked(self, serve: Serve) -> None:
        text, last = self.streamed(serve(["Use `rm --all-of-it` [1]."], adapted=False))
        assert text == last["answer"]
        assert "rm" not in text

    def test_a_draft_cut_to_its_sentences_is_not_sent_twice(self, serve: Serve) -> None:
        long = f"{RIGHT} " + "The quota of the home folder is 50 GB [1]. " * 40
        text, last = self.streamed(serve([long]))
        assert "did not pass" not in text
        assert text.startswith(last["answer"].strip())

    def test_earlier_messages_are_its_history(self, serve: Serve) -> None:
        client = serve()
        messages = [
            {"role": "system", "content": "You are a pirate."},
            {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
            {"role": "assistant", "content": RIGHT},
            {"role": "user", "content": "And why is that so?"},
        ]
        assert self.ask(client, messages=messages).status_code == 200
        app: Any = client.app
        prompt = app.state.service.assistant.writer.backend.requests[0][-1].content
        assert "quota of the home" in prompt
        assert "pirate" not in prompt

    @pytest.mark.parametrize(
        ("changes", "status", "message"),
        [
            ({"model": "gpt-5"}, 404, "expected 'hpcllm' or 'scripted'"),
            ({"messages": []}, 400, "at least 1 item"),
            ({"messages": [{"role": "assistant", "content": "x"}]}, 400, "must be a user's"),
            ({"messages": [{"role": "user", "content": ""}]}, 400, "the question is empty"),
            ({"messages": [{"role": "tool", "content": "x"}]}, 400, "messages.0.role"),
            (
                {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
                400,
                "messages.0.content",
            ),
            ({"n": 2}, 400, "n: Input should be 1"),
            ({"tools": [{"type": "function"}]}, 400, "tools: Extra inputs"),
            ({"top_p": "1"}, 400, "top_p"),
        ],
    )
    def test_what_is_refused(
        self, serve: Serve, changes: dict[str, Any], status: int, message: str
    ) -> None:
        response = self.ask(serve(), **changes)
        assert response.status_code == status
        assert message in ErrorOut.model_validate(response.json()).error.message

    def test_models(self, serve: Serve) -> None:
        client = serve()
        assert [m["id"] for m in client.get("/v1/models").json()["data"]] == ["hpcllm", "scripted"]
        assert client.get("/v1/models/scripted").json()["object"] == "model"
        assert client.get("/v1/models/a/b").status_code == 404


class TestGate:
    def test_security_headers_are_on_everything(self, serve: Serve) -> None:
        client = serve()
        for path in ("/healthz", "/nothing", "/login", "/api/search?q=gpu"):
            headers = client.get(path).headers
            assert "default-src 'self'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"

    def test_large_bodies_are_refused_announced_or_not(self, serve: Serve) -> None:
        client = serve(body_limit=2048)
        body = json.dumps({"question": "x" * 3000}).encode()
        announced = client.post("/api/ask", content=body)
        halves = iter([body[:1500], body[1500:]])
        headers = {"content-type": "application/json"}
        chunked = client.post("/api/ask", content=halves, headers=headers)
        for response in (announced, chunked):
            assert response.status_code == 413
            assert "larger than 2 KiB: shorten it" in response.json()["error"]["message"]

    def test_a_foreign_name_is_refused_where_nobody_signs_in(self, serve: Serve) -> None:
        client = serve(hosts=["Support.example"])
        evil = client.get("/healthz", headers={"host": "evil.example"})
        assert (evil.status_code, "does not answer to the name" in evil.text) == (421, True)
        for host in ("support.example", "127.0.0.1:8000", "[::1]:80", "localhost"):
            assert client.get("/healthz", headers={"host": host}).status_code == 200

    def test_foreign_pages_cannot_post(self, serve: Serve) -> None:
        client = serve(hosts=["support.example"])
        body = {"question": QUESTION}
        for origin, status in (
            ("http://evil.example", 403),
            ("null", 403),
            ("http://localhost", 200),
            ("https://support.example", 200),
        ):
            response = client.post("/api/ask", json=body, headers={"origin": origin})
            assert response.status_code == status, origin

    def test_a_key_is_needed_where_one_is_set(
        self, serve: Serve, access: tuple[Access, str]
    ) -> None:
        client = serve(access=access[0])
        without = client.get("/v1/models")
        assert without.status_code == 401
        assert without.headers["www-authenticate"] == "Bearer"
        assert without.json()["error"]["type"] == "authentication_error"
        assert client.get("/healthz").status_code == 200
        with_key = client.get("/v1/models", headers={"authorization": f"Bearer {access[1]}"})
        assert with_key.status_code == 200

    def test_somebody_elses_conversation_is_not_found(
        self, serve: Serve, access: tuple[Access, str]
    ) -> None:
        client = serve(access=access[0])
        keyed = {"authorization": f"Bearer {access[1]}"}
        begun = client.post(
            "/api/ask", json={"question": QUESTION, "remember": True}, headers=keyed
        ).json()
        body = {"question": "Why?", "conversation_id": begun["conversation_id"]}
        assert client.post("/api/ask", json=body, headers=keyed).status_code == 200
        client.post("/login", data={"password": PASSWORD})
        assert client.post("/api/ask", json=body).status_code == 404


class TestSigningIn:
    def test_a_browser_is_led_to_the_page_and_back(
        self, serve: Serve, access: tuple[Access, str]
    ) -> None:
        client = serve(access=access[0])
        page = client.get("/api/search?q=x", headers={"accept": "text/html"})
        assert page.url.path == "/login"
        assert '<html lang="en">' in page.text
        done = client.post(
            "/login", data={"password": PASSWORD, "next": "/v1/models"}, follow_redirects=False
        )
        assert (done.status_code, done.headers["location"]) == (303, "/v1/models")
        cookie = done.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=lax" in cookie
        assert client.get("/v1/models").status_code == 200
        client.post("/logout")
        assert client.get("/v1/models").status_code == 401

    def test_a_wrong_password_in_the_browsers_language(
        self, serve: Serve, access: tuple[Access, str]
    ) -> None:
        response = serve(access=access[0]).post(
            "/login", data={"password": "x"}, headers={"accept-language": "fr, pt-BR;q=0.9"}
        )
        assert response.status_code == 401
        assert "A senha está incorreta." in response.text
        assert 'aria-invalid="true"' in response.text

    @pytest.mark.parametrize(
        "target", ["https://evil.example", "//evil.example", "/\\evil.example", "x", "/a\nb"]
    )
    def test_nobody_is_led_elsewhere(
        self, serve: Serve, access: tuple[Access, str], target: str
    ) -> None:
        response = serve(access=access[0]).post(
            "/login", data={"password": PASSWORD, "next": target}, follow_redirects=False
        )
        assert response.headers["location"] == "/"

    def test_what_comes_with_the_address_is_escaped(self, serve: Serve) -> None:
        page = serve().get("/login", params={"next": '/"><script>alert(1)</script>'})
        assert "<script>" not in page.text

    def test_staff_pages(self, serve: Serve, access: tuple[Access, str]) -> None:
        client = serve(access=access[0])
        client.post("/login", data={"password": PASSWORD})
        refused = client.get("/staff/gaps")
        assert refused.status_code == 403
        assert "sign in with the staff password" in refused.text
        client.post("/login", data={"password": STAFF})
        assert client.get("/staff/gaps").status_code == 404  # let in; there is no such page yet

    def test_staff_pages_where_no_password_is_set(self, serve: Serve) -> None:
        response = serve().get("/staff")
        assert response.status_code == 403
        assert "hpcllm keys password --staff" in response.text

    def test_guessing(self, serve: Serve, access: tuple[Access, str]) -> None:
        client = serve(access=access[0])
        answers = [client.post("/login", data={"password": "x"}) for _ in range(11)]
        assert [a.status_code for a in answers] == [401] * 10 + [429]
        assert int(answers[-1].headers["retry-after"]) > 200


class TestPrefix:
    def test_a_proxy_strips_it(self, serve: Serve, access: tuple[Access, str]) -> None:
        client = serve(access=access[0], root_path="/support")
        page = client.get(
            "/support/v1/models", headers={"accept": "text/html"}, follow_redirects=False
        )
        assert page.headers["location"] == "/support/login?next=/v1/models"
        done = client.post(
            "/support/login",
            data={"password": PASSWORD, "next": "/v1/models"},
            follow_redirects=False,
        )
        assert done.headers["location"] == "/support/v1/models"
        assert "path=/support" in done.headers["set-cookie"].lower()
        servers = client.get("/support/openapi.json").json()["servers"]
        assert servers == [{"url": "/support"}]


def test_a_model_that_fails_does_not_fail_the_request(serve: Serve) -> None:
    client = serve([Fault(GenerationError("out of memory"))])
    body = client.post("/api/ask", json={"question": QUESTION}).json()
    assert (body["model"], "out of memory" in body["fallback"]) == ("extractive", True)


def test_an_unforeseen_error_tells_nothing(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("in /srv/secret")

    monkeypatch.setattr("hpcllm.index.search.Searcher.search", broken)
    response = serve().get("/api/search?q=x")
    assert response.status_code == 500
    assert "/srv" not in response.text
    assert "ZeroDivisionError" in caplog.text

"""What the OpenAI back end does when the server misbehaves."""

from __future__ import annotations

import email.utils
import pickle
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from chat_server import Handler, Plan, Respond, refuse, say, serve

from hpcllm.errors import BusyError, ConfigError, GenerationError
from hpcllm.models.backends import GenerationSettings, Message
from hpcllm.models.backends.openai_api import OpenAiBackend, Secret, ServerOptions

pytestmark = pytest.mark.network

QUESTION = [Message("user", "How do I submit a job?")]
FAST = ServerOptions(connect_s=1, read_s=5, attempts=3, backoff_s=0.01, patience_s=0.5)
SETTINGS = GenerationSettings(answer_tokens=50)
ANSWER = say("Use sbatch job.sh to submit it.")


@contextmanager
def backend_of(plan: Plan, **fields: Any) -> Iterator[OpenAiBackend]:
    with serve(plan) as url:
        backend = OpenAiBackend(url, "served", **{"options": FAST, **fields})
        yield backend
        backend.close()


def ask(*steps: Respond, **fields: Any) -> tuple[str, Plan]:
    plan = Plan(steps=list(steps))
    with backend_of(plan, **fields) as backend:
        return backend.generate(QUESTION, SETTINGS).read(), plan


def test_the_request_is_what_servers_expect() -> None:
    text, plan = ask(ANSWER, api_key=Secret("k-123"))
    assert text == "Use sbatch job.sh to submit it."
    assert plan.requests == [
        {
            "path": "/v1/chat/completions",
            "model": "served",
            "messages": [{"role": "user", "content": "How do I submit a job?"}],
            "max_tokens": 50,
            "temperature": 0.0,
            "seed": 1,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ]
    assert plan.headers[0]["Authorization"] == "Bearer k-123"


def test_usage_is_the_servers_count() -> None:
    def respond(handler: Handler, _: dict[str, Any]) -> None:
        handler.begin_stream()
        handler.piece("ok")
        details = {"cached_tokens": 30}
        usage = {"prompt_tokens": 41, "completion_tokens": 7, "prompt_tokens_details": details}
        handler.end_stream("stop", usage)

    with backend_of(Plan([respond])) as backend:
        stream = backend.generate(QUESTION, SETTINGS)
        stream.read()
    assert stream.result is not None
    assert (stream.result.usage.prompt, stream.result.usage.generated) == (41, 7)
    assert stream.result.cached_tokens == 30


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_passing_failure_is_tried_again(status: int) -> None:
    text, plan = ask(refuse(status), refuse(status), ANSWER)
    assert text == "Use sbatch job.sh to submit it."
    assert len(plan.requests) == 3


def test_a_lasting_failure_gives_up_and_says_what_the_server_said() -> None:
    plan = Plan(after=refuse(500, {"error": {"message": "out of memory"}}))
    with backend_of(plan) as backend, pytest.raises(GenerationError, match="500: out of memory"):
        backend.generate(QUESTION, SETTINGS).read()
    assert len(plan.requests) == 3


def test_a_full_server_is_busy_and_says_for_how_long() -> None:
    plan = Plan(after=refuse(429, Retry_After="0.02"))
    with backend_of(plan) as backend, pytest.raises(BusyError, match="try again") as caught:
        backend.generate(QUESTION, SETTINGS).read()
    assert caught.value.retry_after_s == 0.02
    assert len(plan.requests) == 3


def test_a_wait_longer_than_our_patience_is_not_waited() -> None:
    later = email.utils.formatdate(time.time() + 90, usegmt=True)
    for value in ("90", later):
        plan = Plan(after=refuse(503, Retry_After=value))
        with backend_of(plan) as backend, pytest.raises(BusyError) as caught:
            backend.generate(QUESTION, SETTINGS).read()
        assert 80 < caught.value.retry_after_s <= 90
        assert len(plan.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_not_tried_again(status: int) -> None:
    plan = Plan(after=refuse(status))
    with backend_of(plan) as backend, pytest.raises(GenerationError):
        backend.generate(QUESTION, SETTINGS).read()
    assert len(plan.requests) == 1


def test_refusals_say_what_to_do() -> None:
    with pytest.raises(GenerationError, match=r"refused the API key \(status 401\): set HPCLLM_"):
        ask(refuse(401))
    with pytest.raises(GenerationError, match=r"no model 'served': check model\.base_url"):
        ask(refuse(404, {"detail": "Not Found"}))
    with pytest.raises(GenerationError, match=r"too long for served: .*fewer passages"):
        ask(refuse(400, {"error": {"message": "maximum context length is 8 tokens"}}))
    with pytest.raises(GenerationError, match="status 302"):
        ask(refuse(302, Location="http://127.0.0.1:1/"))


def test_the_key_never_shows() -> None:
    secret = Secret("sk-very-secret")
    assert "very" not in f"{secret} {secret!r} {[secret]}"
    with pytest.raises(TypeError, match="cannot be stored"):
        pickle.dumps(secret)
    echo = refuse(400, {"error": {"message": "bad header Bearer sk-very-secret"}})
    with pytest.raises(GenerationError) as caught:
        ask(echo, api_key=secret)
    assert "very-secret" not in str(caught.value)
    assert "Bearer ***" in str(caught.value)


def test_a_server_that_is_not_there() -> None:
    backend = OpenAiBackend("http://127.0.0.1:1/v1", "served", options=FAST)
    with pytest.raises(GenerationError, match=r"cannot be reached .*model\.base_url"):
        backend.generate(QUESTION, SETTINGS).read()
    backend.close()


def test_a_connection_dropped_before_any_text_is_tried_again() -> None:
    def drop(handler: Handler, _: dict[str, Any]) -> None:
        handler.hang_up()

    def drop_after_headers(handler: Handler, _: dict[str, Any]) -> None:
        handler.begin_stream()
        handler.hang_up()

    text, plan = ask(drop, drop_after_headers, ANSWER)
    assert text == "Use sbatch job.sh to submit it."
    assert len(plan.requests) == 3


def test_a_stream_that_breaks_off_is_an_error_and_is_not_repeated() -> None:
    def break_off(handler: Handler, _: dict[str, Any]) -> None:
        handler.begin_stream()
        handler.piece("Use")
        handler.piece(" sbatch")
        handler.hang_up()

    plan = Plan([break_off])
    with backend_of(plan) as backend:
        stream = backend.generate(QUESTION, SETTINGS)
        assert [next(stream), next(stream)] == ["Use", " sbatch"]
        with pytest.raises(GenerationError, match="broke off after 2 pieces"):
            next(stream)
    assert stream.result is None
    assert len(plan.requests) == 1


def test_a_stream_that_ends_without_saying_so_is_an_error() -> None:
    def stop_talking(handler: Handler, _: dict[str, Any]) -> None:
        handler.begin_stream()
        handler.piece("Use")
        handler.wfile.write(b"0\r\n\r\n")

    with pytest.raises(GenerationError, match="broke off after 1 pieces"):
        ask(stop_talking)


def test_an_error_inside_the_stream() -> None:
    def fail(handler: Handler, _: dict[str, Any]) -> None:
        handler.begin_stream()
        handler.piece("Use")
        handler.event({"error": {"message": "CUDA error", "code": 500}})

    with pytest.raises(GenerationError, match="served failed: CUDA error"):
        ask(fail)


@pytest.mark.parametrize("line", [b"data: {bad json\n\n", b"data: 17\n\n"])
def test_a_damaged_line_is_an_error_not_lost_text(line: bytes) -> None:
    def damage(handler: Handler, _: dict[str, Any]) -> None:
        handler.begin_stream()
        handler.piece("Use")
        handler.raw(line)
        handler.end_stream("stop")

    with pytest.raises(GenerationError, match="the server sent"):
        ask(damage)


def test_odd_but_valid_streams() -> None:
    def odd(handler: Handler, _: dict[str, Any]) -> None:
        handler.begin_stream()
        handler.raw(b": keep-alive\r\n\r\nevent: message\r\nid: 1\r\n")
        piece = 'data:{"choices":[{"delta":{"content":"a\u2028b é"}}]}\r\n\r\n'.encode()
        for byte in piece:  # a piece of text may arrive in any number of packets
            handler.raw(bytes([byte]))
        handler.raw(b'data: {"choices":[{"delta":null}]}\n\ndata: {"choices":[]}\n\n')
        handler.raw(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":null}\n\n')
        handler.raw(b"data: [DONE]\n\n")
        handler.wfile.write(b"0\r\n\r\n")

    assert ask(odd)[0] == "a\u2028b é"


def test_silence_ends_in_a_message() -> None:
    def hang(handler: Handler, _: dict[str, Any]) -> None:
        handler.begin_stream()
        handler.rfile.read(1)

    options = ServerOptions(read_s=0.2, attempts=3, backoff_s=0.01)
    plan = Plan(after=hang)
    silent = pytest.raises(GenerationError, match=r"does not answer \(ReadTimeout")
    with backend_of(plan, options=options) as backend, silent:
        backend.generate(QUESTION, SETTINGS).read()
    assert len(plan.requests) == 1


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_cancel_closes_the_connection_while_the_server_is_silent(has_begun: bool) -> None:
    gone = threading.Event()

    def hang(handler: Handler, _: dict[str, Any]) -> None:
        if has_begun:
            handler.begin_stream()
            handler.piece("Use")
        handler.rfile.read(1)  # returns when the client closes the connection
        gone.set()

    cancel = threading.Event()
    options = ServerOptions(read_s=60)
    with backend_of(Plan([hang]), options=options) as backend:
        threading.Timer(0.3, cancel.set).start()
        stream = backend.generate(QUESTION, SETTINGS, cancel=cancel)
        assert stream.read() == ("Use" if has_begun else "")
        assert stream.result is not None
        assert stream.result.finish == "cancelled"
        assert gone.wait(10)


def test_a_cancel_ends_the_wait_between_tries() -> None:
    cancel = threading.Event()
    plan = Plan(after=refuse(503, Retry_After="60"))
    options = ServerOptions(patience_s=100)
    with backend_of(plan, options=options) as backend:
        threading.Timer(0.3, cancel.set).start()
        stream = backend.generate(QUESTION, SETTINGS, cancel=cancel)
        assert stream.read() == ""
    assert len(plan.requests) == 1


def test_a_proxy_of_the_environment_is_not_asked_for_loopback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert ask(ANSWER)[0] == "Use sbatch job.sh to submit it."


@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://host/v1", "", "http:///v1"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(ConfigError, match=r"https://host:8000/v1, got .*model\.base_url"):
        OpenAiBackend(url, "served")


def test_a_key_over_an_open_line_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    OpenAiBackend("http://models.example.org/v1", "m", api_key=Secret("k")).close()
    assert "goes to models.example.org unencrypted: use https" in caplog.text

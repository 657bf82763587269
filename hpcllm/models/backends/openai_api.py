"""Generate on a server that speaks the OpenAI chat protocol: vLLM, Ollama, llama-server, TGI.

Role: the engine of sites that serve a larger model. Requests are tried again only while no text has
come; a stream that breaks off is an error, never a silently short answer.
"""

from __future__ import annotations

import email.utils
import json
import logging
import math
import random
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx

from hpcllm.errors import BusyError, ConfigError, GenerationError
from hpcllm.models.backends.base import GenerationResult, TextStream
from hpcllm.models.backends.pump import pump
from hpcllm.models.backends.sse import events
from hpcllm.records import Usage, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hpcllm.models.backends.base import Finish, GenerationSettings, Message
    from hpcllm.models.backends.pump import Emit, Stop

logger = logging.getLogger(__name__)

RETRY_STATUSES = {408, 429, 500, 502, 503, 504}
BUSY_STATUSES = {429, 503}
BYTES_PER_TOKEN = 3.0
"""For the estimate of :meth:`OpenAiBackend.count_tokens`; low, so that it errs on the long side."""
LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class Secret:
    """A text that does not show itself.

    Args:
        value: the secret.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        """Refuse to be stored."""
        raise TypeError("a secret cannot be stored or sent")

    def reveal(self) -> str:
        """Return the secret itself."""
        return self._value


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How to talk to the server.

    Attributes:
        connect_s: seconds to wait for a connection.
        read_s: longest silence in seconds before and between pieces of text.
        attempts: tries in all, at least 1.
        backoff_s: seconds before the second try; doubled each time, drawn at random up to that.
        patience_s: longest wait between two tries; a server that asks for more counts as busy.
    """

    connect_s: float = 5.0
    read_s: float = 120.0
    attempts: int = 3
    backoff_s: float = 0.5
    patience_s: float = 20.0


@dataclass(slots=True)
class _Refusal(Exception):
    """A try that failed before any text came.

    Attributes:
        error: what to raise when no try is left.
        may_retry: whether another try makes sense.
        wait_s: how long the server asks to wait; NaN where it does not say.
    """

    error: GenerationError
    may_retry: bool = False
    wait_s: float = field(default=math.nan)


class OpenAiBackend:
    """A model behind an OpenAI-compatible endpoint.

    ``repeat_penalty`` is not sent: servers have no common field for it.

    Args:
        base_url: address that ends in ``/v1``.
        model: name of the model as the server knows it.
        api_key: key for the server; None sends none.
        id: name for results; None takes ``model``.
        context_tokens: most tokens of prompt and answer together.
        options: time limits and retries.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: Secret | None = None,
        id: str | None = None,
        context_tokens: int = 8192,
        options: ServerOptions | None = None,
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f"base_url must look like https://host:8000/v1, got {base_url!r}: mend "
                "model.base_url in hpcllm.toml"
            )
        self.id = id or model
        self.context_tokens = context_tokens
        self._model = model
        self._url = base_url.rstrip("/")
        self._key = api_key
        self._options = options or ServerOptions()
        is_local = parts.hostname in LOOPBACK
        if api_key and parts.scheme == "http" and not is_local:
            logger.warning("the API key goes to %s unencrypted: use https", parts.hostname)
        self._client = self._make_client(is_local)

    def _make_client(self, is_local: bool) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self._key.reveal()}"} if self._key else {}
        options = self._options
        return httpx.Client(
            headers=headers,
            timeout=httpx.Timeout(options.read_s, connect=options.connect_s, write=options.read_s),
            # One connection a request: cancelling shuts it down, which frees the server at once.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            trust_env=not is_local,  # a proxy cannot reach this machine's own loopback address
        )

    def generate(
        self,
        messages: Sequence[Message],
        settings: GenerationSettings,
        *,
        cancel: threading.Event | None = None,
    ) -> TextStream:
        """Start an answer; see :class:`~hpcllm.models.backends.base.Backend`."""
        request = self._request(messages, settings)
        return TextStream(
            pump(lambda emit, stop: self._run(request, emit, stop), cancel, name="openai")
        )

    def _request(self, messages: Sequence[Message], settings: GenerationSettings) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self._model,
            "messages": [message.to_json() for message in messages],
            "max_tokens": settings.answer_tokens,
            "temperature": settings.temperature,
            "seed": settings.seed,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return {**request, "stop": list(settings.stop)} if settings.stop else request

    def _run(self, request: dict[str, Any], emit: Emit, stop: Stop) -> GenerationResult:
        if self._client.is_closed:
            raise GenerationError(f"the client of {self.id} is closed: make a new one")
        started = time.perf_counter()
        for attempt in range(1, self._options.attempts + 1):
            try:
                return self._try(request, emit, stop, started)
            except _Refusal as refusal:
                delay_s = self._delay(attempt, refusal)
                if stop.is_set():
                    return GenerationResult("cancelled")
                if not refusal.may_retry or delay_s is None:
                    raise refusal.error from refusal.__cause__
                logger.info("try %d: %s; again in %.1f s", attempt, refusal.error, delay_s)
            if stop.event.wait(delay_s):
                return GenerationResult("cancelled")
        raise AssertionError("the last try returns or raises")

    def _delay(self, attempt: int, refusal: _Refusal) -> float | None:
        """Return the seconds to wait before the next try, or None where there is none."""
        if attempt >= self._options.attempts:
            return None
        if not math.isnan(refusal.wait_s):
            return refusal.wait_s if refusal.wait_s <= self._options.patience_s else None
        longest = min(self._options.backoff_s * 2 ** (attempt - 1), self._options.patience_s)
        return random.uniform(longest / 2, longest)

    def _try(
        self, request: dict[str, Any], emit: Emit, stop: Stop, started: float
    ) -> GenerationResult:
        reply = _Reply(self.id, emit, started)
        try:
            with self._open(request, stop) as response:
                if response.status_code != 200:
                    response.read()
                    raise self._refusal(response)
                for event in events(_until(stop, response.iter_bytes())):
                    reply.take(event)
        except httpx.HTTPError as exc:
            if stop.is_set():
                return reply.result(stop)
            raise self._broken(exc, reply) from exc
        except OSError as exc:  # the socket was shut down under the HTTP library
            if stop.is_set():
                return reply.result(stop)
            raise self._broken(exc, reply) from exc
        if not reply.is_complete and not stop.is_set():
            raise self._broken(EOFError("the server closed the connection"), reply)
        return reply.result(stop)

    def _open(self, request: dict[str, Any], stop: Stop) -> Any:
        """Send the request; from then on ``stop`` can shut its connection down."""

        def trace(name: str, info: dict[str, Any]) -> None:
            if name in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
                connection = info["return_value"].get_extra_info("socket")
                stop.interrupt = lambda: _shut_down(connection)
                if stop.is_set():
                    _shut_down(connection)

        return self._client.stream(
            "POST",
            f"{self._url}/chat/completions",
            content=json.dumps(request).encode(),
            headers={"Content-Type": "application/json", "Accept": "text/event-stream"},
            extensions={"trace": trace},
        )

    def _broken(self, error: Exception, reply: _Reply) -> Exception:
        """Return what to raise for a connection that failed: a refusal only before any text."""
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if reply.pieces:
            return GenerationError(
                f"the answer of {self.id} broke off after {reply.pieces} pieces ({reason}): "
                "ask again"
            )
        failure = GenerationError(
            f"{self._url} cannot be reached or does not answer ({reason}): check that the server "
            "runs and that model.base_url in hpcllm.toml is right"
        )
        return _Refusal(failure, may_retry=not isinstance(error, httpx.ReadTimeout))

    def _refusal(self, response: httpx.Response) -> _Refusal:
        status, said = response.status_code, self._hide_key(_message_of(response))
        wait_s = _retry_after_s(response.headers.get("Retry-After"))
        if status in BUSY_STATUSES:
            busy = BusyError(
                f"{self.id} is busy (status {status}): try again in a moment",
                retry_after_s=2.0 if math.isnan(wait_s) else wait_s,
            )
            return _Refusal(busy, may_retry=True, wait_s=wait_s)
        error = GenerationError(self._explain(status, said))
        return _Refusal(error, may_retry=status in RETRY_STATUSES, wait_s=wait_s)

    def _explain(self, status: int, said: str) -> str:
        if status in (401, 403):
            return (
                f"{self._url} refused the API key (status {status}): set HPCLLM_API_KEY to a "
                "valid one"
            )
        if status == 404:
            return (
                f"{self._url} has no chat endpoint or no model {self._model!r}: check "
                "model.base_url (it ends in /v1) and model.id in hpcllm.toml. "
                f"The server said: {said}"
            )
        if status in (400, 413, 422) and "context" in said.lower():
            return (
                f"the prompt is too long for {self.id}: ask a shorter question or pass fewer "
                f"passages. The server said: {said}"
            )
        return f"{self.id} failed with status {status}: {said}"

    def _hide_key(self, text: str) -> str:
        return text.replace(self._key.reveal(), "***") if self._key else text

    def count_tokens(self, text: str) -> int:
        """Return an estimate of the tokens of ``text`` that errs on the long side."""
        return math.ceil(len(text.encode()) / BYTES_PER_TOKEN)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class _Reply:
    """Takes the events of one answer."""

    def __init__(self, model: str, emit: Emit, started: float) -> None:
        self._model, self._emit, self._started = model, emit, started
        self._first_ms = 0.0
        self._finish: Finish | None = None
        self._usage = Usage()
        self._cached = 0
        self.pieces = 0

    @property
    def is_complete(self) -> bool:
        """Whether the server said that the answer is finished."""
        return self._finish is not None

    def take(self, event: dict[str, Any]) -> None:
        """Handle one event."""
        if error := event.get("error"):
            message = error.get("message") if isinstance(error, dict) else error
            raise GenerationError(f"{self._model} failed: {short(str(message))}")
        for choice in event.get("choices") or ():
            if text := (choice.get("delta") or {}).get("content"):
                self._first_ms = self._first_ms or self._elapsed_ms()
                self.pieces += 1
                self._emit(text)
            if reason := choice.get("finish_reason"):
                self._finish = "length" if reason == "length" else "stop"
        if usage := event.get("usage"):
            self._usage = Usage(usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0))
            details = usage.get("prompt_tokens_details") or {}
            self._cached = details.get("cached_tokens") or 0

    def _elapsed_ms(self) -> float:
        return (time.perf_counter() - self._started) * 1000

    def result(self, stop: Stop) -> GenerationResult:
        """Return what the answer took; pieces stand for tokens where the server did not count."""
        usage = self._usage if self._usage.generated else Usage(self._usage.prompt, self.pieces)
        return GenerationResult(
            self._finish if self._finish and not stop.is_set() else "cancelled",
            usage,
            cached_tokens=self._cached,
            first_token_ms=self._first_ms,
            total_ms=self._elapsed_ms(),
        )


def _until(stop: Stop, blocks: Iterator[bytes]) -> Iterator[bytes]:
    for block in blocks:
        if stop.is_set():
            return
        yield block


def _shut_down(connection: socket.socket | None) -> None:
    try:
        if connection is not None:
            connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        logger.debug("the connection was closed already")


def _message_of(response: httpx.Response) -> str:
    """Return what the server says went wrong, on one line."""
    try:
        data = json.loads(response.content)
        error = data.get("error", data) if isinstance(data, dict) else data
        message = error.get("message", error) if isinstance(error, dict) else error
    except ValueError:
        message = response.text
    return short(str(message)) or "nothing"


def _retry_after_s(value: str | None) -> float:
    """Return the seconds of a Retry-After header (seconds or a date); NaN where it is absent."""
    if not value:
        return math.nan
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return math.nan

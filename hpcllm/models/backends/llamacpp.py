"""Generate in this process with llama.cpp, through the ``xllamacpp`` package.

Role: the default engine. Requests that come at the same time are batched; prompts that begin alike
share the work of reading the beginning.
"""

from __future__ import annotations

import http.client
import importlib
import json
import logging
import secrets
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hpcllm.errors import BusyError, GenerationError, MissingExtraError, ModelError
from hpcllm.models.backends.base import GenerationResult, TextStream
from hpcllm.models.backends.places import Places
from hpcllm.models.backends.pump import pump
from hpcllm.records import Usage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hpcllm.models.backends.base import Finish, GenerationSettings, Message
    from hpcllm.models.backends.pump import Emit, Stop

logger = logging.getLogger(__name__)

GGUF_MAGIC = b"GGUF"
TOKENIZE_TIMEOUT_S = 30.0

SPECULATION_MATCH = 8
"""Tokens that must repeat before speculation guesses on; fewer guess more often, and wrongly."""
SPECULATION_RANGE = (4, 16)
"""Fewest and most tokens guessed at once."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How to run a model.

    Attributes:
        context_tokens: most tokens of prompt and answer of one request.
        parallel: requests generated at the same time; each adds its context's memory.
        waiting: requests that may wait for a place; one more is refused with BusyError.
        threads: threads of one step of computing. More than the free cores are far slower than
            fewer, as all of them wait for the last.
        speculation: guess tokens that already stand in the prompt and check them together: faster
            where answers copy. Greedy output stays the same but for ties decided by rounding.
        prompt_cache_mib: memory for prompts read earlier; 0 keeps the last one only.
        adapters: LoRA files in GGUF format, applied with their scale.
        load_log: let the engine write why a file cannot be loaded to the error stream.
    """

    context_tokens: int = 2048
    parallel: int = 1
    waiting: int = 32
    threads: int = 1
    speculation: bool = False
    prompt_cache_mib: int = 256
    adapters: tuple[tuple[str, float], ...] = ()
    load_log: bool = False


class LlamaCppBackend:
    """A loaded model.

    Args:
        server: a loaded ``xllamacpp.Server``.
        id: name of the model, for results and messages.
        options: what the server was loaded with.
        key: secret that the server's own port asks for.
    """

    def __init__(self, server: Any, *, id: str, options: EngineOptions, key: str) -> None:
        self.id = id
        self.context_tokens = options.context_tokens
        self._options = options
        self._server = server
        self._key = key
        self._places = Places(id, parallel=options.parallel, waiting=options.waiting)
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []

    @classmethod
    def load(
        cls, model_path: Path, *, id: str, options: EngineOptions | None = None
    ) -> LlamaCppBackend:
        """Load a GGUF file.

        The engine opens a port of its own on the loopback address, which is used to count tokens;
        a random secret keeps other users of the machine out of it.

        Raises:
            ModelError: the file is absent, no GGUF file, of a kind the engine does not know, or
                memory is short.
            MissingExtraError: the engine is not installed.
        """
        options = options or EngineOptions()
        _check_magic(model_path)
        engine = _engine()
        key = secrets.token_urlsafe(24)
        started = time.perf_counter()
        try:
            server = engine.Server(_parameters(engine, model_path, options, key))
        except RuntimeError as exc:
            raise ModelError(
                f"llama.cpp cannot load {model_path}: the file is damaged or of a kind that it "
                f"does not know, or memory is short for a context of {options.context_tokens} "
                f"tokens times {options.parallel}. Check the file with: hpcllm models pull {id}"
            ) from exc
        # A server that is destroyed before its loop has begun waits for it for ever: let it
        # answer once, which also reads the weights in.
        server.handle_completions({"prompt": "a", "max_tokens": 1})
        logger.info("loaded %s in %.2f s", model_path, time.perf_counter() - started)
        return cls(server, id=id, options=options, key=key)

    def generate(
        self,
        messages: Sequence[Message],
        settings: GenerationSettings,
        *,
        cancel: threading.Event | None = None,
    ) -> TextStream:
        """Start an answer; see :class:`~hpcllm.models.backends.base.Backend`.

        Reading the prompt cannot be interrupted: after a cancel, the engine's place is free only
        once the prompt is read. The caller does not wait for that.
        """
        request = _request(messages, settings)
        return TextStream(
            pump(lambda emit, stop: self._run(request, emit, stop), cancel, name="llamacpp")
        )

    def _run(self, request: dict[str, Any], emit: Emit, stop: Stop) -> GenerationResult:
        with self._places.place(stop) as is_given:
            if not is_given:
                return GenerationResult("cancelled")
            try:
                reply = _Reply(emit, stop)
                error = self._server.handle_chat_completions(request, reply.take)
            except ValueError as exc:
                raise GenerationError(f"{self.id} refused the request: {exc}") from exc
        return reply.result(self.id, error)

    def count_tokens(self, text: str) -> int:
        """Return the length of ``text`` in the model's tokens, special ones not counted."""
        return len(self._ask("/tokenize", {"content": text})["tokens"]) if text else 0

    def render(self, messages: Sequence[Message]) -> str:
        """Return the prompt as the model's chat template writes it."""
        data = {"messages": [message.to_json() for message in messages]}
        return str(self._ask("/apply-template", data)["prompt"])

    def _ask(self, path: str, data: dict[str, Any]) -> Any:
        self._places.refuse_closed()
        body = json.dumps(data).encode()
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        for attempt in range(2):
            connection = self._connection()
            try:
                connection.request("POST", path, body, headers)
                response = connection.getresponse()
                reply = response.read()
            except (OSError, http.client.HTTPException) as exc:
                connection.close()  # a connection kept from earlier may have gone stale: once more
                if attempt:
                    message = f"the engine of {self.id} does not answer: {exc}"
                    raise GenerationError(message) from exc
            else:
                break
        with self._lock:
            self._idle.append(connection)
        if response.status != 200:
            raise GenerationError(
                f"the engine of {self.id} answered {path} with status {response.status}"
            )
        return json.loads(reply)

    def _connection(self) -> http.client.HTTPConnection:
        """Return an idle connection to the engine's port, or a new one."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            address = self._server.listening_address.removeprefix("http://")
        return http.client.HTTPConnection(address, timeout=TOKENIZE_TIMEOUT_S)

    def close(self) -> None:
        """Wait for running requests to end, then free the model."""
        self._places.close()
        with self._lock:
            while self._idle:
                self._idle.pop().close()
            self._server = None


def _engine() -> Any:
    try:
        return importlib.import_module("xllamacpp")
    except ModuleNotFoundError as exc:
        raise MissingExtraError(
            "xllamacpp is needed to run a model on this machine and not installed: "
            "pip install xllamacpp, or name a server with model.base_url in hpcllm.toml"
        ) from exc


def _check_magic(path: Path) -> None:
    try:
        with path.open("rb") as stream:
            start = stream.read(4)
    except OSError as exc:
        raise ModelError(f"the model file {path} cannot be read: {exc.strerror}") from exc
    if start != GGUF_MAGIC:
        raise ModelError(
            f"{path} is no GGUF file: it starts with {start!r}, expected {GGUF_MAGIC!r}"
        )


def _parameters(engine: Any, path: Path, options: EngineOptions, key: str) -> Any:
    parameters = engine.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx = options.context_tokens * options.parallel
    parameters.n_parallel = options.parallel
    parameters.kv_unified = True
    parameters.kv_unified_per_slot = options.context_tokens
    parameters.cache_ram_mib = options.prompt_cache_mib
    parameters.verbosity = 3 if options.load_log else -1
    parameters.warmup = False
    parameters.fit_params = False
    parameters.ui = False
    parameters.endpoint_slots = False  # it would show other users' prompts
    parameters.api_keys = [key]
    for cpu in (parameters.cpuparams, parameters.cpuparams_batch):
        cpu.n_threads = options.threads
        cpu.poll = 0  # idle threads sleep: spinning ones take the cores that busy ones need
    if options.adapters:
        parameters.lora_adapters = [
            engine.CommonAdapterLoraInfo(file, scale) for file, scale in options.adapters
        ]
    if options.speculation:
        kind = engine.common_speculative_type.COMMON_SPECULATIVE_TYPE_NGRAM_MOD
        parameters.speculative.types = [kind]
        model = parameters.speculative.ngram_mod
        model.n_match = SPECULATION_MATCH
        model.n_min, model.n_max = SPECULATION_RANGE
    return parameters


def _request(messages: Sequence[Message], settings: GenerationSettings) -> dict[str, Any]:
    return {
        "messages": [message.to_json() for message in messages],
        "max_tokens": settings.answer_tokens,
        "temperature": settings.temperature,
        "repeat_penalty": settings.repeat_penalty,
        "seed": settings.seed,
        "stop": list(settings.stop),
        "cache_prompt": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


class _Reply:
    """Takes the chunks of one answer on the engine's calling thread."""

    def __init__(self, emit: Emit, stop: Stop) -> None:
        self._emit, self._stop = emit, stop
        self._started = time.perf_counter()
        self._first_ms = 0.0
        self._finish: Finish = "cancelled"
        self._prompt = self._generated = self._cached = 0
        self._error: dict[str, Any] | None = None
        self._exception: BaseException | None = None

    def take(self, chunk: dict[str, Any]) -> bool:
        """Handle one chunk; True asks the engine to stop."""
        try:
            self._handle(chunk)
        except BaseException as exc:  # the engine would swallow it: kept, raised by result()
            self._exception = exc
            return True
        return self._stop.is_set()

    def _handle(self, chunk: dict[str, Any]) -> None:
        if "error" in chunk:
            self._error = chunk["error"]
        for choice in chunk.get("choices") or ():
            if text := choice.get("delta", {}).get("content"):
                self._first_ms = self._first_ms or self._elapsed_ms()
                self._emit(text)
            if reason := choice.get("finish_reason"):
                self._finish = "length" if reason == "length" else "stop"
        if usage := chunk.get("usage"):
            self._prompt = usage["prompt_tokens"]
            self._generated = usage["completion_tokens"]
        if timings := chunk.get("timings"):
            self._cached = timings.get("cache_n", 0)

    def _elapsed_ms(self) -> float:
        return (time.perf_counter() - self._started) * 1000

    def result(self, model: str, returned: Any) -> GenerationResult:
        """Return what the answer took, or raise what went wrong."""
        if self._exception is not None:
            raise self._exception
        error = self._error or (returned.get("error") if isinstance(returned, dict) else None)
        if error:
            raise error_from(model, error)
        if self._finish == "cancelled" and not self._stop.is_set():
            raise GenerationError(f"the engine of {model} stopped in the middle of an answer")
        return GenerationResult(
            self._finish,
            Usage(self._prompt, self._generated),
            cached_tokens=self._cached,
            first_token_ms=self._first_ms,
            total_ms=self._elapsed_ms(),
        )


def error_from(model: str, error: dict[str, Any]) -> GenerationError:
    """Return the exception for an error object of llama.cpp."""
    kind, code = error.get("type"), error.get("code")
    if kind == "exceed_context_size_error":
        return GenerationError(
            f"the prompt has {error.get('n_prompt_tokens')} tokens and {model} has room for "
            f"{error.get('n_ctx')}: ask a shorter question, pass fewer passages, or raise "
            "engine_context of the model's catalog entry"
        )
    if kind == "unavailable_error" or code in (429, 503):
        return BusyError(f"{model} is busy: {error.get('message')}. Try again in a moment")
    return GenerationError(f"{model} failed with code {code}: {error.get('message')}")

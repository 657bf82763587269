from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from backend_contract import BackendContract
from chat_server import Plan, say, serve

from hpcllm.errors import ModelError
from hpcllm.models.backends import Backend
from hpcllm.models.backends.llamacpp import EngineOptions, LlamaCppBackend
from hpcllm.models.backends.openai_api import OpenAiBackend, Secret
from hpcllm.models.backends.scripted import ScriptedBackend
from hpcllm.models.catalog import load_catalog
from hpcllm.models.files import local_files

ANSWER = " ".join(str(number) for number in range(1, 501))
MODEL = "smollm2-135m-instruct"


class TestScripted(BackendContract):
    @pytest.fixture
    def backend(self) -> Backend:
        return ScriptedBackend([ANSWER], delay_s=0.001)


@pytest.mark.network
class TestOpenAiOnFakeServer(BackendContract):
    @pytest.fixture
    def backend(self) -> Iterator[Backend]:
        with serve(Plan(after=say(ANSWER, delay_s=0.002))) as url:
            yield OpenAiBackend(url, "fake", context_tokens=4096)


def load_default() -> LlamaCppBackend:
    entry = load_catalog().get(MODEL)
    try:
        files = local_files(entry, Path(os.environ["HPCLLM_HOME"]) / "models")
    except ModelError as exc:
        pytest.skip(str(exc))
    options = EngineOptions(context_tokens=1024, parallel=2, threads=1, speculation=True)
    return LlamaCppBackend.load(files[entry.main_file().name], id=MODEL, options=options)


@pytest.mark.models
class TestLlamaCpp(BackendContract):
    @pytest.fixture
    def backend(self) -> Iterator[Backend]:
        backend = load_default()
        yield backend
        backend.close()

    def test_reuses_a_prompt_that_begins_alike(self, backend: Backend) -> None:
        from hpcllm.models.backends import GenerationSettings, Message

        system = Message("system", "Answer from the passages. " * 20)
        results = []
        for question in ("What is a node?", "What is a queue?"):
            stream = backend.generate([system, Message("user", question)], GenerationSettings(4))
            stream.read()
            results.append(stream.result)
        first, second = results
        assert first is not None and second is not None
        assert second.cached_tokens > 80
        assert second.usage.prompt - second.cached_tokens < 30


@pytest.mark.models
@pytest.mark.network
class TestOpenAiOnLlamaCppServer(BackendContract):
    """The engine's own HTTP server speaks the protocol for real."""

    @pytest.fixture
    def backend(self) -> Iterator[Backend]:
        engine = load_default()
        yield OpenAiBackend(
            f"{engine._server.listening_address}/v1",
            MODEL,
            api_key=Secret(engine._key),
            context_tokens=1024,
        )
        engine.close()


@pytest.mark.models
def test_closing_right_after_loading_does_not_hang() -> None:
    # In a process of its own: a hang in the engine holds the interpreter and cannot be timed out.
    code = """
from pathlib import Path
from hpcllm.models.backends.llamacpp import LlamaCppBackend
import sys
for _ in range(5):
    LlamaCppBackend.load(Path(sys.argv[1]), id="m").close()
"""
    entry = load_catalog().get(MODEL)
    folder = Path(os.environ["HPCLLM_HOME"]) / "models" / MODEL
    load_default().close()  # skips where the model is absent
    path = folder / entry.main_file().name
    subprocess.run([sys.executable, "-c", code, str(path)], timeout=120, check=True)

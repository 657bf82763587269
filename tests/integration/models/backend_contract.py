"""What every generation back end must do; each back end runs these tests on itself."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from hpcllm.errors import GenerationError
from hpcllm.models.backends import Backend, GenerationSettings, Message

QUESTION = [
    Message("system", "Be brief."),
    Message("user", "Write a long story about a supercomputer and its users."),
]


class BackendContract:
    """Subclasses give ``backend`` (open, answers at least 30 tokens) and ``closes_alone``."""

    @pytest.fixture
    def backend(self) -> Backend:
        raise NotImplementedError

    def test_keeps_the_protocol(self, backend: Backend) -> None:
        assert isinstance(backend, Backend)
        assert backend.id
        assert backend.context_tokens >= 512

    def test_streams_pieces_and_then_has_a_result(self, backend: Backend) -> None:
        stream = backend.generate(QUESTION, GenerationSettings(answer_tokens=12))
        assert stream.result is None
        pieces = list(stream)
        assert len(pieces) >= 5
        assert all(pieces)
        assert stream.result is not None
        assert 0 < stream.result.first_token_ms <= stream.result.total_ms

    def test_token_limit_cuts_and_says_so(self, backend: Backend) -> None:
        stream = backend.generate(QUESTION, GenerationSettings(answer_tokens=8))
        stream.read()
        assert stream.result is not None
        assert stream.result.finish == "length"
        assert stream.result.usage.generated == 8
        assert stream.result.usage.prompt >= 8

    def test_stop_text_ends_the_answer_and_is_left_out(self, backend: Backend) -> None:
        whole = backend.generate(QUESTION, GenerationSettings(answer_tokens=20)).read()
        word = whole.split()[4]
        stream = backend.generate(QUESTION, GenerationSettings(answer_tokens=20, stop=(word,)))
        text = stream.read()
        assert word not in text
        assert whole.startswith(text)
        assert stream.result is not None
        assert stream.result.finish == "stop"

    def test_cancel_before_the_start_gives_no_text(self, backend: Backend) -> None:
        cancel = threading.Event()
        cancel.set()
        stream = backend.generate(QUESTION, GenerationSettings(answer_tokens=8), cancel=cancel)
        assert stream.read() == ""
        assert stream.result is not None
        assert stream.result.finish == "cancelled"

    def test_cancel_in_the_middle_ends_the_stream(self, backend: Backend) -> None:
        cancel = threading.Event()
        stream = backend.generate(QUESTION, GenerationSettings(answer_tokens=400), cancel=cancel)
        next(stream)
        cancel.set()
        stream.read()
        assert stream.result is not None
        assert stream.result.finish == "cancelled"

    def test_closing_a_stream_frees_its_place(self, backend: Backend) -> None:
        for _ in range(4):
            stream = backend.generate(QUESTION, GenerationSettings(answer_tokens=400))
            next(stream)
            stream.close()
            assert stream.result is None
            assert list(stream) == []
        assert backend.generate(QUESTION, GenerationSettings(answer_tokens=3)).read()

    def test_a_stream_never_read_costs_nothing(self, backend: Backend) -> None:
        for _ in range(50):
            backend.generate(QUESTION, GenerationSettings(answer_tokens=400))
        assert backend.generate(QUESTION, GenerationSettings(answer_tokens=3)).read()

    def test_answers_several_threads_at_once(self, backend: Backend) -> None:
        def ask(number: int) -> str:
            question = [Message("user", f"Write a long story about {number} computers.")]
            return backend.generate(question, GenerationSettings(answer_tokens=6)).read()

        with ThreadPoolExecutor(4) as pool:
            assert all(list(pool.map(ask, range(6))))

    def test_too_long_a_prompt_is_refused_with_what_to_do(self, backend: Backend) -> None:
        question = [Message("user", "word " * (backend.context_tokens + 500))]
        stream = backend.generate(question, GenerationSettings(answer_tokens=3))
        with pytest.raises(GenerationError, match=r"prompt .*pass fewer passages"):
            stream.read()

    def test_counts_tokens(self, backend: Backend) -> None:
        assert backend.count_tokens("") == 0
        short, long = "one two", "one two three four five six seven eight"
        assert 0 < backend.count_tokens(short) < backend.count_tokens(long)

    def test_a_closed_backend_refuses(self, backend: Backend) -> None:
        backend.close()
        with pytest.raises(GenerationError, match="closed"):
            backend.generate(QUESTION, GenerationSettings(answer_tokens=3)).read()

    def test_leaves_no_thread_behind(self, backend: Backend) -> None:
        before = set(threading.enumerate())
        stream = backend.generate(QUESTION, GenerationSettings(answer_tokens=400))
        next(stream)
        stream.close()
        deadline = time.monotonic() + 20
        while set(threading.enumerate()) - before and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not {t for t in set(threading.enumerate()) - before if t.name in NAMES}


NAMES = {"llamacpp", "openai", "transformers"}

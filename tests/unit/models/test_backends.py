from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from factories import path_entry

from hpcllm.errors import BusyError, ConfigError, GenerationError, ModelError
from hpcllm.models.backends import GenerationResult, GenerationSettings, Message, TextStream
from hpcllm.models.backends.llamacpp import EngineOptions, LlamaCppBackend, error_from
from hpcllm.models.backends.load import load_backend
from hpcllm.models.backends.openai_api import OpenAiBackend
from hpcllm.models.backends.pump import Stop, pump
from hpcllm.models.backends.scripted import Fault, ScriptedBackend
from hpcllm.models.backends.sse import LINE_LIMIT, events, lines
from hpcllm.models.catalog import load_catalog
from hpcllm.records import Usage

QUESTION = [Message("user", "what is a node")]


class TestSettings:
    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"answer_tokens": 0}, "answer_tokens must be at least 1, got 0"),
            ({"temperature": -0.1}, r"temperature must not be negative, got -0\.1"),
            ({"repeat_penalty": 0.5}, r"repeat_penalty must be at least 1, got 0\.5"),
        ],
    )
    def test_values_no_engine_takes(self, fields: dict[str, float], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            GenerationSettings(**fields)  # type: ignore[arg-type]

    def test_rate_counts_from_the_first_token(self) -> None:
        result = GenerationResult("stop", Usage(10, 21), first_token_ms=500, total_ms=2500)
        assert result.generated_per_second == 10.0  # 20 further tokens in 2 seconds
        assert GenerationResult("stop", Usage(10, 1)).generated_per_second == 0.0


class TestTextStream:
    @staticmethod
    def pieces(closed: list[bool]) -> Generator[str, None, GenerationResult]:
        try:
            yield "a"
            yield "b"
        finally:
            closed.append(True)
        return GenerationResult("stop")

    def test_result_comes_after_the_last_piece(self) -> None:
        stream = TextStream(self.pieces([]))
        assert next(stream) == "a"
        assert stream.result is None
        assert stream.read() == "b"
        assert stream.result == GenerationResult("stop")
        assert list(stream) == []
        assert stream.result == GenerationResult("stop")

    def test_leaving_a_with_block_closes(self) -> None:
        closed: list[bool] = []
        with TextStream(self.pieces(closed)) as stream:
            next(stream)
        assert closed == [True]
        assert stream.result is None


class TestPump:
    def test_text_before_an_error_is_given_first(self) -> None:
        def worker(emit: object, stop: Stop) -> GenerationResult:
            emit("a")  # type: ignore[operator]
            raise GenerationError("broken")

        stream = TextStream(pump(worker, None, name="test"))
        assert next(stream) == "a"
        with pytest.raises(GenerationError, match="broken"):
            next(stream)

    def test_a_cancel_does_not_wait_for_the_worker(self) -> None:
        release, cancel = threading.Event(), threading.Event()
        interrupted: list[bool] = []

        def worker(emit: object, stop: Stop) -> GenerationResult:
            stop.interrupt = lambda: interrupted.append(True)
            emit("a")  # type: ignore[operator]
            release.wait()
            return GenerationResult("stop")

        stream = TextStream(pump(worker, cancel, name="test"))
        assert next(stream) == "a"
        cancel.set()
        assert stream.read() == ""
        assert stream.result == GenerationResult("cancelled", Usage(0, 1))
        assert interrupted == [True]
        release.set()

    def test_a_process_that_ends_stops_its_workers(self) -> None:
        code = """
from hpcllm.models.backends import GenerationResult, TextStream
from hpcllm.models.backends.pump import pump

def worker(emit, stop):
    emit("a")
    stop.event.wait()  # for ever, unless the end of the process sets it
    print("stopped", flush=True)
    return GenerationResult("cancelled")

stream = TextStream(pump(worker, None, name="test"))
print(next(stream), flush=True)
raise KeyboardInterrupt
"""
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.stdout == "a\nstopped\n"
        assert done.stderr.endswith("KeyboardInterrupt\n")


class TestScripted:
    def test_answers_come_in_order_and_start_over(self) -> None:
        backend = ScriptedBackend(["one", lambda messages: messages[-1].content.upper()])
        answers = [backend.generate(QUESTION, GenerationSettings()).read() for _ in range(3)]
        assert answers == ["one", "WHAT IS A NODE", "one"]
        assert backend.requests == [tuple(QUESTION)] * 3

    def test_pieces_are_words_with_their_spaces(self) -> None:
        text = "  run\n\n    sbatch job.sh \n"
        stream = ScriptedBackend([text]).generate(QUESTION, GenerationSettings())
        pieces = list(stream)
        assert pieces == ["  run", "\n\n    sbatch", " job.sh", " \n"]
        assert stream.result is not None
        assert stream.result.usage == Usage(4, 4)

    def test_a_fault_comes_after_its_text(self) -> None:
        backend = ScriptedBackend([Fault(BusyError("full"), text="so far"), "fine"])
        stream = backend.generate(QUESTION, GenerationSettings())
        assert [next(stream), next(stream)] == ["so", " far"]
        with pytest.raises(BusyError, match="full"):
            next(stream)
        assert backend.generate(QUESTION, GenerationSettings()).read() == "fine"

    def test_no_answers_are_refused(self) -> None:
        with pytest.raises(ValueError, match="at least one text"):
            ScriptedBackend([])


class TestServerSentEvents:
    def test_only_line_feeds_end_lines(self) -> None:
        assert list(lines([b"a\x0bb\xe2\x80\xa8c\r\nd", b"\n\ne"])) == [
            "a\x0bb\u2028c",
            "d",
            "",
            "e",
        ]

    def test_a_character_cut_between_blocks_is_whole(self) -> None:
        data = 'data: {"t": "é"}\n'.encode()
        for cut in range(len(data)):
            assert list(events([data[:cut], data[cut:]])) == [{"t": "é"}]

    def test_the_end_mark_ends(self) -> None:
        assert list(events([b'data: {"a":1}\n\ndata: [DONE]\n\ndata: {"b":2}\n'])) == [{"a": 1}]

    def test_a_line_without_end_is_not_held_for_ever(self) -> None:
        def endless() -> Iterator[bytes]:
            while True:
                yield b"x" * (LINE_LIMIT // 4)

        with pytest.raises(GenerationError, match="a line of more than"):
            list(lines(endless()))


class TestLlamaCppErrors:
    def test_a_long_prompt_names_both_lengths(self) -> None:
        error = {
            "type": "exceed_context_size_error",
            "code": 400,
            "n_prompt_tokens": 900,
            "n_ctx": 512,
        }
        with pytest.raises(GenerationError, match="has 900 tokens and tiny has room for 512: ask"):
            raise error_from("tiny", error)

    def test_a_busy_engine(self) -> None:
        assert isinstance(error_from("m", {"code": 503, "message": "Loading"}), BusyError)
        assert not isinstance(error_from("m", {"code": 500, "message": "x"}), BusyError)

    def test_files_that_are_no_models(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="cannot be read: No such file"):
            LlamaCppBackend.load(tmp_path / "gone.gguf", id="m")
        other = tmp_path / "other.gguf"
        other.write_bytes(b"PK\x03\x04")
        with pytest.raises(ModelError, match=r"no GGUF file: it starts with b'PK"):
            LlamaCppBackend.load(other, id="m")

    def test_a_file_that_only_begins_like_one(self, tmp_path: Path) -> None:
        path = tmp_path / "cut.gguf"
        path.write_bytes(b"GGUF\x03\x00\x00\x00" + b"\xff" * 100)
        with pytest.raises(ModelError, match=r"cannot load .*cut\.gguf: .*hpcllm models pull m"):
            LlamaCppBackend.load(path, id="m")

    def test_an_exception_in_the_callback_is_kept(self) -> None:
        backend = LlamaCppBackend(FakeServer([{"choices": 3}]), id="m", options=ONE, key="k")
        with pytest.raises(TypeError, match="not iterable"):
            backend.generate(QUESTION, GenerationSettings()).read()

    @pytest.mark.parametrize("as_chunk", [True, False])
    def test_an_error_is_found_as_chunk_and_as_return_value(self, as_chunk: bool) -> None:
        error = {"error": {"code": 500, "message": "no memory"}}
        server = FakeServer([error] if as_chunk else [], None if as_chunk else error)
        backend = LlamaCppBackend(server, id="m", options=ONE, key="k")
        with pytest.raises(GenerationError, match="m failed with code 500: no memory"):
            backend.generate(QUESTION, GenerationSettings()).read()

    def test_a_malformed_request(self) -> None:
        backend = LlamaCppBackend(
            FakeServer([ValueError("bad role")]), id="m", options=ONE, key="k"
        )
        with pytest.raises(GenerationError, match="m refused the request: bad role"):
            backend.generate(QUESTION, GenerationSettings()).read()

    def test_an_engine_that_just_stops(self) -> None:
        piece = {"choices": [{"delta": {"content": "a"}, "finish_reason": None}]}
        backend = LlamaCppBackend(FakeServer([piece]), id="m", options=ONE, key="k")
        with pytest.raises(GenerationError, match="stopped in the middle"):
            backend.generate(QUESTION, GenerationSettings()).read()

    def test_one_more_than_may_wait_is_refused_as_busy(self) -> None:
        gate = threading.Event()
        end = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
        server = FakeServer([gate, end])
        options = EngineOptions(parallel=1, waiting=0)
        backend = LlamaCppBackend(server, id="m", options=options, key="k")
        first = threading.Thread(
            target=lambda: backend.generate(QUESTION, GenerationSettings()).read()
        )
        first.start()
        assert server.entered.wait(10)
        with pytest.raises(BusyError, match="try again in a moment"):
            backend.generate(QUESTION, GenerationSettings()).read()
        gate.set()
        first.join()
        assert backend.generate(QUESTION, GenerationSettings()).read() == ""

    def test_who_is_cancelled_while_waiting_never_reaches_the_engine(self) -> None:
        gate = threading.Event()
        server = FakeServer([gate, {"choices": [{"delta": {}, "finish_reason": "stop"}]}])
        backend = LlamaCppBackend(server, id="m", options=EngineOptions(waiting=2), key="k")
        first = threading.Thread(
            target=lambda: backend.generate(QUESTION, GenerationSettings()).read()
        )
        first.start()
        assert server.entered.wait(10)
        for _ in range(8):  # more than may wait, one after the other
            cancel = threading.Event()
            stream = backend.generate(QUESTION, GenerationSettings(), cancel=cancel)
            threading.Timer(0.01, cancel.set).start()
            assert stream.read() == ""
            assert stream.result is not None and stream.result.finish == "cancelled"
            until(lambda: not backend._places._queue)
        assert server.calls == 1
        gate.set()
        first.join()
        backend.close()
        with pytest.raises(GenerationError, match="the engine of m is closed"):
            backend.generate(QUESTION, GenerationSettings()).read()


ONE = EngineOptions()


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.005)


class FakeServer:
    """Plays the engine's side: gives chunks, raises errors and waits for events in order."""

    def __init__(self, steps: list[object], returned: object = None) -> None:
        self.steps, self.returned = steps, returned
        self.entered = threading.Event()
        self.calls = 0

    def handle_chat_completions(self, request: object, callback: object) -> object:
        self.entered.set()
        self.calls += 1
        for step in self.steps:
            if isinstance(step, threading.Event):
                step.wait()
            elif isinstance(step, Exception):
                raise step
            elif callback(step):  # type: ignore[operator]
                break
        return self.returned


class TestLoading:
    def test_auto_takes_the_server_where_one_is_given(self, tmp_path: Path) -> None:
        entry = load_catalog().get("qwen2.5-coder-0.5b-instruct")
        backend = load_backend("auto", entry, models_dir=tmp_path, base_url="http://localhost:1/v1")
        assert isinstance(backend, OpenAiBackend)
        assert (backend.id, backend.context_tokens) == (entry.id, 4096)
        backend.close()

    def test_auto_without_a_server_needs_the_files(self, tmp_path: Path) -> None:
        entry = load_catalog().get("smollm2-135m-instruct")
        with pytest.raises(ModelError, match="hpcllm models pull smollm2-135m-instruct"):
            load_backend("auto", entry, models_dir=tmp_path)

    def test_openai_needs_an_address(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"needs an address: set model\.base_url"):
            load_backend("openai", path_entry(tmp_path), models_dir=tmp_path)

    def test_an_unknown_name_lists_the_known(self, tmp_path: Path) -> None:
        message = r"no back end 'lamacpp'; did you mean 'llamacpp'\?.*auto, llamacpp, openai"
        with pytest.raises(ConfigError, match=message):
            load_backend("lamacpp", path_entry(tmp_path), models_dir=tmp_path)


def test_the_light_modules_load_no_engine() -> None:
    code = (
        "import sys, hpcllm.models.backends, hpcllm.models.catalog, hpcllm.models.download;"
        "heavy = {'xllamacpp', 'httpx', 'huggingface_hub', 'gguf', 'numpy', 'torch'};"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

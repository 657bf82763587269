from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from hpcllm.errors import EvaluationError, GenerationError
from hpcllm.evaluation.contamination import (
    TrainingText,
    find_contamination,
    read_training_texts,
    words_of,
)
from hpcllm.evaluation.perplexity import (
    CompletionsLogprobs,
    compare_perplexity,
    log_perplexity,
    read_twins,
)
from hpcllm.index.embedders.hashing import HashEmbedder
from tests.unit.evaluation.helpers import question

LONG = "after how many days without any access does the scratch file system delete my files"
ASKED = [
    question(1, question="How large is my home quota?"),
    question(2, question=LONG),
    question(3, question="gpu limit"),
]


def text(said: str, place: str = "t.jsonl:1") -> TrainingText:
    return TrainingText(place, said, tuple(words_of(said)))


def kinds(*training: str, embedder: HashEmbedder | None = None) -> list[tuple[str, str]]:
    report = find_contamination(ASKED, [text(t) for t in training], embedder=embedder)
    return [(hit.question, hit.kind) for hit in report.hits]


def test_equal_text_is_found_whatever_its_form() -> None:
    assert kinds("Hello! HOW LARGE is my 'home' quóta??") == [("q-001", "string")]


def test_very_short_questions_must_be_equal() -> None:
    assert kinds("what is the gpu limit here") == []
    assert kinds("GPU limit?") == [("q-003", "string")]


def test_shared_word_sequences_are_found() -> None:
    report = find_contamination(ASKED, [text(f"tell me {LONG.replace('delete', 'remove')}")])
    (hit,) = report.hits
    assert (hit.question, hit.kind) == ("q-002", "n-gram")
    # of the 8 sequences of 8 words of a question of 15 words, 5 do not hold "delete"
    assert hit.score == pytest.approx(5 / 8)
    assert not report.is_clean


def test_set_phrases_can_be_allowed() -> None:
    training = [text(f"tell me {LONG.replace('delete', 'remove')}")]
    assert find_contamination(ASKED, training, allowed=[LONG]).is_clean


def test_clean_data_is_clean() -> None:
    report = find_contamination(
        ASKED, [text("How do I compile with MPI?")], embedder=HashEmbedder()
    )
    assert report.is_clean and report.candidates == ()
    assert (report.questions, report.examples) == (3, 1)


def test_near_embeddings_are_hits_and_less_near_ones_candidates() -> None:
    shuffled = "is large quota home my How ?"
    report = find_contamination(ASKED, [text(shuffled)], embedder=HashEmbedder())
    assert [(hit.question, hit.kind) for hit in report.hits] == [("q-001", "embedding")]
    more = text("quota home my how large is that please")
    report = find_contamination(ASKED, [more], embedder=HashEmbedder())
    assert report.is_clean
    assert [(hit.question, hit.kind) for hit in report.candidates] == [("q-001", "paraphrase")]


def test_training_forms(tmp_path: Path) -> None:
    rows = [
        {"messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "<passage>\n[1] x\n</passage>\n\nQuestion: one?"},
            {"role": "assistant", "content": "a"},
        ]},
        {"prompt": "Pergunta: dois?"},
        {"prompt": [{"role": "user", "content": "three?"}], "completion": []},
        {"question": "four?", "answer": "x"},
    ]  # fmt: skip
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows) + "\n")
    found = read_training_texts([path])
    assert [(t.place, t.text) for t in found] == [
        ("train.jsonl:1", "one?"), ("train.jsonl:2", "dois?"), ("train.jsonl:3", "three?"),
        ("train.jsonl:4", "four?"),
    ]  # fmt: skip


@pytest.mark.parametrize("line", ["{", "[]", '{"text": "x"}', '{"messages": [{"role": "user"}]}'])
def test_other_lines_are_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(f'{{"question": "x"}}\n{line}\n')
    with pytest.raises(EvaluationError, match=r"bad\.jsonl line 2 is no training example"):
        read_training_texts([path])


class FixedLogprobs:
    """A text with "known" in it is half as surprising."""

    def logprobs(self, said: str) -> list[float]:
        return [-1.0 if "known" in said else -2.0] * 4


def test_known_questions_are_less_surprising_than_their_twins() -> None:
    asked = [question(n, question=f"known {n}") for n in range(12)]
    twins = {q.id: f"another wording {q.id}" for q in asked}
    report = compare_perplexity(asked, twins, FixedLogprobs())
    assert report.n == 12
    assert report.question == pytest.approx(math.e)
    assert report.twin == pytest.approx(math.e**2)
    assert report.is_suspicious
    fair = compare_perplexity(asked, {q.id: f"known as {q.id}" for q in asked}, FixedLogprobs())
    assert not fair.is_suspicious


def test_few_twins_say_nothing() -> None:
    with pytest.raises(EvaluationError, match="1 questions have a reworded twin, at least 10"):
        compare_perplexity(ASKED, {"q-001": "x"}, FixedLogprobs())
    assert log_perplexity([]) == 0.0


def test_twins_are_read(tmp_path: Path) -> None:
    (tmp_path / "twins.jsonl").write_text('{"id": "q-001", "question": "Other?"}\n')
    assert read_twins(tmp_path / "twins.jsonl") == {"q-001": "Other?"}
    (tmp_path / "bad.jsonl").write_text('{"id": "q-001"}\n')
    with pytest.raises(EvaluationError, match=r"bad\.jsonl.*expected lines like"):
        read_twins(tmp_path / "bad.jsonl")


@pytest.fixture
def completions() -> Iterator[tuple[str, dict[str, Any]]]:
    """A completions endpoint that gives back what it is told to."""
    state: dict[str, Any] = {"reply": {}, "requests": []}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            state["requests"].append(json.loads(self.rfile.read(length)))
            body = json.dumps(state["reply"]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1", state
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.network
def test_logprobs_of_a_server(completions: tuple[str, dict[str, Any]]) -> None:
    url, state = completions
    state["reply"] = {"choices": [{"logprobs": {"token_logprobs": [None, -0.5, -1.5]}}]}
    source = CompletionsLogprobs(url, "m")
    assert source.logprobs("some text") == [-0.5, -1.5]
    (request,) = state["requests"]
    assert request["prompt"] == "some text" and request["echo"] and request["max_tokens"] == 0
    source.close()


@pytest.mark.network
def test_a_server_that_cannot_say_is_told_apart(completions: tuple[str, dict[str, Any]]) -> None:
    url, state = completions
    state["reply"] = {"choices": [{"text": "x", "logprobs": None}]}
    source = CompletionsLogprobs(url, "m")
    with pytest.raises(GenerationError, match=r"does not return the log-probabilities.*vLLM"):
        source.logprobs("x")
    source.close()

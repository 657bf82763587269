"""A model behind a server that fails midway."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hpcllm.evaluation.questions import load_questions
from hpcllm.evaluation.results import read_results
from hpcllm.evaluation.runner import run_system
from hpcllm.evaluation.scoring import Scorer
from hpcllm.evaluation.systems import System, open_system
from hpcllm.workspace import Workspace

pytestmark = pytest.mark.network


@contextmanager
def server(fails: Any) -> Iterator[tuple[str, list[str]]]:
    """Serve chat completions; requests for which ``fails`` holds break off after one word."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = request["messages"][-1]["content"]
            seen.append(said)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self._event({"choices": [{"delta": {"content": "See [1]"}, "finish_reason": None}]})
            if fails(said):
                return  # the connection closes without an end
            self._event({"choices": [{"delta": {}, "finish_reason": "stop"}]})
            usage = {"prompt_tokens": 7, "completion_tokens": 2}
            self._event({"choices": [], "usage": usage})
            self.wfile.write(b"data: [DONE]\n\n")

        def _event(self, data: Any) -> None:
            self.wfile.write(b"data: " + json.dumps(data).encode() + b"\n\n")

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_address[1]}/v1", seen
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


@pytest.mark.parametrize("retrieval", [True, False])
def test_what_fails_is_tried_again_recorded_and_counted(site: Path, retrieval: bool) -> None:
    questions = load_questions(site / "corpus" / "questions")
    with server(lambda said: "gpus" in said.rpartition("Question:")[2]) as (url, seen):
        system = System(
            id="served",
            model="any-name",
            base_url=url,
            retrieval=retrieval,
            parallel=4,
            minimum_evidence=0.0,
        )
        answerer = open_system(system, Workspace.find(site))
        run_system(
            system,
            answerer,
            questions,
            results_dir=site / "results",
            make_scorer=Scorer,
            name="all",
            sleep=lambda _: None,
        )
        answerer.close()
    found = read_results(site / "results" / "all" / "served.jsonl")
    failed = [row for row in found.rows if row.status == "failed"]
    assert [row.id for row in found.rows] == [question.id for question in questions]
    assert [row.id for row in failed] == [f"gpus-{n}" for n in range(4)]
    assert found.header.failed == 4
    assert all("broke off" in row.error for row in failed)
    broken = [said for said in seen if "gpus" in said.rpartition("Question:")[2]]
    assert len(broken) == 4 * system.attempts
    answered = [row for row in found.rows if row.status == "ok"]
    assert all(row.measured["generated_tokens"] == 2 for row in answered)

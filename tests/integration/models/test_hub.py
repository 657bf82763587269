"""Files from the Hub: the real client library against a server that answers as the Hub does."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hpcllm.errors import DownloadError
from hpcllm.models.catalog import ModelEntry
from hpcllm.models.download import HubAccess, pull

sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "models"))
from factories import entry_of, file_table

pytestmark = pytest.mark.network

CONTENT = b"".join(number.to_bytes(4, "big") for number in range(50_000))
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_abcdefghijklmnop"


@dataclass
class Hub:
    """The state of the server.

    ``break_at``: the first transfer ends after so many bytes.
    """

    content: bytes = CONTENT
    is_gated: bool = False
    granted: str = TOKEN
    break_at: int = 0
    status: int = 0
    etag: str = ""
    url: str = ""
    requests: list[tuple[str, str, str]] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_HEAD(self) -> None:
        self.answer(with_body=False)

    def do_GET(self) -> None:
        self.answer(with_body=True)

    def answer(self, *, with_body: bool) -> None:
        hub = self.hub
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.path.startswith("/api/"):  # what the client asks beside the file itself
            return self.refuse(404, "", "not here")
        hub.requests.append((self.command, self.headers.get("Range", ""), token))
        if hub.status:
            return self.refuse(hub.status, "", "server error")
        if hub.is_gated and token != hub.granted:
            return self.refuse(403 if token else 401, "GatedRepo", "Access is restricted")
        if self.path != f"/some/repo/resolve/{COMMIT}/model.bin":
            return self.refuse(404, "EntryNotFound", "Entry not found")
        self.send_file(with_body)
        return None

    def refuse(self, status: int, code: str, message: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", message)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send_file(self, with_body: bool) -> None:
        hub, start = self.hub, 0
        if match := re.match(r"bytes=(\d+)-", self.headers.get("Range", "")):
            start = int(match[1])
        body = hub.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("ETag", f'"{hub.etag or hashlib.sha256(hub.content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(body)))
        if start:
            end = len(hub.content)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{end}")
        self.end_headers()
        if not with_body:
            return
        if hub.break_at and not start:
            self.wfile.write(body[: hub.break_at])
            self.close_connection = True
            return
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[Hub]:
    state = Hub()
    handler = type("HubHandler", (Handler,), {"hub": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def no_stored_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))


def entry(**place: Any) -> ModelEntry:
    fields = {"kind": "hub", "repo": "some/repo", "path": "model.bin", "revision": COMMIT, **place}
    return entry_of(file_table("model.bin", CONTENT, places=[fields]))


def reach(hub: Hub, token: str | None = None) -> HubAccess:
    return HubAccess(endpoint=hub.url, token=token, timeout_s=2)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_arrives_and_nothing_else_stays(hub: Hub, tmp_path: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    got = pull(entry(), tmp_path, hub=reach(hub), progress=lambda *step: seen.append(step))
    assert got["model.bin"].read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT), "model.bin")
    assert names_in(tmp_path / "tiny") == [".lock", ".verified.json", "model.bin"]


def test_the_endpoint_of_the_environment_is_used(hub: Hub, tmp_path: Path) -> None:
    code = f"""
from hpcllm.models.catalog import ModelEntry
from hpcllm.models.download import pull
from pathlib import Path
entry = ModelEntry.model_validate_json({entry().model_dump_json()!r})
pull(entry, Path({str(tmp_path)!r}))
"""
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert (tmp_path / "tiny" / "model.bin").read_bytes() == CONTENT
    assert {token for _, _, token in hub.requests} == {TOKEN}


def test_a_broken_transfer_goes_on_where_it_stopped(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 16_384)
    hub.break_at = 65_536
    seen: list[int] = []
    got = pull(entry(), tmp_path, hub=reach(hub), progress=lambda done, *_: seen.append(done))
    assert got["model.bin"].read_bytes() == CONTENT
    ranges = [asked for method, asked, _ in hub.requests if method == "GET"]
    assert ranges == ["", "bytes=65536-"]
    assert seen == sorted(seen)


def test_other_content_is_refused_before_it_is_fetched(hub: Hub, tmp_path: Path) -> None:
    hub.content = CONTENT[::-1]
    with pytest.raises(DownloadError, match="the Hub has other content there: SHA-256"):
        pull(entry(), tmp_path, hub=reach(hub))
    assert [method for method, _, _ in hub.requests] == ["HEAD"]


def test_other_content_under_the_right_mark_is_discarded(hub: Hub, tmp_path: Path) -> None:
    hub.content, hub.etag = CONTENT[::-1], "a" * 40
    with pytest.raises(DownloadError, match=r"Hub: some/repo/model\.bin: what arrived has SHA-256"):
        pull(entry(), tmp_path, hub=reach(hub))
    assert names_in(tmp_path / "tiny") == [".lock"]


@pytest.mark.parametrize("token", [None, "hf_wrongwrongwrong"])
def test_a_gated_repository_says_how_to_give_a_token(
    hub: Hub, tmp_path: Path, token: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    hub.is_gated = True
    caplog.set_level(logging.DEBUG)
    with pytest.raises(
        DownloadError, match=r"some/repo is gated: accept its licence.*HF_TOKEN"
    ) as e:
        pull(entry(gated=True), tmp_path, hub=reach(hub, token))
    if token:
        assert token not in str(e.value)
        assert token not in caplog.text


def test_a_token_opens_a_gated_repository_and_is_not_logged(
    hub: Hub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hub.is_gated = True
    caplog.set_level(logging.DEBUG)
    access = reach(hub, TOKEN)
    assert TOKEN not in repr(access)
    assert pull(entry(gated=True), tmp_path, hub=access)
    assert TOKEN not in caplog.text
    assert {token for _, _, token in hub.requests} == {TOKEN}


def test_a_file_that_is_not_there(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=rf"the Hub has no other\.bin at {COMMIT} in some/repo"):
        pull(entry(path="other.bin"), tmp_path, hub=reach(hub))


def test_a_server_error(hub: Hub, tmp_path: Path) -> None:
    hub.status = 500
    with pytest.raises(DownloadError, match="the Hub answered with status 500"):
        pull(entry(), tmp_path, hub=reach(hub))


def test_a_hub_that_cannot_be_reached(tmp_path: Path) -> None:
    access = HubAccess(endpoint="http://127.0.0.1:1", timeout_s=1)
    with pytest.raises(DownloadError, match=r"http://127\.0\.0\.1:1 cannot be reached"):
        pull(entry(), tmp_path, hub=access)


def test_offline_mode_is_named(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DownloadError, match=r"offline mode is on \(HF_HUB_OFFLINE\)"):
        pull(entry(), tmp_path, hub=reach(hub))
    assert hub.requests == []

"""``hpcllm serve`` and ``hpcllm keys`` as a user runs them, over the smallest workspace."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.server.conftest import free_port, until_up

pytestmark = [pytest.mark.network, pytest.mark.slow]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace of one page, indexed without a model."""
    root = tmp_path / "site"
    (root / "docs").mkdir(parents=True)
    (root / "corpus").mkdir()
    (root / "docs" / "quota.md").write_text("# Quota\n\nThe home quota is 50 GB.\n")
    (root / "corpus" / "sources.toml").write_text(
        '[[source]]\nname = "docs"\nkind = "folder"\npath = "docs"\n'
    )
    (root / "hpcllm.toml").write_text(
        '[index]\nembedder = "hashing"\n[model]\nid = "extractive"\n'
        "[retrieval]\nminimum_evidence = 0.0\n"
    )
    run(root, "ingest")
    return root


def run(root: Path, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hpcllm", *arguments, "--workspace", str(root)]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=120)


@pytest.fixture
def served(workspace: Path) -> Iterator[str]:
    """A running server on all addresses, closed by a key."""
    key = run(workspace, "keys", "add", "bot").stdout.strip()
    port = free_port()
    command = [sys.executable, "-m", "hpcllm", "serve", "--host", "0.0.0.0", "--port", str(port)]
    process = subprocess.Popen([*command, "--workspace", str(workspace)])
    until_up(process, f"http://127.0.0.1:{port}")
    yield f"http://127.0.0.1:{port} {key}"
    process.terminate()
    assert process.wait(20) in (0, -15)


def test_a_key_opens_it_and_removing_the_key_closes_it(served: str, workspace: Path) -> None:
    url, key = served.split()
    headers = {"authorization": f"Bearer {key}"}
    body = {"question": "What is the home quota?"}
    assert httpx.post(f"{url}/api/ask", json=body).status_code == 401
    answer = httpx.post(f"{url}/api/ask", json=body, headers=headers).json()
    assert "50 GB" in answer["answer"]
    run(workspace, "keys", "remove", "bot")
    assert httpx.post(f"{url}/api/ask", json=body, headers=headers).status_code in (200, 401)
    run(workspace, "keys", "add", "other")
    assert httpx.post(f"{url}/api/ask", json=body, headers=headers).status_code == 401
    assert (workspace / "var" / "hpcllm.db").is_file()


def test_it_does_not_listen_openly_elsewhere(workspace: Path) -> None:
    done = run(workspace, "serve", "--host", "0.0.0.0")
    assert done.returncode == 2
    assert "neither a password nor a key is set" in done.stderr
    assert "hpcllm keys password" in done.stderr


def test_a_port_that_is_taken(workspace: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run(workspace, "serve", "--port", str(port))
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in done.stderr


def test_keys_and_passwords_are_listed_without_their_secrets(workspace: Path) -> None:
    key = run(workspace, "keys", "add", "open-webui").stdout.strip()
    assert run(workspace, "keys", "password", given="correct horse\n").returncode == 0
    listed = run(workspace, "keys", "list")
    assert "open-webui" in listed.stdout
    assert key.split("_", 2)[2] not in listed.stdout
    assert "password: set\nstaff password: not set" in listed.stderr
    short = run(workspace, "keys", "password", "--staff", given="short\n")
    assert (short.returncode, "expected at least 10" in short.stderr) == (2, True)


def test_without_an_index(tmp_path: Path) -> None:
    (tmp_path / "hpcllm.toml").write_text('[index]\nembedder = "hashing"\n')
    done = run(tmp_path, "serve", "--port", "0")
    assert done.returncode == 1
    assert "hpcllm ingest" in done.stderr

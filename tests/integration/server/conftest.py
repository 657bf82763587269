from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.unit.server.helpers import build_site

ROOT = Path(__file__).parents[3]


@dataclass
class Server:
    """A running server process."""

    process: subprocess.Popen[bytes]
    url: str
    folder: Path

    def health(self) -> Any:
        return httpx.get(f"{self.url}/healthz", timeout=10).json()

    def wait_for(self, **wanted: Any) -> None:
        """Wait until its health says so."""
        for _ in range(600):
            health = self.health()
            if all(health[name] == value for name, value in wanted.items()):
                return
            time.sleep(0.02)
        raise AssertionError(f"expected {wanted}, still {health}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until_up(process: subprocess.Popen[bytes], url: str) -> None:
    for _ in range(1200):
        if process.poll() is not None:
            raise AssertionError(f"the server ended with {process.returncode}")
        try:
            httpx.get(f"{url}/healthz", timeout=5)
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("the server did not come up")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start a server over two indexed pages; it is killed when the test ends."""
    processes: list[subprocess.Popen[bytes]] = []
    build_site(tmp_path / "index")

    def begin(**options: Any) -> Server:
        port = free_port()
        module = "tests.integration.server.scripted_server"
        command = [sys.executable, "-m", module, str(tmp_path), str(port), json.dumps(options)]
        process = subprocess.Popen(command, cwd=ROOT)
        processes.append(process)
        url = f"http://127.0.0.1:{port}"
        until_up(process, url)
        return Server(process, url, tmp_path)

    yield begin
    for process in processes:
        process.kill()
        process.wait()

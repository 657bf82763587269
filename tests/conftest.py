"""What every test gets: a clean environment, a folder of its own for models, no outside network."""

from __future__ import annotations

import ipaddress
import os
import socket
from pathlib import Path

import pytest

REAL_HOME = Path(os.environ.get("HPCLLM_HOME") or Path.home() / ".cache" / "hpcllm")
"""Where ``make models`` put the default models, read before the environment is cleaned."""


def _is_local(address: object) -> bool:
    if not isinstance(address, tuple):
        return True  # a Unix socket
    host = address[0]
    if host in ("localhost", ""):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@pytest.fixture(autouse=True)
def no_outside_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sockets connect to this machine only."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        if not _is_local(address):
            raise RuntimeError(f"a test tried to reach {address!r}")
        connect(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture(autouse=True)
def clean_environment(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Remove this package's variables and point its home to an empty folder."""
    for name in [name for name in os.environ if name.startswith("HPCLLM_")]:
        monkeypatch.delenv(name)
    for name in ("HF_TOKEN", "HF_ENDPOINT", "HUGGING_FACE_HUB_TOKEN", "SLURM_CONF"):
        monkeypatch.delenv(name, raising=False)
    uses_models = request.node.get_closest_marker("models") is not None
    home = REAL_HOME if uses_models else tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HPCLLM_HOME", str(home))


@pytest.fixture(scope="session")
def real_home() -> Path:
    """Folder of the real models, for tests marked ``models``."""
    return REAL_HOME

"""Does the server keep to its own description, whatever is sent to it?"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.server.conftest import Server

pytest.importorskip("schemathesis")
pytestmark = [pytest.mark.network, pytest.mark.slow]


SETTINGS = """\
[checks.positive_data_acceptance]
enabled = false  # that the last message is a user's, and not blank, cannot be described

[checks.negative_data_rejection]
expected-statuses = [400, 404, 405, 413]  # a body can be too large as well as wrong
"""


def test_generated_requests(start: Callable[..., Server], tmp_path: Path) -> None:
    server = start(parallel=4)
    (tmp_path / "schemathesis.toml").write_text(SETTINGS)
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"{server.url}/openapi.json",
        "--max-examples=25",
        "--seed=1",
        "--no-color",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]

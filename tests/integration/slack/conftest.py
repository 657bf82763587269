from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcllm.server.store import Store
from tests.integration.slack.fake_slack import FakeSlack


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    with FakeSlack() as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "hpcllm.db") as opened:
        yield opened

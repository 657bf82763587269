from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcllm.server.store import Store
from hpcllm.ui.texts import Texts
from hpcllm.ui.turns import Frame
from tests.unit.server.helpers import build_site


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "var" / "hpcllm.db") as opened:
        yield opened


@pytest.fixture
def index_dir(tmp_path: Path) -> Path:
    """An index of two pages."""
    build_site(tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture
def frame() -> Frame:
    hosts = frozenset({"d.example"})
    return Frame(Texts("en"), "../../", hosts, "help@hpc.example")

"""Embedding tells nobody that it happened: onnxruntime's own telemetry is off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EMBED = """
import sys
from pathlib import Path
from hpcllm.index.embedders import load_embedder
print(load_embedder("all-minilm-l6-v2", models_dir=Path(sys.argv[1])).embed(["a job"]).shape)
"""


@pytest.mark.models
def test_embedding_leaves_no_trace_in_the_users_folders(real_home: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    done = subprocess.run(
        [sys.executable, "-c", EMBED, str(real_home / "models")],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.stdout.strip() == "(1, 384)", done.stderr
    assert list(tmp_path.rglob("*")) == []

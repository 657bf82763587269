"""``python -m hpcllm`` is the ``hpcllm`` program."""

from __future__ import annotations

from hpcllm.cli.main import run

run()

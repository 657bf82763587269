from __future__ import annotations

import os
import subprocess
import sys

from hpcllm.training.process import ALLOCATOR, training_environment


def test_all_settings_are_added_once() -> None:
    more = training_environment({}, 2)
    assert more["OMP_NUM_THREADS"] == "2"
    assert set(ALLOCATOR) <= set(more)
    assert training_environment(more, 2) == {}


def test_the_command_restarts_itself_under_them() -> None:
    code = (
        "import os, sys\n"
        "from hpcllm.training import process\n"
        "process.restart_for_training(1, ['--version'])\n"
    )
    environment = {k: v for k, v in os.environ.items() if k not in ALLOCATOR}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.startswith("hpcllm ")
    environment |= ALLOCATOR
    again = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert again.stdout == ""

"""What answers cost: words to read, time to wait, tokens to pay, memory to provide."""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hpcllm.evaluation.metrics.markdown import without_marks

if TYPE_CHECKING:
    from collections.abc import Sequence

STATUS_FILE = Path("/proc/self/status")


def answer_words(text: str) -> int:
    """Return the words of an answer without its citation marks, code included; 0 for none.

    Comparable between systems; lower is better at the same share of facts.
    """
    return len(without_marks(text).split())


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return a percentile of latencies, linear between neighbours; None for no values.

    Args:
        values: milliseconds, any order.
        percent: 0 to 100; 50 is the median.

    Comparable only between runs on the same machine with the same load.
    """
    return float(np.percentile(np.asarray(values, dtype=float), percent)) if values else None


def peak_memory_mib() -> float:
    """Return the largest resident memory of this process so far in MiB, mapped files included.

    Read from the kernel's mark of this program, as ``getrusage`` would count what the parent had
    in memory when it started this process. A model behind a server is not in it.
    """
    try:
        for line in STATUS_FILE.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass  # not Linux
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1024**2

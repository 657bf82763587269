"""Run all benchmarks one after another: ``python -m tests.bench``."""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = ("bench_search", "bench_ingest", "bench_server", "bench_page")


def main() -> int:
    """Run every benchmark in a process of its own; the figures go to standard output."""
    codes = [
        subprocess.run([sys.executable, "-m", f"tests.bench.{name}"], check=False).returncode
        for name in BENCHMARKS
    ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())

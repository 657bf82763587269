"""What the server costs over the assistant alone, on a scripted model.

Run: python -m tests.bench.bench_server [REQUESTS]

The same questions are answered by an assistant in this process and over HTTP by a server process
(recording included), one after another and by eight callers at once. The model takes 5 ms a token,
so that eight callers are held up by it and not by this machine's cores.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.integration.server.conftest import ROOT, free_port, until_up
from tests.unit.server.helpers import QUESTION, build_site, open_assistant

PARALLEL = 4
CALLERS = 8


def milliseconds(call: Callable[[], object], count: int) -> list[float]:
    """Return how long each of ``count`` calls took, in order of length."""
    taken = []
    for _ in range(count):
        started = time.perf_counter()
        call()
        taken.append((time.perf_counter() - started) * 1000)
    return sorted(taken)


def per_second(call: Callable[[], object], count: int, threads: int) -> float:
    """Return calls a second with ``threads`` at once."""
    started = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: call(), range(count)))
    return count / (time.perf_counter() - started)


def measure(folder: Path, delay_s: float, count: int) -> dict[str, float]:
    """Compare both ways with a model that takes ``delay_s`` for a token."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    options = json.dumps({"delay_s": delay_s, "parallel": PARALLEL, "waiting": CALLERS})
    command = [sys.executable, "-m", "tests.integration.server.scripted_server"]
    process = subprocess.Popen([*command, str(folder), str(port), options], cwd=ROOT)
    try:
        until_up(process, url)
        limits = httpx.Limits(max_keepalive_connections=CALLERS)
        with (
            open_assistant(folder / "index", delay_s=delay_s) as assistant,
            httpx.Client(limits=limits, timeout=60) as client,
        ):

            def alone() -> object:
                return assistant.answer(QUESTION)

            def served() -> object:
                return client.post(f"{url}/api/ask", json={"question": QUESTION}).raise_for_status()

            for warm_up in (alone, served):
                milliseconds(warm_up, 5)
            one = {"alone": milliseconds(alone, count), "served": milliseconds(served, count)}
            return {
                **{f"{name}_ms_p50": statistics.median(taken) for name, taken in one.items()},
                **{f"{name}_ms_p95": taken[int(count * 0.95)] for name, taken in one.items()},
                "alone_per_s": per_second(alone, count, PARALLEL),
                "served_per_s_8_callers": per_second(served, count, CALLERS),
            }
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """Measure and print JSON."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder:
        build_site(Path(folder) / "index")
        for delay_s in (0.0, 0.005, 0.05):
            found = measure(Path(folder), delay_s, count)
            rounded = {name: round(value, 2) for name, value in found.items()}
            sys.stdout.write(json.dumps({"token_delay_s": delay_s, **rounded}) + "\n")


if __name__ == "__main__":
    main()

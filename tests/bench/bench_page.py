"""From pressing Enter to the first word on the page, beside the first token of the API.

Run: python -m tests.bench.bench_page [ROUNDS] [URL]

Without an address it starts ``hpcllm serve`` over the reference site with its default model, which
must have been fetched. The starter questions are asked in turn on the page (Chromium) and through
``POST /api/ask``, changing sides from question to question and from round to round: both sides get
every question equally often, and neither is asked what the model has just read. The page may take
15 % longer at the median.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import httpx
from playwright.sync_api import Browser, sync_playwright

from hpcllm.ui.theme import load_starters
from tests.integration.server.conftest import ROOT, free_port, until_up

BUDGET = 1.15
"""Most times the API's first token that the page's may take."""
PATIENCE_S = 300
TYPING_MS = 10
"""Milliseconds between two keys; a person needs far more, so the page is never busier here."""
PAUSE_MS = 500
"""Milliseconds between the last letter and Enter."""
LOOK_MS = 100
"""Milliseconds between two looks at whether an answer is finished: looking at every frame, as
Playwright does by itself, would make the page draw all the time and slow down what is measured."""
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
WATCH = """
addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  window.sentAt = performance.now();
  window.seenAt = 0;
}, true);
new MutationObserver(() => {
  if (window.seenAt) return;
  const places = document.querySelectorAll("#hl-live .hl-text, #hl-log .hl-turn .hl-text");
  if (![...places].some((place) => place.textContent.trim())) return;
  window.seenAt = -1;
  requestAnimationFrame(() => { window.seenAt = performance.now(); });
}).observe(document, { childList: true, subtree: true, characterData: true });
"""
"""Notes when Enter is pressed and when the first words are drawn, in the browser's own time."""
IS_FINISHED = """
() => window.seenAt > 0 && document.querySelector("#hl-log .hl-turn")
  && !document.querySelector("#hl-live .hl-turn")
"""


@contextmanager
def served() -> Iterator[str]:
    """Serve the reference site with a database of its own; yield its address."""
    port = free_port()
    command = [sys.executable, "-m", "hpcllm", "serve", "-w", str(ROOT), "--port", str(port)]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "HPCLLM_SERVER__DATABASE": f"{folder}/hpcllm.db"}
        process = subprocess.Popen(command, cwd=ROOT, env=environment)
        try:
            url = f"http://127.0.0.1:{port}"
            until_up(process, url)
            yield url
        finally:
            process.kill()
            process.wait()


def ask_page(browser: Browser, url: str, question: str) -> float:
    """Return the milliseconds to the first words in a new chat; the answer is waited for."""
    context = browser.new_context(locale="en-GB")
    context.set_default_timeout(PATIENCE_S * 1000)
    context.add_init_script(WATCH)
    try:
        page = context.new_page()
        page.goto(f"{url}/chat/en/")
        page.locator("body[data-prepared]").wait_for()
        page.locator("#hl-earlier-data .hl-earlier").wait_for(state="attached")
        box = page.locator("#hl-question textarea")
        box.press_sequentially(question, delay=TYPING_MS)
        page.wait_for_timeout(PAUSE_MS)
        box.press("Enter")
        page.wait_for_function(IS_FINISHED, polling=LOOK_MS)
        return float(page.evaluate("window.seenAt - window.sentAt"))
    finally:
        context.close()


def ask_api(client: httpx.Client, url: str, question: str) -> float:
    """Return the milliseconds to the first text event; the answer is waited for."""
    body = {"question": question, "stream": True}
    first = 0.0
    started = time.perf_counter()
    with client.stream("POST", f"{url}/api/ask", json=body) as response:
        response.raise_for_status()
        for line in response.iter_lines():
            if not first and line in ("event: token", "event: replace"):
                first = (time.perf_counter() - started) * 1000
    return first


def measure(
    sides: Sequence[tuple[str, Callable[[str], float]]], questions: Sequence[str], rounds: int
) -> dict[str, dict[str, list[float]]]:
    """Ask every question on every side; return the milliseconds by side and question."""
    taken: dict[str, dict[str, list[float]]] = {
        name: {question: [] for question in questions} for name, _ in sides
    }
    for turn in range(rounds * len(sides)):
        for number, question in enumerate(questions):
            name, ask = sides[(turn + number) % len(sides)]
            taken[name][question].append(ask(question))
    return taken


def summary(taken: dict[str, dict[str, list[float]]]) -> dict[str, object]:
    """Return medians, and the ratio of page to API at the median and for each question."""
    of_page, of_api = taken["page"], taken["api"]
    page, api = (
        statistics.median(value for values in side.values() for value in values)
        for side in (of_page, of_api)
    )
    ratios = [statistics.median(of_page[q]) / statistics.median(of_api[q]) for q in of_page]
    return {
        "page_first_words_ms_p50": round(page, 1),
        "api_first_token_ms_p50": round(api, 1),
        "ratio_of_medians": round(page / api, 3),
        "median_ratio_of_a_question": round(statistics.median(ratios), 3),
        "asked_a_side": sum(map(len, of_page.values())),
        "budget": BUDGET,
        "is_within_budget": page / api <= BUDGET,
    }


def compare(url: str, rounds: int, executable: str) -> dict[str, object]:
    """Measure a running server."""
    questions = [s.question for s in load_starters(ROOT / "ui") if s.language == "en"]
    with sync_playwright() as playwright, httpx.Client(timeout=PATIENCE_S) as client:
        browser = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        sides: list[tuple[str, Callable[[str], float]]] = [
            ("page", lambda question: ask_page(browser, url, question)),
            ("api", lambda question: ask_api(client, url, question)),
        ]
        for _, ask in sides:
            ask("Which login nodes are there?")  # warms up caches and the browser
        taken = measure(sides, questions, rounds)
        browser.close()
    return summary(taken)


def main() -> None:
    """Measure and print JSON."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    found: dict[str, object]
    if executable is None:
        found = {"left_out": "the page needs Chromium, and there is none: apt-get install chromium"}
    elif len(sys.argv) > 2:
        found = compare(sys.argv[2].rstrip("/"), rounds, executable)
    else:
        with served() as url:
            found = compare(url, rounds, executable)
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()

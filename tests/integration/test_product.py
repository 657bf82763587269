"""The product from the outside: a site is made, ingested, changed, killed and asked."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SETTINGS = '[site]\nname = "T"\n[index]\nembedder = "hashing"\n[model]\nid = "extractive"\n'
KILLS = 20


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "hpcllm", *map(str, arguments)]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=False)


def page(number: int, version: str) -> str:
    return f"# Page {number}\n\nThe queue q{number} allows {version} hours in this release.\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(40):
        (docs / f"p{number}.md").write_text(page(number, "old"))
    assert run("init", tmp_path / "site", "--docs", docs).returncode == 0
    (tmp_path / "site" / "hpcllm.toml").write_text(SETTINGS)
    assert run("ingest", "-w", tmp_path / "site").returncode == 0
    return tmp_path / "site"


def ingest(site: Path) -> dict[str, object]:
    done = run("ingest", "-w", site, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def search(site: Path, text: str, k: int = 3) -> list[dict[str, str]]:
    done = run("search", "-w", site, "--json", "-k", str(k), text)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["passages"]


def test_unchanged_then_changed_then_deleted(site: Path) -> None:
    docs = site.parent / "docs"
    assert ingest(site)["unchanged"] is True
    (docs / "p3.md").write_text(page(3, "new"))
    (docs / "p4.md").unlink()
    report = ingest(site)
    assert (report["embedded"], report["removed"], report["documents"]) == (1, 2, 39)
    assert "new hours" in search(site, "queue q3")[0]["text"]
    assert all(found["path"] != "p4.md" for found in search(site, "queue q4", k=20))


def test_a_touched_file_embeds_nothing(site: Path) -> None:
    os.utime(site.parent / "docs" / "p1.md", (1, 1))
    report = ingest(site)
    assert (report["embedded"], report["reused"]) == (0, 40)


def test_losing_all_documents_keeps_the_old_index(site: Path) -> None:
    docs = site.parent / "docs"
    docs.rename(site.parent / "elsewhere")
    done = run("ingest", "-w", site)
    assert done.returncode == 1
    assert str(docs) in done.stderr
    docs.mkdir()
    done = run("ingest", "-w", site)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert search(site, "queue q3")[0]["path"] == "p3.md"


def test_a_damaged_index_file_is_named_with_the_remedy(site: Path) -> None:
    index = site / "index"
    [generation] = [path for path in index.iterdir() if path.name.startswith("gen-")]
    victim = next(path for path in generation.rglob("*.sqlite"))
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 0xFF
    victim.write_bytes(bytes(data))
    done = run("search", "-w", site, "queue q3")
    assert done.returncode == 1
    assert victim.name in done.stderr
    assert "hpcllm ingest" in done.stderr
    assert run("ingest", "-w", site).returncode == 0
    assert search(site, "queue q3")[0]["path"] == "p3.md"


def test_a_kill_at_any_moment_leaves_one_whole_generation(site: Path) -> None:
    docs = site.parent / "docs"
    chance = random.Random(7)
    versions = ["old"]
    for attempt in range(KILLS):
        versions.append(f"v{attempt}x")
        for number in range(40):
            (docs / f"p{number}.md").write_text(page(number, versions[-1]))
        process = subprocess.Popen(
            command("ingest", "-w", site), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(chance.uniform(0.1, 1.6))
        process.send_signal(signal.SIGKILL)
        process.wait()
        texts = [found["text"] for found in search(site, "queue allows hours release", k=40)]
        seen = {text.split("allows ")[1].split()[0] for text in texts}
        assert len(texts) == 40
        assert len(seen) == 1
        assert seen <= set(versions)
    assert ingest(site)["documents"] == 40
    assert versions[-1] in search(site, "queue q5")[0]["text"]


def test_questions_from_a_file_keep_their_ids_and_order(site: Path, tmp_path: Path) -> None:
    questions = tmp_path / "q.jsonl"
    rows = [{"id": f"n{n}", "question": f"hours of queue q{n}?"} for n in (5, 2)]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = run("search", "-w", site, "--questions", questions, "-k", "2", "--json").stdout
    lines = [json.loads(line) for line in found.splitlines()]
    assert [line["id"] for line in lines] == ["n5", "n2"]
    assert [line["passages"][0]["path"] for line in lines] == ["p5.md", "p2.md"]
    assert {"rank", "score", "source", "path", "title", "url", "headings", "text"} <= set(
        lines[0]["passages"][0]
    )
    asked = run("ask", "-w", site, "--questions", questions, "--json").stdout
    answers = [json.loads(line) for line in asked.splitlines()]
    assert [line["id"] for line in answers] == ["n5", "n2"]
    assert {
        "question", "answer", "abstained", "citations", "checks", "model", "timings_ms", "tokens",
    } <= set(answers[0])  # fmt: skip


def test_chat_takes_follow_ups_and_leaves_at_the_end_of_input(site: Path) -> None:
    done = subprocess.run(
        command("chat", "-w", site),
        input="How many hours does queue q7 allow?\nand q8?\n/new\n/quit\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "old hours" in done.stdout

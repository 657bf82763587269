"""Exports of tickets become redacted pages in a scope of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcllm.corpus.ingest import ReadSettings, open_sources, read_corpus
from hpcllm.corpus.sources import load_sources
from hpcllm.corpus.tickets import Ticket, read_export
from hpcllm.errors import ConfigError, IngestError
from hpcllm.index.build import build_generation
from hpcllm.index.embedders.hashing import HashEmbedder
from hpcllm.index.generation import open_current
from hpcllm.index.search import Searcher

MAIL = (
    "Dear support team,\n\nmy job stays pending with reason QOSMaxCpuPerUserLimit.\n"
    "I am ana.silva@uni.example and work in /home/asilva.\n\nBest regards,\nAna Silva\nRoom 7"
)
ANSWER = "Hi Ana,\n\nyou run 512 cores already; wait, or cancel jobs with `scancel`.\n\nCheers,\nBo"


def export(rows: list[object]) -> bytes:
    return "\n".join(json.dumps(row) for row in rows).encode()


def tickets(data: bytes, path: str = "t.jsonl", fields: dict[str, str] | None = None):
    found = list(read_export(data, path, fields or {}))
    return [t for t in found if isinstance(t, Ticket)], [t for t in found if isinstance(t, tuple)]


def test_a_ticket_keeps_question_answer_date_and_tags_and_no_person() -> None:
    row = {"id": "HPC-7", "subject": "Job pending", "question": MAIL, "answer": ANSWER}
    [ticket], problems = tickets(
        export([row | {"tags": ["slurm", "limits"], "created": "2024-05-02T10:11:12Z"}])
    )
    assert not problems
    assert ticket.path == "t.jsonl/HPC-7"
    assert ticket.result.title == "Job pending"
    assert ticket.result.metadata == {
        "tags": "slurm, limits",
        "date": "2024-05-02",
        "kind": "ticket",
    }
    text = ticket.result.text
    assert "QOSMaxCpuPerUserLimit" in text and "`scancel`" in text and "2024-05-02" in text
    for person in ("Ana", "Silva", "asilva", "uni.example", "Room 7", "Bo\n", "Dear", "Cheers"):
        assert person not in text
    assert ticket.removed == ("e-mail address", "home path")


def test_csv_with_semicolons_quotes_and_line_ends_in_fields() -> None:
    data = 'id;question;answer;category\n1;"How?\nI ask; really";"So: ""this"" way";slurm\n'
    [ticket], problems = tickets(data.encode("utf-8-sig"), "export.csv")
    assert not problems
    assert "I ask; really" in ticket.result.text
    assert 'So: "this" way' in ticket.result.text


def test_fields_of_other_names_are_given_in_the_options() -> None:
    data = export([{"Text": "Why?", "Reply to user": "Because."}])
    assert tickets(data)[1] == [(1, "has no answer: name its field with options.fields.answer")]
    [ticket], _ = tickets(data, fields={"question": "Text", "answer": "Reply to user"})
    assert "Because." in ticket.result.text


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("not json", "is no JSON"),
        ("[1, 2]", "is no JSON object but list"),
        ('{"question": "x"}', "has no answer"),
        ('{"answer": "x"}', "has no question"),
        ("[" * 100_000, "is no JSON"),
        (json.dumps({"question": "q" * 300_000, "answer": "a"}), "longer than 200000"),
    ],
)
def test_a_bad_line_is_named_and_the_others_are_read(line: str, reason: str) -> None:
    good = json.dumps({"question": "q", "answer": "a"})
    found, problems = tickets(f"{good}\n{line}\n{good}\n".encode())
    assert len(found) == 2
    [(number, text)] = problems
    assert number == 2
    assert reason in text


def test_wrong_files_and_options_say_what_is_expected() -> None:
    with pytest.raises(IngestError, match=r"expected one of \.jsonl .* got \.xlsx"):
        tickets(b"", "t.xlsx")
    with pytest.raises(IngestError, match=r"unknown field 'qestion'.*did you mean 'question'"):
        tickets(b"{}", fields={"qestion": "x"})
    with pytest.raises(IngestError, match="binary"):
        tickets(b"\x00\x01\x02" * 50)


def test_headings_and_open_fences_of_a_ticket_stay_inside_it() -> None:
    rows = [{"title": "T", "question": "# shout\n```\n# comment", "answer": "a"}]
    [ticket], _ = tickets(export(rows))
    assert ticket.result.text == "# T\n\n### shout\n```\n# comment\n```\n\n## Answer\n\na\n"


def searcher_of(root: Path, mix: str) -> Searcher:
    (root / "docs").mkdir(exist_ok=True)
    (root / "docs" / "quota.md").write_text("# Quota\n\nThe home quota is 20 GB for everybody.\n")
    rows = [{"id": n, "question": "Is the home quota 20 GB?", "answer": "Yes"} for n in (1, 1)]
    (root / "t.jsonl").write_bytes(export(rows))
    (root / "sources.toml").write_text(
        '[[source]]\nname = "docs"\npath = "docs"\n'
        f'[[source]]\nname = "desk"\nkind = "tickets"\npath = "t.jsonl"\n{mix}\n'
    )
    sources = load_sources(root / "sources.toml")
    opened = open_sources(sources, workspace_root=root, cache_dir=root / "cache")
    embedder = HashEmbedder()
    corpus = read_corpus(
        sources, opened, count_tokens=embedder.count_tokens, settings=ReadSettings()
    )
    build_generation(root / "index", corpus.chunks, corpus.documents, embedder)
    return Searcher(open_current(root / "index"), embedder)


def test_tickets_are_found_only_where_they_are_asked_for(tmp_path: Path) -> None:
    searcher = searcher_of(tmp_path, "")
    assert {p.source for p in searcher.search("home quota 20 GB")} == {"docs"}
    assert {p.source for p in searcher.search("home quota", scopes=["tickets"])} == {"docs", "desk"}
    assert searcher.scopes == ("tickets",)
    assert searcher.tickets == {("desk", "t.jsonl/1"): "", ("desk", "t.jsonl/1-2"): ""}


def test_mix_true_puts_them_among_the_documentation(tmp_path: Path) -> None:
    searcher = searcher_of(tmp_path, "mix = true")
    assert {p.source for p in searcher.search("home quota 20 GB")} == {"docs", "desk"}
    assert searcher.scopes == () and len(searcher.tickets) == 2


def test_a_missing_export_and_a_wrong_key_are_named(tmp_path: Path) -> None:
    listing = tmp_path / "sources.toml"
    listing.write_text('[[source]]\nname = "desk"\nkind = "tickets"\npath = "gone.jsonl"\n')
    with pytest.raises(IngestError, match=r"source desk: .*gone\.jsonl cannot be opened"):
        open_sources(load_sources(listing), workspace_root=tmp_path, cache_dir=tmp_path)
    listing.write_text('[[source]]\nname = "d"\nkind = "tickets"\npath = "x"\nmixed = true\n')
    with pytest.raises(ConfigError, match="did you mean 'mix'"):
        load_sources(listing)

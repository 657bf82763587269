"""The build report as lines of text and as one HTML page.

Role: plain data in (the content of ``report.json``), text out. Everything that comes from documents
is escaped: a report is opened by staff and may quote what an attacker wrote.
"""

from __future__ import annotations

import html
from collections import Counter
from typing import TYPE_CHECKING, Any

from hpcllm.corpus.findings import FINDING_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SHOWN_OF_A_KIND = 15
"""Findings of one kind of one source on the terminal; the HTML page shows all."""

KIND_TEXTS: dict[str, tuple[str, str]] = {
    "secret": (
        "Secrets taken out",
        "Tokens, keys and passwords never reach the index. Take them out of the page too.",
    ),
    "quarantined": (
        "Text that gives orders to a language model",
        "Kept out of the index. Find out who wrote it.",
    ),
    "disagreement": (
        "Pages that disagree in a number",
        "Two nearly equal texts state different numbers. One of them is probably out of date.",
    ),
    "outdated": (
        "Pages that are out of date",
        "They rank below current pages and are cited with a warning.",
    ),
    "broken link": ("Links that lead nowhere", "Readers of the page meet an error there."),
    "broken include": ("Includes that are missing", "The page lacks that text, here too."),
    "duplicate": ("Pages that repeat another", "Folded: answers name both addresses."),
    "oversized": ("Very long pages", "Short pages of one subject are found better."),
    "generated": (
        "Pages written by a program",
        "API references and the like rank lower, so that they do not swamp answers.",
    ),
}


def place_of(finding: Mapping[str, Any]) -> str:
    """Return ``path:line``, or the path where the line is not known."""
    path, line = finding["path"], finding.get("line", 0)
    return f"{path}:{line}" if line else str(path)


def report_lines(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the report for a terminal.

    Args:
        data: content of ``report.json``.
    """
    for source in data["sources"]:
        yield summary_of(source)
        for kind, found in findings_by_kind(source):
            yield f"  {KIND_TEXTS[kind][0]} ({len(found)})"
            for finding in found[:SHOWN_OF_A_KIND]:
                other = f" <> {finding['other']}" if finding.get("other") else ""
                yield f"    {place_of(finding)}{other}: {finding['text']}"
            if len(found) > SHOWN_OF_A_KIND:
                yield f"    … and {len(found) - SHOWN_OF_A_KIND} more"
        for reason, paths in skipped_by_reason(source):
            yield f"  skipped: {reason} ({len(paths)}): {', '.join(paths[:5])}" + (
                " …" if len(paths) > 5 else ""
            )
    yield (
        f"{data['documents']} pages, {data['chunks']} chunks, {data['folded']} duplicates folded, "
        f"generation {data['generation']}"
    )


def summary_of(source: Mapping[str, Any]) -> str:
    """Return one line about a source."""
    statuses = "".join(f", {count} {name}" for name, count in sorted(source["statuses"].items()))
    return (
        f"{source['name']}: {source['documents']} pages{statuses}, {source['words']} words, "
        f"{source['chunks']} chunks, {len(source['skipped'])} files skipped, "
        f"{len(source.get('findings', ()))} findings"
    )


def findings_by_kind(source: Mapping[str, Any]) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Yield (kind, findings) of a source, the gravest kind first, kinds without any left out."""
    findings = source.get("findings", ())
    for kind in FINDING_KINDS:
        found = [finding for finding in findings if finding["kind"] == kind]
        if found:
            yield kind, found


def skipped_by_reason(source: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Return (reason, paths) of skipped files, the most frequent reason first."""
    reasons = Counter(item["reason"] for item in source["skipped"])
    return [
        (reason, [item["path"] for item in source["skipped"] if item["reason"] == reason])
        for reason, _ in reasons.most_common()
    ]


STYLE = """
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}
body{max-width:75rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%;margin:.5rem 0 1rem}
th,td{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid #8886}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
code{font-size:.9em;overflow-wrap:anywhere}summary{cursor:pointer;font-weight:600}
details{margin:.5rem 0}.note{opacity:.8;margin:.2rem 0}.good{opacity:.7}
"""


def report_page(data: Mapping[str, Any]) -> str:
    """Return the report as one HTML page that needs no other file and runs no script.

    Args:
        data: content of ``report.json``.
    """
    sources = data["sources"]
    total = sum(len(source.get("findings", ())) for source in sources)
    body = "\n".join(
        [
            f"<h1>What was read: {_text(data['documents'])} pages, {total} findings</h1>",
            f"<p>{_text(data.get('created', ''))} · generation <code>{_text(data['generation'])}"
            f"</code> · {_text(data['chunks'])} chunks, {_text(data['folded'])} duplicates folded"
            f" · {_text(data['seconds'])} s</p>",
            _overview(sources),
            *(_section(source) for source in sources),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">"
        f"<title>Build report</title><style>{STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def _text(value: object) -> str:
    return html.escape(str(value))


def _overview(sources: list[Mapping[str, Any]]) -> str:
    rows = "".join(
        f'<tr><td><a href="#{_text(source["name"])}">{_text(source["name"])}</a></td>'
        f"<td>{_text(source.get('kind', ''))}</td><td>{_text(source.get('licence', ''))}</td>"
        + "".join(
            f'<td class="n">{_text(value)}</td>'
            for value in (
                source["documents"],
                source["words"],
                source["chunks"],
                len(source["skipped"]),
                len(source.get("findings", ())),
            )
        )
        + "</tr>"
        for source in sources
    )
    numbers = "".join(
        f'<th class="n">{name}</th>' for name in ("pages", "words", "chunks", "skipped", "findings")
    )
    head = f"<tr><th>source</th><th>kind</th><th>licence</th>{numbers}</tr>"
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def _section(source: Mapping[str, Any]) -> str:
    parts = [f'<h2 id="{_text(source["name"])}">{_text(summary_of(source))}</h2>']
    for kind, found in findings_by_kind(source):
        title, advice = KIND_TEXTS[kind]
        rows = "".join(map(_row, found))
        parts.append(
            f"<details{' open' if len(found) <= 40 else ''}><summary>{_text(title)} ({len(found)})"
            f'</summary><p class="note">{_text(advice)}</p><table>{rows}</table></details>'
        )
    if source["skipped"]:
        parts.append(_skipped(source))
    if source["warnings"]:
        rows = "".join(f"<tr><td>{_text(line)}</td></tr>" for line in source["warnings"])
        parts.append(
            f"<details><summary>What readers could not do ({len(source['warnings'])})</summary>"
            f"<table>{rows}</table></details>"
        )
    if len(parts) == 1:
        parts.append('<p class="good">Nothing to report.</p>')
    return "\n".join(parts)


def _row(finding: Mapping[str, Any]) -> str:
    other = finding.get("other")
    second = f"<br><code>{_text(other)}</code>" if other else ""
    place = f"<code>{_text(place_of(finding))}</code>{second}"
    return f"<tr><td>{place}</td><td>{_text(finding['text'])}</td></tr>"


def _skipped(source: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{_text(reason)}</td><td>{', '.join(f'<code>{_text(p)}</code>' for p in paths)}"
        "</td></tr>"
        for reason, paths in skipped_by_reason(source)
    )
    return (
        f"<details><summary>Files skipped ({len(source['skipped'])})</summary>"
        f"<table>{rows}</table></details>"
    )

"""HTML of the staff page.

Role: records in, HTML out. Everything shown was written by users, models or documents and is
escaped.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from hpcllm.ui.citations import page_path
from hpcllm.ui.gaps import page_stub, question_of
from hpcllm.ui.rendering import render_text
from hpcllm.ui.turns import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hpcllm.records import Document
    from hpcllm.server.stored import Gap, PageCount, Totals
    from hpcllm.ui.gaps import Group
    from hpcllm.ui.texts import Texts

SHOWN_GROUPS = 50
SHOWN_PAGES = 20
ARROWS = {"rising": "↗", "falling": "↘", "steady": "→"}


@dataclass(frozen=True, slots=True)
class PageFinding:
    """What the last ingest found on a page; see :class:`hpcllm.corpus.findings.Finding`.

    Attributes:
        source: name of the page's source.
        kind: what it is.
        path: the page.
        line: line of its file from 1, or 0.
        text: what was found.
        other: the other place that it is about, or empty.
    """

    source: str
    kind: str
    path: str
    line: int
    text: str
    other: str


@dataclass(frozen=True, slots=True)
class PageLists:
    """Pages of the index by how they are used and what is wrong with them.

    Attributes:
        cited: most cited first.
        never_cited: current pages that no answer cites.
        findings: of the last ingest, the gravest first.
    """

    cited: Sequence[PageCount]
    never_cited: Sequence[Document]
    findings: Sequence[PageFinding]

    def of_kind(self, *kinds: str) -> list[PageFinding]:
        """Return the findings of these kinds."""
        return [finding for finding in self.findings if finding.kind in kinds]

    def of_other_kinds(self, *kinds: str) -> list[PageFinding]:
        """Return the findings of none of these kinds."""
        return [finding for finding in self.findings if finding.kind not in kinds]


def totals_html(totals: Totals, texts: Texts, root: str, *, days: int) -> str:
    """Return the head of the page: what it is, counts, files."""
    counts = (
        (totals.answers, "staff_answers"),
        (totals.abstained, "staff_abstained"),
        (totals.down, "staff_down"),
        (totals.up, "staff_up"),
    )
    cells = "".join(
        f"<div><dt>{escape(texts(key))}</dt><dd>{count}</dd></div>" for count, key in counts
    )
    return (
        f"<h1>{escape(texts('staff_title'))}</h1><p>{escape(texts('staff_intro'))}</p>"
        f'<p class="hl-muted">{escape(texts("staff_days", days=days))}</p>'
        f'<dl class="hl-totals">{cells}</dl>'
        f'<div class="hl-row"><a class="hl-button" href="{root}staff/gaps.csv">'
        f"{escape(texts('staff_csv_gaps'))}</a>"
        f'<a class="hl-button" href="{root}staff/pages.csv">{escape(texts("staff_csv_pages"))}</a>'
        f'<form method="post" action="{root}logout"><button class="hl-action" type="submit">'
        f"{escape(texts('staff_sign_out'))}</button></form></div>"
    )


def gaps_html(groups: Sequence[Group], texts: Texts, root: str) -> str:
    """Return the open questions by group."""
    if not groups:
        return f'<p class="hl-muted">{escape(texts("staff_none"))}</p>'
    shown = "".join(_group(group, texts, root) for group in groups[:SHOWN_GROUPS])
    more = _more(len(groups) - SHOWN_GROUPS, texts)
    return (
        f'<section class="hl-groups"><h2>{escape(texts("staff_open"))}</h2>{shown}{more}</section>'
    )


def _group(group: Group, texts: Texts, root: str) -> str:
    trend = texts("staff_trend", now=group.this_week, before=group.week_before)
    name = texts(f"staff_{group.trend}")
    stub = page_stub(
        group,
        title=texts("staff_stub_title"),
        questions=texts("staff_stub_questions"),
        related=texts("staff_stub_related"),
        todo=texts("staff_stub_todo"),
    )
    pages = "".join(
        f'<li><a href="{escape(root + page_path(p["source"], p["path"], p["url"]))}">'
        f"{render_text(p['title'])}</a> <span>{render_text(p['path'])}</span></li>"
        for p in group.pages
    )
    questions = "".join(_gap(gap, texts, root) for gap in group.gaps)
    ids = "".join(f'<input type="hidden" name="gap" value="{gap.id}">' for gap in group.gaps)
    return (
        f'<details class="hl-group"><summary><strong>{render_text(group.title)}</strong>'
        f'<span class="hl-count">{escape(texts.count("staff_group", len(group.gaps)))}</span>'
        f'<span class="hl-trend hl-{group.trend}"><span aria-hidden="true">'
        f"{ARROWS[group.trend]}</span> {escape(name)}: {escape(trend)}</span></summary>"
        f'<ul class="hl-gaps">{questions}</ul>'
        f"<h3>{escape(texts('staff_nearest'))}</h3><ul>{pages}</ul>"
        f'<details class="hl-stub"><summary class="hl-button">{escape(texts("staff_stub"))}'
        f'</summary><textarea rows="14" aria-label="{escape(texts("staff_stub_label"))}">'
        f"{escape(stub)}</textarea></details>"
        f'<form method="post" action="{root}staff/gaps" class="hl-row">{ids}'
        f"{_submit('written', texts('staff_written'))}"
        f"{_submit('dismissed', texts('staff_dismiss'))}</form></details>"
    )


def _gap(gap: Gap, texts: Texts, root: str) -> str:
    reasons = [texts(f"reason.{f.reason}") for f in gap.feedback if f.reason]
    said = [f.comment for f in gap.feedback if f.comment]
    notes = [texts(f"staff_{gap.kind}"), *reasons, f"{gap.created:%Y-%m-%d}"]
    comments = "".join(f"<blockquote>{render_text(comment)}</blockquote>" for comment in said)
    return (
        f'<li><a href="{root}{SHARED}/{escape(gap.answer.receipt_id)}">'
        f"{render_text(question_of(gap.answer))}</a>"
        f'<span class="hl-muted">{escape(" · ".join(notes))}</span>{comments}'
        f'<form method="post" action="{root}staff/gaps">'
        f'<input type="hidden" name="gap" value="{gap.id}">'
        f'<input type="hidden" name="receipt" value="{escape(gap.answer.receipt_id)}">'
        f"{_submit('question', texts('staff_make_question'))}</form></li>"
    )


def _submit(action: str, label: str) -> str:
    return (
        f'<button class="hl-action" type="submit" name="action" value="{action}">'
        f"{escape(label)}</button>"
    )


def pages_html(pages: PageLists, texts: Texts, root: str) -> str:
    """Return the lists of pages."""
    cited = [
        f"<td>{_page(c.source, c.path, c.title, root)}</td><td>{c.citations}</td><td>{c.down}</td>"
        for c in pages.cited
    ]
    never = [f"<td>{_page(d.source, d.path, d.title, root)}</td>" for d in pages.never_cited]
    page, found = texts("staff_page"), texts("staff_found")
    heads = (page, texts("staff_citations"), texts("staff_down"))
    known = ("outdated", "disagreement")
    stale = [_finding(finding, root) for finding in pages.of_kind("outdated")]
    conflicts = [_finding(finding, root) for finding in pages.of_kind("disagreement")]
    others = [_finding(finding, root) for finding in pages.of_other_kinds(*known)]
    tables = [
        _table("staff_most_cited", heads, cited, texts),
        _table("staff_stale", (page, found), stale, texts),
        _table("staff_contradicting", (page, found), conflicts, texts),
        _table("staff_never_cited", (page,), never, texts),
        _table("staff_findings", (page, found), others, texts),
    ]
    return f"<section><h2>{escape(texts('staff_pages'))}</h2>{''.join(tables)}</section>"


def _page(source: str, path: str, title: str, root: str) -> str:
    return (
        f'<a href="{escape(root + page_path(source, path))}">{render_text(title)}</a> '
        f'<span class="hl-muted">{render_text(f"{source}/{path}")}</span>'
    )


def _finding(finding: PageFinding, root: str) -> str:
    line = f":{finding.line}" if finding.line else ""
    other = f" ↔ {finding.other}" if finding.other else ""
    return (
        f"<td>{_page(finding.source, finding.path, f'{finding.path}{line}', root)}</td>"
        f"<td>{render_text(f'{finding.text}{other}')}</td>"
    )


def _table(key: str, heads: Iterable[str], rows: Sequence[str], texts: Texts) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join(f"<tr>{row}</tr>" for row in rows[:SHOWN_PAGES])
    note = texts.find(f"{key}_note")
    inner = (
        f'<div class="hl-table" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{_more(len(rows) - SHOWN_PAGES, texts)}"
        if rows
        else f'<p class="hl-muted">{escape(texts("staff_nothing"))}</p>'
    )
    explained = f'<p class="hl-muted">{escape(note)}</p>' if note else ""
    return (
        f'<details class="hl-list" {"open" if key == "staff_most_cited" else ""}>'
        f"<summary><h3>{escape(texts(key))}</h3> <span>{len(rows)}</span></summary>"
        f"{explained}{inner}</details>"
    )


def _more(count: int, texts: Texts) -> str:
    return f'<p class="hl-muted">{escape(texts("staff_more", n=count))}</p>' if count > 0 else ""

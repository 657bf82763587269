"""The staff page: what the documentation lacks, and which pages are used, stale or at odds.

Role: routes below ``/staff``, which the server's gate opens to staff alone. Plain HTML and forms;
it reads the store and the index and writes nothing but the state of gaps and a file of proposed
evaluation questions.
"""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import logging
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from hpcllm.corpus.findings import FINDING_KINDS
from hpcllm.errors import HpcLlmError, StoreError
from hpcllm.index.update import saved_report
from hpcllm.ui.frame import document_html
from hpcllm.ui.gaps import Group, group_gaps, question_of
from hpcllm.ui.proposals import PROPOSALS_FILE, propose_question
from hpcllm.ui.rendering import render_text
from hpcllm.ui.requests import language_of, root_of
from hpcllm.ui.staff_view import PageFinding, PageLists, gaps_html, pages_html, totals_html
from hpcllm.ui.texts import Texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from hpcllm.records import Document
    from hpcllm.server.service import AssistantService
    from hpcllm.server.store import Store
    from hpcllm.server.stored import Gap
    from hpcllm.ui.frame import Brand

logger = logging.getLogger(__name__)

DAYS = 30
"""Days that are counted."""
OPEN_GAPS = 500
"""Most open questions that are grouped; older ones wait until these are settled."""
EMBEDDED_CHARACTERS = 600
"""Characters of a question that decide its group."""
PAGES = 5000
"""Most cited pages that are counted."""
_FORMULA = re.compile(r"^[=+\-@\t\r]")


class Staff:
    """Gathers what the staff page shows.

    Args:
        service: lends the index and the embedder.
        store: holds gaps and answers.
        index_dir: folder of the index, where the last ingest left its report.
        proposals_dir: folder of the file of proposed evaluation questions.
    """

    def __init__(
        self, service: AssistantService, store: Store, *, index_dir: Path, proposals_dir: Path
    ) -> None:
        self.service = service
        self.store = store
        self.index_dir = index_dir
        self.proposals_dir = proposals_dir
        self._vectors: dict[str, NDArray[np.float32]] = {}

    def groups(self) -> list[Group]:
        """Return the open questions in groups, largest first."""
        gaps = self.store.gaps(limit=OPEN_GAPS)
        return group_gaps(gaps, self._embed(gaps), now=datetime.now(UTC))

    def pages(self) -> PageLists:
        """Return the pages by how they are used and what is wrong with them."""
        cited = self.store.statistics.cited_pages(since(), limit=PAGES)
        used = {(page.source, page.path) for page in cited}
        with self.service.lend() as assistant:
            generation = assistant.searcher.generation
            documents = [
                document
                for source, path in generation.store.pages()
                if (document := generation.document(source, path)) is not None
            ]
        return PageLists(
            cited=cited,
            never_cited=[d for d in documents if _is_lasting(d) and (d.source, d.path) not in used],
            findings=self._findings(),
        )

    def _findings(self) -> list[PageFinding]:
        """Return what the last ingest found; empty where it left no report."""
        try:
            report = saved_report(self.index_dir)
        except StoreError as exc:
            logger.info("no findings of an ingest: %s", exc)
            return []
        found = [
            PageFinding(source["name"], **finding)
            for source in report["sources"]
            for finding in source.get("findings", ())
        ]
        order: dict[str, int] = {kind: place for place, kind in enumerate(FINDING_KINDS)}
        return sorted(found, key=lambda finding: order.get(finding.kind, len(order)))

    def act(self, action: str, gap_ids: Sequence[int], receipt_id: str, texts: Texts) -> str:
        """Do what a button of the page says; return what to tell.

        Raises:
            HpcLlmError: there is no such action, answer or gap.
        """
        if action == "question":
            answer = self.store.answer(receipt_id)
            path = self.proposals_dir / PROPOSALS_FILE
            propose_question(path, answer)
            self.store.settle_gaps(gap_ids, "question_made", note=receipt_id)
            return texts("staff_made", file=PROPOSALS_FILE)
        if action not in ("written", "dismissed"):
            raise HpcLlmError(
                f"action is {action!r}; expected 'question', 'written' or 'dismissed'"
            )
        return texts.count("staff_settled", self.store.settle_gaps(gap_ids, action))

    def _embed(self, gaps: Sequence[Gap]) -> NDArray[np.float32]:
        """Return unit vectors of the questions; those of questions seen before are kept."""
        questions = [question_of(gap.answer)[:EMBEDDED_CHARACTERS] for gap in gaps]
        with self.service.lend() as assistant:
            embedder = assistant.embedder
            keys = [_key(embedder.id, question) for question in questions]
            new = {k: q for k, q in zip(keys, questions, strict=True) if k not in self._vectors}
            if new:
                vectors = embedder.embed(list(new.values()))
                self._vectors |= dict(zip(new, vectors, strict=True))
            self._vectors = {key: self._vectors[key] for key in keys}
            if not keys:
                return np.zeros((0, embedder.dimension), dtype=np.float32)
        return np.stack([self._vectors[key] for key in keys])


def since() -> datetime:
    """Return the beginning of the time that is counted."""
    return datetime.now(UTC) - timedelta(days=DAYS)


def router(
    service: AssistantService,
    store: Store,
    brand: Brand,
    *,
    index_dir: Path,
    proposals_dir: Path,
) -> APIRouter:
    """Return the routes of the staff page; the server's gate must guard ``/staff``."""
    routes = APIRouter(include_in_schema=False, prefix="/staff")
    staff = Staff(service, store, index_dir=index_dir, proposals_dir=proposals_dir)

    @routes.get("")
    @routes.get("/")
    async def show(request: Request) -> Response:
        texts, root = Texts(language_of(request)), root_of(request)
        message = request.query_params.get("message", "")[:300]
        body = await asyncio.to_thread(_body, staff, texts, root, message)
        page = document_html(brand, texts, root, title=texts("staff_title"), body=body)
        return HTMLResponse(page)

    @routes.post("/gaps")
    async def act(request: Request) -> Response:
        texts = Texts(language_of(request))
        fields = parse_qs((await request.body()).decode("utf-8", "replace"))
        ids = [int(value) for value in fields.get("gap", []) if value.isdecimal()]
        action, receipt = fields.get("action", [""])[0], fields.get("receipt", [""])[0]
        message = await asyncio.to_thread(staff.act, action, ids, receipt, texts)
        return RedirectResponse(f"{root_of(request)}staff?{urlencode({'message': message})}", 303)

    @routes.get("/gaps.csv")
    async def gaps_file() -> Response:
        return _csv("gaps.csv", await asyncio.to_thread(lambda: list(_gap_rows(staff.groups()))))

    @routes.get("/pages.csv")
    async def pages_file() -> Response:
        return _csv("pages.csv", await asyncio.to_thread(lambda: list(_page_rows(staff.pages()))))

    return routes


def _body(staff: Staff, texts: Texts, root: str, message: str) -> str:
    done = f'<p class="hl-done" role="status">{render_text(message)}</p>' if message else ""
    totals = totals_html(staff.store.statistics.totals(since()), texts, root, days=DAYS)
    groups = gaps_html(staff.groups(), texts, root)
    return done + totals + groups + pages_html(staff.pages(), texts, root)


def _is_lasting(document: Document) -> bool:
    return document.status == "current"


def _key(embedder: str, question: str) -> str:
    return hashlib.sha256(f"{embedder}\0{question}".encode()).hexdigest()


def _csv(name: str, rows: Iterable[Sequence[Any]]) -> Response:
    """Return rows as a CSV file that a spreadsheet opens without running anything in it."""
    file = io.StringIO()
    csv.writer(file).writerows([[_harmless(value) for value in row] for row in rows])
    return Response(
        "\ufeff" + file.getvalue(),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def _gap_rows(groups: Iterable[Group]) -> Iterable[Sequence[Any]]:
    yield (
        *("group", "group_question", "kind", "created", "question", "receipt", "reasons"),
        *("comments", "nearest_pages"),
    )
    for number, group in enumerate(groups, 1):
        pages = "; ".join(f"{page['source']}/{page['path']}" for page in group.pages)
        for gap in group.gaps:
            yield (
                *(number, group.title, gap.kind, gap.created.isoformat(timespec="seconds")),
                *(question_of(gap.answer), gap.answer.receipt_id),
                "; ".join(sorted({f.reason for f in gap.feedback if f.reason})),
                "; ".join(f.comment for f in gap.feedback if f.comment),
                pages,
            )


def _page_rows(pages: PageLists) -> Iterable[Sequence[Any]]:
    yield ("list", "source", "path", "title", "citations", "voted_down", "detail")
    for page in pages.cited:
        counts = (page.citations, page.down)
        yield ("cited", page.source, page.path, page.title, *counts, f"{page.last:%Y-%m-%d}")
    for item in pages.never_cited:
        yield ("never_cited", item.source, item.path, item.title, "", "", "")
    for finding in pages.findings:
        line = f"line {finding.line}: " if finding.line else ""
        other = f" ({finding.other})" if finding.other else ""
        detail = f"{line}{finding.text}{other}"
        yield (finding.kind, finding.source, finding.path, "", "", "", detail)

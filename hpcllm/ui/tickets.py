"""A ticket drafted from a question that the documentation does not answer.

Role: text only. What users wrote was redacted when it was stored; the draft is redacted again as a
whole, since it leaves the house.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from hpcllm.corpus.redact import redact

if TYPE_CHECKING:
    from hpcllm.server.stored import StoredAnswer
    from hpcllm.ui.texts import Texts

SUBJECT_CHARACTERS = 80
"""Longest part of the question in a subject."""
MAIL_CHARACTERS = 1800
"""Longest address that mail programs take."""
NEAREST_PAGES = 5
_MAIL = re.compile(r"[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+")


def ticket_text(answer: StoredAnswer, texts: Texts) -> str:
    """Return the draft: question, cluster, search, nearest pages, receipt."""
    pages = dict.fromkeys(f"- {p['title']} ({p['url'] or p['path']})" for p in answer.passages)
    parts = [f"{texts('ticket_question')}:\n{redact(answer.question, personal=True)[0]}"]
    if answer.cluster:
        parts.append(f"{texts('ticket_cluster')}: {answer.cluster}")
    searched = redact(answer.standalone_question, personal=True)[0]
    if searched and searched != answer.question:
        parts.append(f"{texts('ticket_searched')}:\n{searched}")
    if pages:
        nearest = "\n".join(list(pages)[:NEAREST_PAGES])
        parts.append(f"{texts('ticket_nearest')}:\n{nearest}")
    parts += [f"{texts('ticket_job')}:\n…", f"{texts('ticket_receipt')}: {answer.receipt_id}"]
    return "\n\n".join(parts) + "\n"


def mail_link(support: str, answer: StoredAnswer, draft: str, texts: Texts) -> str | None:
    """Return a ``mailto:`` link with the draft, or None where support has no mail address."""
    match = _MAIL.search(support)
    if match is None:
        return None
    question = " ".join(redact(answer.question, personal=True)[0].split())
    subject = texts("ticket_subject", question=question[:SUBJECT_CHARACTERS])
    start = f"mailto:{match.group()}?subject={quote(subject)}&body="
    body = quote(draft)
    if len(start) + len(body) > MAIL_CHARACTERS:
        body = quote(f"{texts('ticket_receipt')}: {answer.receipt_id}\n")
    return start + body

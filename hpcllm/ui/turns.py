"""One question and its answer as HTML, while it is being written and once it is on record.

Role: the chat page and shared answers show the same. Everything is made on the server from records;
``static/page.js`` gives life to what is marked with ``data-do``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from hpcllm.assistant.assistant import EXTRACTIVE
from hpcllm.server.stored import REASONS
from hpcllm.ui.citations import place_of, source_prefix, sources_html
from hpcllm.ui.rendering import Style, render_markdown, render_text
from hpcllm.ui.texts import HTML_LANGUAGES, NAMES
from hpcllm.ui.tickets import mail_link, ticket_text

if TYPE_CHECKING:
    from hpcllm.server.stored import Feedback, StoredAnswer
    from hpcllm.ui.texts import Texts

LONG_QUESTION = 900
"""Characters above which a question is folded."""
SHARED = "answers"
"""Path below which shared answers are shown."""

_OPEN_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})", re.MULTILINE)
FALLBACKS = (
    (r"has no source|check of cited", "cited"),
    (r"source that is not there|check of citations", "citations"),
    (r"command or option|check of commands", "commands"),
    (r"number in it|check of numbers", "numbers"),
    (r"draft was dropped|failed its check", "check"),
    (r"busy", "busy"),
    (r"needed more than", "slow"),
    (r"found no answer|wrote no answer", "silent"),
    (r"cannot be used", "missing"),
    (r"model failed", "failed"),
)
"""What the assistant's reasons for an extractive answer are, by a pattern of theirs."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What a page knows that shows turns.

    Attributes:
        texts: of the interface.
        root: path to the server's root, ending in a slash.
        known_hosts: hosts that links may lead to.
        support: how a user reaches a person.
    """

    texts: Texts
    root: str
    known_hosts: frozenset[str]
    support: str


def question_html(question: str, texts: Texts, *, position: int | None = None) -> str:
    """Return a question; with its position in the conversation it can be edited."""
    shown = f'<div class="hl-question-text">{render_text(question)}</div>'
    if len(question) > LONG_QUESTION:
        first = render_text(question[:200].rstrip()) + " …"
        shown = (
            f'<details class="hl-long"><summary>{first} <em>{escape(texts("show_all"))}</em>'
            f"</summary>{shown}</details>"
        )
    edit = ""
    if position is not None:
        name = escape(texts("edit_name"))
        edit = _button("edit", texts("edit"), f'aria-label="{name}" data-position="{position}"')
    return (
        f'<div class="hl-question" data-question="{escape(question)}">'
        f'<h2 class="hl-unseen">{escape(texts("you"))}</h2>{shown}{edit}</div>'
    )


def live_turn(
    question: str,
    texts: Texts,
    *,
    status: str,
    text: str = "",
    since: float = 0,
    is_draft: bool = False,
) -> str:
    """Return a turn that is being written.

    Args:
        question: as asked.
        texts: of the interface.
        status: what is going on.
        text: what is written so far, in Markdown.
        since: when it was begun, in seconds since 1970; the page counts from there.
        is_draft: whether the text may be replaced once it is checked.
    """
    kind = "hl-text hl-draft" if is_draft else "hl-text"
    return (
        f'<article class="hl-turn hl-live-turn">{question_html(question, texts)}'
        f'<div class="hl-answer"><p class="hl-status"><span class="hl-spinner" aria-hidden="true">'
        f'</span><span class="hl-status-text">{escape(status)}</span> '
        f'<span class="hl-elapsed" data-since="{since:.1f}" aria-hidden="true"></span></p>'
        f'<div class="{kind}">{render_markdown(_closed(text))}</div></div></article>'
    )


def _closed(text: str) -> str:
    """Close a fence that is still being written, so that what follows later is not code."""
    return f"{text}\n```" if len(_OPEN_FENCE.findall(text)) % 2 else text


def error_turn(question: str, texts: Texts, message: str) -> str:
    """Return a turn that came to nothing, with what to do."""
    return (
        f'<article class="hl-turn hl-failed">{question_html(question, texts)}'
        f'<div class="hl-answer hl-error" role="alert"><h3>{escape(texts("error"))}</h3>'
        f"<p>{escape(message)}</p></div></article>"
    )


def answer_turn(
    answer: StoredAnswer,
    frame: Frame,
    *,
    position: int | None = None,
    vote: Feedback | None = None,
    are_sources_open: bool = False,
) -> str:
    """Return a finished turn.

    Args:
        answer: the answer on record.
        frame: of the page.
        position: of the question in its conversation; None for a shared answer, which cannot be
            edited or asked again.
        vote: what this reader said of it before.
        are_sources_open: whether the quoted lines are shown from the start.
    """
    texts = frame.texts
    title = texts("nearest") if answer.abstained else texts("sources")
    sources = sources_html(
        answer.citations,
        texts,
        receipt_id=answer.receipt_id,
        root=frame.root,
        known_hosts=frame.known_hosts,
        title=title,
        is_open=are_sources_open,
    )
    parts = [
        f'<h3 class="hl-unseen">{escape(texts("answer"))}</h3>',
        _abstained_banner(answer, texts),
        f'<div class="hl-text">{_text_html(answer, frame)}</div>',
        _how_it_was_made(answer, texts),
        sources,
        _ticket(answer, frame) if answer.abstained else "",
        _actions(answer, frame, position, vote),
        _feedback_form(texts, vote),
    ]
    return (
        f'<article class="hl-turn" data-receipt="{escape(answer.receipt_id)}">'
        f"{question_html(answer.question, texts, position=position)}"
        f'<div class="hl-answer">{"".join(parts)}</div></article>'
    )


def _text_html(answer: StoredAnswer, frame: Frame) -> str:
    titles = {int(c["n"]): " › ".join(place_of(c)) for c in answer.citations}
    style = Style(
        cite_prefix=source_prefix(answer.receipt_id),
        cited=frozenset(titles),
        cite_label=frame.texts("source_n", n="{n}", title="").rstrip(": "),
        known_hosts=frame.known_hosts,
        copy_label=frame.texts("copy"),
    )
    return render_markdown(answer.text, style)


def _abstained_banner(answer: StoredAnswer, texts: Texts) -> str:
    if not answer.abstained:
        return ""
    return (
        f'<p class="hl-abstained"><strong>{escape(texts("abstained"))}</strong> '
        f"{escape(texts('abstained_note'))}</p>"
    )


def _how_it_was_made(answer: StoredAnswer, texts: Texts) -> str:
    """Return the checks, who wrote it and how long it took, plainly."""
    lines = [_checks(answer, texts, passed=True), _checks(answer, texts, passed=False)]
    if answer.model == EXTRACTIVE and not answer.abstained:
        lines.append(f'<p class="hl-made">{escape(_extractive(answer.fallback, texts))}</p>')
    timing = answer.timings_ms
    took = texts(
        "took_long",
        total=_seconds(timing.get("total", 0), texts),
        search=_seconds(timing.get("retrieve", 0), texts),
    )
    by = texts("by_model", model=answer.model, generation=answer.generation)
    details = [took, by, texts("receipt", receipt=answer.receipt_id), answer.fallback]
    details += [f"{_check_name(c['name'], texts)}: {c['detail']}" for c in answer.checks]
    items = "".join(f"<li>{escape(detail)}</li>" for detail in details if detail)
    short = escape(texts("took", total=_seconds(timing.get("total", 0), texts)))
    lines.append(
        f'<details class="hl-details"><summary>{escape(texts("details"))} · {short}</summary>'
        f"<ul>{items}</ul></details>"
    )
    return f'<div class="hl-how">{"".join(lines)}</div>'


def _checks(answer: StoredAnswer, texts: Texts, *, passed: bool) -> str:
    if answer.abstained:
        return ""
    names = [_check_name(c["name"], texts) for c in answer.checks if c["passed"] is passed]
    if not names:
        return ""
    sentence = texts("checks_passed" if passed else "checks_failed", names=", ".join(names))
    kind, sign = ("hl-passed", "✓") if passed else ("hl-not-passed", "!")
    return f'<p class="{kind}"><span aria-hidden="true">{sign}</span> {escape(sentence)}</p>'


def _check_name(name: str, texts: Texts) -> str:
    return texts.find(f"check.{name}", name)


def _extractive(reason: str, texts: Texts) -> str:
    if not reason:
        return texts("extractive")
    kind = next((kind for pattern, kind in FALLBACKS if re.search(pattern, reason)), "other")
    return texts("fallback", reason=texts(f"fallback.{kind}"))


def _seconds(milliseconds: float, texts: Texts) -> str:
    shown = f"{milliseconds / 1000:.{2 if milliseconds < 1000 else 1}f}"
    return shown.replace(".", ",") if texts.language == "pt" else shown


def _ticket(answer: StoredAnswer, frame: Frame) -> str:
    texts = frame.texts
    draft = ticket_text(answer, texts)
    link = mail_link(frame.support, answer, draft, texts)
    label = escape(texts("ticket_mail"))
    mail = f'<a class="hl-button" href="{escape(link)}">{label}</a>' if link else ""
    return (
        f'<details class="hl-ticket"><summary class="hl-button">{escape(texts("ticket"))}</summary>'
        f"<p>{escape(texts('ticket_intro', support=frame.support))}</p>"
        f'<textarea rows="12" spellcheck="false" aria-label="{escape(texts("ticket_label"))}">'
        f"{escape(draft)}</textarea>"
        f'<p class="hl-row">{_copy_ticket(texts)}{mail}</p>'
        "</details>"
    )


def _copy_ticket(texts: Texts) -> str:
    label = escape(texts("copy"))
    return f'<button type="button" class="hl-button" data-do="copy-ticket">{label}</button>'


def _actions(
    answer: StoredAnswer, frame: Frame, position: int | None, vote: Feedback | None
) -> str:
    texts = frame.texts
    pressed = {
        name: str(vote is not None and vote.rating == name).lower() for name in ("up", "down")
    }
    sources = "\n".join(
        f"[{c['n']}] {' › '.join(place_of(c))} {c['url'] or c['path']}" for c in answer.citations
    )
    copied = escape(f"{answer.text.strip()}\n\n{sources}".strip())
    link = escape(f"{frame.root}{SHARED}/{answer.receipt_id}")
    buttons = [
        _button("up", texts("up"), f'aria-pressed="{pressed["up"]}"'),
        _button("down", texts("down"), f'aria-pressed="{pressed["down"]}"'),
        _button("copy", texts("copy_answer"), f'data-copy="{copied}"'),
        _button("share", texts("share"), f'data-link="{link}"'),
    ]
    if position is not None:
        again = _button("again", texts("regenerate"), f'data-position="{position}"')
        buttons.append(again)
    return f'<div class="hl-actions">{"".join(buttons)}</div>'


def _feedback_form(texts: Texts, vote: Feedback | None) -> str:
    chosen = vote.reason if vote else ""
    reasons = "".join(
        f'<label><input type="radio" name="reason" value="{reason}"'
        f"{' checked' if reason == chosen else ''}> {escape(texts(f'reason.{reason}'))}</label>"
        for reason in REASONS
        if reason
    )
    comment = escape(vote.comment if vote else "")
    return (
        '<form class="hl-feedback" hidden><fieldset>'
        f"<legend>{escape(texts('feedback_why'))}</legend>{reasons}</fieldset>"
        f"<label>{escape(texts('feedback_comment'))}"
        f'<textarea name="comment" rows="2" maxlength="4000">{comment}</textarea></label>'
        f'<button type="submit" class="hl-button hl-primary">{escape(texts("feedback_send"))}'
        '</button></form><p class="hl-feedback-note" role="status"></p>'
    )


def _button(action: str, label: str, attributes: str = "") -> str:
    return (
        f'<button type="button" class="hl-action" data-do="{action}" {attributes}>'
        f"{escape(label)}</button>"
    )


def language_links(current: str) -> str:
    """Return links to the chat page in each language."""
    links = "".join(
        f'<a href="../{code}/" hreflang="{HTML_LANGUAGES[code]}" lang="{HTML_LANGUAGES[code]}" '
        f'data-language="{code}"{" aria-current=true" if code == current else ""}>{name}</a>'
        for code, name in NAMES.items()
    )
    return f'<span class="hl-languages">{links}</span>'

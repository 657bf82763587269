"""Turn an answer, its progress and its gaps into Slack messages. Pure: nothing is sent here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hpcllm.assistant.origin import TICKET_NOTICE
from hpcllm.records import Citation
from hpcllm.ui.slack.render import escape, host_of, link, render
from hpcllm.ui.slack.splitting import messages, sections

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hpcllm.records import Answer
    from hpcllm.server.stored import StoredAnswer
    from hpcllm.ui.slack.incoming import Ask
    from hpcllm.ui.slack.texts import Texts

HELPFUL, NOT_HELPFUL, NOTIFY = "hpcllm_helpful", "hpcllm_not_helpful", "hpcllm_notify"
"""Ids of the buttons under an answer; their value is the receipt's id."""
FALLBACK_CHARACTERS = 3000
"""Longest plain text beside the blocks: notifications and screen readers have it."""
SOURCE_CHARACTERS = 1900
"""Longest text of one context element."""
LABEL_CHARACTERS = 120
"""Longest name of a source."""
QUOTED_CHARACTERS = 500
"""Longest part of a question that is repeated; five times as long where all is escaped."""
QUOTED_LINES = 12
"""Most lines of it."""

Block = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """One message.

    Attributes:
        text: mrkdwn for notifications, screen readers and clients without blocks.
        blocks: what is shown.
        about: told to no one but this bot, which finds its own messages by it.
    """

    text: str
    blocks: list[Block]
    about: dict[str, str | int] = field(default_factory=dict)


def section(text: str) -> Block:
    """Return a block of mrkdwn in which Slack looks for no names, and which it does not fold up."""
    return {
        "type": "section",
        "text": {"type": "mrkdwn", "text": text, "verbatim": True},
        "expand": True,
    }


def context(text: str) -> Block:
    """Return a block of small print."""
    element = {"type": "mrkdwn", "text": text, "verbatim": True}
    return {"type": "context", "elements": [element]}


def progress(text: str, draft: str = "") -> Message:
    """Return what is shown while an answer is being made.

    Args:
        text: what is being done, mrkdwn.
        draft: Markdown written so far.
    """
    written = sections(render(draft)) if draft else []
    # Only the end of a long draft: it is replaced by the whole answer in a moment.
    blocks = [*(section(part) for part in written[-2:]), context(text)]
    return Message(text, blocks, {"state": "working"})


def compose(answer: Answer, texts: Texts, *, can_notify: bool = False) -> list[Message]:
    """Return the messages of a finished answer, at least one, in order.

    Args:
        answer: with a receipt.
        texts: sentences in the language of the channel or of the question.
        can_notify: whether an answer that abstained carries the button that tells staff.
    """
    receipt = answer.receipt.id if answer.receipt else ""
    urls = {citation.number: citation.url for citation in answer.citations}
    linked = [*urls.values(), *(passage.url for passage in answer.passages)]
    hosts = {host for host in map(host_of, linked) if host}
    groups = messages(sections(render(answer.text, url_of=urls.get, hosts=hosts)))
    told = [
        Message(
            "\n".join(group)[:FALLBACK_CHARACTERS],
            [section(text) for text in group],
            {"state": "done", "receipt": receipt, "parts": len(groups), "part": number},
        )
        for number, group in enumerate(groups)
    ]
    told[-1].blocks.extend(_footer(answer, receipt, texts, can_notify))
    return told


def _footer(answer: Answer, receipt: str, texts: Texts, can_notify: bool) -> Iterable[Block]:
    if answer.citations:
        yield from sources(answer.citations, texts.nearest if answer.abstained else texts.sources)
    remarks = [texts.took.format(seconds=f"{answer.timings_ms.get('total', 0) / 1000:.1f}")]
    if answer.fallback:
        remarks.insert(0, texts.quoted.format(reason=escape(answer.fallback)))
    elif not answer.abstained and answer.checks and all(check.passed for check in answer.checks):
        remarks.insert(0, f":white_check_mark: {texts.checked}")
    yield context(" · ".join(remarks)[:SOURCE_CHARACTERS])
    if receipt:
        buttons = [_button(texts.helpful, HELPFUL, receipt)]
        buttons.append(_button(texts.not_helpful, NOT_HELPFUL, receipt))
        if answer.abstained and can_notify:
            buttons.append(_button(texts.notify, NOTIFY, receipt))
        yield {"type": "actions", "elements": buttons}


def _button(label: str, action: str, value: str) -> Block:
    text = {"type": "plain_text", "text": label, "emoji": True}
    return {"type": "button", "text": text, "action_id": action, "value": value}


def sources(citations: Sequence[Citation], title: str) -> Iterable[Block]:
    """Yield the sources as links, with a warning where one is out of date."""
    lines = [f"*{title}*"]
    for line in map(_source, citations):
        if sum(len(other) + 1 for other in lines) + len(line) > SOURCE_CHARACTERS:
            yield context("\n".join(lines))
            lines = []
        lines.append(line)
    yield context("\n".join(lines))


def _source(citation: Citation) -> str:
    names = [citation.title, *(h for h in citation.headings[-1:] if h != citation.title)]
    label = f"[{citation.number}] {' › '.join(names)}"[:LABEL_CHARACTERS]
    sign = ":admission_tickets:" if citation.notice.startswith(TICKET_NOTICE) else ":warning:"
    notice = f" — {sign} {escape(citation.notice[:LABEL_CHARACTERS])}" if citation.notice else ""
    line = link(citation.url, label)
    return (line if len(line) + len(notice) <= SOURCE_CHARACTERS else escape(label)) + notice


def opening(ask: Ask, question: str, texts: Texts) -> Message:
    """Return the message that shows a slash command's question, to be answered in its thread."""
    asked = texts.asked.format(user=ask.user)
    text = f"{asked}\n{_quoted(question)}"
    return Message(text, [section(text)], {"state": "asked"})


def failure(reason: str, texts: Texts) -> Message:
    """Return what is said where there is no answer.

    Args:
        reason: plain text.
        texts: sentences.
    """
    text = texts.failed.format(reason=escape(reason))[:SOURCE_CHARACTERS]
    return Message(text, [section(text)], {"state": "done", "parts": 1, "part": 0})


def staff_note(answer: StoredAnswer, place: str, permalink: str, texts: Texts) -> Message:
    """Return what staff are told of a question that the documentation does not answer.

    Args:
        answer: the refusal, redacted as everything on record is.
        place: who asked where, mrkdwn.
        permalink: address of the question, or empty.
        texts: sentences.
    """
    text = f"{texts.undocumented} — {place}\n{_quoted(answer.question)}"
    blocks = [section(text)]
    if answer.citations:
        blocks += sources([_citation(page) for page in answer.citations], texts.nearest)
    if permalink:
        blocks.append(context(link(permalink, texts.open_thread)))
    return Message(text, blocks, {"state": "staff"})


def _citation(page: dict[str, Any]) -> Citation:
    return Citation(
        number=page["n"],
        passage_rank=page["n"],
        source=page["source"],
        path=page["path"],
        title=page["title"],
        url=page["url"],
        headings=tuple(page["headings"]),
        quote=page["quote"],
        notice=page["notice"],
    )


def _quoted(text: str) -> str:
    lines = text.splitlines()[:QUOTED_LINES]
    shown = "\n".join(lines)[:QUOTED_CHARACTERS]
    end = "" if shown == text else "…"
    return "\n".join(f"> {escape(line)}" for line in (shown + end).splitlines())


def reason_view(private: str, texts: Texts) -> Block:
    """Return the form that asks what is wrong with an answer.

    Args:
        private: what Slack gives back with the form.
        texts: sentences.
    """
    options = [
        {"text": {"type": "plain_text", "text": label}, "value": value}
        for value, label in texts.reasons.items()
    ]
    return {
        "type": "modal",
        "callback_id": "hpcllm_reason",
        "private_metadata": private,
        "title": {"type": "plain_text", "text": texts.tell_more[:24]},
        "submit": {"type": "plain_text", "text": texts.send},
        "close": {"type": "plain_text", "text": texts.cancel},
        "blocks": [
            {
                "type": "input",
                "block_id": "reason",
                "label": {"type": "plain_text", "text": texts.reason},
                "element": {"type": "static_select", "action_id": "value", "options": options},
            },
            {
                "type": "input",
                "block_id": "comment",
                "optional": True,
                "label": {"type": "plain_text", "text": texts.comment},
                "element": {
                    "type": "plain_text_input",
                    "action_id": "value",
                    "multiline": True,
                    "max_length": 2000,
                },
            },
        ],
    }

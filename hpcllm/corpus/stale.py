"""Recognise pages that say of themselves that they no longer hold.

Role: run over every document at ingest; what it finds becomes status and notice, so that such a
page ranks below current ones and is cited with its own warning.

Looked at are the title and the first lines only. A page that speaks of *another* thing's end
("Mahti will be decommissioned, use Roihu"), a list of deprecated software and a flag that is
deprecated leave the page current: what ended must be the page itself or what its title names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from hpcllm.corpus.blocks import fence_end, opens_fence
from hpcllm.corpus.readers.base import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hpcllm.records import Status

LOOKED_AT_LINES = 14
"""Lines with text that count as the top of a page."""

LOOKED_AT_CHARACTERS = 1800

NOTICE_CHARACTERS = 240


@dataclass(frozen=True, slots=True)
class Stale:
    """What a page says of its own end.

    Attributes:
        status: what to make of it.
        line: line of the text given, from 1; 0 for the title.
        text: the sentence that says so.
    """

    status: Status
    line: int
    text: str


_ENDED = (
    r"(?:decommissioned|retired|shut ?down|switched off|turned off|taken out of (?:service|use)"
    r"|powered off|withdrawn|closed down|discontinued|phased out|sunset(?:ted)?"
    r"|desativad[oa]|desligad[oa]|encerrad[oa]|descontinuad[oa])"
)
_OLD = (
    r"(?:out[- ]of[- ]date|outdated|obsolete|deprecated|superseded|archived|stale|no longer valid"
    r"|no longer (?:being )?(?:maintained|updated|accurate|current|relevant|up to date)"
    r"|not (?:being )?(?:maintained|updated) any ?(?:more|longer)|desatualizad[oa]|obsolet[oa])"
)
_GONE = (
    r"(?:(?:is|are|was|were) no longer (?:available|in service|in use|in operation|operational"
    r"|supported|offered|provided|accessible|accepting \w+)"
    r"|(?:has|have|was|were) (?:now |since |been )*(?:replaced|superseded) (?:by|with)"
    r"|(?:is|are) (?:now )?(?:replaced|superseded) by"
    r"|(?:não|nao) est(?:á|ão|ao) mais (?:disponíve(?:l|is)|em (?:uso|operação))"
    r"|foi (?:substituíd[oa]|descontinuad[oa]|desativad[oa]|desligad[oa]|encerrad[oa]))"
)
_PAGE = (
    r"(?:this|the following|these|esta|este) (?:wiki ?|web ?|help ?|documentation ?|user ?)?"
    r"(?:page|pages|document|documentation|article|guide|section|manual|tutorial|information"
    r"|content|site|wiki|howto|faq|instructions|página|documento|documentação|guia|tutorial)"
)
_KIND = (
    r"(?:service|system|cluster|machine|supercomputer|software|package|module|application|tool"
    r"|partition|queue|storage|filesystem|file system|feature|version|server|node|policy|policies"
    r"|serviço|sistema|máquina|programa)s?"
)
_BE = r"(?:is|are|was|were|has been|have been|has now been|have now been|está|foi|is now|are now)"
_HEDGE = r"(?:\w+ly |now |currently |been |partly |very |considered |marked (?:as )?|listed as )*"

_PAGE_OLD = re.compile(
    rf"\b{_PAGE}\b[^.:;]{{0,60}}? (?:{_BE}|may be|might be|could be|contains?|describes?|refers? to"
    rf"|documents?|descreve|contém) (?:\w+ ){{0,3}}?{_HEDGE}(?:an? |the |some )?"
    rf"(?P<how>{_OLD}|{_ENDED}|old version|previous version|former (?:system|cluster|service))\b"
    rf"|\b{_PAGE}\b (?:is|are)(?: only)? kept (?:here )?(?:only )?(?:for|as) "
    r"(?:(?:historical|archival|reference|legacy) ?)+|\b(?:esta página|este documento) não é mais ",
)
_LABEL = re.compile(
    rf"^\W*(?:(?:warning|note|important|caution|danger|attention|info|aviso|atenção|nota)\W+)?"
    rf"(?P<how>{_OLD}|{_ENDED}|end[- ]of[- ]life|legacy|archive)"
    r"(?: (?:page|documentation|content|service|system|cluster|since \w+ ?\w*|on [\w ./]+|notice"
    r"|documents?|\(?\d{4}\)?))*"
    r"\W*(?:$|[:!.—–-] )"
)
_THING_ENDED = re.compile(
    rf"\b(?:{_BE}|were|went) {_HEDGE}(?:{_ENDED}|end[- ]of[- ]life|{_OLD})\b|\b{_GONE}"
    rf"|\breached (?:its )?end[- ]of[- ]life\b|\b(?:{_ENDED}) (?:on|in|since|em) \w*\d"
)
_TITLE = re.compile(
    rf"[(\[{{]\s*(?P<how>{_OLD}|{_ENDED}|old|legacy|archive)[^)\]}}]{{0,30}}[)\]}}]"
    rf"|^(?P<how2>{_OLD}|{_ENDED}|archive|old)\s*[:—–-] |[:—–-]\s*(?P<how3>{_OLD}|{_ENDED})\W*$"
)
_PLANNED = re.compile(
    rf"\b(?:will be|is to be|are to be|to be|is scheduled to be|is being|are being|será) {_HEDGE}"
    rf"(?:{_ENDED}|{_OLD}|replaced|unavailable)\b|\bwill (?:no longer|cease|stop|reach|shut down)\b"
)
_LINK = re.compile(r"\[([^\[\]]*)\]\([^)\n]{0,500}\)")
_LINK_OR_MARK = re.compile(rf"{_LINK.pattern}|[*_`#]+")
_CONDITION = re.compile(
    r"\b(?:if|when|once|unless|until|before|after|whether|may(?! \d)|might|can|se|quando)\b"
)
_GENERAL = word_set(
    "the a an of on in for and to with how using use new old guide user users documentation page"
    " introduction overview getting started about at hpc cluster system service services software"
    " running jobs job from your computing compute technical details all like data storage node"
    " nodes file files account accounts module modules option options partition queue also then"
    " de da do e o os as em para com usar uso sistema serviço"
)
"""Words of titles and sentences that name nothing in particular."""
_ABOUT_CHANGE = re.compile(
    r"\b(?:mov(?:e|ing)|migrat\w+|transition\w*|switch(?:ing)?|replac\w+|leaving|from|after|news"
    r"|announc\w+|release notes?|changes?|changelog|history|decommissioning|retirement|shutdown"
    r"|mudança|migra\w+|notícias)\b"
)
"""Titles of pages that tell of an end, and hold while they do."""
_DECOMMISSIONED = re.compile(_ENDED + r"|end[- ]of[- ]life|in service|in operation|former")
_MONTHS = {
    name: number
    for number, names in enumerate(
        ("jan fev", "feb", "mar", "apr abr", "may mai", "jun", "jul", "aug ago", "sep set",
         "oct out", "nov", "dec dez"), 1,
    )
    for name in names.split()
} | {"fev": 2}  # fmt: skip
_DATE = re.compile(
    r"(?P<y1>20\d\d)-(?P<m1>\d\d)(?:-(?P<d1>\d\d))?"
    r"|(?P<d2>\d{1,2})\.(?P<m2>\d{1,2})\.(?P<y2>20\d\d)"
    r"|(?:(?P<d3>\d{1,2})(?:st|nd|rd|th)?(?: of| de)? )?(?P<m3>[a-zç]{3,9})\.?(?: (?P<d4>\d{1,2})"
    r"(?:st|nd|rd|th)?,?)?(?: of| de)? (?P<y3>20\d\d)"
    r"|\b(?:in|by|since|of|em) (?P<y4>20\d\d)\b"
)


def find_stale(title: str, text: str, today: date) -> Stale | None:
    r"""Return what a page says of its own end, or None.

    Args:
        title: title of the page.
        text: its canonical text.
        today: planned ends count once their date has passed.

    >>> find_stale("Iceberg", "Iceberg was decommissioned in 2020.", date(2026, 1, 1)).status
    'decommissioned'
    """
    lowered = title.lower()
    if match := _TITLE.search(lowered):
        how = match.group("how") or match.group("how2") or match.group("how3")
        return Stale(_status_of(how), 0, title)
    names = set() if _ABOUT_CHANGE.search(lowered) else set(re.findall(r"\w[\w.+-]*", lowered))
    names -= _GENERAL
    for line, paragraph in _top(text):
        sentences = _sentences(paragraph)
        for index, sentence in enumerate(sentences):
            status = _said(sentence, names, today)
            if status:
                return Stale(status, line, _cut(" ".join(sentences[index:])))
    return None


def _top(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, paragraph) of the first lines; code and rows of tables are left out."""
    lines = text.split("\n")
    seen = characters = index = 0
    held: list[str] = []
    start = 0
    while index < len(lines) and seen < LOOKED_AT_LINES and characters < LOOKED_AT_CHARACTERS:
        line = lines[index]
        plain = line.strip().lstrip(">").strip()
        breaks = not plain or plain.startswith(("#", "|", "- ", "* ", ": ")) or opens_fence(line)
        if breaks and held:
            yield start, " ".join(held)
            held = []
        if opens_fence(line):
            index = max(fence_end(lines, index), index + 1)
            continue
        if plain and not plain.startswith("|"):
            start = start if held else index + 1
            held.append(plain)
            seen += 1
            characters += len(plain)
        index += 1
    if held:
        yield start, " ".join(held)


def _sentences(paragraph: str) -> list[str]:
    return re.split(r"(?<=[.!?])\s+(?=[A-ZÀ-Ý*_\[`])", paragraph)


def _said(sentence: str, names: set[str], today: date) -> Status | None:
    plain = " ".join(_LINK_OR_MARK.sub(r"\1", sentence.lower()).split())
    if match := _PAGE_OLD.search(plain):
        return _status_of(match.group("how") or "outdated")
    if match := _LABEL.match(plain):
        return _status_of(match.group("how"))
    planned = _PLANNED.search(plain)
    if planned and _is_about(plain[: planned.start()], names):
        ends = _dates(plain)
        return _status_of(planned.group()) if ends and max(ends) < today else None
    match = _THING_ENDED.search(plain)
    if match is None or planned or _CONDITION.search(plain[: match.start()]):
        return None
    if not _is_about(plain[: match.start()], names):
        return None
    ends = _dates(plain[match.start() :])
    return None if ends and min(ends) > today else _status_of(match.group())


def _is_about(subject: str, names: set[str]) -> bool:
    """Say whether the subject of a sentence is what the page's title names, or "this service"."""
    if re.search(r"\baccess to the (?:service|system|cluster) $", f"{subject.rstrip()} "):
        return True
    if re.search(rf"\b(?:this|these|esta|este) (?:\w+ )?{_KIND}\b[^.;:]{{0,40}}$", subject):
        return True
    last = re.split(r"[,:;(]", subject.rstrip(" ,:;("))[-1]
    meant = {word for word in re.findall(r"\w[\w.+-]*", last) if word not in _GENERAL}
    return bool(meant) and meant <= names


def _status_of(how: str) -> Status:
    return "decommissioned" if _DECOMMISSIONED.search(how) else "outdated"


def _dates(text: str) -> list[date]:
    """Return the dates in a text, an open day or month at its end."""
    found = []
    for match in _DATE.finditer(text):
        part = match.groupdict()
        year = int(part["y1"] or part["y2"] or part["y3"] or part["y4"])
        month = _MONTHS.get((part["m3"] or "")[:3], 0) or int(part["m1"] or part["m2"] or 12)
        day = int(part["d1"] or part["d2"] or part["d3"] or part["d4"] or 28)
        if 1 <= month <= 12 and 1 <= day <= 31:
            found.append(date(year, month, min(day, 28)))
    return found


def _cut(sentence: str) -> str:
    unlinked = _LINK.sub(r"\1", sentence)
    plain = " ".join(re.sub(r"^[>#\s*-]+|\*\*|__", "", unlinked).split())
    if len(plain) <= NOTICE_CHARACTERS:
        return plain
    return f"{plain[:NOTICE_CHARACTERS].rpartition(' ')[0]} …"

"""Check a draft answer against the passages it was written from.

Role: after generation, before anything counts as an answer. Decides nothing: it returns
:class:`~hpcllm.records.Check` records and the assistant acts on them. Needs no model.

What is compared: citation marks with the passages' numbers; statements with their marks; commands,
options, paths, ``#SBATCH`` lines, variables and module names with the text of the cited passages;
numbers in prose with the passages and the question. Values inside commands (``--time=12:00:00``)
are the user's own and are compared by the option's name only, unless they are words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hpcllm.assistant.extractive import cite
from hpcllm.assistant.language import subject_words
from hpcllm.assistant.units import split_sentences, split_units
from hpcllm.records import Check

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hpcllm.records import Citation, Passage

CITATION_CHECKS = frozenset({"citations", "cited"})
"""Checks of marks; the others compare content."""
QUOTED_UNITS = 3
"""Most units of a passage that are quoted for one citation."""

_MARK = re.compile(r"\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\]")
_FENCE = re.compile(
    r"^[ \t]*(`{3,}|~{3,})[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_INLINE_CODE = re.compile(r"`([^`\n]+)`")
_OPTION = re.compile(r"(?<![\w-])(--[A-Za-z][\w-]*|-[A-Za-z]\b)")
_PATH = re.compile(r"(?<![\w/.:])(?:~|\$\{?\w+\}?)?/[\w.$@{}+-]+(?:/[\w.$@{}+-]+)*/?")
_VARIABLE = re.compile(r"\$\{?[A-Za-z_]\w+\}?|\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b")
_MODULE = re.compile(r"(?<![\w/.-])[A-Za-z][\w+.-]*/\d[\w.+-]*")
_NUMBER = re.compile(r"(?<![\w.,:/-])\d+(?:[.,]\d+)*(?![\w/:-]|[.,]\d)")
_NUMBER_WITH_UNIT = re.compile(r"(?<![\w.,:/-])(\d+(?:[.,]\d+)*)[ -]?(?=[A-Za-zµ%€$])")
_CODE_WORD = re.compile(r"[A-Za-z_][\w.+-]*\w|[A-Za-z]")
_COMMAND_LINE = re.compile(r"^\s*(?:\$ |> |# )?(.*)$")
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_PLACEHOLDER = re.compile(
    r"^(<.*>|\[.*\]|\.{3}|…|my[\w.-]*|your[\w.-]*|seu[\w.-]*|x+)$", re.IGNORECASE
)

NUMBER_WORDS = {
    word: str(number)
    for names in (
        "zero one two three four five six seven eight nine ten eleven twelve",
        "zero um dois três quatro cinco seis sete oito nove dez onze doze",
        "zero uma duas",
    )
    for number, word in enumerate(names.split())
}


def check_answer(text: str, passages: Sequence[Passage], *, question: str = "") -> list[Check]:
    """Check a draft.

    Args:
        text: the draft in Markdown with ``[n]`` marks.
        passages: the passages in the order of their numbers, from 1.
        question: what was asked; numbers and words it names may be repeated.

    Returns:
        The checks ``citations`` (every mark resolves, there is at least one), ``cited`` (every
        statement has a mark), ``commands`` (commands, options, paths, variables and module names
        occur in the cited passages) and ``numbers`` (so do numbers in prose).
    """
    marks = marks_in(text)
    cited = [passages[n - 1] for n in marks if 1 <= n <= len(passages)] or list(passages)
    source = _normal(" \n ".join(f"{p.title}\n{' '.join(p.headings)}\n{p.text}" for p in cited))
    return [
        _check_marks(marks, len(passages)),
        _check_statements(text),
        _result("commands", _unknown_code(text, source, _normal(question))),
        _result("numbers", _unknown_numbers(text, source, question)),
    ]


def marks_in(text: str) -> list[int]:
    """Return the numbers of all citation marks outside code, in order, each once."""
    prose = _INLINE_CODE.sub(" ", _FENCE.sub("\n", text))
    numbers = (int(n) for match in _MARK.finditer(prose) for n in match.group(1).split(","))
    return list(dict.fromkeys(numbers))


def citations_of(text: str, passages: Sequence[Passage]) -> tuple[Citation, ...]:
    """Return the citations of a draft, by number, each with the lines that support it.

    Args:
        text: the draft.
        passages: the passages in the order of their numbers, from 1.
    """
    numbers = sorted(n for n in marks_in(text) if 1 <= n <= len(passages))
    return tuple(
        cite(passages[n - 1], n, quote_for(_claims_of(text, n), passages[n - 1])) for n in numbers
    )


def quote_for(claim: str, passage: Passage) -> str:
    """Return the lines of ``passage`` that share most with ``claim``, in reading order."""
    wanted = subject_words(claim)
    units = split_units(passage.text, passage.headings)
    scored = [(len(wanted & subject_words(f"{u.lead} {u.text}")), u) for u in units]
    best = sorted(scored, key=lambda pair: (-pair[0], pair[1].position))[:QUOTED_UNITS]
    top = best[0][0] if best else 0
    kept = [unit for score, unit in best if score and score * 2 >= top]
    kept = kept or [unit for _, unit in best[:1]]
    return "\n".join(u.quote for u in sorted(kept, key=lambda unit: unit.position))


def _claims_of(text: str, number: int) -> str:
    """Return the paragraphs of ``text`` that bear the mark ``number``."""
    return "\n".join(part for part in _paragraphs(text) if number in marks_in(part))


def _paragraphs(text: str) -> list[str]:
    """Return paragraphs and list items; a fence belongs to the paragraph before it."""
    parts: list[str] = []
    position = 0
    for match in _FENCE.finditer(text):
        parts.extend(_prose_parts(text[position : match.start()]))
        parts[-1:] = [f"{parts[-1] if parts else ''}\n{match.group()}"]
        position = match.end()
    rest = text[position:]
    if position and (after := re.match(r"\s*(?:\[\d[\d, ]*\]\s*)+", rest)):
        parts[-1] += after.group()
        rest = rest[after.end() :]
    return [*parts, *_prose_parts(rest)]


def _prose_parts(text: str) -> list[str]:
    return [p for p in re.split(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+[.)])\s)", text) if p.strip()]


def _check_marks(marks: Sequence[int], count: int) -> Check:
    wrong = [n for n in marks if not 1 <= n <= count]
    if wrong:
        return Check("citations", False, f"no passage has the number {_listed(map(str, wrong))}")
    if not marks:
        return Check("citations", False, "the answer cites nothing")
    return Check("citations", True, f"{len(marks)} cited")


def _check_statements(text: str) -> Check:
    """A statement is cited by a mark in it or later in its paragraph."""
    bare = [s for part in _paragraphs(text) for s in _uncited(part)]
    if bare:
        return Check("cited", False, f"without a citation: {bare[0][:80]}")
    return Check("cited", True, "every statement bears a citation")


def _uncited(paragraph: str) -> list[str]:
    prose = _FENCE.sub(" ", paragraph)
    sentences = split_sentences(" ".join(prose.split()))
    last = max((i for i, s in enumerate(sentences) if marks_in(s)), default=-1)
    return [s for s in sentences[last + 1 :] if _is_statement(s)]


def _is_statement(sentence: str) -> bool:
    return len(_LETTERS.findall(sentence)) >= 3 and not sentence.rstrip().endswith(":")


def _result(name: str, unknown: Sequence[str]) -> Check:
    if unknown:
        return Check(name, False, f"not in the cited passages: {_listed(unknown)}")
    return Check(name, True, "all occur in the cited passages")


def _listed(items: object) -> str:
    names = list(dict.fromkeys(map(str, items)))  # type: ignore[call-overload]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _unknown_code(text: str, source: str, question: str) -> list[str]:
    """Return technical names of ``text`` that neither source nor question has."""
    code = [match.group(2) for match in _FENCE.finditer(text)]
    prose = _FENCE.sub("\n", text)
    code += _INLINE_CODE.findall(prose)
    bare = _MARK.sub(" ", _INLINE_CODE.sub(" ", prose))
    lines = [line.strip() for part in code for line in part.splitlines() if line.strip()]
    unknown = [name for name in _names_in_prose(bare) if not _occurs(name, source, question)]
    for line in lines:
        if not _occurs(line, source, question):
            unknown += [
                name for name in _names_in_code(line) if not _occurs(name, source, question)
            ]
    return unknown


def _names_in_prose(text: str) -> Iterator[str]:
    for pattern in (_OPTION, _PATH, _VARIABLE, _MODULE):
        yield from (match.group().rstrip(".") for match in pattern.finditer(text))
    if "#SBATCH" in text:
        yield "#SBATCH"


def _names_in_code(line: str) -> Iterator[str]:
    """Yield what in a line of code must be known: options, paths, variables, words; no values."""
    command = re.sub(r"\s#\s.*$", "", line)
    for token in re.split(r"[\s;|&()\"']+", command.removeprefix("$ ")):
        if not token or _PLACEHOLDER.match(token):
            continue
        if option := _OPTION.match(token):
            yield option.group()
            token = token[option.end() :].lstrip("=")
        elif _MODULE.fullmatch(token) or _PATH.fullmatch(token):
            yield token
            continue
        yield from (word for word in _CODE_WORD.findall(token) if len(_LETTERS.findall(word)) > 0)


def _unknown_numbers(text: str, source: str, question: str) -> list[str]:
    prose = _MARK.sub(" ", _INLINE_CODE.sub(" ", _FENCE.sub("\n", text)))
    prose = re.sub(r"^\s*\d{1,2}[.)]\s", " ", prose, flags=re.MULTILINE)
    known = {_plain_number(n) for n in re.findall(r"\d+(?:[.,]\d+)*", f"{source} {question}")}
    known |= {
        NUMBER_WORDS[w]
        for w in _LETTERS.findall(f"{source} {question.lower()}")
        if w in NUMBER_WORDS
    }
    found = [m.group() for m in _NUMBER.finditer(prose)]
    found += [m.group(1) for m in _NUMBER_WITH_UNIT.finditer(prose)]
    return [number for number in dict.fromkeys(found) if _plain_number(number) not in known]


def _plain_number(number: str) -> str:
    """Return a number without separators of thousands: ``1,000`` and ``1.000`` are ``1000``."""
    return re.sub(r"[.,](?=\d{3}(?!\d))", "", number)


def _normal(text: str) -> str:
    return re.sub(r"[\s`*]+", " ", text.replace("\\", "")).lower()


def _occurs(name: str, *sources: str) -> bool:
    wanted = _normal(name).strip()
    pattern = re.compile(rf"(?<![\w]){re.escape(wanted)}(?!\w)") if wanted else None
    return any(wanted in source and pattern and pattern.search(source) for source in sources)

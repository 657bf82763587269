"""Sentences of prose turned into the questions that they answer.

Rules over the form of a sentence ("To X, use Y", "X is N hours", "You cannot X", "If X, do Y"),
in English and Portuguese; what fits none of them is asked for by keywords.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hpcllm.assistant.language import STOP_WORDS
from hpcllm.assistant.units import clean_inline, split_sentences
from hpcllm.training.mining.texts import points_elsewhere, seed, stands_alone, with_stop
from hpcllm.training.records import Statement
from hpcllm.training.wording import first_person, phrase, task_of

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from hpcllm.training.records import Section, Seed

SENTENCES_PER_SECTION = 4
"""Most sentences of one section that are asked about."""
FORMLESS_SHARE = 0.35
"""Share of the sentences without a known form that are asked for by keywords."""

_FACT = re.compile(
    r"`[^`]+`|\d|\b(?:not|only|never|always|must|deleted|limit|não|somente|limite)\b"
)
_NP = (
    r"(?P<np>(?:The|Your|A|An|All) [\w`/ -]{3,60}?|"
    r"(?!(?:Where|Others?|Such|Each|Both|Some|Many|Most|Only|When|How|What|Which|No|Not|One|More|If|"
    r"All|Please|Here|There)\b)[A-Z][\w-]+(?: [\w-]+){0,3})"
)
_COPULA = re.compile(rf"^{_NP} (?P<verb>is|are) (?P<rest>.+)$")
_CLAUSE = re.compile(
    r"\b(can|may|will|must|should|would|that|which|who|if|when|has|have|does|do|is|are)\b"
)
_PASSIVE = re.compile(
    r"^(?:not |never |only |always |automatically )*(?P<part>[a-z]+ed|kept|sent|given|run|set|built)\b"
)
_TO_USE = re.compile(
    r"^(?:In order to|To) (?P<task>[a-z][^,:]{4,90}?),\s+(?:you (?:can|need to|must|should)\s+|please\s+)?"
    r"(?P<do>use|run|add|set|type|load|start|create|write|call|give|specify|enter|request|execute|"
    r"need|open|put|pass|include|submit|choose|go|log|ask|contact|send|make)\b",
    re.IGNORECASE,
)
_CAN_BY = re.compile(
    r"^(?:You|Users|One) can (?P<task>[a-z][^.,:]{4,80}?) (?:with|by|using|through|via) (?:the |a )?\S"
)
_USE_TO = re.compile(r"^(?:Use|Run|Load) `[^`]+`.{0,30}? to (?P<task>[a-z][^.:;]{4,80})\.?$")
_IF = re.compile(r"^(?:If|When) (?P<condition>[^,]{8,110}), (?P<rest>.{12,})$")
_CANNOT = re.compile(
    r"^(?:You|Users) (?:cannot|can not|can't|may not|must not|should not|are not allowed to) "
    r"(?P<task>[^.,;:]{4,90})(?=[,;:]|\.?$)"
)
_MUST = re.compile(
    r"^(?:You|Users) (?:must|have to|need to|should) (?P<task>[^.,;:]{4,90})(?=[,;:]|\.?$)"
)
_MEANS = re.compile(r"^(?P<name>`[^`]+`|\"[^\"]+\") (?:means|stands for|says|tells|indicates)\b")
_DOES = re.compile(
    r"^(?P<name>`[^`]+`) (?:shows|lists|prints|gives|sets|creates|starts|stops|removes|deletes|"
    r"requests|loads|limits|controls|reports|runs|sends|copies|returns|holds|enables|disables)\b"
)
_PT_PARA = re.compile(
    r"^Para (?P<task>[a-zà-ú]+[aeio]r[^,:]{3,80}?),? (?:use|utilize|execute|rode|basta|digite|é|"
    r"você|adicione|carregue|escreva|crie|acesse)\b"
)
_PT_IF = re.compile(r"^(?:Se|Quando|Caso) (?P<condition>[^,]{8,110}), (?P<rest>.{12,})$")
_PT_COPULA = re.compile(
    r"^(?P<article>O|A|Os|As) (?P<np>[\w`/ -]{3,60}?) (?P<verb>é|são) (?P<rest>.+)$"
)
_PT_MEANS = re.compile(r"^(?P<name>`[^`]+`) (?:significa|mostra|lista|indica|define|pede|faz)\b")


def mine_sentences(section: Section, rng: random.Random) -> Iterator[Seed]:
    """Yield questions that single sentences of a section answer."""
    found: list[Seed] = []
    for block in section.blocks:
        if block.kind not in ("text", "list"):
            continue
        for raw in _sentences(block.lines, block.kind == "list"):
            shown = clean_inline(raw)
            if not stands_alone(shown) or points_elsewhere(shown):
                continue
            made = _seed_of(section, shown, raw, rng)
            if made is not None:
                found.append(made)
    if len(found) > SENTENCES_PER_SECTION:
        found = rng.sample(found, SENTENCES_PER_SECTION)
    yield from found
    yield from _heading_question(section, rng)


def _sentences(lines: tuple[str, ...], is_list: bool) -> Iterator[str]:
    if not is_list:
        yield from split_sentences(" ".join(line.strip().lstrip("> ") for line in lines))
        return
    for line in lines:
        match = re.match(r"^\s*(?:[-*+]|\d+[.)])\s+(.*)$", line)
        if match:
            yield from split_sentences(match.group(1))


def _seed_of(section: Section, shown: str, raw: str, rng: random.Random) -> Seed | None:
    form = (
        _pt_question(shown, rng)
        if section.language == "pt"
        else _question(shown, section.topic, rng)
    )
    if form is not None:
        kind, question = form
        return seed(kind, section, question, Statement(with_stop(shown), raw))
    if not _FACT.search(shown) or rng.random() > FORMLESS_SHARE:
        return None
    place = _keywords_of(section, shown, rng)
    if not place:
        return None
    question = phrase(rng, section.language, "KEYWORDS", place=place)
    return seed("sentence_keywords", section, question, Statement(with_stop(shown), raw))


def _question(shown: str, topic: str, rng: random.Random) -> tuple[str, str] | None:
    """Return kind and question of an English sentence whose form is known."""
    for kind, pattern in (("task", _TO_USE), ("task", _CAN_BY), ("task", _USE_TO)):
        if (match := pattern.match(shown)) and _is_task(match.group("task")):
            return kind, phrase(rng, "en", "TASK", task=first_person(match.group("task")))
    if match := _MEANS.match(shown) or _DOES.match(shown):
        name = match.group("name").strip('`"')
        return "meaning", phrase(rng, "en", "OPTION_MEANING", name=name, topic=name, title="")
    if match := _IF.match(shown):
        condition = first_person(match.group("condition"))
        text = condition[:1].upper() + condition[1:]
        ending = rng.choice((". What now?", ". What should I do?", ", what happens?", "?"))
        return "condition", f"{text}{ending}"
    if match := _CANNOT.match(shown):
        return "permission", f"Can I {first_person(match.group('task'))}?"
    if match := _MUST.match(shown):
        verb = rng.choice(("Do I have to", "Must I", "Do I need to"))
        return "permission", f"{verb} {first_person(match.group('task'))}?"
    if (match := _COPULA.match(shown)) and _FACT.search(match.group("rest")):
        return _copula(match, topic, rng)
    return None


def _is_task(text: str) -> bool:
    return text.split(" ", 1)[0].lower() not in STOP_WORDS - {"make", "get", "keep", "see", "use"}


def _copula(match: re.Match[str], topic: str, rng: random.Random) -> tuple[str, str] | None:
    if _CLAUSE.search(match.group("np")):
        return None
    np = first_person(match.group("np"))
    first = np.split(" ", 1)[0]
    if first in ("The", "A", "An", "All", "My", "my"):
        np = np[:1].lower() + np[1:]
    verb, rest = match.group("verb"), match.group("rest")
    if passive := _PASSIVE.match(rest):
        part = passive.group("part")
        word = rng.choice(("When", "How", "")) if re.search(r"\d", rest) else ""
        question = f"{word} {verb} {np} {part}?".strip()
        return "passive", question[:1].upper() + question[1:]
    vague = len(np.split()) <= 2 and topic.lower() not in np.lower()
    return "value", f"{topic}: what {verb} {np}?" if vague else f"What {verb} {np}?"


def _pt_question(shown: str, rng: random.Random) -> tuple[str, str] | None:
    """Return kind and question of a Portuguese sentence whose form is known."""
    if match := _PT_PARA.match(shown):
        return "task", phrase(rng, "pt", "TASK", task=first_person(match.group("task")))
    if match := _PT_MEANS.match(shown):
        name = match.group("name").strip("`")
        return "meaning", phrase(rng, "pt", "OPTION_MEANING", name=name, topic=name, title="")
    if match := _PT_IF.match(shown):
        ending = rng.choice((", o que devo fazer?", ", o que acontece?", "?"))
        return "condition", f"Se {first_person(match.group('condition'))}{ending}"
    if (match := _PT_COPULA.match(shown)) and _FACT.search(match.group("rest")):
        word = "Qual é" if match.group("verb") == "é" else "Quais são"
        return "value", f"{word} {match.group('article').lower()} {match.group('np')}?"
    return None


def _keywords_of(section: Section, shown: str, rng: random.Random) -> str:
    """Return words of heading and sentence that name the subject, without the facts themselves."""
    bare = re.sub(r"`[^`]*`|\S*\d\S*|\S*[/=$_]\S*", " ", shown)
    words = [w.strip(".,;:()\"'*") for w in bare.split()]
    kept = [w for w in words if len(w) > 3 and w.lower() not in STOP_WORDS]
    if len(kept) < 2:
        return ""
    chosen = kept[: rng.choice((2, 3, 4, 5))]
    topic = [w for w in section.topic.split() if w.lower() not in STOP_WORDS][:4]
    merged = dict.fromkeys(w.lower() for w in [*topic, *chosen])
    return " ".join(merged)


def _heading_question(section: Section, rng: random.Random) -> Iterator[Seed]:
    """Yield a question on the section as a whole, answered by its first sentences."""
    if not section.headings or section.blocks[0].kind != "text":
        return
    raw = split_sentences(" ".join(line.strip() for line in section.blocks[0].lines))
    shown = [clean_inline(sentence) for sentence in raw]
    if not shown or not stands_alone(shown[0]) or points_elsewhere(shown[0]):
        return
    take = 1
    if len(shown) > 1 and len(f"{shown[0]} {shown[1]}".split()) <= 45 and shown[1].endswith("."):
        take = 2
    statement = Statement(with_stop(" ".join(shown[:take])), " ".join(raw[:take]))
    topic = section.topic
    slots = {"topic": topic, "title": section.title}
    if topic.endswith("?"):
        yield seed("faq", section, topic, statement)
    elif (task := task_of(topic)) and section.language == "en":
        yield seed("section_task", section, phrase(rng, "en", "TASK", task=task), statement)
    elif rng.random() < 0.6:
        question = phrase(rng, section.language, "SECTION", **slots)
        yield seed("section", section, question, statement)

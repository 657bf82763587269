"""Tables: a cell by its row and column, a whole row, two rows compared, a row by its cell."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcllm.assistant.language import STOP_WORDS
from hpcllm.assistant.units import split_row
from hpcllm.corpus.blocks import DELIMITER_ROW
from hpcllm.records import Turn
from hpcllm.training.mining.texts import is_clean, lower_start, seed, with_stop
from hpcllm.training.records import Seed, Statement
from hpcllm.training.wording import phrase, templates

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from hpcllm.training.records import Section

ROWS_PER_TABLE = 10
"""Most rows asked about; long lists would swamp the rest."""
CELL_WORDS = 30
KEY_WORDS = 8
_MEANING = re.compile(
    r"mean|descr|purpose|what|explan|use|remark|comment|effect|signific|descri|uso|o que|para que",
    re.IGNORECASE,
)
_EMPTY = frozenset(
    {"", "-", "–", "—", "n/a", "none", "tba", "?", "yes", "no", "x", "✓", "sim", "não"}
)


@dataclass(frozen=True, slots=True)
class _Row:
    key: str
    cells: tuple[str, ...]
    line: str


def mine_tables(section: Section, rng: random.Random) -> Iterator[Seed]:
    """Yield questions on the rows of each table of a section."""
    for block in section.blocks:
        if block.kind == "table":
            yield from _table(section, block.lines, rng)


def _table(section: Section, lines: Sequence[str], rng: random.Random) -> Iterator[Seed]:
    header = [cell.strip(" *`") for cell in split_row(lines[0])]
    rows = [row for line in lines[2:] if (row := _row(line)) is not None]
    if len(header) < 2 or not rows or not all(header[1:2]):
        return
    chosen = rows if len(rows) <= ROWS_PER_TABLE else rng.sample(rows, ROWS_PER_TABLE)
    for row in chosen:
        yield from _of_row(section, header, row, rng)
    yield from _pairs(section, header, rows, rng)


def _row(line: str) -> _Row | None:
    if DELIMITER_ROW.match(line):
        return None
    cells = split_row(line)
    key = cells[0].replace("**", "") if cells else ""
    usable = key and len(key.split()) <= KEY_WORDS and all(map(is_clean, cells)) and len(cells) > 1
    return _Row(key, tuple(cells), line) if usable else None


def _of_row(
    section: Section, header: Sequence[str], row: _Row, rng: random.Random
) -> Iterator[Seed]:
    columns = [i for i in range(1, min(len(header), len(row.cells))) if _says(row.cells[i])]
    if not columns or not header[columns[0]]:
        return
    slots = {"name": _plain(row.key), "topic": section.topic, "title": section.title}
    column = rng.choice(columns)
    if _MEANING.search(header[column]):
        question = phrase(rng, section.language, "OPTION_MEANING", **slots)
        yield seed("table_meaning", section, question, _meaning(row, column))
        about = _plain(lower_start(row.cells[column]))
        if 2 <= len(about.split()) <= 18:
            question = phrase(rng, section.language, "OPTION_NAME", about=about, **slots)
            yield seed("table_name", section, question, _meaning(row, column))
    else:
        name = _column_name(header[column])
        question = phrase(rng, section.language, "TABLE_VALUE", column=name, **slots)
        yield seed("table_value", section, question, _value(section, header, row, column))
        about = f"{name} {_plain(row.cells[column])}"
        if header[0] and _is_distinct(row.cells[column]) and rng.random() < 0.4:
            question = phrase(
                rng,
                section.language,
                "TABLE_REVERSE",
                column=_column_name(header[0]),
                about=about,
            )
            yield seed("table_reverse", section, question, _value(section, header, row, column))
    if len(columns) > 1 and rng.random() < 0.3:
        question = phrase(rng, section.language, "TABLE_ROW", **slots)
        pairs = "; ".join(f"{_column_name(header[i])} {row.cells[i]}" for i in columns[:4])
        yield seed(
            "table_row", section, question, Statement(with_stop(f"{row.key}: {pairs}"), row.line)
        )


def _pairs(
    section: Section, header: Sequence[str], rows: Sequence[_Row], rng: random.Random
) -> Iterator[Seed]:
    """Yield a comparison of two rows, and a follow-up from one row to another."""
    if len(rows) < 2:
        return
    first, second = rng.sample(list(rows), 2)
    usable = [
        i
        for i in range(1, min(len(header), len(first.cells), len(second.cells)))
        if header[i]
        and not _MEANING.search(header[i])
        and _says(first.cells[i])
        and _says(second.cells[i])
    ]
    if not usable:
        return
    column = rng.choice(usable)
    name = _column_name(header[column])
    one, two = (_value(section, header, row, column) for row in (first, second))
    slots = {"name": _plain(first.key), "topic": section.topic, "title": section.title}
    question = phrase(
        rng, section.language, "TABLE_COMPARE", column=name, other=_plain(second.key), **slots
    )
    merged = Statement(f"{one.text} {two.text}", f"{one.quote}\n{two.quote}")
    yield seed("table_compare", section, question, merged)
    asked = phrase(rng, section.language, "TABLE_VALUE", column=name, **slots)
    follow = rng.choice(templates(section.language, "FOLLOW_UPS")).format(name=_plain(second.key))
    base = seed("table_follow_up", section, follow, two)
    history = (Turn("user", asked), Turn("assistant", f"{one.text} [1]"))
    yield Seed(
        **{name: getattr(base, name) for name in base.__slots__ if name != "history"},
        history=history,
    )


def _meaning(row: _Row, column: int) -> Statement:
    return Statement(with_stop(f"{row.key}: {row.cells[column]}"), row.line)


def _value(section: Section, header: Sequence[str], row: _Row, column: int) -> Statement:
    name, cell = _column_name(header[column]), row.cells[column].rstrip(".")
    if section.language == "pt" or not _is_noun(name) or len(row.key) % 2:
        return Statement(f"{row.key}: {name} {cell}.", row.line)
    return Statement(f"The {name} of {row.key} is {cell}.", row.line)


def _is_noun(name: str) -> bool:
    """Whether a column's name can follow "the": short, and no part of a sentence."""
    words = name.lower().split()
    return 0 < len(words) <= 3 and words[0] not in STOP_WORDS and not name.endswith(("s", "?"))


def _column_name(text: str) -> str:
    return lower_start(text.strip(" :")) if text else text


def _plain(text: str) -> str:
    return text.replace("`", "").replace("**", "")


def _says(cell: str) -> bool:
    return cell.lower() not in _EMPTY and len(cell.split()) <= CELL_WORDS


def _is_distinct(cell: str) -> bool:
    return bool(re.search(r"\d|`", cell)) and len(cell.split()) <= 6

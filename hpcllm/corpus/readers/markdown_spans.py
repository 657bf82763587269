"""Where code, indented bodies and HTML elements in the lines of a page begin and end.

Role: the questions that :mod:`hpcllm.corpus.readers.markdown_lines` asks about stretches of
lines, each answered by a pure function.
"""

from __future__ import annotations

import re

FENCE = re.compile(r"^(?P<indent>(?:[ \t]|> ?)*)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$")
LIST_FENCE = re.compile(
    r"^(?P<indent>[ \t]*(?:[-*+]|\d+[.)])[ \t]+)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$"
)

DELIMITER_ROW = re.compile(r"^[ \t>]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(?:(?!\1).)+?\1(?!`)")
_PIPE = re.compile(r"(?<!\\)\|")
_EMPTY_CELLS = re.compile(r"(?:(?<!\\)\|[ \t]*)+$")
_DEFINITION_MARK = re.compile(r"^:[ \t]+\S")
_NO_TERM = re.compile(r"^(?:[-*+:>|#<=~]|\d{1,9}[.)]|.{100,})")
TERM_BREAK = "\ue001"
"""Stands between terms on one line; the private-use character never stands in documentation."""
MAX_TERMS = 8
"""Terms that one definition can have; more lines above it are prose."""
LOOK_BACK_LINES = 300
"""Lines searched backwards for the list item that an indented fence belongs to."""

_LIST_MARKER = re.compile(r"^ *(?:[-*+]|\d{1,9}[.)])(?: {1,4}(?=\S)| )")


def escape_code_pipes(row: str) -> str:
    """Return a table row with the pipes inside its code spans escaped by backslashes."""
    if "`" not in row:
        return row
    return _CODE_SPAN.sub(lambda code: re.sub(r"(?<!\\)\|", r"\|", code.group()), row)


def widened_table(rows: list[str]) -> list[str]:
    """Return a pipe table whose header is as wide as its widest row.

    Browsers never show cells past the last heading; what an author wrote there is text all the
    same, and a parser would drop it.

    Args:
        rows: header, delimiter row and body, pipes inside code escaped.
    """
    columns = _cell_count(rows[0])
    missing = max(_cell_count(_EMPTY_CELLS.sub("", row)) for row in rows[2:]) - columns
    if missing <= 0 or columns != _cell_count(rows[1]):
        return rows
    header, delimiter = (row.rstrip().removesuffix("|") for row in rows[:2])
    return [f"{header}|{' |' * missing}", f"{delimiter}|{' --- |' * missing}", *rows[2:]]


def _cell_count(row: str) -> int:
    inner = row.strip(" \t>").removeprefix("|")
    inner = inner if inner.endswith("\\|") else inner.removesuffix("|")
    return len(_PIPE.findall(inner)) + 1


def joined_terms(text: str) -> str:
    """Put terms that share one definition on one line, and texts at the usual column.

    Terms on one line have :data:`TERM_BREAK` between them.

    The Markdown parser takes only the last line before ``: definition`` for a term, and reads
    the whole as prose where there are several.
    """
    if "\n: " not in text and "\n:\t" not in text:
        return text
    out: list[str] = []
    position, lines = 0, text.split("\n")
    while position < len(lines):
        end = fence_end(lines, position)
        if end:
            out.extend(lines[position:end])
            position = end
            continue
        line = lines[position]
        if _DEFINITION_MARK.match(line):
            count = _terms_above(out)
            if count > 1:
                out[-count:] = [TERM_BREAK.join(line.strip() for line in out[-count:])]
            # Five columns after the colon would make the text code; dialects that align it do not.
            line = re.sub(r"^:[ \t]{4,}(?=\S)", ":   ", line) if count else line
        out.append(line)
        position += 1
    return "\n".join(out)


def glossary_lines(lines: list[str]) -> list[str]:
    """Return terms with indented texts below them as definitions with a colon before each."""
    out: list[str] = []
    is_term = False
    for line in lines:
        if line.strip() and not line.startswith((" ", "\t")):
            out.extend([line.strip()] if is_term else ["", line.strip()])
            is_term = True
        elif line.strip() and is_term:
            out.append(f": {line.strip()}")
            is_term = False
        else:
            out.append(f"  {line.strip()}" if line.strip() else "")
    return out


def _terms_above(lines: list[str]) -> int:
    """Return how many lines right above are terms; 0 where something else stands there."""
    count = 0
    while count < len(lines) and lines[-count - 1].strip():
        line = lines[-count - 1]
        if count == MAX_TERMS or line.startswith((" ", "\t")) or _NO_TERM.match(line):
            return 0
        count += 1
    return count


def fence_end(lines: list[str], position: int) -> int:
    """Return the position after the fence that opens here, or 0 where none does."""
    line = lines[position]
    if "```" not in line and "~~~" not in line:
        return 0
    match = FENCE.match(line) or LIST_FENCE.match(line)
    if match is None:
        return 0
    fence = match.group("fence")
    quote = match.group("indent").count(">")
    close = re.compile(
        r"^(?:[ \t]|> ?)*" + re.escape(fence[0]) + "{" + str(len(fence)) + r",}[ \t]*$"
    )
    for end in range(position + 1, len(lines)):
        if close.match(lines[end]):
            return end + 1
        if quote and not lines[end].lstrip().startswith(">"):
            return end  # leaving the quotation closes its fence
    return len(lines)


def at_item_column(fenced: list[str], before: list[str]) -> list[str]:
    """Move a fence that is indented by four or more columns to the column of its list item.

    Python-Markdown takes a fence at any indentation; CommonMark reads one that is indented four
    columns deeper than its container as text.
    """
    width = columns_of(fenced[0])
    if width < 4 or not FENCE.match(fenced[0]):
        return fenced
    column = item_column(before, width)
    return [" " * column + line if line else "" for line in (dedent(x, width) for x in fenced)]


def item_column(before: list[str], width: int) -> int:
    """Return the column of the text of the list item that lines at ``width`` belong to, or 0."""
    limit = width
    for line in before[: -LOOK_BACK_LINES - 1 : -1]:
        if not line.strip() or columns_of(line) >= limit:
            continue
        limit = columns_of(line)
        marker = _LIST_MARKER.match(line.expandtabs(4))
        if marker and marker.end() <= width:
            return marker.end()
        if not marker and not limit:
            return 0
    return 0


def language(info: str) -> str:
    """Return the language of a fence's info string, whichever dialect wrote it.

    >>> language("{ .yaml .annotate hl_lines='2' }"), language("bash title='x'")
    ('yaml', 'bash')
    """
    braces = re.match(r"\{[ ]*\.?([\w+#-]+)", info)
    if braces:
        return braces.group(1)
    word = re.match(r"[\w+#./-]+", info)
    return word.group().removeprefix("language-") if word and "=" not in info.split()[0] else ""


def indented_body(lines: list[str], start: int, indent: str) -> tuple[list[str], int]:
    """Return the dedented lines that belong to a mark at ``indent``, and the position after."""
    width = len(indent.expandtabs(4))
    end = last = start
    while end < len(lines):
        line = lines[end]
        if line.strip():
            if columns_of(line) < width + 4:
                break
            last = end + 1
        end += 1
    return [dedent(line, width + 4) for line in lines[start:last]], skip_blank(lines, last)


def skip_blank(lines: list[str], position: int) -> int:
    """Return the position of the next line with text."""
    while position < len(lines) and not lines[position].strip():
        position += 1
    return position


def columns_of(line: str) -> int:
    """Return the columns of white space that a line starts with."""
    return len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())


def dedent(line: str, columns: int) -> str:
    """Take ``columns`` columns of white space from the start of a line, fewer where it has less."""
    taken = position = 0
    while position < len(line) and taken < columns and line[position] in " \t":
        taken += 1 if line[position] == " " else 4 - taken % 4
        position += 1
    return " " * max(0, taken - columns) + line[position:]


def html_end(lines: list[str], position: int, tag: str) -> int:
    """Return the position after the line that closes the element, or 0 where none does."""
    pattern = re.compile(rf"<(/?){tag}\b", re.IGNORECASE)
    depth = 0
    for end in range(position, len(lines)):
        for match in pattern.finditer(lines[end]):
            depth += -1 if match.group(1) else 1
        if depth <= 0:
            return end + 1
    return 0

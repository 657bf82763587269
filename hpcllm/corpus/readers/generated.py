"""Tell bulk that a machine wrote (API references, change lists of schemas) from pages for people.

Role: readers call :func:`looks_generated`; such pages stay searchable and are weighted down, so
that they cannot swamp answers.
"""

from __future__ import annotations

import re

GENERATORS = re.compile(
    r"""(?ix)
    <meta\s[^>]*name=["']?generator["']?[^>]*content=["'](?:doxygen|javadoc|swagger|redoc|jsdoc|pdoc)
    | <!--\s*Generated\ by\ (?:javadoc|doxygen)
    | (?:swagger-ui|redoc)[\w.-]*\.(?:js|css)
    | <link\b[^>]*openapi[\w.-]*\.css
    """
)
"""Marks that generators of API references leave in a page."""
SCHEMA_WORDS = re.compile(
    r"(?i)\.components\.schemas|components/schemas/|\bopenapi\b.*\bdata_parser\b|\"\$ref\""
    r"|^.{0,12}(?:path|query) parameters\b|application/(?:x-)?(?:json|yaml)"
)
"""What lines of schema dumps hold and prose about them seldom does."""
LEAST_LINES = 60
"""Shorter texts are never counted as bulk by their form alone."""
SCHEMA_SHARE = 0.15
"""Share of lines with words of schemas from which a text is bulk."""
REPETITION_LINES = 1500
"""Lines from which repetition alone makes a text bulk."""
FORMS_SHARE = 0.12
"""Different forms a line, numbers and names left aside, below which a long text is repetition."""


def looks_generated(text: str) -> bool:
    """Say whether a page is an API reference or similar bulk, written by a program.

    Args:
        text: markup or Markdown of the page.
    """
    if GENERATORS.search(text[:20_000]):
        return True
    lines = [line.strip() for line in text.splitlines() if len(line.strip()) > 3]
    if len(lines) < LEAST_LINES:
        return False
    if sum(SCHEMA_WORDS.search(line) is not None for line in lines) > SCHEMA_SHARE * len(lines):
        return True
    return len(lines) > REPETITION_LINES and len(set(map(_form, lines))) < FORMS_SHARE * len(lines)


def _form(line: str) -> str:
    """Return the shape of a line: numbers and path-like names replaced by one sign."""
    return re.sub(r"[\w./-]*[\d_/][\w./-]*", "#", line.lower())[:60]

"""Expressions of Jinja and Liquid, as far as documentation uses them.

Role: evaluates ``site.sched.name``, ``applications["foss"].versions | last`` or ``x != ''`` over
plain data. No code is run and no attribute of a Python object is reached: values are what YAML
and JSON hold. What cannot be known is :data:`UNRESOLVED`, never a guess.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hpcllm.corpus.readers.base import as_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class _Unresolved:
    def __repr__(self) -> str:
        return "UNRESOLVED"


UNRESOLVED: Any = _Unresolved()
"""The value of an expression whose names or filters are unknown."""

MAX_LENGTH = 200_000
"""Characters of a text, or items of a list, past which a value counts as unknown."""

_STRING = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'"""
_TOKEN = re.compile(
    rf"\s*(?:(?P<string>{_STRING})|(?P<number>-?\d+(?:\.\d+)?)(?![\w.])"
    r"|(?P<name>[A-Za-z_][\w-]*)|(?P<sign>==|!=|<>|<=|>=|[\[\]().,:|~+<>-]))"
)
_CONSTANTS: dict[str, Any] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "nil": None,
    "null": None,
    "none": None,
    "None": None,
    "blank": "",
    "empty": "",
}


def evaluate(expression: str, variables: Mapping[str, Any]) -> Any:
    """Return the value of an expression with its filters, or :data:`UNRESOLVED`.

    Args:
        expression: what stands between ``{{`` and ``}}``.
        variables: known names; a missing member of a known name is None, as in the originals.
    """
    return _Parser(expression, variables).output()


def is_true(condition: str, variables: Mapping[str, Any]) -> bool | None:
    """Return the truth of a condition, or None where it cannot be known."""
    return _truth(_Parser(condition, variables).condition())


def _truth(value: Any) -> bool | None:
    return None if value is UNRESOLVED else bool(value)


class _Parser:
    """Recursive descent over the tokens of one expression; evaluates as it goes."""

    def __init__(self, expression: str, variables: Mapping[str, Any]) -> None:
        self.variables = variables
        self.tokens = _tokens(expression)
        self.position = 0

    def output(self) -> Any:
        value = self._filtered()
        return value if self.position == len(self.tokens) else UNRESOLVED

    def condition(self) -> Any:
        value = self._any()
        return value if self.position == len(self.tokens) else UNRESOLVED

    def _peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def _take(self, *expected: str) -> bool:
        if self._peek() in expected and self._peek():
            self.position += 1
            return True
        return False

    def _next(self) -> str:
        token = self._peek()
        self.position += 1
        return token

    def _any(self) -> Any:
        value = self._all()
        while self._take("or"):
            value = _either(value, self._all())
        return value

    def _all(self) -> Any:
        value = self._negated()
        while self._take("and"):
            value = _both(value, self._negated())
        return value

    def _negated(self) -> Any:
        if self._take("not"):
            truth = _truth(self._negated())
            return UNRESOLVED if truth is None else not truth
        return self._compared()

    def _compared(self) -> Any:
        left = self._filtered()
        sign = self._peek()
        if sign == "is":
            self.position += 1
            return self._test(left)
        if sign not in _COMPARISONS:
            return left
        self.position += 1
        right = self._filtered()
        if left is UNRESOLVED or right is UNRESOLVED:
            return UNRESOLVED
        return _compare(sign, left, right)

    def _test(self, left: Any) -> Any:
        is_negated = self._take("not")
        is_defined = left is not UNRESOLVED and left is not None
        answers = {"defined": is_defined, "none": left is None, "undefined": not is_defined}
        answer = answers.get(self._next())
        return UNRESOLVED if answer is None else answer != is_negated

    def _filtered(self) -> Any:
        value = self._joined()
        while self._take("|"):
            name = self._next()
            value = _apply(name, value, self._arguments())
        return value

    def _arguments(self) -> list[Any]:
        """Read ``('a', b)`` as Jinja writes it or ``: 'a', b`` as Liquid does."""
        if self._take("("):
            arguments = self._listed()
            self._take(")")
            return arguments
        return self._listed() if self._take(":") else []

    def _listed(self) -> list[Any]:
        values: list[Any] = []
        while self._peek() not in (")", "|", ""):
            values.append(self._joined())
            if not self._take(","):
                break
        return values

    def _joined(self) -> Any:
        value = self._primary()
        while self._take("~", "+"):
            right = self._primary()
            is_known = value is not UNRESOLVED and right is not UNRESOLVED
            value = _bounded(as_text(value) + as_text(right)) if is_known else UNRESOLVED
        return value

    def _primary(self) -> Any:
        token = self._next()
        if token == "(":
            value = self._any()
            self._take(")")
        elif token[:1] in ("'", '"'):
            value = re.sub(r"\\(.)", r"\1", token[1:-1])
        elif re.fullmatch(r"-?\d+(\.\d+)?", token):
            value = float(token) if "." in token else int(token)
        elif token in _CONSTANTS:
            value = _CONSTANTS[token]
        else:
            value = self.variables.get(token, UNRESOLVED)
        return self._members(value)

    def _members(self, value: Any) -> Any:
        while self._peek() in (".", "[", "("):
            sign = self._next()
            if sign == "(":
                self._listed()
                self._take(")")
                value = UNRESOLVED  # functions live in the site's build, not here
                continue
            key = self._next() if sign == "." else self._joined()
            if sign == "[":
                self._take("]")
            value = _member(value, key)
        return value


def _tokens(expression: str) -> list[str]:
    tokens: list[str] = []
    position = 0
    text = expression.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return ["\0"]  # not an expression: the one token has no value
        tokens.append(match.group().strip())
        position = match.end()
    return tokens or ["\0"]


def _member(value: Any, key: Any) -> Any:
    if value is UNRESOLVED or key is UNRESOLVED:
        return UNRESOLVED
    if isinstance(value, dict):
        return value.get(key, value.get(str(key)))
    if isinstance(value, (list, str)):
        if key in ("size", "length"):
            return len(value)
        if key in ("first", "last"):
            return _apply(key, value, [])
        if isinstance(key, int) or (isinstance(key, str) and key.isdigit()):
            place = int(key)
            return value[place] if -len(value) <= place < len(value) else None
    return None


def _either(left: Any, right: Any) -> Any:
    if _truth(left) or _truth(right):
        return True
    return UNRESOLVED if UNRESOLVED in (left, right) else False


def _both(left: Any, right: Any) -> Any:
    if _truth(left) is False or _truth(right) is False:
        return False
    return UNRESOLVED if UNRESOLVED in (left, right) else True


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<>": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    ">": lambda left, right: bool(left > right),
    "<=": lambda left, right: bool(left <= right),
    ">=": lambda left, right: bool(left >= right),
    "contains": lambda left, right: right in left,
    "in": lambda left, right: left in right,
}


def _compare(sign: str, left: Any, right: Any) -> Any:
    try:
        return _COMPARISONS[sign](left, right)
    except TypeError:  # such as None < 3: false in both languages
        return False


def _pick(place: int) -> Callable[..., Any]:
    return lambda value: value[place] if isinstance(value, (list, str)) and value else None


def _on_text(change: Callable[..., str]) -> Callable[..., Any]:
    return lambda value, *arguments: change(as_text(value), *map(str, arguments))


def _default(value: Any, fallback: Any = "", *_: Any) -> Any:
    return fallback if value in (UNRESOLVED, None, "") else value


def _replaced(text: str, old: str, new: str = "") -> str:
    if text.count(old) * len(new) > MAX_LENGTH:
        raise ValueError("the text grows without bounds")
    return text.replace(old, new)


def _bounded(value: Any) -> Any:
    """Return a value that is not too long, else no value: filters can double a text many times."""
    is_long = isinstance(value, (str, list)) and len(value) > MAX_LENGTH
    return UNRESOLVED if is_long else value


def _join(value: Any, sign: str = " ") -> Any:
    return sign.join(map(as_text, value)) if isinstance(value, list) else value


def _sorted(value: Any, *_: Any) -> Any:
    return sorted(value, key=as_text) if isinstance(value, list) else value


_FOR_HTML = ("absolute_url", "e", "escape", "markdown", "markdownify", "relative_url", "safe")


def _unchanged(value: Any, *_: Any) -> Any:
    return value


def _unique(value: Any) -> Any:
    return list(dict.fromkeys(value))


_FILTERS: dict[str, Callable[..., Any]] = {
    "append": _on_text(lambda text, end: text + end),
    "capitalize": _on_text(lambda text: text[:1].upper() + text[1:]),
    "default": _default,
    "downcase": _on_text(str.lower),
    "first": _pick(0),
    "int": lambda value, *_: int(float(value)),
    "join": _join,
    "last": _pick(-1),
    "length": len,
    "lower": _on_text(str.lower),
    "lstrip": _on_text(str.lstrip),
    "prepend": _on_text(lambda text, start: start + text),
    "remove": _on_text(lambda text, part: text.replace(part, "")),
    "replace": _on_text(_replaced),
    "reverse": lambda value: value[::-1],
    "rstrip": _on_text(str.rstrip),
    "size": len,
    "sort": _sorted,
    "split": lambda value, sign=" ": as_text(value).split(sign),
    "string": as_text,
    "strip": _on_text(str.strip),
    "title": _on_text(str.title),
    "trim": _on_text(str.strip),
    "unique": _unique,
    "upcase": _on_text(str.upper),
    "upper": _on_text(str.upper),
    **dict.fromkeys(_FOR_HTML, _unchanged),
}


def _apply(name: str, value: Any, arguments: list[Any]) -> Any:
    function = _FILTERS.get(name)
    is_unknown = value is UNRESOLVED and name != "default"
    if function is None or is_unknown or UNRESOLVED in arguments:
        return UNRESOLVED
    try:
        return _bounded(function(value, *arguments))
    except (TypeError, ValueError):  # wrong kind or number of arguments: a page's own fault
        return UNRESOLVED

"""Word mined questions as people write them: templates, then the noise of real messages.

Role: turns what a miner found into a question. Everything is drawn from the generator that is
given, so that the same seed gives the same data.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hpcllm.assistant.language import STOP_WORDS
from hpcllm.training import wording_en, wording_pt

if TYPE_CHECKING:
    import random

    from hpcllm.training.records import Language

EMAIL_SHARE = 0.10
"""Share of questions that come inside a mail."""
PREFIX_SHARE = 0.10
SUFFIX_SHARE = 0.08
PLAIN_SHARE = 0.22
"""Share written all in lower case without a question mark."""
KEYWORD_SHARE = 0.10
"""Share cut down to keywords."""
TYPO_SHARE = 0.16
"""Share with one or two typing errors."""

_WORDS = re.compile(r"[^\W\d_]+", re.UNICODE)
_CODE_LIKE = re.compile(r"[`/\\$_=<>#{}\[\]|\"]|--|\d|(?<=\w)\.(?=\w)")
_TEMPLATES = {"en": wording_en, "pt": wording_pt}


def templates(language: Language, name: str) -> tuple[str, ...]:
    """Return the wordings called ``name`` in a language."""
    found: tuple[str, ...] = getattr(_TEMPLATES[language], name)
    return found


def phrase(rng: random.Random, language: Language, wording: str, /, **slots: str) -> str:
    """Return one of the wordings called ``wording`` with its slots filled."""
    return rng.choice(templates(language, wording)).format(**slots)


def with_noise(question: str, rng: random.Random, language: Language) -> str:
    """Return the question as a person in a hurry or with manners might send it."""
    text = question
    if "\n" not in text and rng.random() < KEYWORD_SHARE:
        text = keywords(text) or text
    elif rng.random() < PLAIN_SHARE:
        text = _lower_prose(text).rstrip("?.! ")
    if rng.random() < TYPO_SHARE:
        for _ in range(rng.choice((1, 1, 2))):
            text = with_typo(text, rng)
    draw = rng.random()
    if draw < EMAIL_SHARE:
        return as_email(text, rng, language)
    if draw < EMAIL_SHARE + PREFIX_SHARE:
        return rng.choice(templates(language, "PREFIXES")) + _lower_first(text)
    if draw < EMAIL_SHARE + PREFIX_SHARE + SUFFIX_SHARE:
        return text + rng.choice(templates(language, "SUFFIXES"))
    return text


def as_email(question: str, rng: random.Random, language: Language) -> str:
    """Return the question inside a short mail."""
    greeting, context, sign_off = (
        rng.choice(templates(language, name)) for name in ("GREETINGS", "CONTEXTS", "SIGN_OFFS")
    )
    first = question[:1].upper() + question[1:]
    body = rng.choice((f"{context} {first}", f"{first} {context}", f"{context}\n\n{first}"))
    return f"{greeting}\n\n{body}\n\n{sign_off}"


def keywords(text: str) -> str:
    """Return the words of a question that name its subject, empty where fewer than two are left."""
    kept = [word for word in text.split() if word.strip(".,;:?!'\"()").lower() not in STOP_WORDS]
    joined = " ".join(word.strip(",;:?!") for word in kept)
    return joined.rstrip("?.") if len(kept) >= 2 else ""


def with_typo(text: str, rng: random.Random) -> str:
    """Return the text with one word misspelt; names, code and short words are spared."""
    candidates = [
        match
        for match in re.finditer(r"\S+", text)
        if len(match.group()) >= 5
        and not _CODE_LIKE.search(match.group())
        and match.group()[1:].islower()
    ]
    if not candidates or "`" in text:
        return text
    match = rng.choice(candidates)
    word = match.group()
    at = rng.randrange(1, len(word) - 2)
    forms: list[str] = [
        word[:at] + word[at + 1] + word[at] + word[at + 2 :],
        word[:at] + word[at + 1 :],
        word[:at] + word[at] + word[at:],
    ]
    return text[: match.start()] + rng.choice(forms) + text[match.end() :]


def _lower_prose(text: str) -> str:
    """Lower-case the words that are plain prose; options, paths, variables and names in code stay."""
    pieces = re.split(r"(`[^`]*`|\S*[/$_=<>#\\-]\S*)", text)
    return "".join(
        piece if index % 2 else _WORDS.sub(_lower_unless_acronym, piece)
        for index, piece in enumerate(pieces)
    )


def _lower_unless_acronym(match: re.Match[str]) -> str:
    word = match.group()
    return word if word.isupper() and len(word) > 1 else word.lower()


def _lower_first(text: str) -> str:
    first = text.split(" ", 1)[0]
    plain = first[1:].islower() or len(first) == 1
    return text[:1].lower() + text[1:] if plain and first != "I" else text


VERBS = frozenset(
    [
        "access",
        "activate",
        "add",
        "allocate",
        "apply",
        "archive",
        "attach",
        "back",
        "build",
        "call",
        "cancel",
        "change",
        "check",
        "choose",
        "clean",
        "clear",
        "compile",
        "compress",
        "compute",
        "configure",
        "connect",
        "copy",
        "create",
        "debug",
        "define",
        "delete",
        "deploy",
        "detach",
        "detect",
        "determine",
        "disable",
        "display",
        "download",
        "edit",
        "enable",
        "ensure",
        "enter",
        "estimate",
        "execute",
        "exit",
        "export",
        "extend",
        "extract",
        "fetch",
        "filter",
        "find",
        "fix",
        "force",
        "generate",
        "get",
        "give",
        "grant",
        "grow",
        "handle",
        "hold",
        "import",
        "improve",
        "include",
        "increase",
        "inspect",
        "install",
        "interpret",
        "keep",
        "kill",
        "launch",
        "limit",
        "link",
        "list",
        "load",
        "log",
        "make",
        "manage",
        "map",
        "measure",
        "merge",
        "migrate",
        "mirror",
        "modify",
        "monitor",
        "mount",
        "move",
        "obtain",
        "open",
        "optimise",
        "optimize",
        "organise",
        "pack",
        "pass",
        "paste",
        "pick",
        "pin",
        "place",
        "prepare",
        "prevent",
        "print",
        "process",
        "profile",
        "protect",
        "pull",
        "push",
        "query",
        "read",
        "rebuild",
        "receive",
        "record",
        "recover",
        "redirect",
        "reduce",
        "register",
        "release",
        "remove",
        "rename",
        "renew",
        "repair",
        "replace",
        "request",
        "reserve",
        "reset",
        "resize",
        "restart",
        "restore",
        "restrict",
        "resume",
        "retrieve",
        "return",
        "reuse",
        "review",
        "run",
        "save",
        "scale",
        "schedule",
        "search",
        "secure",
        "see",
        "select",
        "send",
        "separate",
        "set",
        "set-up",
        "share",
        "show",
        "sign",
        "skip",
        "specify",
        "split",
        "start",
        "stop",
        "store",
        "stream",
        "submit",
        "suspend",
        "switch",
        "sync",
        "synchronise",
        "tag",
        "test",
        "track",
        "train",
        "transfer",
        "tune",
        "turn",
        "uninstall",
        "unload",
        "unlock",
        "unpack",
        "update",
        "upgrade",
        "upload",
        "use",
        "validate",
        "verify",
        "view",
        "visualise",
        "wait",
        "watch",
        "work",
        "write",
        "use",
    ]
)
"""Verbs that a heading such as "Request two GPUs" begins with."""
_IRREGULAR = {
    "running": "run", "getting": "get", "setting": "set", "submitting": "submit", "stopping": "stop",
    "splitting": "split", "mapping": "map", "logging": "log", "debugging": "debug",
    "cancelling": "cancel", "canceling": "cancel", "plotting": "plot", "pinning": "pin",
    "transferring": "transfer", "profiling": "profile", "compiling": "compile", "making": "make",
    "using": "use", "writing": "write", "creating": "create", "moving": "move", "sharing": "share",
    "storing": "store", "removing": "remove", "deleting": "delete", "managing": "manage",
    "changing": "change", "choosing": "choose", "reducing": "reduce", "restoring": "restore",
    "resuming": "resume", "saving": "save", "scheduling": "schedule", "measuring": "measure",
    "configuring": "configure", "activating": "activate", "allocating": "allocate",
    "archiving": "archive", "executing": "execute", "including": "include", "mentioning": "mention",
    "increasing": "increase", "migrating": "migrate", "preparing": "prepare", "releasing": "release",
    "requiring": "require", "reserving": "reserve", "separating": "separate", "tuning": "tune",
    "updating": "update", "upgrading": "upgrade", "validating": "validate", "giving": "give",
    "decreasing": "decrease", "determining": "determine", "defining": "define",
    "disabling": "disable", "enabling": "enable", "estimating": "estimate", "handling": "handle",
    "improving": "improve", "optimizing": "optimize", "optimising": "optimise", "tracing": "trace",
    "placing": "place", "purging": "purge", "taking": "take", "serving": "serve",
    "visualising": "visualise", "visualizing": "visualize", "closing": "close", "caching": "cache",
    "synchronising": "synchronise", "generating": "generate", "customising": "customise",
    "customizing": "customize", "acknowledging": "acknowledge", "queueing": "queue",
    "containerizing": "containerize", "parallelizing": "parallelize", "interpreting": "interpret",
}  # fmt: skip


def task_of(heading: str) -> str:
    """Return a heading as a verb phrase ("request two GPUs"), or empty where it names no task.

    Known are imperatives, gerunds and "How to …".
    """
    text = heading.strip().rstrip("?.:!")
    lowered = re.sub(r"^(?:how (?:to|do i|can i)|to)\s+", "", text, flags=re.IGNORECASE)
    first, _, rest = lowered.partition(" ")
    verb = first.lower()
    if not rest:
        return ""
    base = _base_form(verb)
    asks = lowered != text
    if base and (base in VERBS or asks or verb in _IRREGULAR):
        return f"{base} {_mine(_AND_GERUND.sub(_base_after, rest))}"
    return ""


_AND_GERUND = re.compile(r"\b(and|or) (\w+ing)\b", re.IGNORECASE)


def _base_after(match: re.Match[str]) -> str:
    base = _base_form(match.group(2).lower())
    return f"{match.group(1)} {base}" if base else match.group()


def _base_form(verb: str) -> str:
    if verb in VERBS:
        return verb
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if verb.endswith("ing") and verb[:-3] in VERBS:
        return verb[:-3]
    return ""


_TO_FIRST_PERSON = {
    "your": "my", "yours": "mine", "you": "I", "yourself": "myself",
    "seu": "meu", "sua": "minha", "seus": "meus", "suas": "minhas",
}  # fmt: skip
_PERSON = re.compile(r"\b(your|yours|you|yourself|seu|sua|seus|suas)\b", re.IGNORECASE)
_YOU_OBJECT = re.compile(
    r"\b(to|for|of|from|with|gives?|lets?|allows?|enables?|helps?|tells?|warn(?:s|ing)?|asks?|"
    r"requires?|sends?|shows?) you\b",
    re.IGNORECASE,
)
_YOU_ARE = re.compile(r"\byou(?: are|'re)\b", re.IGNORECASE)


def _mine(text: str) -> str:
    """Return text about the reader as the reader says it: "your job" becomes "my job"."""
    text = _YOU_OBJECT.sub(r"\1 me", _YOU_ARE.sub("I am", text))
    return _PERSON.sub(lambda match: _TO_FIRST_PERSON[match.group().lower()], text)


first_person = _mine

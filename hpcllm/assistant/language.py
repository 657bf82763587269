"""Words that carry no subject; and from them, what a text is about and in which language.

Role: data and two small functions, shared by understanding, extraction and evidence. English and
Portuguese, the languages whose fixed sentences the assistant has.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from hpcllm.index.tokenizer import tokenize

Language = Literal["en", "pt"]

_ENGLISH_TEXT = """
    a about after again all also always am an and another any anyone anything are as at be because
    been before being between both but by came can cannot come could did do does doing done down
    each either else ever every few first for from get gets getting give gives go goes going got
    had has have having he hello help her here hi him his how however i if in instead into is it
    its itself just keep know last let like look made make makes many may me mean means might mine
    more most much must my myself need needs never no nor not nothing now of off ok on once one
    only or other our out over own please possible put really right said same say says see seem
    seems set she should since so some someone something still such sure take takes tell than
    thank thanks that the their them then there these they thing things think this those though
    through to too tried try trying two under until up us use used useful user users using very
    via want wants was way we well were what when where whether which while who whole whom whose
    why will with within without wonder work works would yet you your yours dear regards best
    cheers team everyone morning question different actually exactly already away back
"""
_PORTUGUESE_TEXT = """
    a à ao aos aquela aquele aquilo as às até cada com como da das de dela dele deles depois desde
    do dos e é ela elas ele eles em entre era essa essas esse esses esta está estão estas este
    estes estou eu faz fazer faço favor foi foram há isso isto já lá lhe mais mas me mesma mesmo
    meu meus minha minhas muito na não nas nem no nos nós nossa nosso num numa o obrigada obrigado
    olá onde os ou outra outro para pela pelas pelo pelos podemos pode podem poder por porque posso
    pra preciso qual quais qualquer quando quanta quantas quanto quantos que quê quem quero queria
    se sei sem sempre ser será seu seus só sobre sua suas também tem têm temos tenho ter toda todas
    todo todos tudo um uma umas uns usar uso vai você vocês vou gostaria prezados bom boa dia tarde
    agora ainda algum alguma aqui assim tipo consigo
"""
ENGLISH = frozenset(_ENGLISH_TEXT.split())
PORTUGUESE = frozenset(_PORTUGUESE_TEXT.split())
STOP_WORDS = ENGLISH | PORTUGUESE
"""Words of both languages that name no subject."""

_WORD = re.compile(r"[^\W\d_]+")
_PORTUGUESE_LETTERS = re.compile(r"[ãõçâêôáéíóúà]|(?:ção|ções|mente)\b", re.IGNORECASE)
_ONLY_ENGLISH = ENGLISH - PORTUGUESE
_ONLY_PORTUGUESE = PORTUGUESE - ENGLISH


def detect_language(text: str, default: Language = "en") -> Language:
    """Return the language of ``text``.

    Counts function words that only one of the languages has, and Portuguese letters. Text that
    shows neither (keywords, an error message) has the ``default``.
    """
    words = [word.lower() for word in _WORD.findall(text)]
    english = sum(word in _ONLY_ENGLISH for word in words)
    portuguese = sum(word in _ONLY_PORTUGUESE for word in words)
    portuguese += sum(1 for word in words if _PORTUGUESE_LETTERS.search(word))
    if english == portuguese:
        return default
    return "pt" if portuguese > english else "en"


def subject_words(text: str) -> frozenset[str]:
    """Return the lexical tokens (stems, options, paths) of ``text`` that may name its subject."""
    return frozenset(tokenize(text)) - _stop_tokens()


@lru_cache(maxsize=1)
def _stop_tokens() -> frozenset[str]:
    return frozenset(tokenize(" ".join(STOP_WORDS))) | STOP_WORDS

"""The bot's own sentences, in English and Portuguese."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpcllm.assistant.language import Language


@dataclass(frozen=True, slots=True)
class Texts:
    """All sentences of one language; ``{…}`` is filled in by whoever uses them."""

    searching: str
    waiting: str
    reading: str
    writing: str
    sources: str
    checked: str
    quoted: str
    took: str
    helpful: str
    not_helpful: str
    thanks: str
    tell_more: str
    reason: str
    comment: str
    send: str
    cancel: str
    reasons: dict[str, str]
    notify: str
    notified: str
    undocumented: str
    nearest: str
    in_direct: str
    open_thread: str
    asked: str
    empty: str
    help: str
    not_here: str
    failed: str
    busy: str
    unrecorded: str
    forgotten: str
    continued: str


ENGLISH = Texts(
    searching=":mag: Searching the documentation…",
    waiting=":hourglass_flowing_sand: Others are being answered first…",
    reading=":open_book: Reading {count} passages…",
    writing=":pencil2: Writing the answer…",
    sources="Sources",
    checked="Every statement and command was checked against its sources",
    quoted="Quoted from the documentation: {reason}",
    took="{seconds} s",
    helpful=":+1: Helpful",
    not_helpful=":-1: Not helpful",
    thanks="Thank you, this helps to improve the documentation.",
    tell_more="What is wrong?",
    reason="Reason",
    comment="Comment",
    send="Send",
    cancel="Skip",
    reasons={
        "wrong": "It is wrong",
        "incomplete": "It is incomplete",
        "outdated": "It is out of date",
        "wrong_cluster": "It is about another cluster",
        "other": "Something else",
    },
    notify="Notify staff",
    notified="The staff were told of your question.",
    undocumented=":memo: *Not documented*",
    nearest="Nearest pages",
    in_direct="in a direct message",
    open_thread="Open the question",
    asked="<@{user}> asks:",
    empty="There is no question in that message.",
    help="Ask a question about the cluster, for example `{command} how do I request a GPU?` — I "
    "answer from the documentation and name the pages. You can also mention me in a channel, write "
    "me a direct message, or choose *Answer this thread* in the menu of a message.",
    not_here="I am not in this channel, so only you can see this. Invite me with `/invite` for "
    "answers that all can see.",
    failed=":warning: I could not answer: {reason}",
    busy="too many questions are waiting; ask again in a few minutes.",
    unrecorded="something went wrong on my side, the staff find it in my log. Ask again, or ask "
    "them.",
    forgotten="That answer is no longer on record.",
    continued="(continued)",
)

PORTUGUESE = Texts(
    searching=":mag: Procurando na documentação…",
    waiting=":hourglass_flowing_sand: Outras perguntas são respondidas antes…",
    reading=":open_book: Lendo {count} trechos…",
    writing=":pencil2: Escrevendo a resposta…",
    sources="Fontes",
    checked="Cada afirmação e cada comando foi conferido nas fontes",
    quoted="Citado da documentação: {reason}",
    took="{seconds} s",
    helpful=":+1: Útil",
    not_helpful=":-1: Não ajudou",
    thanks="Obrigado, isso ajuda a melhorar a documentação.",
    tell_more="O que está errado?",
    reason="Motivo",
    comment="Comentário",
    send="Enviar",
    cancel="Pular",
    reasons={
        "wrong": "Está errada",
        "incomplete": "Está incompleta",
        "outdated": "Está desatualizada",
        "wrong_cluster": "É sobre outro cluster",
        "other": "Outra coisa",
    },
    notify="Avisar a equipe",
    notified="A equipe foi avisada da sua pergunta.",
    undocumented=":memo: *Não documentado*",
    nearest="Páginas mais próximas",
    in_direct="em mensagem direta",
    open_thread="Abrir a pergunta",
    asked="<@{user}> pergunta:",
    empty="Não há pergunta nessa mensagem.",
    help="Faça uma pergunta sobre o cluster, por exemplo `{command} como peço uma GPU?` — respondo "
    "com base na documentação e cito as páginas. Também pode mencionar-me num canal, escrever-me "
    "uma mensagem direta, ou escolher *Answer this thread* no menu de uma mensagem.",
    not_here="Não estou neste canal, então só você vê isto. Convide-me com `/invite` para "
    "respostas que todos vejam.",
    failed=":warning: Não pude responder: {reason}",
    busy="há perguntas demais na fila; tente de novo em alguns minutos.",
    unrecorded="algo deu errado do meu lado, a equipe encontra o erro no meu registro. Tente de "
    "novo, ou pergunte à equipe.",
    forgotten="Essa resposta não está mais registrada.",
    continued="(continuação)",
)


def texts_in(language: Language) -> Texts:
    """Return the sentences of a language."""
    return PORTUGUESE if language == "pt" else ENGLISH

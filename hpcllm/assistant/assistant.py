"""The assistant: from a question to a checked, cited answer. The only door to answers.

Role: command line, servers, pages and evaluation call :meth:`Assistant.answer` or
:meth:`Assistant.stream` and hold no retrieval or prompt logic of their own.

:meth:`Assistant.stream` is the flow, top to bottom: understand, retrieve, decide, generate, check.
What a model drafts counts only if its checks pass; whenever a model is absent, busy, failing or
wrong, the extractive answer stands in and the answer says why.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hpcllm.assistant.check import check_answer, citations_of
from hpcllm.assistant.composed import FEWEST_WORDS, LEADS, compose, numbers_of
from hpcllm.assistant.draft import (
    Draft,
    abstain,
    is_refusal,
    keep_complete,
    language_note,
    why_rejected,
)
from hpcllm.assistant.evidence import MINIMUM_EVIDENCE, assess
from hpcllm.assistant.extractive import extract
from hpcllm.assistant.origin import refuse_unknown_scopes, with_origin
from hpcllm.assistant.prompt import Prompt, PromptBudget, build_messages
from hpcllm.assistant.understand import Understanding, understand
from hpcllm.errors import BusyError, GenerationError, HpcLlmError
from hpcllm.models.backends.base import GenerationSettings
from hpcllm.records import Answer, Event, Receipt, Usage

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator, Sequence

    from hpcllm.assistant.language import Language
    from hpcllm.index.embedders.base import Embedder
    from hpcllm.index.ranker import Ranker
    from hpcllm.index.search import Searcher
    from hpcllm.models.backends.base import Backend
    from hpcllm.records import Passage, Turn
    from hpcllm.workspace import Workspace

logger = logging.getLogger(__name__)

EXTRACTIVE = "extractive"
"""Name of the answer that no model wrote."""
QUESTION_CHARACTERS = 20_000
"""Longest question that is taken; a pasted log beyond this belongs in a ticket."""


class _SlowDraftError(GenerationError):
    """A draft took longer than the assistant waits for an unadapted model."""


@dataclass(frozen=True, slots=True)
class Options:
    """How an assistant behaves; the defaults suit a laptop.

    Attributes:
        passages: passages retrieved.
        minimum_evidence: evidence below which it abstains, 0 to 1; 0 never abstains.
        answer_words: longest extractive answer in words.
        support: how to reach a person, named when it abstains.
        language: taken where a question's own language is not clear.
        cluster: cluster assumed when a question names none.
        clusters: names of the known clusters.
        patience_s: seconds after which the draft of an unadapted model is given up for the
            extractive answer, as on a login node whose cores others use.
    """

    passages: int = 8
    minimum_evidence: float = MINIMUM_EVIDENCE
    answer_words: int = 120
    support: str = "your support desk"
    language: Language = "en"
    cluster: str | None = None
    clusters: tuple[str, ...] = ()
    patience_s: float = 20.0


@dataclass(frozen=True, slots=True)
class Writer:
    """A model that drafts answers, with how to prompt it.

    Attributes:
        backend: what generates.
        budget: what it is given to read.
        settings: how it generates.
        adapted: whether it was trained to answer from numbered passages. The draft of one that
            was not must pass every check and may not refuse.
        quotes: whether lines of the pages follow its answer, as far as the length of an extractive
            answer allows.
        refusal_evidence: evidence, 0 to 1, above which its refusal gives way to quoted lines; 1
            believes every refusal.
        sha256: hash of its weights, or empty.
        adapter: id of its adapter, or empty.
    """

    backend: Backend
    budget: PromptBudget = field(default_factory=PromptBudget)
    settings: GenerationSettings = field(default_factory=GenerationSettings)
    adapted: bool = False
    quotes: bool = False
    refusal_evidence: float = 1.0
    sha256: str = ""
    adapter: str = ""


class Assistant:
    """Answers questions from an index. Safe to use from several threads.

    Args:
        searcher: finds passages.
        embedder: the index's embedder, for extractive answers.
        ranker: chooses what is quoted for English questions; None compares vectors.
        writer: drafts answers; None answers by extraction alone.
        options: how to behave.
        unavailable: why the model that was asked for is not there, told with every answer.
    """

    def __init__(
        self,
        searcher: Searcher,
        *,
        embedder: Embedder,
        ranker: Ranker | None = None,
        writer: Writer | None = None,
        options: Options | None = None,
        unavailable: str = "",
    ) -> None:
        self.searcher = searcher
        self.embedder = embedder
        self.ranker = ranker
        self.writer = writer
        self.options = options or Options()
        self.unavailable = unavailable

    @classmethod
    def open(cls, workspace: Workspace, *, model: str | None = None) -> Assistant:
        """Build an assistant from a workspace: its index, embedder and model.

        Args:
            workspace: whose settings and folders are used.
            model: catalog id or ``extractive``; None takes the workspace's.

        Returns:
            The assistant. Where the model's files are missing it answers by extraction and
            ``unavailable`` says what to do.

        Raises:
            StoreError: there is no index, or it cannot be used.
            ModelError: the model is unknown, or the embedder's files are missing.
        """
        from hpcllm.assistant.opening import open_assistant

        return open_assistant(workspace, model=model)

    def answer(
        self,
        question: str,
        *,
        history: Sequence[Turn] = (),
        cluster: str | None = None,
        scopes: Collection[str] = (),
    ) -> Answer:
        """Answer a question; see :meth:`stream` for arguments and errors."""
        *_, last = self.stream(question, history=history, cluster=cluster, scopes=scopes)
        answer: Answer = last.payload
        return answer

    def stream(
        self,
        question: str,
        *,
        history: Sequence[Turn] = (),
        cluster: str | None = None,
        scopes: Collection[str] = (),
        cancel: threading.Event | None = None,
    ) -> Iterator[Event]:
        """Answer a question step by step.

        Args:
            question: as asked.
            history: earlier turns, oldest first.
            cluster: cluster chosen by the user; None takes the one that the question names, else
                the site's own.
            scopes: what to search besides documentation, of the
                searcher's ``scopes``.
            cancel: set it to end a running generation; what was drafted so far is then checked.

        Yields:
            Events in the order of :class:`~hpcllm.records.Event`. Tokens of a model that is not
            trusted may be replaced later.

        Raises:
            HpcLlmError: the question is empty or too long, or the index has no such scope.
            StoreError: the index cannot be read.
        """
        started = time.perf_counter()
        _refuse_unusable(question)
        refuse_unknown_scopes(scopes, self.searcher.scopes)
        asked = self._understand(question, history, cluster)
        yield Event("searching")
        read = self.writer.budget.passages if self.writer else 0
        passages = self._retrieve(asked, max(self.options.passages, read), scopes)
        timings = {"retrieve": _since(started)}
        yield Event("passages", passages)
        evidence = assess(asked.standalone, passages, minimum=self.options.minimum_evidence)
        if evidence.enough:
            shown = history if asked.is_follow_up else ()
            draft = yield from self._write(question, asked, passages, shown, started, cancel)
        else:
            draft = abstain(question, passages, asked.language, self.options.support)
            yield Event("token", draft.text)
        yield Event("checks", draft.checks)
        timings |= {**draft.timings_ms, "total": _since(started)}
        yield Event("done", self._finish(question, asked, passages, draft, timings))

    def search(
        self,
        question: str,
        *,
        k: int | None = None,
        history: Sequence[Turn] = (),
        cluster: str | None = None,
        scopes: Collection[str] = (),
    ) -> list[Passage]:
        """Find the passages that an answer would be written from, best first.

        Args:
            question: as asked; follow-ups are made self-contained from ``history``.
            k: passages to return; None takes the options' number.
            history: earlier turns, oldest first.
            cluster: as in :meth:`stream`.
            scopes: as in :meth:`stream`.

        Raises:
            HpcLlmError: the question is empty or too long, or the index has no such scope.
            StoreError: the index cannot be read.
        """
        _refuse_unusable(question)
        refuse_unknown_scopes(scopes, self.searcher.scopes)
        asked = self._understand(question, history, cluster)
        return list(self._retrieve(asked, k or self.options.passages, scopes))

    def close(self) -> None:
        """Free the model's engine."""
        if self.writer:
            self.writer.backend.close()

    def __enter__(self) -> Assistant:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _understand(
        self, question: str, history: Sequence[Turn], cluster: str | None
    ) -> Understanding:
        return understand(
            question,
            history,
            cluster=cluster or self.options.cluster,
            clusters=self.options.clusters,
            language=self.options.language,
        )

    def _retrieve(
        self, asked: Understanding, count: int, scopes: Collection[str]
    ) -> tuple[Passage, ...]:
        found = self.searcher.search(
            asked.standalone,
            k=count,
            cluster=asked.cluster,
            language=asked.language,
            scopes=scopes,
        )
        return with_origin(found, self.searcher.tickets)

    def _write(
        self,
        question: str,
        asked: Understanding,
        passages: Sequence[Passage],
        history: Sequence[Turn],
        started: float,
        cancel: threading.Event | None,
    ) -> Generator[Event, None, Draft]:
        """Yield the tokens of a draft and, where it does not hold, what replaces it."""
        if self.writer is None:
            draft = self._extract(asked, passages, self.unavailable)
            yield Event("token", draft.text)
            return draft
        prompt = build_messages(
            question,
            passages,
            history=history,
            budget=self.writer.budget,
            count_tokens=self.writer.backend.count_tokens,
        )
        streamed, reason = False, ""
        draft = Draft("", model=self.writer.backend.id)
        try:
            for draft in self._generate(self.writer, prompt, started, cancel):
                if draft.piece:
                    streamed = True
                    yield Event("token", draft.piece)
            reason, draft = self._judge(draft, question, asked, prompt, passages)
        except _SlowDraftError as exc:
            reason = str(exc)
        except BusyError as exc:
            reason = f"the model is busy: {exc}"
        except GenerationError as exc:
            logger.warning("generation failed: %s", exc)
            reason = f"the model failed: {exc}"
        if reason:
            substitute = self._extract(asked, passages, reason)
            draft = replace(substitute, timings_ms=draft.timings_ms, usage=draft.usage)
        if reason or draft.abstained or draft.is_cut or not streamed:
            yield Event("replace" if streamed else "token", draft.text)
        if self.writer.quotes and not reason and not draft.abstained:
            said, draft = draft.text, self._with_quotes(draft, asked, prompt, passages)
            yield Event("token", draft.text.removeprefix(said))
        return draft

    def _with_quotes(
        self, draft: Draft, asked: Understanding, prompt: Prompt, passages: Sequence[Passage]
    ) -> Draft:
        """Return a checked draft with the lines of the pages that bear on the question below."""
        lead = LEADS[asked.language]
        room = self.options.answer_words - len(f"{draft.text} {lead}".split())
        if room < FEWEST_WORDS:
            return draft
        found = extract(
            asked.standalone,
            passages,
            embedder=self.embedder,
            ranker=self._ranker_for(asked),
            words=room,
            language=asked.language,
            said=draft.text,
            numbers=numbers_of(passages, prompt.passages),
        )
        return compose(draft, found, asked.language)

    def _generate(
        self, writer: Writer, prompt: Prompt, started: float, cancel: threading.Event | None
    ) -> Iterator[Draft]:
        """Yield the growing draft; the last one carries usage and timings."""
        before = time.perf_counter()
        text, first = "", 0.0
        stop = cancel or threading.Event()
        deadline = threading.Timer(self.options.patience_s, stop.set)
        deadline.daemon = True
        stream = writer.backend.generate(prompt.messages, writer.settings, cancel=stop)
        with stream:
            if not writer.adapted:
                deadline.start()
            try:
                for piece in stream:
                    first = first or _since(started)
                    text += piece
                    yield Draft(text, piece=piece, model=writer.backend.id)
            finally:
                deadline.cancel()
        result = stream.result
        if not writer.adapted and _since(before) >= self.options.patience_s * 1000:
            raise _SlowDraftError(f"the model needed more than {self.options.patience_s:g} s")
        yield Draft(
            text.strip(),
            model=writer.backend.id,
            is_cut=result is not None and result.finish != "stop",
            usage=result.usage if result else Usage(),
            timings_ms={"first_token": first, "generate": _since(before)},
            prompt_sha256=prompt.sha256,
        )

    def _judge(
        self,
        draft: Draft,
        question: str,
        asked: Understanding,
        prompt: Prompt,
        passages: Sequence[Passage],
    ) -> tuple[str, Draft]:
        """Return why a finished draft is rejected, or empty, and the draft with its checks."""
        adapted = bool(self.writer and self.writer.adapted)
        if is_refusal(draft.text):
            if not adapted or self._doubts_refusal(asked, passages):
                return "the model found no answer in passages that seem to hold one", draft
            refusal = abstain(question, passages, asked.language, self.options.support)
            return "", replace(
                draft,
                text=refusal.text,
                abstained=True,
                citations=refusal.citations,
                checks=refusal.checks,
            )
        if draft.is_cut:
            draft = replace(draft, text=keep_complete(draft.text))
        said = f"{question} {asked.standalone}"
        checks = tuple(check_answer(draft.text, prompt.passages, question=said))
        citations = citations_of(draft.text, prompt.passages)
        reason = why_rejected(draft.text, checks, adapted=adapted)
        return reason, replace(draft, checks=checks, citations=citations)

    def _doubts_refusal(self, asked: Understanding, passages: Sequence[Passage]) -> bool:
        """Tell whether the passages speak too clearly to believe a refusal of this model."""
        believed = self.writer.refusal_evidence if self.writer else 1.0
        return believed < 1.0 and assess(asked.standalone, passages).score > believed

    def _extract(self, asked: Understanding, passages: Sequence[Passage], reason: str) -> Draft:
        before = time.perf_counter()
        found = extract(
            asked.standalone,
            passages,
            embedder=self.embedder,
            ranker=self._ranker_for(asked),
            words=self.options.answer_words,
            language=asked.language,
        )
        if not found.text:
            refusal = abstain(asked.standalone, passages, asked.language, self.options.support)
            return replace(refusal, fallback=reason)
        cited = [next(p for p in passages if p.rank == c.passage_rank) for c in found.citations]
        note = language_note(asked.language, cited)
        return Draft(
            f"{note}\n\n{found.text}" if note else found.text,
            model=EXTRACTIVE,
            citations=found.citations,
            checks=tuple(check_answer(found.text, cited, question=asked.standalone)),
            fallback=reason,
            timings_ms={"first_token": 0.0, "generate": _since(before)},
        )

    def _ranker_for(self, asked: Understanding) -> Ranker | None:
        """Return the ranker for a question that it can read: it learnt from English ones."""
        return self.ranker if asked.language == "en" else None

    def _finish(
        self,
        question: str,
        asked: Understanding,
        passages: tuple[Passage, ...],
        draft: Draft,
        timings: dict[str, float],
    ) -> Answer:
        timings["first_token"] = timings.get("first_token") or timings["total"]
        return Answer(
            question=question,
            text=draft.text,
            abstained=draft.abstained,
            citations=draft.citations,
            checks=draft.checks,
            passages=passages,
            model=draft.model,
            fallback=draft.fallback,
            standalone_question=asked.standalone,
            timings_ms={"generate": 0.0, **timings},
            usage=draft.usage,
            receipt=self._receipt(draft, passages),
        )

    def _receipt(self, draft: Draft, passages: Sequence[Passage]) -> Receipt:
        by_model = self.writer is not None and draft.model == self.writer.backend.id
        return Receipt(
            id=secrets.token_hex(8),
            generation=self.searcher.generation.name,
            model=draft.model,
            model_sha256=self.writer.sha256 if self.writer and by_model else "",
            adapter=self.writer.adapter if self.writer and by_model else "",
            prompt_sha256=draft.prompt_sha256,
            chunk_ids=tuple(chunk for passage in passages for chunk in passage.chunk_ids),
        )


def _refuse_unusable(question: str) -> None:
    if not question.strip():
        raise HpcLlmError("the question is empty: ask something, such as 'how do I run a job?'")
    if len(question) > QUESTION_CHARACTERS:
        raise HpcLlmError(
            f"the question has {len(question)} characters, at most {QUESTION_CHARACTERS} are "
            "taken: keep the lines of a log around the first error"
        )


def _since(moment: float) -> float:
    """Return the milliseconds since ``moment`` of the performance counter."""
    return (time.perf_counter() - moment) * 1000

"""The training loop of the sentence encoder: a contrastive loss, an early stop.

Role: learns from pairs. Two ways: with ``passages = "frozen"`` only the reading of questions
changes, the vectors of passages stay those of the index, and every chunk of the index is a
negative; with ``"shared"`` questions and passages are read by the same adapted encoder, and the
negatives are the other passages of the batch.
"""

from __future__ import annotations

import logging
import math
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from hpcllm.errors import import_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hpcllm.index.embedders.base import Vectors
    from hpcllm.training.retriever.encoder import SentenceEncoder
    from hpcllm.training.retriever.pairs import Pair

logger = logging.getLogger(__name__)

MASKED = -1e4
"""Added to the score of a passage that is neither right nor wrong for a question."""


class RetrieverSettings(BaseModel):
    """How the encoder learns."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    passages: Literal["frozen", "shared"] = "shared"
    """``frozen`` leaves the vectors of passages as they are in the index."""
    rank: int = Field(16, ge=1, le=128)
    """Rank of the increments. Higher learns more and weighs more."""
    alpha: int = Field(32, ge=1)
    """Increments are scaled by alpha / rank."""
    dropout: float = Field(0.05, ge=0.0, lt=1.0)
    learning_rate: float = Field(5e-4, gt=0.0, lt=1.0)
    warmup_share: float = Field(0.1, ge=0.0, lt=1.0)
    """Share of the steps over which the learning rate rises."""
    passes: int = Field(3, ge=1)
    """Times that the data is seen, at most; the learning rate falls to nothing over them."""
    stop_after: int = Field(0, ge=0)
    """Passes after which it ends though the schedule is for more; 0 for none."""
    patience: int = Field(1, ge=1)
    """Passes without a better loss on the pages kept apart after which it stops."""
    batch: int = Field(24, ge=2)
    """Questions of a step, all of one source."""
    negatives: int = Field(1, ge=0)
    """Hard negatives of a question and step; ``shared`` only."""
    scale: float = Field(20.0, gt=0.0)
    """Cosines are multiplied by this before the softmax."""
    window_tokens: int = Field(200, ge=16)
    """Longest text read while training."""
    answers: bool = False
    """Take the answers as further questions."""
    seed: int = 1
    threads: int = Field(1, ge=1)


@dataclass(frozen=True, slots=True)
class Bank:
    """The vectors of one index and where the pairs' passages stand in it.

    Attributes:
        vectors: ``(n, dimension)`` float32 unit rows.
        positives: rows by pair id.
        neutral: rows by pair id that are neither right nor wrong.
    """

    vectors: Vectors
    positives: dict[str, list[int]]
    neutral: dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class LearnReport:
    """What happened.

    Attributes:
        steps: steps taken.
        losses: training loss of each pass.
        held_out_losses: loss on the pages kept apart, before training and after each pass.
        seconds: wall time.
        best_pass: pass whose weights were kept, 0 for the untrained ones.
    """

    steps: int
    losses: tuple[float, ...]
    held_out_losses: tuple[float, ...]
    seconds: float
    best_pass: int


def learn(
    encoder: SentenceEncoder,
    pairs: Sequence[Pair],
    settings: RetrieverSettings,
    *,
    banks: dict[str, Bank] | None = None,
    on_best: Callable[[Any], None] | None = None,
) -> LearnReport:
    """Train ``encoder.model`` in place.

    Args:
        encoder: its model has trainable parameters, see
            :func:`hpcllm.training.retriever.encoder.with_adapter`.
        pairs: from :func:`hpcllm.training.retriever.pairs.build_pairs`.
        settings: how.
        banks: by source; needed with ``passages = "frozen"``.
        on_best: called with the model when the loss on the pages kept apart is the lowest so far.
    """
    return _Learner(encoder, pairs, settings, banks or {}).run(on_best)


class _Learner:
    def __init__(
        self,
        encoder: SentenceEncoder,
        pairs: Sequence[Pair],
        settings: RetrieverSettings,
        banks: dict[str, Bank],
    ) -> None:
        self.torch: Any = import_extra("torch", "train")
        self.torch.set_num_threads(settings.threads)
        self.torch.manual_seed(settings.seed)
        self.random = random.Random(settings.seed)
        self.encoder = encoder
        self.settings = settings
        self.banks = banks
        self.taught = [pair for pair in pairs if not pair.held_out]
        self.held_out = [pair for pair in pairs if pair.held_out]
        self._tensors = {
            id(bank.vectors): self.torch.from_numpy(np.ascontiguousarray(bank.vectors))
            for bank in banks.values()
        }

    def run(self, on_best: Callable[[Any], None] | None) -> LearnReport:
        start = time.monotonic()
        settings, torch = self.settings, self.torch
        weights = [w for w in self.encoder.model.parameters() if w.requires_grad]
        optimiser = torch.optim.AdamW(weights, lr=settings.learning_rate, weight_decay=0.01)
        total = settings.passes * len(list(self._batches(self.taught)))
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda s: self._rate(s, total))
        held_out, losses = [self._held_out_loss()], []
        best, steps = 0, 0
        for number in range(1, settings.passes + 1):
            summed, batches = 0.0, list(self._batches(self.taught))
            self.encoder.model.train()
            for batch in batches:
                loss = self._loss(batch)
                optimiser.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(weights, 1.0)
                optimiser.step()
                schedule.step()
                steps += 1
                value = float(loss.detach())
                summed += value
                seconds = time.monotonic() - start
                logger.info("step %d of %d: loss %.3f, %.0f s", steps, total, value, seconds)
            losses.append(summed / len(batches))
            held_out.append(self._held_out_loss())
            logger.info("pass %d: loss %.4f, kept apart %.4f", number, losses[-1], held_out[-1])
            if (
                held_out[-1] < held_out[best] or not self.held_out
            ):  # the last, with none to judge by
                best = number
                if on_best:
                    on_best(self.encoder.model)
            elif number - best >= settings.patience:
                break
            if number == settings.stop_after:
                break
        return LearnReport(steps, tuple(losses), tuple(held_out), time.monotonic() - start, best)

    def _rate(self, step: int, total: int) -> float:
        warmup = max(1, round(self.settings.warmup_share * total))
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))

    def _batches(self, pairs: Sequence[Pair], *, shuffled: bool = True) -> Iterator[list[Pair]]:
        """Yield batches of one source each: passages of another site are told apart too easily."""
        by_source: dict[str, list[Pair]] = {}
        for pair in pairs:
            by_source.setdefault(pair.source, []).append(pair)
        batches = []
        for members in by_source.values():
            if shuffled:
                self.random.shuffle(members)
            size = self.settings.batch
            batches += [members[i : i + size] for i in range(0, len(members), size)]
        if shuffled:
            self.random.shuffle(batches)
        yield from (batch for batch in batches if len(batch) > 1)

    def _held_out_loss(self) -> float:
        if not self.held_out:
            return math.inf
        self.encoder.model.eval()
        count, summed = 0, 0.0
        with self.torch.no_grad():
            for batch in self._batches(self.held_out, shuffled=False):
                summed += float(self._loss(batch, drawn=False)) * len(batch)
                count += len(batch)
        return summed / max(1, count)

    def _loss(self, batch: Sequence[Pair], *, drawn: bool = True) -> Any:
        asked = [pair.question for pair in batch]
        if self.settings.answers and drawn:
            asked += [pair.answer for pair in batch]
            batch = [*batch, *batch]
        questions = self.encoder.forward(asked)
        frozen = self.settings.passages == "frozen"
        scores, right = (
            self._frozen(questions, batch) if frozen else self._shared(questions, batch, drawn)
        )
        reached = self.torch.where(right, scores, MASKED * 2).logsumexp(1)
        return (scores.logsumexp(1) - reached).mean()

    def _frozen(self, questions: Any, batch: Sequence[Pair]) -> tuple[Any, Any]:
        bank = self.banks[batch[0].source]
        scores = self.settings.scale * questions @ self._tensors[id(bank.vectors)].T
        right = self.torch.zeros(scores.shape, dtype=self.torch.bool)
        masked = self.torch.zeros(scores.shape)
        for row, pair in enumerate(batch):
            right[row, bank.positives[pair.id]] = True
            masked[row, bank.neutral[pair.id]] = MASKED
        return scores + masked, right

    def _shared(self, questions: Any, batch: Sequence[Pair], drawn: bool) -> tuple[Any, Any]:
        texts: dict[str, None] = {}
        targets = []
        for pair in batch:
            target = self.random.choice(pair.positives[:3]) if drawn else pair.positives[0]
            targets.append(target)
            some = min(self.settings.negatives, len(pair.negatives))
            others = self.random.sample(pair.negatives, some) if drawn else pair.negatives[:some]
            texts |= dict.fromkeys([target, *others])
        kept = list(texts)
        scores = self.settings.scale * questions @ self.encoder.forward(kept).T
        right = self.torch.zeros(scores.shape, dtype=self.torch.bool)
        masked = self.torch.zeros(scores.shape)
        for row, (pair, target) in enumerate(zip(batch, targets, strict=True)):
            right[row, kept.index(target)] = True
            for column, text in enumerate(kept):
                if text != target and text in pair.positives:
                    masked[row, column] = MASKED
        return scores + masked, right

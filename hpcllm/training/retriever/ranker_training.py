"""Train the ranker: a low-rank adapter on the sentence encoder, and a small head.

Role: from lists of pieces to what ships. Two losses at once: which piece of a list answers
(cross-entropy over the list, targets in proportion to the squared share of the answer that a piece
holds), and whether a piece answers at all (binary cross-entropy), which lists without an answer
teach too.
"""

from __future__ import annotations

import json
import logging
import math
import random
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcllm.errors import TrainingError, import_extra
from hpcllm.index.ranker import HEAD_FILE, token_ids
from hpcllm.training.retriever.encoder import TOKENIZER_FILE, load_weights, with_adapter
from hpcllm.training.retriever.question_adapter import REPORT_FILE, write_adapter
from hpcllm.training.retriever.ranker_lists import ANSWERS, RankedList

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

logger = logging.getLogger(__name__)

FIRST_MIX = (6.0, 6.0, -5.0)
"""Where the weights of cosine, late interaction and constant start."""
HIDDEN = 64
"""Width of the head's network."""
UNRELATED, SURE = 0.15, 0.6
"""Shares of the answer's words up to which a piece does not answer, and above that by how much
more it surely does."""


@dataclass(frozen=True, slots=True)
class RankerSettings:
    """How the ranker learns; the values are those of the one that ships.

    Attributes:
        rank: of the increments.
        alpha: increments are scaled by alpha / rank.
        learning_rate: of the increments, highest.
        head_rate: of the head, highest.
        passes: times that the data is seen.
        lists: lists of a step.
        warmup_steps: steps over which the rates rise.
        held_out: lists kept apart.
        evaluate_every: steps between two evaluations, after each of which it is saved.
        seed: decides the order and the head's start.
        threads: threads of torch.
    """

    rank: int = 32
    alpha: int = 64
    learning_rate: float = 1e-3
    head_rate: float = 1e-3
    passes: float = 0.92
    lists: int = 4
    warmup_steps: int = 30
    held_out: int = 200
    evaluate_every: int = 300
    seed: int = 1
    threads: int = 1


@dataclass(frozen=True, slots=True)
class RankerReport:
    """How a training ended.

    Attributes:
        steps: optimiser steps.
        loss: mean loss of the last hundred steps.
        first_right: share of the lists kept apart whose best piece by score is a best one.
        first_right_before: the same before training.
        refusal_auc: share of pairs of an answered and an unanswered list in which the former's
            best score is the higher; NaN where either kind is absent.
        seconds: time spent.
        lists: lists learnt from.
    """

    steps: int
    loss: float
    first_right: float
    first_right_before: float
    refusal_auc: float
    seconds: float
    lists: int


def train_ranker(
    lists: Sequence[RankedList],
    base: Path,
    output: Path,
    settings: RankerSettings | None = None,
) -> RankerReport:
    """Train the ranker and write adapter, head and report.

    Args:
        lists: what to learn from.
        base: folder with the encoder's torch weights and tokenizer.
        output: folder to write to.
        settings: how.

    Raises:
        TrainingError: there are too few lists.
        ModelError: the encoder's weights are missing.
        MissingExtraError: torch, peft or safetensors is not installed.
    """
    settings = settings or RankerSettings()
    torch = import_extra("torch", "train")
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    chance = random.Random(settings.seed)
    shuffled = list(lists)
    chance.shuffle(shuffled)
    apart, learnt = shuffled[: settings.held_out], shuffled[settings.held_out :]
    if len(learnt) < settings.lists:
        raise TrainingError(
            f"{len(lists)} lists, of which {settings.held_out} are kept apart, leave nothing to "
            "learn from: give a larger data set, or the workspaces of more of its sources"
        )
    model = RankerModel(base, settings)
    before, _ = model.judge(apart)
    started = time.perf_counter()
    losses = _learn(model, learnt, apart, output, settings, chance)
    first_right, auc = model.judge(apart)
    report = RankerReport(
        steps=len(losses),
        loss=round(float(np.mean(losses[-100:])), 4),
        first_right=round(first_right, 4),
        first_right_before=round(before, 4),
        refusal_auc=round(auc, 4),
        seconds=round(time.perf_counter() - started, 1),
        lists=len(learnt),
    )
    model.save(output)
    content = {"settings": asdict(settings), **asdict(report)}
    (output / REPORT_FILE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return report


def _learn(
    model: RankerModel,
    learnt: Sequence[RankedList],
    apart: Sequence[RankedList],
    output: Path,
    settings: RankerSettings,
    chance: random.Random,
) -> list[float]:
    torch = import_extra("torch", "train")
    rates = (settings.learning_rate, settings.head_rate)
    groups = [
        {"params": model.adapter_weights(), "lr": rates[0]},
        {"params": list(model.head.parameters()), "lr": rates[1]},
    ]
    optimiser = torch.optim.AdamW(groups, weight_decay=0.01)
    steps = int(len(learnt) * settings.passes / settings.lists)
    losses: list[float] = []
    order: list[int] = []
    for step in range(steps):
        factor = _rate_factor(step, steps, settings.warmup_steps)
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * factor
        if len(order) < settings.lists:
            order = list(range(len(learnt)))
            chance.shuffle(order)
        loss = model.loss([learnt[order.pop()] for _ in range(settings.lists)])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.adapter_weights(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(float(loss.detach()))
        if step % 25 == 24:
            logger.info("step %d of %d: loss %.3f", step + 1, steps, np.mean(losses[-100:]))
        if step % settings.evaluate_every == settings.evaluate_every - 1:
            logger.info("best piece first: %.3f; refusals: %.3f", *model.judge(apart))
            model.save(output)
    return losses


def _rate_factor(step: int, steps: int, warmup: int) -> float:
    """Rise over the first steps, then fall along a cosine to a twentieth."""
    return min(1.0, (step + 1) / warmup) * (
        0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / steps))
    )


class RankerModel:
    """Encoder with adapter and head in torch; its scores are those of the ONNX ranker.

    Args:
        base: folder with the encoder's torch weights and tokenizer.
        settings: rank and alpha.
    """

    def __init__(self, base: Path, settings: RankerSettings) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(base / TOKENIZER_FILE))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._settings = settings
        self.model = with_adapter(
            load_weights(base), rank=settings.rank, alpha=settings.alpha, dropout=0.0
        )
        self.head = _new_head(int(self.model.config.hidden_size))

    def adapter_weights(self) -> list[Any]:
        """Return the weights that learn, the head's left out."""
        return [p for p in self.model.parameters() if p.requires_grad]

    def scores(self, lists: Sequence[RankedList]) -> Any:
        """Return the scores of all pieces of some lists, one after the other, as a tensor."""
        torch = import_extra("torch", "train")
        pairs = [
            token_ids(self._tokenizer, entry.question, piece)
            for entry in lists
            for piece in entry.pieces
        ]
        width = max(len(first) + len(second) for first, second in pairs)
        ids = torch.zeros((len(pairs), width), dtype=torch.long)
        mask, kinds = torch.zeros_like(ids), torch.zeros_like(ids)
        for row, (first, second) in enumerate(pairs):
            length = len(first) + len(second)
            ids[row, :length] = torch.tensor([*first, *second])
            mask[row, :length] = 1
            kinds[row, len(first) : length] = 1
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = self.model(
                input_ids=ids, attention_mask=mask, token_type_ids=kinds
            ).last_hidden_state
        return self.head(hidden.float(), mask, kinds)

    def loss(self, lists: Sequence[RankedList]) -> Any:
        """Return the mean loss of some lists, with gradients."""
        torch = import_extra("torch", "train")
        scores, start = self.scores(lists), 0
        total: Any = 0.0
        for entry in lists:
            shares = torch.tensor(entry.shares)
            own = scores[start : start + len(shares)]
            start += len(shares)
            wanted = ((shares - UNRELATED) / SURE).clamp(0, 1)
            total = total + torch.nn.functional.binary_cross_entropy_with_logits(own, wanted)
            if entry.answered:
                target = torch.where(shares >= ANSWERS, shares**2, torch.zeros_like(shares))
                target = target / target.sum()
                total = total - (target * torch.log_softmax(own, 0)).sum()
        return total / len(lists)

    def judge(self, lists: Sequence[RankedList]) -> tuple[float, float]:
        """Return how often the best piece comes first, and how well refusals are told apart."""
        torch = import_extra("torch", "train")
        right: list[bool] = []
        answered: list[float] = []
        unanswered: list[float] = []
        self.model.eval()
        with torch.no_grad():
            for entry in lists:
                scores = self.scores([entry]).numpy()
                if entry.answered:
                    right.append(entry.shares[int(scores.argmax())] >= 0.8 * max(entry.shares))
                    answered.append(float(scores.max()))
                else:
                    unanswered.append(float(scores.max()))
        self.model.train()
        higher = np.array([[a > b for b in unanswered] for a in answered])
        return float(np.mean(right)), float(higher.mean()) if higher.size else math.nan

    def save(self, folder: Path) -> None:
        """Write adapter and head in float16."""
        safetensors = import_extra("safetensors.numpy", "train")
        folder.mkdir(parents=True, exist_ok=True)
        write_adapter(
            self.model, folder, rank=self._settings.rank, alpha=self._settings.alpha, dropout=0.0
        )
        tensors = {
            name: values.detach().numpy().astype(np.float16)
            for name, values in self.head.state_dict().items()
        }
        safetensors.save_file(tensors, folder / HEAD_FILE)


def _new_head(dimension: int) -> Any:
    """Return the head as a torch module: see :func:`hpcllm.index.ranker.apply_head`."""
    torch = import_extra("torch", "train")
    normalise = torch.nn.functional.normalize

    class RankerHead(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.tensor(FIRST_MIX))
            self.l1 = torch.nn.Linear(3 * dimension, HIDDEN)
            self.l2 = torch.nn.Linear(HIDDEN, 1)
            torch.nn.init.zeros_(self.l2.weight)
            torch.nn.init.zeros_(self.l2.bias)

        def forward(self, hidden: Any, mask: Any, kinds: Any) -> Any:
            rows = normalise(hidden, dim=-1)
            asked, said = (mask * (1 - kinds)).float(), (mask * kinds).float()
            asked[:, 0] = 0  # [CLS] belongs to neither half
            left = normalise((rows * asked[:, :, None]).sum(1), dim=-1)
            right = normalise((rows * said[:, :, None]).sum(1), dim=-1)
            match = (rows @ rows.transpose(1, 2)).masked_fill(said[:, None, :] == 0, -1)
            best = (match.max(-1).values * asked).sum(1) / asked.sum(1)
            features = torch.cat(
                [left * right * 20, rows[:, 0] * math.sqrt(20), (left - right).abs() * 8], -1
            )
            network = self.l2(torch.nn.functional.gelu(self.l1(features)))[:, 0]
            return self.w[0] * (left * right).sum(-1) + self.w[1] * best + self.w[2] + network

    return RankerHead()

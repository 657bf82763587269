"""Is the exported file the trained model? Compare it with torch, and say how far it is off.

Role: after export. Two comparisons over the same prompts: greedy answers of the file in llama.cpp
with those of the merged torch model, and perplexity of the right answers under the file's own
(quantised) weights with that under the merged ones.
"""

from __future__ import annotations

import logging
import math
import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hpcllm.models.backends.base import GenerationSettings, Message

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    Advance = Callable[[int], None]

logger = logging.getLogger(__name__)

ANSWER_TOKENS = 64
"""Tokens of each greedy answer that are compared."""
PERPLEXITY_LIMIT = 1.05
"""Factor of the torch model's perplexity up to which a file counts as the same model."""
SAME_START_LIMIT = 0.5
"""Least mean share of an answer that is the same from its start; rounding alone rarely goes lower,
a wrong tokenizer or tensor does."""
DIFFERENCES_KEPT = 5
"""Answers that differ which are stored, to be read."""


@dataclass(frozen=True, slots=True)
class Verification:
    """How an exported file compares with the torch model.

    Attributes:
        prompts: prompts compared.
        identical: share of greedy answers that are the same text.
        same_start: mean share of an answer, by words, up to the first difference.
        perplexity_torch: of the right answers, merged weights.
        perplexity_file: of the right answers, weights as the file holds them.
        generated_per_second: median tokens a second of llama.cpp, on this machine as it was.
        differences: some answers that differ: number of the prompt, torch's and the file's answer.
    """

    prompts: int
    identical: float
    same_start: float
    perplexity_torch: float
    perplexity_file: float
    generated_per_second: float = 0.0
    differences: tuple[tuple[int, str, str], ...] = ()

    @property
    def doubt(self) -> str:
        """Why the file may not be the trained model; empty where it is within the limits."""
        if self.perplexity_file > self.perplexity_torch * PERPLEXITY_LIMIT:
            return (
                f"its perplexity is {self.perplexity_file:.3f}, torch's {self.perplexity_torch:.3f}"
            )
        if self.same_start < SAME_START_LIMIT:
            return f"its answers leave torch's after {self.same_start:.0%} of their words"
        return ""

    def to_json(self) -> dict[str, Any]:
        """Return the form that is stored."""
        values = asdict(self)
        return {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in values.items()
        }


@dataclass(frozen=True, slots=True)
class Expected:
    """What the torch model says to the prompts of examples.

    Attributes:
        texts: its greedy answers.
        perplexity: of the right answers.
    """

    texts: tuple[str, ...]
    perplexity: float


def expected_of(
    model: Any,
    tokenizer: Any,
    rows: Sequence[Mapping[str, Any]],
    *,
    advance: Advance | None = None,
) -> Expected:
    """Ask the torch model what its files are compared with; ``advance`` hears of each answer."""
    texts = tuple(greedy_texts(model, tokenizer, rows, advance=advance))
    return Expected(texts, answer_perplexity(model, tokenizer, rows))


def greedy_texts(
    model: Any,
    tokenizer: Any,
    rows: Sequence[Mapping[str, Any]],
    *,
    advance: Advance | None = None,
) -> list[str]:
    """Return the torch model's greedy answers to the prompts of examples."""
    import torch

    texts = []
    for row in rows:
        ids = tokenizer.apply_chat_template(
            row["messages"], add_generation_prompt=True, return_tensors="pt", return_dict=False
        )
        with torch.inference_mode():
            out = model.generate(
                ids.to(model.device),
                attention_mask=torch.ones_like(ids).to(model.device),
                max_new_tokens=ANSWER_TOKENS,
                do_sample=False,
                repetition_penalty=1.0,  # some models' own settings ask for more
                use_cache=True,
                pad_token_id=tokenizer.pad_token_id or tokenizer.eos_token_id,
            )
        texts.append(tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True).strip())
        if advance:
            advance(1)
    return texts


def file_texts(
    path: Path,
    rows: Sequence[Mapping[str, Any]],
    threads: int,
    *,
    context_tokens: int = 2048,
    advance: Advance | None = None,
) -> tuple[list[str], float]:
    """Answer the prompts of examples greedily with a GGUF file in llama.cpp.

    Returns:
        The answers, and the median of generated tokens a second.
    """
    from hpcllm.models.backends.llamacpp import EngineOptions, LlamaCppBackend

    options = EngineOptions(threads=threads, context_tokens=context_tokens)
    backend = LlamaCppBackend.load(path, id=path.stem, options=options)
    settings = GenerationSettings(answer_tokens=ANSWER_TOKENS)
    texts, rates = [], []
    try:
        for row in rows:
            messages = [Message(m["role"], m["content"]) for m in row["messages"]]
            with backend.generate(messages, settings) as stream:
                texts.append(stream.read().strip())
            rates.append(stream.result.generated_per_second if stream.result else 0.0)
            if advance:
                advance(1)
    finally:
        backend.close()
    return texts, statistics.median(rates) if rates else 0.0


def answer_perplexity(model: Any, tokenizer: Any, rows: Sequence[Mapping[str, Any]]) -> float:
    """Return the perplexity of the right answers, prompts not counted."""
    import torch

    total, count = 0.0, 0
    for row in rows:
        answer = [{"role": "assistant", "content": row["completion"]}]
        prompt = _prompt_ids(tokenizer, row)
        whole = tokenizer.apply_chat_template([*row["messages"], *answer], return_dict=False)
        ids = torch.tensor([whole], device=model.device)  # (1, tokens)
        with torch.inference_mode():
            logits = model(ids, use_cache=False).logits[0, len(prompt) - 1 : -1].float()
        wanted = ids[0, len(prompt) :]
        losses = torch.nn.functional.cross_entropy(logits, wanted, reduction="sum")
        total, count = total + float(losses), count + len(wanted)
    return math.exp(total / max(1, count))


def model_of_file(path: Path, config: Any) -> Any:
    """Return a torch model with the weights of a GGUF file, dequantised.

    Args:
        path: the file.
        config: configuration of the torch model. A GGUF file of Llama 3.1 holds frequency factors
            in place of its rope settings, and transformers does not turn them back.
    """
    import torch
    from transformers import AutoModelForCausalLM, GgufConfig

    held = AutoModelForCausalLM.from_pretrained(
        str(path.parent),
        gguf_file=path.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.float32,
    )
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(held.state_dict())
    return model.eval()


def verify_file(
    path: Path,
    merged: Any,
    tokenizer: Any,
    rows: Sequence[Mapping[str, Any]],
    expected: Expected,
    *,
    threads: int = 1,
    advance: Advance | None = None,
) -> Verification:
    """Compare one exported file with the torch model.

    A file that is off by more than rounding is named in a warning.

    Args:
        path: GGUF file.
        merged: the torch model.
        tokenizer: its tokenizer.
        rows: examples whose prompts are answered.
        expected: what the torch model says, see :func:`expected_of`.
        threads: threads of llama.cpp.
        advance: called with 1 after each answer.
    """
    room = max(len(_prompt_ids(tokenizer, row)) for row in rows) + 2 * ANSWER_TOKENS
    got, rate = file_texts(path, rows, threads, context_tokens=max(2048, room), advance=advance)
    pairs = list(zip(expected.texts, got, strict=True))
    held = model_of_file(path, merged.config)
    found = Verification(
        prompts=len(rows),
        identical=sum(a == b for a, b in pairs) / len(pairs),
        same_start=sum(_same_start(a, b) for a, b in pairs) / len(pairs),
        perplexity_torch=expected.perplexity,
        perplexity_file=answer_perplexity(held, tokenizer, rows),
        generated_per_second=rate,
        differences=_differences(pairs),
    )
    if found.doubt:
        logger.warning("%s may not be the trained model: %s", path.name, found.doubt)
    return found


def _prompt_ids(tokenizer: Any, row: Mapping[str, Any]) -> list[int]:
    ids = tokenizer.apply_chat_template(
        row["messages"], add_generation_prompt=True, return_dict=False
    )
    return list(ids)


def _differences(pairs: Sequence[tuple[str, str]]) -> tuple[tuple[int, str, str], ...]:
    found = [(number, a, b) for number, (a, b) in enumerate(pairs) if a != b]
    return tuple(found[:DIFFERENCES_KEPT])


def _same_start(first: str, second: str) -> float:
    one, two = first.split(), second.split()
    longest = max(len(one), len(two))
    if not longest:
        return 1.0
    same = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), None)
    return (min(len(one), len(two)) if same is None else same) / longest

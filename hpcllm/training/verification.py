"""Is the exported file the trained model? Compare it with torch, and say how far it is off.

Role: after export. Two comparisons over the same prompts: greedy answers of the file in llama.cpp
with those of the merged torch model, and perplexity of the right answers under the file's own
(quantised) weights with that under the merged ones.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hpcllm.models.backends.base import GenerationSettings, Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

ANSWER_TOKENS = 64
"""Tokens of each greedy answer that are compared."""


@dataclass(frozen=True, slots=True)
class Verification:
    """How an exported file compares with the torch model.

    Attributes:
        prompts: prompts compared.
        identical: share of greedy answers that are the same text.
        same_start: mean share of an answer, by words, up to the first difference.
        perplexity_torch: of the right answers, merged weights.
        perplexity_file: of the right answers, weights as the file holds them.
    """

    prompts: int
    identical: float
    same_start: float
    perplexity_torch: float
    perplexity_file: float

    def to_json(self) -> dict[str, Any]:
        """Return the form that is stored."""
        return {name: round(value, 4) for name, value in asdict(self).items()}


def greedy_texts(model: Any, tokenizer: Any, rows: Sequence[Mapping[str, Any]]) -> list[str]:
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
                use_cache=True,
                pad_token_id=tokenizer.pad_token_id or tokenizer.eos_token_id,
            )
        texts.append(tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True).strip())
    return texts


def file_texts(path: Path, rows: Sequence[Mapping[str, Any]], threads: int) -> list[str]:
    """Return the greedy answers of a GGUF file in llama.cpp."""
    from hpcllm.models.backends.llamacpp import EngineOptions, LlamaCppBackend

    backend = LlamaCppBackend.load(path, id=path.stem, options=EngineOptions(threads=threads))
    settings = GenerationSettings(answer_tokens=ANSWER_TOKENS)
    try:
        texts = []
        for row in rows:
            messages = [Message(m["role"], m["content"]) for m in row["messages"]]
            with backend.generate(messages, settings) as stream:
                texts.append(stream.read().strip())
        return texts
    finally:
        backend.close()


def answer_perplexity(model: Any, tokenizer: Any, rows: Sequence[Mapping[str, Any]]) -> float:
    """Return the perplexity of the right answers, prompts not counted."""
    import torch

    total, count = 0.0, 0
    for row in rows:
        answer = [{"role": "assistant", "content": row["completion"]}]
        prompt = tokenizer.apply_chat_template(
            row["messages"], add_generation_prompt=True, return_dict=False
        )
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
    expected: Sequence[str],
    *,
    threads: int = 1,
) -> Verification:
    """Compare one exported file with the torch model.

    Args:
        path: GGUF file.
        merged: the torch model.
        tokenizer: its tokenizer.
        rows: examples whose prompts are answered.
        expected: the torch model's greedy answers, see :func:`greedy_texts`.
        threads: threads of llama.cpp.
    """
    got = file_texts(path, rows, threads)
    pairs = list(zip(expected, got, strict=True))
    held = model_of_file(path, merged.config)
    return Verification(
        prompts=len(rows),
        identical=sum(a == b for a, b in pairs) / len(pairs),
        same_start=sum(_same_start(a, b) for a, b in pairs) / len(pairs),
        perplexity_torch=answer_perplexity(merged, tokenizer, rows),
        perplexity_file=answer_perplexity(held, tokenizer, rows),
    )


def _same_start(first: str, second: str) -> float:
    one, two = first.split(), second.split()
    longest = max(len(one), len(two))
    if not longest:
        return 1.0
    same = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), None)
    return (min(len(one), len(two)) if same is None else same) / longest
